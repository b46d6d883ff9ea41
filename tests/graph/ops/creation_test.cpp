#include <gtest/gtest.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;

TEST(Creation, LinspaceIsSymmetricAndEndsExactly) {
  EXPECT_EQ(linspace(0, 1, 5).to_vector<float>(), (Floats{0, 0.25f, 0.5f, 0.75f, 1}));
  EXPECT_EQ(linspace(3, 7, 1).to_vector<float>(), (Floats{3}));
  EXPECT_EQ(linspace(3, 7, 0).numel(), 0);
  const Tensor x = linspace(-0.3, 0.3, 1001);
  EXPECT_BITS_EQ(x.flip({0}).narrow(0, 0, 500), -x.narrow(0, 0, 500));
  EXPECT_EQ(x.select(0, 1000).item<float>(), 0.3f);
  EXPECT_EQ(linspace(0, 10, 4, {.dtype = DType::i64}).to_vector<std::int64_t>(), (Longs{0, 3, 6, 10}));
  expect_error<ValueError>([] { linspace(0, 1, -1); }, {"linspace"});
}

TEST(Creation, LogspaceOfF64) {
  const std::vector<float> values = logspace(0, 3, 4).to_vector<float>();
  EXPECT_EQ(values, (Floats{1, 10, 100, 1000}));
  EXPECT_EQ(logspace(0, 4, 5, 2).to_vector<float>(), (Floats{1, 2, 4, 8, 16}));
}

TEST(Creation, ArangeOfOneArgumentAndFloats) {
  EXPECT_EQ(arange(3).to_vector<std::int64_t>(), (Longs{0, 1, 2}));
  EXPECT_EQ(arange(2.5, {.dtype = DType::f32}).to_vector<float>(), (Floats{0, 1, 2}));
  EXPECT_EQ(arange(1, 2, 0.1, {.dtype = DType::f32}).to_vector<float>()[3], 1.3f);  // from f64, rounded once
}

TEST(Creation, LikeTensors) {
  const Tensor x = ones({2, 3}, {.dtype = DType::f16, .device = Device::parse("ref")});
  EXPECT_BITS_EQ(zeros_like(x), zeros({2, 3}, {.dtype = DType::f16}));
  EXPECT_EQ(ones_like(x, DType::i32).dtype(), DType::i32);
  EXPECT_EQ(full_like(x, 3).device(), x.device());
  EXPECT_BITS_EQ(empty_like(x), zeros_like(x));
  EXPECT_BITS_EQ(empty({2}), zeros({2}));
}

TEST(Creation, EyeAndTriangles) {
  EXPECT_EQ(eye(2, 3).to_vector<float>(), (Floats{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(eye(0).numel(), 0);
  const Tensor x = arange(9).reshape({3, 3}) + 1;
  EXPECT_EQ(tril(x, -1).to_vector<std::int64_t>(), (Longs{0, 0, 0, 4, 0, 0, 7, 8, 0}));
  EXPECT_EQ(triu(x, 1).to_vector<std::int64_t>(), (Longs{0, 2, 3, 0, 0, 6, 0, 0, 0}));
  EXPECT_BITS_EQ(tril(x, INT64_MAX), x);
  EXPECT_BITS_EQ(triu(x, INT64_MIN), x);
  EXPECT_EQ(tril_indices(2, 3, 0).to_vector<std::int64_t>(), (Longs{0, 1, 1, 0, 0, 1}));
  EXPECT_EQ(triu_indices(2, 3, 1).to_vector<std::int64_t>(), (Longs{0, 0, 1, 1, 2, 2}));
  expect_error<ShapeError>([] { tril(ones({3})); }, {"tril", "two dimensions"});
  for (const DType dtype : {DType::boolean, DType::u8, DType::f16, DType::f64}) {
    same_everywhere([&](Device device) { return triu(random_tensor({2, 5, 70}, dtype, 1, device, true), -2); });
    same_everywhere([&](Device device) { return eye(5, 7, {dtype, device}); });
  }
}

TEST(Creation, Meshgrid) {
  const Tensor a = arange(2);
  const Tensor b = arange(3);
  const std::vector<Tensor> ij = meshgrid({a, b});
  EXPECT_EQ(ij[0].to_vector<std::int64_t>(), (Longs{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(ij[1].to_vector<std::int64_t>(), (Longs{0, 1, 2, 0, 1, 2}));
  const std::vector<Tensor> xy = meshgrid({a, b}, GridIndexing::xy);
  EXPECT_EQ(xy[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(xy[0].to_vector<std::int64_t>(), (Longs{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(xy[1].to_vector<std::int64_t>(), (Longs{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(meshgrid({full({}, 1.0)})[0].shape(), (Shape{1}));
  expect_error<ValueError>([] { meshgrid({}); }, {"meshgrid", "empty"});
  expect_error<ShapeError>([] { meshgrid({ones({2, 2})}); }, {"meshgrid", "one dimension"});
}

}  // namespace
}  // namespace lockstep
