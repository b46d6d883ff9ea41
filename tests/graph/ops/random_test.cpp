// Random ops: the same on every device, with the right distribution, and never the same draw twice.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/tensors.h"

namespace lockstep {
namespace {

using Draw = std::function<Tensor(Device, Generator&)>;

void same_for_a_seed(const Draw& draw) {
  same_everywhere([&](Device device) {
    Generator generator(11);
    return draw(device, generator);
  });
}

TEST(RandomOps, SameOnEveryDevice) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    same_for_a_seed([&](Device d, Generator& g) { return uniform(-2, 3, {257}, {dtype, d}, &g); });
    same_for_a_seed([&](Device d, Generator& g) { return normal(1, 2, {257}, {dtype, d}, &g); });
    same_for_a_seed([&](Device d, Generator& g) { return exponential({257}, 0.5, {dtype, d}, &g); });
    same_for_a_seed([&](Device d, Generator& g) { return bernoulli(0.3, {257}, {dtype, d}, &g); });
    same_for_a_seed([&](Device d, Generator& g) { return bernoulli(random_tensor({257}, dtype, 1, d, true), &g); });
    same_for_a_seed(
        [&](Device d, Generator& g) { return dropout(random_tensor({257}, dtype, 1, d, true), 0.3, true, &g); });
    same_for_a_seed(
        [&](Device d, Generator& g) { return alpha_dropout(random_tensor({257}, dtype, 1, d), 0.3, true, &g); });
    same_for_a_seed([&](Device d, Generator& g) {
      return multinomial(abs(random_tensor({3, 40}, dtype, 1, d)), 9, true, &g);
    });
    same_for_a_seed([&](Device d, Generator& g) {
      return multinomial(abs(random_tensor({3, 40}, dtype, 1, d)), 9, false, &g);
    });
  }
  same_for_a_seed([&](Device d, Generator& g) { return randint(-7, 1000, {257}, {DType::i64, d}, &g); });
  same_for_a_seed([&](Device d, Generator& g) { return randint(INT64_MIN, INT64_MAX, {257}, {DType::i64, d}, &g); });
  same_for_a_seed([&](Device d, Generator& g) { return randperm(300, {DType::i64, d}, &g); });
}

TEST(RandomOps, ValuesDoNotDependOnHowATensorIsSplit) {
  Generator a(7);
  Generator b(7);
  const Tensor whole = rand({8, 513}, {}, &a);
  const Tensor flat = rand({8 * 513}, {}, &b);
  EXPECT_BITS_EQ(whole.narrow(0, 3, 2).reshape({-1}), flat.narrow(0, 3 * 513, 2 * 513));
}

TEST(RandomOps, F64HasFiftyThreeBits) {
  Generator generator(5);
  const Tensor u = rand({4096}, {.dtype = DType::f64}, &generator) * 0x1p53;
  EXPECT_TRUE(equal(u, floor(u)));
  EXPECT_GT(count_nonzero(u - floor(u * 0x1p-29) * 0x1p29).item<std::int64_t>(), 4000);
  // A normal number's magnitude below 2^-24 steps of the uniform one: f32 words alone would repeat.
  const Tensor n = randn({1 << 14}, {.dtype = DType::f64}, &generator);
  EXPECT_FALSE(equal(n, n.to(DType::f32).to(DType::f64)));
}

TEST(RandomOps, IntegersFollowTheMultiplyHighOfTheirWords) {
  Generator generator(9);
  // Two draws: the upper words, then the lower ones.
  const std::vector<std::int64_t> drawn =
      randint(-3, 100, {16}, {.dtype = DType::i64}, &generator).to_vector<std::int64_t>();
  EXPECT_EQ(generator.draws(), 2u);
  Generator again(9);
  const std::vector<std::int64_t> wide =
      randint(INT64_MIN, INT64_MAX, {16}, {.dtype = DType::i64}, &again).to_vector<std::int64_t>();
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_GE(drawn[i], -3);
    EXPECT_LT(drawn[i], 100);
    // floor(word * 103 / 2^64) from the word itself, which the widest range almost is.
    const std::uint64_t word = static_cast<std::uint64_t>(wide[i]) ^ 0x8000000000000000u;
    EXPECT_NEAR(static_cast<double>(drawn[i] + 3), std::floor(static_cast<double>(word) * 103 * 0x1p-64), 1);
  }
  EXPECT_EQ(randint(5, 6, {3}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{5, 5, 5}));
  expect_error<ValueError>([] { randint(3, 3, {1}); }, {"randint", "low < high"});
  expect_error<DTypeError>([] { randint(0, 300, {1}, {.dtype = DType::u8}); }, {"299", "u8"});
}

TEST(RandomOps, APermutationHasEveryNumberOnce) {
  Generator generator(3);
  const Tensor p = randperm(1000, {.dtype = DType::i64}, &generator);
  EXPECT_BITS_EQ(sort(p).values, arange(1000));
  EXPECT_FALSE(equal(p, arange(1000)));
  EXPECT_EQ(randperm(0).numel(), 0);
}

TEST(RandomOps, FrequenciesLookRight) {
  Generator generator(3);
  const auto mean_of = [](const Tensor& x) { return mean(x.to(DType::f64)).item<double>(); };
  EXPECT_NEAR(mean_of(bernoulli(0.3, {100000}, {}, &generator)), 0.3, 0.01);
  EXPECT_NEAR(mean_of(bernoulli(full({100000}, 0.3), &generator)), 0.3, 0.01);
  EXPECT_NEAR(mean_of(exponential({100000}, 4, {}, &generator)), 0.25, 0.01);
  EXPECT_NEAR(mean_of(randint(0, 11, {100000}, {.dtype = DType::i64}, &generator)), 5, 0.05);
  EXPECT_NEAR(mean_of(dropout(ones({100000}), 0.25, true, &generator)), 1, 0.02);
  const Tensor w = Tensor::from<float>({1, 0, 2, 1}, {4});
  const Tensor counts = bincount(multinomial(w, 40000, true, &generator), std::nullopt, 4).to(DType::f64) / 40000;
  EXPECT_NEAR(counts.select(0, 0).item<double>(), 0.25, 0.01);
  EXPECT_EQ(counts.select(0, 1).item<double>(), 0);
  EXPECT_NEAR(counts.select(0, 2).item<double>(), 0.5, 0.01);
  // Without replacement: the first of many races has the same odds, and nothing of weight 0 comes before the rest.
  const Tensor rows = w.expand({20000, 4});
  const Tensor first = multinomial(rows, 3, false, &generator);
  EXPECT_NEAR(mean_of(eq(first.select(1, 0), 2)), 0.5, 0.02);
  EXPECT_EQ(count_nonzero(eq(first, 1)).item<std::int64_t>(), 0);
}

TEST(RandomOps, ProbabilitiesAtTheEnds) {
  EXPECT_BITS_EQ(bernoulli(1.0, {100}), ones({100}));
  EXPECT_BITS_EQ(bernoulli(0.0, {100}), zeros({100}));
  EXPECT_BITS_EQ(bernoulli(ones({100})), ones({100}));
  EXPECT_BITS_EQ(bernoulli(full({100}, NAN)), zeros({100}));
  EXPECT_BITS_EQ(dropout(ones({9}), 1), zeros({9}));
  EXPECT_BITS_EQ(dropout(ones({9}), 0.5, false), ones({9}));
  expect_error<ValueError>([] { dropout(ones({1}), 1.5); }, {"dropout", "1.5"});
  expect_error<ValueError>([] { bernoulli(-1, {1}); }, {"bernoulli"});
  expect_error<ValueError>([] { multinomial(ones({3}), 4); }, {"multinomial", "replacement"});
  expect_error<DTypeError>([] { rand({1}, {.dtype = DType::i32}); }, {"rand", "i32"});
  expect_error<DTypeError>([] { dropout(arange(3)); }, {"dropout", "float"});
}

TEST(RandomOps, FeatureDropoutDropsWholeChannels) {
  Generator generator(3);
  const Tensor y = feature_dropout(ones({10, 20, 7}), 0.5, true, &generator);
  EXPECT_TRUE(equal(amin(y, {2}), amax(y, {2})));
  EXPECT_EQ(dropout2d(ones({3, 4, 5}), 0.5, true, &generator).shape(), (Shape{3, 4, 5}));
  expect_error<ShapeError>([] { dropout2d(ones({3, 4})); }, {"dropout2d", "3 or 4"});
}

TEST(RandomOps, AlphaDropoutKeepsMeanAndDeviation) {
  Generator generator(3);
  const Tensor y = alpha_dropout(randn({200000}, {}, &generator), 0.3, true, &generator);
  EXPECT_NEAR(mean(y).item<float>(), 0, 0.02);
  EXPECT_NEAR(std(y).item<float>(), 1, 0.02);
}

}  // namespace
}  // namespace lockstep
