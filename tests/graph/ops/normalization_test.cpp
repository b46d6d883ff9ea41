// Normalisations in training. Values are compared with PyTorch's in tests/data/cases.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

TEST(Normalization, EqualBitsEverywhere) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const auto x = [&](Device d) { return random_tensor({5, 4, 33}, dtype, 1, d); };
    const auto c = [&](Device d) { return random_tensor({4}, dtype, 2, d); };
    same_everywhere([&](Device d) { return batch_norm_training(x(d), c(d), c(d), c(d), c(d)).output; });
    same_everywhere([&](Device d) { return batch_norm_training(x(d), c(d), c(d)).running_var; });
    same_everywhere([&](Device d) { return instance_norm_training(x(d), c(d), c(d), c(d)).running_mean; });
    same_everywhere([&](Device d) { return local_response_norm(x(d), 3); });
    same_everywhere([&](Device d) { return normalize(x(d)); });
    same_everywhere([&](Device d) { return weight_norm(x(d), random_tensor({1, 4, 1}, dtype, 3, d), 1); });
  }
}

TEST(Normalization, TrainingIsEvaluationWithTheStatisticsOfTheBatch) {
  const Tensor x = random_tensor({5, 4, 33}, DType::f32, 1);
  const Tensor w = random_tensor({4}, DType::f32, 2);
  const BatchNormResult result = batch_norm_training(x, std::nullopt, std::nullopt, w, w);
  EXPECT_BITS_EQ(result.output, batch_norm(x, result.mean, result.variance, w, w));
  EXPECT_FALSE(result.running_mean.defined());
  const BatchNormResult moved = batch_norm_training(x, ones({4}), ones({4}), w, w, 0.3);
  EXPECT_BITS_EQ(moved.running_mean, ones({4}) * 0.7 + result.mean * 0.3);
}

TEST(Normalization, InstanceNormIsGroupNormOfSingleChannels) {
  const Tensor x = random_tensor({5, 4, 33}, DType::f32, 1);
  const Tensor w = random_tensor({4}, DType::f32, 2);
  EXPECT_BITS_EQ(instance_norm(x, w, w), group_norm(x, 4, w, w));
}

TEST(Normalization, WrongArguments) {
  expect_error<ValueError>(
      [] {
        batch_norm_training(ones({1, 3}), std::nullopt, std::nullopt);
      },
      {"batch_norm", "more than one"});
  expect_error<ValueError>([] { instance_norm(ones({4, 3, 1})); }, {"instance_norm", "more than one"});
  expect_error<ShapeError>([] { batch_norm_training(ones({4, 3}), ones({4}), std::nullopt); }, {"running_mean", "[3]"});
  expect_error<ShapeError>([] { instance_norm(ones({4})); }, {"instance_norm"});
  expect_error<ValueError>([] { normalize(ones({4, 3}), 3); }, {"normalize"});
  expect_error<IndexError>([] { normalize(ones({4}), 2, 1); }, {"normalize"});
  expect_error<ShapeError>([] { weight_norm(ones({4, 3}), ones({4})); }, {"weight_norm", "[4, 1]"});
  expect_error<DTypeError>([] { instance_norm(ones({4, 3, 2}, {.dtype = DType::i32})); }, {"instance_norm"});
}

}  // namespace
}  // namespace lockstep
