#include "core/fp_state.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

#ifdef __x86_64__
constexpr std::uint64_t kFlushing = 0x9fc0;  // FTZ and DAZ
#elif defined(__aarch64__)
constexpr std::uint64_t kFlushing = std::uint64_t{1} << 24;  // FZ
#endif

#if defined(__x86_64__) || defined(__aarch64__)
TEST(FloatingPointScope, KeepsSubnormalsInsideAndRestoresWhatItFound) {
  const std::uint64_t found = FloatingPointScope::control_word();
  FloatingPointScope::set_control_word(kFlushing);
  volatile float tiny = 1e-40F;
  const float outside = tiny * 0.5F;
  float inside = 0;
  {
    const FloatingPointScope scope;
    inside = tiny * 0.5F;
  }
  const std::uint64_t after = FloatingPointScope::control_word();
  FloatingPointScope::set_control_word(found);
  EXPECT_EQ(outside, 0.0F);
  EXPECT_EQ(inside, 5e-41F);
  EXPECT_EQ(after, kFlushing);
}
#endif

}  // namespace
}  // namespace lockstep
