// Running results: equal bits everywhere, and the meaning of special values.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;

TEST(Scans, SameEverywhere) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i32, DType::u8, DType::i64}) {
    const auto check = [&](auto op) {
      same_everywhere([&](Device device) { return op(random_tensor({2, 5000}, dtype, 1, device, true), 1); });
      same_everywhere([&](Device device) { return op(random_tensor({200, 7}, dtype, 1, device, true), 0); });
    };
    using T = const Tensor&;
    check([](T x, int dim) { return cumsum(x, dim); });
    check([](T x, int dim) { return cumprod(x, dim); });
    check([](T x, int dim) { return cummax(x, dim).values; });
    check([](T x, int dim) { return cummax(x, dim).indices; });
    check([](T x, int dim) { return cummin(x, dim).indices; });
    check([](T x, int dim) { return diff(x, 2, dim); });
  }
}

TEST(Scans, LogcumsumexpSameEverywhere) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    same_everywhere([&](Device device) { return logcumsumexp(random_tensor({3, 333}, dtype, 1, device, true), 1); });
  }
  EXPECT_EQ(logcumsumexp(full({2}, -kInfinity), 0).to_vector<float>(), (Floats{-kInfinity, -kInfinity}));
}

TEST(Scans, AfterAnInfinityTheSumStaysInfinite) {
  EXPECT_EQ(cumsum(Tensor::from<float>({1, kInfinity, 2}, {3}), 0).to_vector<float>(),
            (Floats{1, kInfinity, kInfinity}));
}

TEST(Scans, HalvesSumInF32) {
  const Tensor x = cumsum(ones({4096}, {.dtype = DType::f16}), 0);
  EXPECT_EQ(x.select(0, 4095).item<float>(), 4096.0f);
  EXPECT_EQ(x.dtype(), DType::f16);
}

TEST(Scans, IntegersGiveI64) {
  EXPECT_EQ(cumsum(Tensor::from<std::uint8_t>({200, 200}, {2}), 0).to_vector<std::int64_t>(), (Longs{200, 400}));
  EXPECT_EQ(cumprod(Tensor::from<bool>({true, false, true}, {3}), 0).to_vector<std::int64_t>(), (Longs{1, 0, 0}));
  EXPECT_EQ(cumsum(arange(3), 0, DType::f32).dtype(), DType::f32);
}

TEST(Scans, ExtremesKeepTheFirstOfEquals) {
  const Tensor x = Tensor::from<float>({2, 2, kNaN, 5, kNaN}, {5});
  EXPECT_EQ(cummax(x, 0).indices.to_vector<std::int64_t>(), (Longs{0, 0, 2, 2, 2}));
  EXPECT_EQ(cummin(x, 0).indices.to_vector<std::int64_t>(), (Longs{0, 0, 2, 2, 2}));
}

TEST(Scans, ScalarsAndNothing) {
  EXPECT_EQ(cumsum(full({}, 3.0), 0).item<float>(), 3);
  EXPECT_EQ(cummax(full({}, 3.0), -1).indices.item<std::int64_t>(), 0);
  EXPECT_EQ(cumsum(zeros({2, 0}), 1).shape(), (Shape{2, 0}));
  EXPECT_EQ(diff(zeros({0})).shape(), (Shape{0}));
  expect_error<IndexError>([] { cumsum(ones({2}), 1); }, {"cumsum", "dimension 1"});
  expect_error<ValueError>([] { diff(ones({2}), -1); }, {"diff"});
}

}  // namespace
}  // namespace lockstep
