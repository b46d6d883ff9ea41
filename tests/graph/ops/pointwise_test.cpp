// Elementwise compositions: equal bits everywhere, and what the recorded cases leave open.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

class Pointwise : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Pointwise, ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(Pointwise, SameEverywhere) {
  const auto check = [&](auto op) {
    same_everywhere([&](Device device) {
      return op(random_tensor({3, 1, 77}, GetParam(), 1, device, true),
                random_tensor({5, 77}, GetParam(), 2, device, true), random_tensor({77}, GetParam(), 3, device, true));
    });
  };
  using T = const Tensor&;
  check([](T a, T b, T c) { return lerp(a, b, c); });
  check([](T a, T b, T) { return lerp(a, b, 0.75); });
  check([](T a, T b, T c) { return addcmul(a, b, c, 0.5); });
  check([](T a, T b, T c) { return addcdiv(a, b, c); });
  check([](T a, T b, T c) { return clamp(a, b, c); });
  check([](T a, T b, T) { return clamp(a, b, std::nullopt); });
  check([](T a, T b, T) { return fmax(a, b); });
  check([](T a, T b, T) { return fmin(a, b); });
  check([](T a, T b, T) { return logical_and(a, b); });
  check([](T a, T b, T) { return logical_or(a, b); });
  check([](T a, T b, T) { return logical_xor(a, b); });
  check([](T a, T, T) { return logical_not(a); });
  check([](T a, T b, T) { return isclose(a, b, {.relative = 0.5, .equal_nan = true}); });
  check([](T a, T b, T) { return rsub(a, b, 2); });
  check([](T a, T, T) { return nan_to_num(a); });
  check([](T a, T, T) { return sinc(a); });
  check([](T a, T, T c) { return heaviside(a, c); });
  check([](T a, T b, T) { return div(a, b, Rounding::trunc); });
  check([](T a, T b, T c) { return masked_fill(a, b > 0, c.select(0, 0)); });
}

// Conversions and canonical results, which devices have instructions of their own for; words, so that NaNs are
// compared.
TEST(PointwiseValues, EveryWordOfSixteenBitsIsTheSameEverywhere) {
  const Tensor words = arange(-32768, 32768).to(DType::i16);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::vector<std::function<Tensor(const Tensor&)>> calls = {
        [](const Tensor& x) { return x.to(DType::f32).bitcast(DType::i32); },
        [](const Tensor& x) { return (x * 1.0).bitcast(DType::i16); },
        [](const Tensor& x) { return (x * 1.01 + x).bitcast(DType::i16); },
        [](const Tensor& x) { return gelu(x).bitcast(DType::i16); },
        [](const Tensor& x) { return (gelu(x + x) * x).bitcast(DType::i16); },
        [dtype](const Tensor& x) { return (x.to(DType::f32) * 1.00195312).to(dtype).bitcast(DType::i16); },
    };
    for (const auto& call : calls) {
      same_everywhere([&](Device device) { return call(words.to(device).bitcast(dtype)); });
    }
  }
}

TEST(PointwiseValues, LerpGivesBothEndsExactly) {
  const Tensor a = random_tensor({99}, DType::f32, 1);
  const Tensor b = random_tensor({99}, DType::f32, 2) * 1e6;
  EXPECT_BITS_EQ(lerp(a, b, 0), a);
  EXPECT_BITS_EQ(lerp(a, b, 1), b);
  EXPECT_BITS_EQ(lerp(a, b, ones({})), b);
  EXPECT_FLOAT_EQ(lerp(2, 4, full({}, 0.25)).item<float>(), 2.5f);
}

TEST(PointwiseValues, ScalarsAreOperands) {
  const Tensor x = Tensor::from<float>({1, 2}, {2});
  EXPECT_BITS_EQ(addcmul(x, 2, x), x * 3.0);
  EXPECT_BITS_EQ(addcdiv(x, 1, x), x + reciprocal(x));
  EXPECT_BITS_EQ(rsub(1, x), x - 1);
  EXPECT_BITS_EQ(clamp(x, 1.5, std::nullopt), Tensor::from<float>({1.5f, 2}, {2}));
  EXPECT_BITS_EQ(clamp(arange(4), 1, 2), Tensor::from<std::int64_t>({1, 1, 2, 2}, {4}));
  EXPECT_BITS_EQ(logical_and(x, 0), zeros({2}, {.dtype = DType::boolean}));
  EXPECT_BITS_EQ(fmax(kNaN, x), x);
}

TEST(PointwiseValues, ClampOfNaNBoundsIsNaNAndMaxWins) {
  const Tensor x = zeros({1});
  EXPECT_TRUE(std::isnan(clamp(x, full({1}, kNaN), std::nullopt).item<float>()));
  EXPECT_EQ(clamp(x, 3.0, 1.0).item<float>(), 1.0f);
}

TEST(PointwiseValues, IntegerDivisionTruncates) {
  const Tensor a = Tensor::from<std::int32_t>({7, -7, 7, -7, 5, INT32_MIN}, {6});
  const Tensor b = Tensor::from<std::int32_t>({2, 2, -2, -2, 0, -1}, {6});
  EXPECT_BITS_EQ(div(a, b, Rounding::trunc), Tensor::from<std::int32_t>({3, -3, -3, 3, 0, INT32_MIN}, {6}));
  EXPECT_BITS_EQ(div(a, b, Rounding::floor), Tensor::from<std::int32_t>({3, -4, -4, 3, 0, INT32_MIN}, {6}));
}

TEST(PointwiseValues, Equality) {
  const Tensor x = Tensor::from<float>({1, kInfinity, kNaN}, {3});
  EXPECT_FALSE(allclose(x, x));
  EXPECT_TRUE(allclose(x, x, {.equal_nan = true}));
  EXPECT_FALSE(equal(x, x));
  EXPECT_TRUE(equal(ones({2, 3}), ones({2, 3})));
  EXPECT_FALSE(equal(ones({2, 3}), ones({3, 2})));
  EXPECT_TRUE(equal(zeros({2}), -zeros({2})));
  EXPECT_TRUE(allclose(ones({2}), 1.000001));
  EXPECT_TRUE(allclose(zeros({0, 3}), ones({0, 3})));
  EXPECT_TRUE(allclose(full({2}, kNaN), kNaN, {.equal_nan = true}));
  expect_error<DTypeError>([] { equal(ones({1}), arange(1)); }, {"equal", "dtypes"});
  expect_error<ValueError>([] { isclose(ones({1}), 1.0, {.relative = -1}); }, {"isclose", "negative"});
}

TEST(PointwiseValues, MaskedFillTakesAScalarTensor) {
  const Tensor x = arange(3);
  EXPECT_BITS_EQ(masked_fill(x, x > 1, full({}, 9, {.dtype = DType::i64})), Tensor::from<std::int64_t>({0, 1, 9}, {3}));
  expect_error<ShapeError>([&] { masked_fill(x, x > 1, arange(3)); }, {"masked_fill", "where(mask, value, input)"});
}

TEST(PointwiseValues, NaNToNumKeepsOtherBits) {
  const Tensor x = Tensor::from<float>({1e-40f, -0.0f, kNaN, kInfinity}, {4});
  EXPECT_BITS_EQ(nan_to_num(x, {.nan = 1, .positive = 2}), Tensor::from<float>({1e-40f, -0.0f, 1, 2}, {4}));
  EXPECT_EQ(nan_to_num(full({1}, kInfinity, {.dtype = DType::f16})).item<float>(), 65504.0f);
  EXPECT_BITS_EQ(nan_to_num(arange(3)), arange(3));
}

TEST(PointwiseValues, BitcastSharesBits) {
  const Tensor x = Tensor::from<float>({1, -2, kNaN, 1e-40f}, {2, 2});
  const Tensor bits = x.bitcast(DType::i32);
  EXPECT_EQ(bits.to_vector<std::int32_t>()[0], 0x3f800000);
  EXPECT_BITS_EQ(bits.bitcast(DType::f32), x);
  EXPECT_EQ(x.bitcast(DType::u8).shape(), (Shape{2, 8}));
  EXPECT_BITS_EQ(x.bitcast(DType::u8).bitcast(DType::f32), x);
  EXPECT_BITS_EQ(x.narrow(0, 1, 1).bitcast(DType::i32), bits.narrow(0, 1, 1));
  EXPECT_BITS_EQ(x.transpose(0, 1).bitcast(DType::i32), bits.transpose(0, 1));
  expect_error<ShapeError>([&] { x.bitcast(DType::u8).narrow(1, 0, 3).bitcast(DType::f32); }, {"bitcast"});
  expect_error<DTypeError>([&] { x.bitcast(DType::boolean); }, {"bitcast", "bool"});
}

}  // namespace
}  // namespace lockstep
