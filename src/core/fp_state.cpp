#include "core/fp_state.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lockstep {
inline namespace v0 {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kIeee = 0x1f80;  // all exceptions masked, nearest, neither FTZ nor DAZ
#else
constexpr std::uint64_t kIeee = 0;
#endif

}  // namespace

std::uint64_t FloatingPointScope::control_word() {
#if defined(__x86_64__)
  return _mm_getcsr();
#elif defined(__aarch64__)
  std::uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
#else
  return 0;
#endif
}

void FloatingPointScope::set_control_word([[maybe_unused]] std::uint64_t word) {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(word));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(word));
#endif
}

FloatingPointScope::FloatingPointScope() : found_(control_word()) {
  set_control_word(kIeee);
}
FloatingPointScope::~FloatingPointScope() {
  set_control_word(found_);
}

}  // namespace v0
}  // namespace lockstep
