// Sums and products of accumulators as devices compute them that flush subnormals: by integers, against the C library.
#include <bit>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "kernels/scalar.h"
#include "support/program_builder.h"

namespace lockstep {
inline namespace v0 {
namespace {

using testing::Random;

std::uint32_t bits_of(float x) {
  return std::isnan(x) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(x);
}

/// Floats of all kinds, most of them where results become subnormal.
float operand(Random& random, std::uint32_t least, std::uint32_t most) {
  constexpr std::uint32_t kSpecial[] = {0,          1,          0x007fffff, 0x00800000, 0x00800001, 0x00ffffff,
                                        0x3f800000, 0x3f800001, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x0c800000};
  const std::uint64_t word = random.next();
  const auto sign = static_cast<std::uint32_t>(word >> 63) << 31;
  if (word % 8 == 0) return std::bit_cast<float>(kSpecial[(word >> 8) % 12] | sign);
  const auto exponent = least + static_cast<std::uint32_t>(word >> 40) % (most - least);
  // Few significant bits: ties and cancellation.
  const std::uint32_t kept = word % 3 == 0 ? 0x007fffffu : word % 3 == 1 ? 0x00700000u : 0x00400003u;
  return std::bit_cast<float>((exponent << 23) | (static_cast<std::uint32_t>(word >> 8) & kept) | sign);
}

TEST(ExactSums, IntegerFmaIsTheFusedOne) {
  Random random(1);
  for (int i = 0; i < 3000000; ++i) {
    const bool small = i % 2 == 0;
    const float x = operand(random, small ? 40 : 0, small ? 90 : 255);
    const float y = operand(random, small ? 30 : 0, small ? 70 : 255);
    const float z = operand(random, 0, small ? 30 : 255);
    ASSERT_EQ(bits_of(scalar::integer_fma(x, y, z)), bits_of(std::fma(x, y, z)))
        << std::hexfloat << x << " * " << y << " + " << z;
    ASSERT_EQ(bits_of(scalar::integer_fma(x, y, -x * y)), bits_of(std::fma(x, y, -x * y)))
        << std::hexfloat << x << " * " << y;
  }
}

TEST(ExactSums, AreTheLibrarysWhereNothingIsFlushed) {
  Random random(2);
  for (int i = 0; i < 1000000; ++i) {
    const float x = operand(random, 0, 80);
    const float y = operand(random, 0, 80);
    ASSERT_EQ(bits_of(scalar::exact_add(x, y)), bits_of(x + y)) << std::hexfloat << x << " + " << y;
    ASSERT_EQ(bits_of(scalar::exact_mul(x, y)), bits_of(x * y)) << std::hexfloat << x << " * " << y;
  }
}

#if defined(__SSE2__)
/// Flushes subnormal operands and results while it lives, as GPUs may.
class Flushing {
 public:
  Flushing() { __builtin_ia32_ldmxcsr(before_ | 0x8040u); }
  ~Flushing() { __builtin_ia32_ldmxcsr(before_); }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  unsigned before_ = __builtin_ia32_stmxcsr();
};

// Not inlined, so that nothing is computed before the mode is set.
__attribute__((noinline)) void flushed(float x, float y, float z, float results[3]) {
  const Flushing mode;
  results[0] = scalar::exact_add(x, y);
  results[1] = scalar::exact_mul(x, y);
  results[2] = scalar::exact_fma(x, y, z);
}

TEST(ExactSums, KeepSubnormalsWhereTheDeviceFlushesThem) {
  Random random(3);
  for (int i = 0; i < 3000000; ++i) {
    const float x = operand(random, 0, 60);
    const float y = operand(random, 0, 130);
    const float z = operand(random, 0, 60);
    float results[3];
    flushed(x, y, z, results);
    ASSERT_EQ(bits_of(results[0]), bits_of(x + y)) << std::hexfloat << x << " + " << y;
    ASSERT_EQ(bits_of(results[1]), bits_of(x * y)) << std::hexfloat << x << " * " << y;
    // Operands of products are canonical.
    if (std::fpclassify(x) == FP_SUBNORMAL || std::fpclassify(y) == FP_SUBNORMAL) continue;
    ASSERT_EQ(bits_of(results[2]), bits_of(std::fma(x, y, z))) << std::hexfloat << x << " * " << y << " + " << z;
  }
}
#endif

}  // namespace
}  // namespace v0
}  // namespace lockstep
