// The floating-point state that kernels run in: round to nearest, subnormals kept (docs/numerics.md section 1).
// A library that was linked with -Ofast, or a user, may have set something else in this thread.
#pragma once

#include <cstdint>

namespace lockstep {
inline namespace v0 {

/// Sets the state for its scope and restores what it found. Every entry into kernels holds one, on workers and on the
/// calling thread alike.
class FloatingPointScope {
 public:
  FloatingPointScope();
  ~FloatingPointScope();
  FloatingPointScope(const FloatingPointScope&) = delete;
  FloatingPointScope& operator=(const FloatingPointScope&) = delete;

  /// This thread's control word: MXCSR on x86, FPCR on ARM, 0 elsewhere.
  static std::uint64_t control_word();
  static void set_control_word(std::uint64_t word);

 private:
  std::uint64_t found_;
};

}  // namespace v0
}  // namespace lockstep
