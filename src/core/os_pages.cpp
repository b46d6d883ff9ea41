#include "core/os_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace lockstep {
inline namespace v0 {
namespace os {
namespace {

struct Unmap {
  std::size_t bytes;
  void operator()(const void* address) const { ::munmap(const_cast<void*>(address), bytes); }
};

}  // namespace

std::shared_ptr<const void> own_mapping(void* address, std::size_t bytes) {
  return {static_cast<const void*>(address), Unmap{bytes}};
}

bool owns_mapping(const std::shared_ptr<const void>& owner) {
  return std::get_deleter<Unmap>(owner) != nullptr;
}

void leave_mapped_pages(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes) {
  if (!owns_mapping(owner)) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t end = (begin + bytes.size()) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);  // no harm if it fails
}

}  // namespace os
}  // namespace v0
}  // namespace lockstep
