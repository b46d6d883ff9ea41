#include "core/os_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

namespace lockstep {
inline namespace v0 {
namespace os {
namespace {

// What is mapped now: bytes by address.
struct Mappings {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> bytes;
};
Mappings& mappings() {
  static auto* const all = new Mappings;  // outlives whoever owns one
  return *all;
}

std::uintptr_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

struct Unmap {
  std::size_t bytes;
  void operator()(const void* address) const {
    {
      const std::lock_guard lock(mappings().mutex);
      mappings().bytes.erase(number_of(address));
    }
    ::munmap(const_cast<void*>(address), bytes);
  }
};

}  // namespace

std::shared_ptr<const void> own_mapping(void* address, std::size_t bytes) {
  std::shared_ptr<const void> owner(static_cast<const void*>(address), Unmap{bytes});
  const std::lock_guard lock(mappings().mutex);
  mappings().bytes[number_of(address)] = bytes;
  return owner;
}

void leave_mapped_pages(std::span<const std::byte> bytes) {
  const std::uintptr_t begin = number_of(bytes.data());
  const std::lock_guard lock(mappings().mutex);  // it must not end meanwhile
  const auto next = mappings().bytes.upper_bound(begin);
  if (next == mappings().bytes.begin()) return;
  const auto& [start, length] = *std::prev(next);
  if (bytes.size() > length || begin - start > length - bytes.size()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t end = (begin + bytes.size()) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);  // no harm if it fails
}

std::shared_ptr<std::byte> fresh_memory(std::size_t bytes) {
  constexpr std::size_t kLeastMapped = 64 << 10;
  if (bytes < kLeastMapped) return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(data), [bytes](std::byte* memory) { ::munmap(memory, bytes); }};
}

}  // namespace os
}  // namespace v0
}  // namespace lockstep
