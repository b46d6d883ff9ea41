// ctc_loss against the sum over all alignments; tests/nn/torch_test.cpp has PyTorch's values and gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

// -log of the probability that a random path of `steps` classes reads as the target.
double by_enumeration(const std::vector<double>& log_probs, std::int64_t steps, std::int64_t classes,
                      const std::vector<std::int64_t>& target) {
  double total = 0;
  std::vector<std::int64_t> path(static_cast<std::size_t>(steps), 0);
  while (true) {
    std::vector<std::int64_t> read;
    double log_probability = 0;
    for (std::size_t t = 0; t < path.size(); ++t) {
      log_probability += log_probs[t * static_cast<std::size_t>(classes) + static_cast<std::size_t>(path[t])];
      if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) read.push_back(path[t]);
    }
    if (read == target) total += std::exp(log_probability);
    std::size_t digit = 0;
    while (digit < path.size() && ++path[digit] == classes) path[digit++] = 0;
    if (digit == path.size()) return -std::log(total);
  }
}

TEST(CtcLoss, IsTheSumOverAlignments) {
  const Tensor scores = log_softmax(random_tensor({5, 1, 3}, DType::f64, 3), 2);
  for (const std::vector<std::int64_t>& target :
       std::vector<std::vector<std::int64_t>>{{}, {1}, {1, 2}, {2, 2}, {1, 1, 2}, {1, 2, 1, 2, 1}}) {
    const auto length = static_cast<std::int64_t>(target.size());
    const Tensor loss =
        ctc_loss(scores, Tensor::from(target, {1, length}), {5}, {length}, {.reduction = Reduction::sum});
    EXPECT_NEAR(loss.item<double>(), by_enumeration(scores.to_vector<double>(), 5, 3, target), 1e-12) << length;
  }
}

TEST(CtcLoss, ImpossibleTargetsAreInfiniteOrZero) {
  const Tensor scores = log_softmax(random_tensor({3, 2, 3}, DType::f32, 3), 2);
  const Tensor targets = ids({1, 1, 1, 2}, {2, 2});
  const CtcOptions each{.reduction = Reduction::none};
  EXPECT_EQ(ctc_loss(scores, targets, {2, 3}, {2, 2}, each).to_vector<float>()[0],
            std::numeric_limits<float>::infinity());
  EXPECT_EQ(ctc_loss(scores, targets, {0, 0}, {1, 0}, {.reduction = Reduction::none, .zero_infinity = true})
                .to_vector<float>(),
            (std::vector<float>{0, 0}));
  // Probabilities of zero have finite gradients.
  const Tensor leaf = requires_grad(Tensor::from<float>({0, -INFINITY, 0, -INFINITY}, {2, 1, 2}));
  const Tensor g = gradients(ctc_loss(leaf, ids({1}, {1, 1}), {2}, {1}, {.zero_infinity = true}), {leaf})[0];
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

TEST(CtcLoss, TakesTargetsInARowAndSingleSequences) {
  const Tensor scores = log_softmax(random_tensor({6, 2, 4}, DType::f32, 5), 2);
  const Tensor padded = ctc_loss(scores, ids({1, 2, 3, 9, 9, 9}, {2, 3}).narrow(1, 0, 3), {6, 5}, {3, 0});
  EXPECT_BITS_EQ(padded, ctc_loss(scores, ids({1, 2, 3}, {3}), {6, 5}, {3, 0}));
  const Tensor single = ctc_loss(scores.select(1, 0), ids({1, 2, 3}, {3}), {6}, {3}, {.reduction = Reduction::none});
  EXPECT_EQ(single.rank(), 0);
  same_everywhere([](Device device) {
    const Tensor x = requires_grad(random_tensor({6, 2, 4}, DType::f32, 5, device));
    const Tensor loss = ctc_loss(log_softmax(x, 2), ids({1, 1, 3, 2, 1, 3}, {2, 3}).to(device), {6, 5}, {3, 2});
    return gradients(loss, {x})[0];
  });
}

TEST(CtcLoss, RefusesWhatDoesNotFit) {
  const Tensor scores = zeros({6, 2, 4});
  const Tensor targets = ids({1, 2, 3, 1}, {2, 2});
  expect_error<ValueError>([&] { ctc_loss(scores, targets, {6, 7}, {2, 2}); }, {"input_lengths", "0 to 6"});
  expect_error<ValueError>([&] { ctc_loss(scores, targets, {6}, {2, 2}); }, {"input_lengths", "2 values"});
  expect_error<ValueError>([&] { ctc_loss(scores, targets, {6, 6}, {2, -1}); }, {"target_lengths"});
  expect_error<ShapeError>([&] { ctc_loss(scores, targets, {6, 6}, {3, 1}); }, {"targets", "at least 3"});
  expect_error<ValueError>([&] { ctc_loss(scores, targets, {6, 6}, {2, 2}, {.blank = 4}); }, {"blank"});
  expect_error<DTypeError>([&] { ctc_loss(scores, rand({2, 2}), {6, 6}, {2, 2}); }, {"i64"});
  expect_error<IndexError>([&] { ctc_loss(scores, targets + 9, {6, 6}, {2, 2}).eval(); }, {"ctc_loss"});
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
