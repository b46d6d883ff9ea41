// Losses. Values are compared with PyTorch's in tests/data/cases.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

TEST(Loss, EqualBitsEverywhere) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const auto x = [&](Device d) { return random_tensor({33, 70}, dtype, 1, d); };
    const auto y = [&](Device d) { return random_tensor({33, 70}, dtype, 2, d); };
    for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
      same_everywhere([&](Device d) { return mse_loss(x(d), y(d), reduction); });
      same_everywhere([&](Device d) { return huber_loss(x(d), y(d), reduction); });
      same_everywhere(
          [&](Device d) { return binary_cross_entropy_with_logits(x(d), sigmoid(y(d)), {.reduction = reduction}); });
      same_everywhere([&](Device d) { return kl_div(x(d), sigmoid(y(d)), reduction); });
      same_everywhere([&](Device d) { return triplet_margin_loss(x(d), y(d), neg(x(d)), {.swap = true, .reduction = reduction}); });
      same_everywhere([&](Device d) {
        const Tensor target = arange(0, 33, 1, {.dtype = DType::i64, .device = d});
        return cross_entropy(x(d), target, {.reduction = reduction, .ignore_index = 7, .label_smoothing = 0.1});
      });
    }
  }
}

TEST(Loss, ClassesOutOfRangeAreIndexErrorsAtTheRead) {
  const Tensor x = ones({2, 3});
  const Tensor loss = cross_entropy(x, Tensor::from<std::int64_t>({1, 3}, {2}));
  expect_error<IndexError>([&] { loss.item<float>(); }, {"cross_entropy", "3"});
  // An ignored class may be anything.
  EXPECT_GT(cross_entropy(x, Tensor::from<std::int64_t>({1, 3}, {2}), {.ignore_index = 3}).item<float>(), 1);
  EXPECT_GT(cross_entropy(x, Tensor::from<std::int32_t>({1, 2}, {2})).item<float>(), 1);
}

TEST(Loss, WrongArguments) {
  const Tensor x = ones({2, 3});
  const Tensor classes = zeros({2}, {.dtype = DType::i64});
  expect_error<DTypeError>([&] { mse_loss(ones({2}, {.dtype = DType::i32}), ones({2}, {.dtype = DType::i32})); },
                           {"mse_loss"});
  expect_error<ShapeError>([&] { mse_loss(x, ones({4})); }, {"mse_loss"});
  expect_error<ShapeError>([&] { binary_cross_entropy(x, ones({3})); }, {"binary_cross_entropy", "shapes"});
  expect_error<ShapeError>([&] { cross_entropy(x, zeros({3}, {.dtype = DType::i64})); }, {"cross_entropy", "[2]"});
  expect_error<ShapeError>([&] { cross_entropy(x, ones({2})); }, {"cross_entropy"});
  expect_error<DTypeError>([&] { nll_loss(x, ones({2})); }, {"nll_loss", "i64"});
  expect_error<ShapeError>([&] { cross_entropy(x, classes, {.weight = ones({2})}); }, {"weight"});
  expect_error<ValueError>([&] { cross_entropy(x, classes, {.label_smoothing = 2}); }, {"label_smoothing"});
  expect_error<ValueError>([&] { smooth_l1_loss(x, x, Reduction::mean, -1); }, {"beta"});
  expect_error<ValueError>([&] { huber_loss(x, x, Reduction::mean, 0); }, {"delta"});
}

}  // namespace
}  // namespace lockstep
