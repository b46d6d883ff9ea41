// The gradient column of ops.def against central differences in f64.
#include "graph/gradients.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/make.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

Tensor run(Op op, const std::vector<Tensor>& inputs) {
  switch (inputs.size()) {
    case 1: return graph::elementwise(op, inputs[0]);
    case 2: return graph::elementwise(op, inputs[0], inputs[1]);
    default: return graph::elementwise(op, inputs[0], inputs[1], inputs[2]);
  }
}

void check_gradients(Op op) {
  SCOPED_TRACE(info_of(op).name);
  std::vector<Tensor> inputs;
  for (int i = 0; i < info_of(op).arity; ++i) {
    // Positive and away from 0, from ties and from whole numbers, where gradients jump.
    inputs.push_back(abs(random_tensor({50}, DType::f64, 40 + static_cast<std::uint64_t>(i))) * 0.9 + 0.0501 +
                     0.003 * i);
  }
  for (Tensor& input : inputs) {
    switch (info_of(op).domain) {
      case Domain::any:
      case Domain::positive: break;
      case Domain::inside: input = input / (input + 1); break;
      case Domain::beyond: input = input + 1; break;
    }
  }
  const Tensor g = random_tensor({50}, DType::f64, 9);
  const Tensor result = run(op, inputs);
  ASSERT_EQ(graph::gradient_count(op), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double step = 1e-6;
    std::vector<Tensor> up = inputs;
    std::vector<Tensor> down = inputs;
    up[i] = inputs[i] + step;
    down[i] = inputs[i] - step;
    const Tensor numeric = (run(op, up) - run(op, down)) / (2 * step) * g;
    // With only the operands that it says it reads.
    const unsigned reads = graph::gradient_reads(op, i);
    std::vector<Tensor> given(inputs.size());
    for (std::size_t j = 0; j < inputs.size(); ++j) given[j] = (reads >> j & 1u) != 0 ? inputs[j] : Tensor();
    const Tensor gradient =
        graph::elementwise_gradient(op, i, given, (reads & graph::kReadsResult) != 0 ? result : Tensor(), g);
    const Tensor error = abs(gradient - numeric) / (abs(numeric) + 1.0);
    EXPECT_LT(amax(error).item<double>(), 1e-6) << "operand " << i;
  }
}

TEST(Gradients, OfEveryFloatRowOfTheTable) {
  int checked = 0;
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    const OpInfo& info = info_of(op);
    if (info.kind != OpKind::arithmetic || (info.types & kTypeF64) == 0) continue;
    check_gradients(op);
    ++checked;
  }
  EXPECT_GE(checked, 54);
}

TEST(Gradients, TiesShareEqually) {
  const Tensor x = ones({2}, {.dtype = DType::f64});
  const std::vector<Tensor> both{x, x};
  for (const Op op : {Op::maximum, Op::minimum}) {
    for (const std::size_t operand : {0, 1}) {
      EXPECT_BITS_EQ(graph::elementwise_gradient(op, operand, both, x, x), full({2}, 0.5, {.dtype = DType::f64}));
    }
  }
}

TEST(Gradients, AtZero) {
  const Tensor zero = zeros({1}, {.dtype = DType::f64});
  const Tensor one = ones({1}, {.dtype = DType::f64});
  for (const Op op : {Op::relu, Op::abs}) {
    EXPECT_EQ(graph::elementwise_gradient(op, 0, {&zero, 1}, zero, one).item<double>(), 0.0);
  }
}

TEST(Gradients, ComparisonsHaveNone) {
  EXPECT_EQ(graph::gradient_count(Op::lt), 0u);
}

}  // namespace
}  // namespace lockstep
