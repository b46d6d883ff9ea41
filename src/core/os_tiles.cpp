#include "core/os_tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lockstep {
inline namespace v0 {
namespace os {

bool allow_tiles() noexcept {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int kAskFor = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;    // the registers' number among the processor's states
  return ::syscall(SYS_arch_prctl, kAskFor, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace os
}  // namespace v0
}  // namespace lockstep
