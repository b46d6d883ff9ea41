#include "support/long_forms.h"

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

}  // namespace v0
}  // namespace lockstep
