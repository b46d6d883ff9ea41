#include "core/os_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace lockstep {
inline namespace v0 {
namespace os {

void leave_mapped_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t end = (begin + bytes.size()) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);  // no harm if it fails
}

}  // namespace os
}  // namespace v0
}  // namespace lockstep
