#include "support/long_forms.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace lockstep {
inline namespace v0 {

bool long_forms() {
  const auto is_set = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  return is_set("LOCKSTEP_LONG_TESTS") || is_set("LOCKSTEP_TEST_DEVICES");
}

bool takes_long_here() {
#ifdef LOCKSTEP_SANITIZED
  return !long_forms();
#else
  return false;
#endif
}

bool looks_for_races() {
#ifdef __SANITIZE_THREAD__
  return true;
#else
  return false;
#endif
}

std::size_t drawn_index(std::size_t count) {
  static std::atomic<std::uint64_t> calls{0};
  // Weyl's sequence: unlike turns, it falls in step with no loop around it.
  return static_cast<std::size_t>((++calls * 0x9e3779b97f4a7c15u >> 32) % count);
}

}  // namespace v0
}  // namespace lockstep
