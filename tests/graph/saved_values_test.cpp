// What gradients read is saved once: a window that fills in the middle of a step neither loses nor recomputes it, nor
// keeps more than computing op by op would.
#include <functional>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "graph/window.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

struct Measured {
  std::vector<Tensor> gradients;
  std::size_t peak = 0;     ///< bytes beyond what was live before
  std::uint64_t kernels = 0;
};

Measured step(const nn::Layer& model, std::size_t nodes) {
  const graph::WindowLimits before = graph::window_limits();
  graph::WindowLimits limits = before;
  limits.nodes = nodes;
  graph::set_window_limits(limits);
  const Tensor x = random_tensor({2, 3, 64, 64}, DType::f32, 3).eval();
  std::vector<Tensor> weights;
  for (const nn::Parameter& parameter : model.parameters()) weights.push_back(parameter.tensor());
  const std::size_t live = memory_statistics().live;
  reset_peak_memory();
  const std::uint64_t kernels = graph::window_statistics({}).kernels;
  Measured run;
  run.gradients = gradients(mean(logsumexp(model.forward(x), {1})), weights);
  for (const Tensor& gradient : run.gradients) gradient.eval();
  run.peak = memory_statistics().peak - live;
  run.kernels = graph::window_statistics({}).kernels - kernels;
  graph::set_window_limits(before);
  return run;
}

// In evaluation mode the three runs compute the same; running statistics would move.
TEST(SavedValues, SlowResNet50NeitherLosesNorRecomputesNorHoardsThem) {
  manual_seed(1);
  const auto model = models::architecture("resnet50").create(10);
  model->eval();
  for (nn::Parameter& parameter : model->parameters()) parameter.tensor().eval();
  const Measured eager = step(*model, 1);
  const Measured whole = step(*model, 1 << 20);
  const Measured flushed = step(*model, 100);
  for (std::size_t i = 0; i < eager.gradients.size(); ++i) {
    EXPECT_BITS_EQ(whole.gradients[i], eager.gradients[i]);
    EXPECT_BITS_EQ(flushed.gradients[i], eager.gradients[i]);
  }
  const std::size_t most = eager.peak + eager.peak / 50;  // plus what one window computes before it lets go
  EXPECT_LE(whole.peak, most);
  EXPECT_LE(flushed.peak, most);
  // A flush cuts some fusions, but computes nothing twice.
  EXPECT_LT(whole.kernels, eager.kernels);
  EXPECT_LT(flushed.kernels, eager.kernels);
  EXPECT_LT(flushed.kernels, whole.kernels + whole.kernels / 4);
}

// Of f32 values that are made of 16-bit ones a gradient keeps those. Slices are joined, also with -0 in them.
TEST(SavedValues, WidenedOnesAreKeptAsNarrowAsTheyWere) {
  const auto measured = [](std::size_t nodes) {
    const graph::WindowLimits before = graph::window_limits();
    graph::WindowLimits limits = before;
    limits.nodes = nodes;
    graph::set_window_limits(limits);
    Measured run;
    const Tensor w = requires_grad((random_tensor({24, 8, 3, 3}, DType::f32, 5) * 0.1).eval());
    const Tensor scale = requires_grad(random_tensor({24}, DType::f32, 6).eval());
    const Tensor x = random_tensor({4, 8, 40, 40}, DType::f32, 7).to(DType::bf16).eval();
    const Tensor classes = (arange(4 * 38 * 38) % 8).reshape({4, 38, 38}).to(DType::i64).eval();
    const std::size_t live = memory_statistics().live;
    Tensor loss;
    {
      const Autocast autocast(DType::bf16);
      const Tensor y = batch_norm_training(conv2d(x, w), std::nullopt, std::nullopt, scale).output;
      const Tensor parts = relu(y).to(DType::bf16).reshape({4, 3, 8, 38, 38});
      loss = cross_entropy(parts.select(1, 0) * parts.select(1, 2) - parts.select(1, 1), classes);
    }
    loss.eval();
    run.peak = memory_statistics().live - live;
    run.gradients = gradients(loss, {w, scale});
    for (const Tensor& gradient : run.gradients) gradient.eval();
    graph::set_window_limits(before);
    return run;
  };
  const Measured eager = measured(1);
  for (const std::size_t nodes : {std::size_t{12}, std::size_t{1} << 20}) {
    const Measured run = measured(nodes);
    for (std::size_t i = 0; i < eager.gradients.size(); ++i) EXPECT_BITS_EQ(run.gradients[i], eager.gradients[i]);
    // Where a window ends, some are there as well.
    EXPECT_LE(run.peak, nodes == 12 ? eager.peak + eager.peak / 4 : eager.peak / 2);
  }
}

// Bytes that a value and its gradients keep once it is there.
std::size_t kept_by(const std::function<Tensor()>& make) {
  const std::size_t live = memory_statistics().live;
  const Tensor value = make().eval();
  return memory_statistics().live - live;
}

TEST(SavedValues, ReluKeepsItsResultAlone) {
  const Tensor x = random_tensor({512, 300}, DType::f32, 8).eval();
  const Tensor w = requires_grad(random_tensor({300, 512}, DType::f32, 9).eval());
  const std::size_t bytes = 512 * 512 * sizeof(float);
  EXPECT_LT(kept_by([&] { return relu(matmul(x, w)); }), bytes + bytes / 2);
}

// Few weights are kept where all of them are made at once; gradients that have a history compute them again.
TEST(SavedValues, AttentionKeepsFewWeightsAndGradientsAreTheSame) {
  for (const std::int64_t keys : {60, 100}) {
    const auto operand = [](std::int64_t positions, std::uint64_t seed) {
      return requires_grad(random_tensor({2, 3, positions, 16}, DType::f32, seed).eval());
    };
    const Tensor q = operand(keys, 10), k = operand(keys, 11), v = operand(keys, 12);
    const auto attention = [&] { return scaled_dot_product_attention(q, k, v, {.causal = true}); };
    const std::size_t weights = static_cast<std::size_t>(2 * 3 * keys * keys) * sizeof(float);
    const std::size_t result = static_cast<std::size_t>(2 * 3 * keys * 16) * sizeof(float);
    EXPECT_EQ(kept_by(attention) >= result + weights, keys == 60) << keys;
    const Tensor loss = sum(attention() * random_tensor({2, 3, keys, 16}, DType::f32, 13));
    const std::vector<Tensor> once = gradients(loss, {q, k, v}, {.retain_graph = true});
    const std::vector<Tensor> again = gradients(loss, {q, k, v}, {.create_graph = true});
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_BITS_EQ(once[i], again[i]);
  }
}

}  // namespace
}  // namespace lockstep::test
