// Reductions beyond sums, order statistics and distances: equal bits everywhere, and the meaning of special values.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;

class Reductions : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Reductions, ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(Reductions, SameEverywhere) {
  const auto check = [&](auto op, int line = __builtin_LINE()) {
    const ::testing::ScopedTrace trace(__FILE__, line, "this op");
    same_everywhere([&](Device device) { return op(random_tensor({4, 9, 67}, GetParam(), 1, device, true)); });
  };
  using T = const Tensor&;
  for (const int dim : {0, 1, 2}) {
    check([&](T x) { return nansum(x, {dim}); });
    check([&](T x) { return nanmean(x, {dim}); });
    check([&](T x) { return count_nonzero(x, {dim}); });
    check([&](T x) { return var_mean(x, {dim}).first; });
    check([&](T x) { return std_mean(x, {dim}).second; });
    check([&](T x) { return vector_norm(x, 1, {dim}); });
    check([&](T x) { return vector_norm(x, 0, {dim}); });
    check([&](T x) { return vector_norm(x, INFINITY, {dim}); });
    check([&](T x) { return vector_norm(x, -INFINITY, {dim}); });
    check([&](T x) { return max(x, dim).values; });
    check([&](T x) { return min(x, dim, true).indices; });
    check([&](T x) { return median(x, dim).values; });
    check([&](T x) { return median(x, dim).indices; });
    check([&](T x) { return nanmedian(x, dim, true).values; });
    check([&](T x) { return mode(x, dim).values; });
    check([&](T x) { return mode(x, dim).indices; });
    check([&](T x) { return quantile(x, 0.3, dim); });
    check([&](T x) { return nanquantile(x, 0.7, dim, true, QuantileMode::midpoint); });
    check([&](T x) { return cosine_similarity(x, x.flip({1}), dim); });
  }
  check([](T x) { return softmax(x, {0, 2}); });
  check([](T x) { return log_softmax(x, {0, 2}); });
  check([](T x) { return trace(x.select(1, 0)); });
  check([](T x) { return pairwise_distance(x, x.flip({1}), 1); });
  check([](T x) { return cdist(x, x.narrow(1, 0, 4)); });
}

// --- meaning
// ----------------------------------------------------------------------------------------------------------

TEST(Meaning, SumOfFourThousandOnesInF16) {
  EXPECT_EQ(sum(ones({4096}, {.dtype = DType::f16})).item<float>(), 4096.0f);
  EXPECT_EQ(mean(full({4096}, 1000.0, {.dtype = DType::f16})).item<float>(), 1000.0f);
  EXPECT_EQ(sum(ones({300}, {.dtype = DType::bf16})).item<float>(), 300.0f);
}

TEST(Meaning, LogsumexpOfAllMinusInfinity) {
  EXPECT_EQ(logsumexp(full({2, 3}, -kInfinity), {1}).to_vector<float>(), (Floats{-kInfinity, -kInfinity}));
  EXPECT_EQ(logsumexp(zeros({2, 0}), {1}).to_vector<float>(), (Floats{-kInfinity, -kInfinity}));
  EXPECT_EQ(logsumexp(full({3}, kInfinity), {0}).item<float>(), kInfinity);
}

TEST(Meaning, SumsOfInfinities) {
  EXPECT_EQ(sum(Tensor::from<float>({kInfinity, 1, kInfinity}, {3})).item<float>(), kInfinity);
  EXPECT_TRUE(std::isnan(sum(Tensor::from<float>({kInfinity, -kInfinity}, {2})).item<float>()));
  EXPECT_BITS_EQ(sum(-zeros({3})), zeros({}) * -1.0);  // -0 + -0
}

TEST(Meaning, NaNWinsAndTheFirstOfEqualsIsTaken) {
  const Tensor x = Tensor::from<float>({1, kNaN, kInfinity, kNaN, 0, 0, -0.0f, 0}, {2, 4});
  const ValuesIndices largest = max(x, 1);
  EXPECT_TRUE(std::isnan(largest.values.to_vector<float>()[0]));
  EXPECT_EQ(largest.indices.to_vector<std::int64_t>(), (Longs{1, 0}));
  EXPECT_EQ(min(x, 1).indices.to_vector<std::int64_t>(), (Longs{1, 0}));
  EXPECT_EQ(argmax(Tensor::from<float>({1, 7, 7}, {3})).item<std::int64_t>(), 1);
}

TEST(Meaning, ReductionsOfNothing) {
  const Tensor nothing = zeros({0, 3});
  EXPECT_BITS_EQ(sum(nothing, {0}), zeros({3}));
  EXPECT_BITS_EQ(prod(nothing, {0}), ones({3}));
  EXPECT_TRUE(std::isnan(mean(nothing).item<float>()));
  EXPECT_BITS_EQ(any(nothing, {0}), zeros({3}, {.dtype = DType::boolean}));
  EXPECT_BITS_EQ(all(nothing, {0}), ones({3}, {.dtype = DType::boolean}));
  EXPECT_EQ(count_nonzero(nothing).item<std::int64_t>(), 0);
  EXPECT_EQ(vector_norm(nothing, 1).item<float>(), 0);
  expect_error<ShapeError>([&] { amax(nothing, {0}); }, {"amax", "of no elements", "size > 0"});
  expect_error<ShapeError>([&] { max(nothing, 0); }, {"max", "of no elements"});
  expect_error<ShapeError>([&] { argmin(nothing); }, {"argmin", "of no elements"});
  expect_error<ShapeError>([&] { median(nothing, 0); }, {"median", "of no elements"});
  expect_error<ShapeError>([&] { quantile(nothing, 0.5); }, {"quantile", "of no elements"});
  expect_error<ShapeError>([&] { vector_norm(nothing, INFINITY); }, {"vector_norm", "of no elements"});
  EXPECT_EQ(max(nothing, 1).values.shape(), (Shape{0}));
}

TEST(Meaning, SubnormalsAreZerosInArithmetic) {
  const Tensor x = Tensor::from<float>({1e-40f, 2e-40f}, {2});
  EXPECT_BITS_EQ(sum(x), zeros({}));
  EXPECT_EQ(argmax(x).item<std::int64_t>(), 0);
  EXPECT_EQ(count_nonzero(x).item<std::int64_t>(), 0);
  EXPECT_BITS_EQ(max(x, 0).values, Tensor::from<float>({1e-40f}, {}));  // a move keeps its bits
}

TEST(Meaning, AnyAndAllOfAnyDType) {
  EXPECT_TRUE(any(Tensor::from<float>({0, kNaN}, {2})).item<bool>());
  EXPECT_FALSE(all(Tensor::from<float>({0, kNaN}, {2})).item<bool>());
  EXPECT_TRUE(all(Tensor::from<std::uint8_t>({1, 255}, {2})).item<bool>());
}

// --- values
// -----------------------------------------------------------------------------------------------------------

TEST(ReductionValues, DTypeOfSums) {
  EXPECT_EQ(sum(arange(4), {}, false, DType::f32).item<float>(), 6);
  EXPECT_EQ(mean(arange(4), {}, false, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(prod(arange(4) + 1, {}, true, DType::f16).shape(), (Shape{1}));
}

TEST(ReductionValues, MediansAndQuantiles) {
  const Tensor x = Tensor::from<float>({4, 1, 3, 2, kNaN, 5, 1, 1}, {2, 4});
  EXPECT_TRUE(std::isnan(median(x, 1).values.to_vector<float>()[1]));
  EXPECT_EQ(median(x, 1).indices.to_vector<std::int64_t>(), (Longs{3, 0}));
  EXPECT_EQ(nanmedian(x, 1).values.to_vector<float>(), (Floats{2, 1}));
  EXPECT_EQ(median(Tensor::from<std::int32_t>({5, 1, 9}, {3})).item<std::int32_t>(), 5);
  EXPECT_EQ(median(full({}, 3.0), 0).values.item<float>(), 3);
  EXPECT_EQ(nanmedian(full({3}, kNaN), 0).indices.item<std::int64_t>(), 0);
  EXPECT_EQ(quantile(Tensor::from<float>({0, 10}, {2}), 0.25).item<float>(), 2.5f);
  EXPECT_EQ(quantile(ones({2, 3}), Tensor::from<float>({0, 1}, {2}), 1).shape(), (Shape{2, 2}));
  EXPECT_EQ(quantile(ones({2, 3}), Tensor::from<float>({0, 1}, {2}), 1, true).shape(), (Shape{2, 2, 1}));
  expect_error<ValueError>([] { quantile(ones({3}), 1.5); }, {"quantile", "1.5"});
  expect_error<DTypeError>([] { quantile(arange(3), 0.5); }, {"quantile", "float"});
}

TEST(ReductionValues, OrderStatisticsOfNoRows) {
  for (const Shape& shape : {Shape{2, 0}, Shape{3, 0, 2}, Shape{2, 3, 0}}) {
    same_everywhere([&](Device device) { return median(zeros(shape, {.device = device}), 0).values; });
    same_everywhere([&](Device device) { return mode(zeros(shape, {.device = device}), 0).indices; });
    for (const Device device : {Device{DeviceKind::ref, 0}, Device{}}) {
      const ValuesIndices both = median(full(shape, 1, {.device = device}), 0);  // two results of one kernel
      EXPECT_EQ(both.values.eval().numel(), 0);
      EXPECT_EQ(both.indices.eval().numel(), 0);
    }
    same_everywhere([&](Device device) { return quantile(zeros(shape, {.device = device}), 0.5, 0); });
  }
}

TEST(ReductionValues, Distances) {
  const Tensor a = Tensor::from<float>({0, 0, 3, 4}, {2, 2});
  EXPECT_EQ(cdist(a, a).to_vector<float>(), (Floats{0, 5, 5, 0}));
  EXPECT_EQ(cdist(a, a, 1).to_vector<float>(), (Floats{0, 7, 7, 0}));
  EXPECT_EQ(cdist(zeros({2, 0}), zeros({3, 0})).shape(), (Shape{2, 3}));
  expect_error<ShapeError>([&] { cdist(a, ones({2, 3})); }, {"cdist", "rows of the same length"});
  expect_error<ValueError>([&] { cdist(a, a, -1); }, {"cdist", "p >= 0"});
  expect_error<ShapeError>([&] { trace(ones({3})); }, {"trace", "matrix"});
}

}  // namespace
}  // namespace lockstep
