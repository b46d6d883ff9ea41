// Internal invariants. They stay on in release builds: a wrong answer costs more than the check.
#pragma once

#include <stdexcept>
#include <string>

namespace lockstep {
inline namespace v0 {

/// An invariant of the library itself is broken: a bug here, not in the caller.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void fail_invariant(const char* condition, const char* file, int line) {
  throw InternalError(std::string("lockstep: internal error: ") + condition + " at " + file + ":" +
                      std::to_string(line) + "; please report it");
}

}  // namespace v0
}  // namespace lockstep

#define LOCKSTEP_ASSERT(condition) \
  (static_cast<bool>(condition) ? void(0) : ::lockstep::fail_invariant(#condition, __FILE__, __LINE__))
