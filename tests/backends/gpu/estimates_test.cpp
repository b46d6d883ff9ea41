// The lemmas of backends/gpu/estimates-inl.h, tried on every value and on the worst estimates that are allowed.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace scalar {
namespace {
#define MAGNITUDE(x) float_abs(x)
#include "backends/gpu/estimates-inl.h"

/// With FMA as NVIDIA's Vulkan has it.
namespace flushing {
float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
}
float flushing_fma(float x, float y, float z) {
  return flushed(std::fma(flushed(x), flushed(y), flushed(z)));
}
#pragma push_macro("FMA")
#undef FMA
#define FMA(x, y, z) flushing_fma(x, y, z)
#include "backends/gpu/estimates-inl.h"
#pragma pop_macro("FMA")
}  // namespace flushing

constexpr std::uint32_t kWords = 0x10000U;
// Relative errors, a little more than what PTX states of rcp.approx (2^-23) and ex2.approx (2^-22).
const double kOfReciprocals = std::exp2(-22.25);
const double kOfPowers = std::exp2(-21.25);

/// `f` of each pair of estimates.
void with_estimates(double inverse, float exponent, const auto& f) {
  const double power = std::exp2(static_cast<double>(exponent));
  for (const double a : {-kOfReciprocals, 0.0, kOfReciprocals}) {
    for (const double b : {-kOfPowers, 0.0, kOfPowers}) {
      f(static_cast<float>(inverse * (1 + a)), static_cast<float>(power * (1 + b)));
    }
  }
}

TEST(ExhaustiveEstimate, GeluOfBf16RoundsAsGelu) {
  for (std::uint32_t word = 0; word < kWords; ++word) {
    const float x = FROM_BITS(word << 16);
    const auto inverse_root = [](float a) { return 1 / std::sqrt(static_cast<double>(gelu_radicand(a))); };
    const float a = gelu_magnitude(x, 13.1875F);
    with_estimates(inverse_root(a), gelu_exponent(a, 0.35022F), [&](float inverse, float power) {
      ASSERT_EQ(encode_bf16(gelu_to_bf16_by(x, a, inverse, power)), encode_bf16(ls_gelu(x))) << x;
    });
    with_estimates(inverse_root(a), gelu_exponent(a, 0.35022F), [&](float inverse, float power) {
      ASSERT_EQ(encode_bf16(flushing::gelu_to_bf16_by(x, a, inverse, power)), encode_bf16(ls_gelu(operand_f32(x))))
          << x;
    });
    // In haste: without the limit.
    const float whole = float_abs(x);
    with_estimates(inverse_root(whole), gelu_exponent(whole, 0.35022F), [&](float inverse, float power) {
      const float result = gelu_to_bf16_by(x, whole, inverse, power);
      const float other = flushing::gelu_to_bf16_by(x, whole, inverse, flushing::flushed(power));
      ASSERT_EQ(std::isnan(result), std::isnan(other)) << x;
      if (std::isfinite(x)) {
        ASSERT_EQ(encode_bf16(other), encode_bf16(ls_gelu(operand_f32(x)))) << x;
        ASSERT_EQ(encode_bf16(result), encode_bf16(ls_gelu(x))) << x;
      } else {
        ASSERT_TRUE(std::isnan(result)) << x;
      }
    });
  }
}

TEST(ExhaustiveEstimate, GeluOfF16RoundsAsGelu) {
  for (std::uint32_t word = 0; word < kWords; ++word) {
    const float x = decode_f16(word);
    const float exponent = gelu_exponent(gelu_magnitude(x, 5.5F), 0);
    with_estimates(1 / static_cast<double>(gelu_divisor(x, 5.5F, 0.25F)), exponent, [&](float inverse, float power) {
      ASSERT_EQ(encode_f16(gelu_to_f16_by(x, inverse, power)), encode_f16(ls_gelu(x))) << x;
    });
  }
}

TEST(ExhaustiveEstimate, ExpOfLowIsExp) {
  for (std::uint64_t bits = 0x80000000U; bits <= 0xff800000U; bits += 97) {
    const float x = FROM_BITS(static_cast<std::uint32_t>(bits));
    ASSERT_EQ(BITS(exp_of_low(x)), BITS(ls_exp(x))) << x;
  }
  for (const float x : {0.0F, -0.0F, -87.3365402F, -87.33655F, -std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(BITS(exp_of_low(x)), BITS(ls_exp(x))) << x;
  }
}

TEST(ExhaustiveEstimate, ExpOfMildIsExp) {
  for (std::uint32_t bits = 0x80000000U; bits <= 0xc2000000U; bits += 61) {
    const float x = FROM_BITS(bits);
    ASSERT_EQ(BITS(exp_of_mild(x)), BITS(ls_exp(x))) << x;
  }
  for (const float x : {0.0F, -32.0F}) EXPECT_EQ(BITS(exp_of_mild(x)), BITS(ls_exp(x))) << x;
  // The least share of a row, of 4096 at most, is an exact quotient.
  EXPECT_GT(ls_exp(-32.0F) / 4096, 0x1p-60F);
}

TEST(ExhaustiveEstimate, ProductsRoundToBf16) {
  // As HASTY_BF16 does (vulkan/quick_forms.h).
  for (std::uint64_t bits = 0x00800000U; bits < 0x7f800000U; bits += 5) {
    const float x = FROM_BITS(static_cast<std::uint32_t>(bits));
    const float far = x * 65536.0F;
    const float rounded = far - (far - x);
    const float loose = std::fma(x, 65536.0F, std::fma(x, -65535.0F, 0.0F));
    if (x < 0x1p111F) {
      const std::uint32_t right = (BITS(x) + 0x7fffU + (BITS(x) >> 16 & 1U)) & 0xffff0000U;
      ASSERT_EQ(BITS(rounded), right) << x;
      ASSERT_EQ(BITS(loose), right) << x;
    } else if (x >= 0x1.0002p112F) {
      ASSERT_FALSE(std::isfinite(rounded)) << x;
      ASSERT_FALSE(std::isfinite(loose)) << x;
    }
  }
}

TEST(ExhaustiveEstimate, SharesAreQuotients) {
  std::uint32_t state = 1;
  for (int i = 0; i < 1'000'000; ++i) {
    state = state * 1664525U + 1013904223U;
    // From 2^-95 to 2^32, divided by what is from 1 to 2^12; 0 and what is no number here and there.
    const float x = i % 1000 == 0 ? 0.0F : i % 1000 == 1 ? std::nanf("") : FROM_BITS((state >> 2) + 0x10000000U);
    const float d = FROM_BITS(0x3f800000U + (state * 7U >> 5) % 0x06000000U);
    FLOAT right = 0;
    FLOAT share = 0;
    const bool holds = quick_quotient(x, d, 1.0F / d, right);
    ASSERT_EQ(quick_share(x, -d, 1.0F / d, share), holds) << x << " / " << d;
    if (!holds) continue;
    ASSERT_EQ(BITS(share), BITS(right)) << x << " / " << d;
  }
}

TEST(ExhaustiveEstimate, SumsOfBf16AreRoundedTwiceAsOnce) {
  // f64 has room for the sum, or for all of it that a rounding to bf16 can tell.
  const auto once = [](double sum) {
    const auto near = static_cast<float>(sum);
    if (std::isnan(near) || static_cast<double>(near) == sum) return encode_bf16(near);
    // To odd, so that the rounding to bf16 sees what is lost.
    const bool above = std::abs(static_cast<double>(near)) > std::abs(sum);
    const std::uint32_t below = BITS(near) - (above ? 1U : 0U);
    return encode_bf16(FROM_BITS(below | 1U));
  };
  for (std::uint32_t x = 0; x < kWords; x += 3) {
    const float a = decode_bf16(x);
    for (std::uint32_t y = x % 64; y < kWords; y += 61) {
      const float b = decode_bf16(y);
      if (std::isinf(a) || std::isinf(b)) continue;
      ASSERT_EQ(encode_bf16(a + b), once(static_cast<double>(a) + static_cast<double>(b))) << a << " + " << b;
    }
  }
}

}  // namespace
}  // namespace scalar
}  // namespace v0
}  // namespace lockstep
