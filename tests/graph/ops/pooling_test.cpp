// Pools: equal bits everywhere, and what PyTorch leaves open. PyTorch's own results are in tests/data/cases.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

class Pools : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Pools, ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

Tensor both(const ValuesIndices& pooled) {
  return cat({pooled.values.to(DType::f64).flatten(), pooled.indices.to(DType::f64).flatten()});
}

TEST_P(Pools, SameEverywhere) {
  const auto line = [](Device device) { return random_tensor({2, 3, 37}, GetParam(), 1, device, true); };
  const auto plane = [](Device device) { return random_tensor({2, 3, 11, 12}, GetParam(), 2, device, true); };
  const auto volume = [](Device device) { return random_tensor({1, 2, 6, 7, 5}, GetParam(), 3, device, true); };
  for (const bool ceil_mode : {false, true}) {
    const PoolOptions options{.stride = {2}, .padding = {1}, .ceil_mode = ceil_mode, .count_include_pad = ceil_mode};
    const PoolOptions dilated{.stride = {1}, .padding = {1}, .dilation = {2}, .ceil_mode = ceil_mode};
    same_everywhere([&](Device device) { return both(max_pool1d_with_indices(line(device), 2, dilated)); });
    same_everywhere([&](Device device) { return both(max_pool2d_with_indices(plane(device), 3, options)); });
    same_everywhere([&](Device device) { return both(max_pool3d_with_indices(volume(device), 2, dilated)); });
    same_everywhere([&](Device device) { return max_pool3d(volume(device), 3, options); });
    same_everywhere([&](Device device) { return avg_pool1d(line(device), 3, options); });
    same_everywhere([&](Device device) { return avg_pool2d(plane(device), 3, options); });
    same_everywhere([&](Device device) { return avg_pool3d(volume(device), 3, options); });
  }
  for (const Shape& size : {Shape{1}, Shape{3}, Shape{4}, Shape{9}}) {
    same_everywhere([&](Device device) { return adaptive_avg_pool1d(line(device), size); });
    same_everywhere([&](Device device) { return adaptive_avg_pool2d(plane(device), size); });
    same_everywhere([&](Device device) { return adaptive_avg_pool3d(volume(device), size); });
    same_everywhere([&](Device device) { return both(adaptive_max_pool1d_with_indices(line(device), size)); });
    same_everywhere([&](Device device) { return both(adaptive_max_pool2d_with_indices(plane(device), size)); });
    same_everywhere([&](Device device) { return both(adaptive_max_pool3d_with_indices(volume(device), size)); });
  }
}

TEST(Pooling, MaxPoolOfAViewWithAnOffset) {
  const Tensor whole = random_tensor({3, 4, 20, 21}, DType::f32, 7);
  const Tensor view = whole.narrow(0, 1, 2).narrow(1, 2, 2).narrow(2, 5, 12).narrow(3, 3, 13);
  const PoolOptions options{.stride = {2}, .padding = {1}};
  const Tensor copy = Tensor::from(view.to_vector<float>(), view.shape());
  EXPECT_BITS_EQ(max_pool2d(view, 3, options), max_pool2d(copy, 3, options));
  const ValuesIndices a = max_pool2d_with_indices(view, 3, options);
  const ValuesIndices b = max_pool2d_with_indices(copy, 3, options);
  EXPECT_BITS_EQ(a.values, b.values);
  EXPECT_BITS_EQ(a.indices, b.indices);
  same_everywhere([&](Device device) {
    return max_pool2d(whole.to(device).narrow(0, 1, 2).narrow(2, 5, 12).flip({3}), 3, options);
  });
}

TEST(Pooling, PaddingNeverWins) {
  const Tensor low = full({1, 1, 3, 3}, -kInfinity);
  const PoolOptions options{.stride = {1}, .padding = {1}};
  const ValuesIndices pooled = max_pool2d_with_indices(low, 3, options);
  EXPECT_BITS_EQ(pooled.values, low);
  // The first element of each window that exists.
  EXPECT_EQ(pooled.indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 1, 0, 0, 1, 3, 3, 4}));
  const Tensor least = full({1, 1, 3}, -128, {.dtype = DType::i8});
  EXPECT_BITS_EQ(max_pool1d(least, 3, options), least);
  const Tensor none = zeros({1, 1, 3}, {.dtype = DType::boolean});
  EXPECT_BITS_EQ(max_pool1d(none, 3, options), none);
}

TEST(Pooling, NaNWinsAndTheFirstCounts) {
  const Tensor x = Tensor::from<float>({1, kNaN, 5, kNaN, kInfinity, 2}, {1, 1, 6});
  const ValuesIndices pooled = max_pool1d_with_indices(x, 4, {.stride = {1}});
  EXPECT_BITS_EQ(pooled.values, full({1, 1, 3}, kNaN));
  EXPECT_EQ(pooled.indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 1, 3}));
  const ValuesIndices adaptive = adaptive_max_pool1d_with_indices(x, {1});
  EXPECT_EQ(adaptive.indices.item<std::int64_t>(), 1);
}

TEST(Pooling, IndicesReadTheValues) {
  const Tensor x = random_tensor({2, 3, 9, 10}, DType::f32, 5);
  const PoolOptions reaching{.stride = {3, 2}, .padding = {1, 1}, .dilation = {3, 2}, .ceil_mode = true};
  for (const auto& [kernel, options] :
       {std::pair{Shape{2, 3}, reaching}, {Shape{9, 10}, PoolOptions{}}, {Shape{1}, PoolOptions{}}}) {
    const ValuesIndices pooled = max_pool2d_with_indices(x, kernel, options);
    const std::vector<float> values = pooled.values.to_vector<float>();
    const std::vector<std::int64_t> places = pooled.indices.to_vector<std::int64_t>();
    const std::vector<float> all = x.to_vector<float>();
    const std::size_t plane = values.size() / 6;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], all[i / plane * 90 + static_cast<std::size_t>(places[i])]);
    }
  }
}

TEST(Pooling, UnpoolPutsValuesBack) {
  same_everywhere([](Device device) {
    const Tensor x = random_tensor({2, 3, 8, 6}, DType::f32, 5, device);
    const ValuesIndices pooled = max_pool2d_with_indices(x, 2);
    const Tensor back = max_unpool2d(pooled.values, pooled.indices, 2);
    EXPECT_BITS_EQ(max_pool2d(back, 2), maximum(pooled.values, 0.0));
    return back;
  });
  const Tensor x = ones({1, 1, 2});
  const Tensor places = Tensor::from<std::int64_t>({0, 9}, {1, 1, 2});
  EXPECT_THROW(max_unpool1d(x, places, 2).to_vector<float>(), IndexError);
  expect_error<DTypeError>([&] { max_unpool1d(x, places.to(DType::i32), 2); }, {"i64"});
  expect_error<ShapeError>([&] { max_unpool1d(x, places, 2, {.output_size = 7}); }, {"output_size", "3 to 5"});
}

TEST(Pooling, LongKernels) {
  // A row of more than one chunk, and more taps than a float counts.
  same_everywhere([](Device device) {
    return both(max_pool1d_with_indices(random_tensor({1, 2, 9001}, DType::f32, 1, device), 9000, {.stride = {1}}));
  });
  const Tensor x = zeros({1, 1, 3000, 3000});
  EXPECT_EQ(max_pool2d_with_indices(
                select_scatter(x.reshape({1, 1, 9000000}), ones({1, 1}), 2, 8999998).reshape(x.shape()), 3000)
                .indices.item<std::int64_t>(),
            8999998);
}

TEST(Pooling, AdaptiveKeepsASizeOfMinusOne) {
  EXPECT_EQ(adaptive_avg_pool2d(ones({1, 2, 7, 9}), {3, -1}).shape(), (Shape{1, 2, 3, 9}));
  EXPECT_EQ(adaptive_max_pool2d(ones({2, 7, 9}), {-1, 4}).shape(), (Shape{2, 7, 4}));
}

TEST(Pooling, Errors) {
  const Tensor x = ones({1, 2, 8, 8});
  expect_error<ValueError>([&] { avg_pool2d(x, 2, {.divisor_override = 0}); }, {"divisor_override"});
  expect_error<ValueError>([&] { avg_pool2d(x, 2, {.dilation = {2}}); }, {"dilation"});
  expect_error<DTypeError>([&] { avg_pool2d(x.to(DType::i32), 2); }, {"avg_pool2d"});
  expect_error<ShapeError>([&] { max_pool3d(ones({2, 2, 2}), 1); }, {"max_pool3d"});
  expect_error<ShapeError>([&] { max_pool2d_with_indices(x, 9); }, {"9"});
  expect_error<ValueError>([&] { max_pool2d(x, {2, 2, 2}); }, {"kernel"});
  expect_error<ShapeError>([&] { adaptive_avg_pool1d(x, {0}); }, {"adaptive_avg_pool1d"});
  expect_error<ValueError>([&] { adaptive_avg_pool2d(x, {-2}); }, {"output_size"});
  expect_error<ShapeError>([&] { adaptive_avg_pool2d(ones({1, 2, 0, 8}), {2}); }, {"at least 1"});
}

}  // namespace
}  // namespace lockstep
