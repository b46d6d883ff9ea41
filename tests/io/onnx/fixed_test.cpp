#include "io/onnx/fixed.h"

#include <gtest/gtest.h>

#include <optional>

#include <lockstep/lockstep.h>

#include "io/onnx/fixed_values.h"
#include "io/onnx/loaded.h"
#include "io/raw_tensor.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::io::onnx {
namespace {

// Products with a weight and with what a model makes of it.
struct Exponential : nn::Layer {
  nn::Linear fc{*this, "fc", 4, 4};
  Exponential() { eval(); }
  Tensor forward(const Operand& x) const override {
    const Tensor& weight = fc.weight.tensor();
    return matmul(matmul(x, weight), exp(weight).transpose(0, 1));
  }
};

// A weight times itself, which Autocast rounds.
struct Squared : nn::Layer {
  nn::Linear fc{*this, "fc", 4, 4};
  Squared() { eval(); }
  Tensor forward(const Operand& x) const override {
    const Tensor& weight = fc.weight.tensor();
    return x + matmul(weight, weight).narrow(0, 0, 2);
  }
};

std::string exported(const test::TemporaryFolder& folder) {
  const Exponential layer;
  save_onnx(folder.path("net.onnx"), layer, {random_tensor({2, 4}, DType::f32, 1)});
  return folder.path("net.onnx");
}

TEST(FixedValues, AreThoseOfTheSameTensorsNotOfEqualOnes) {
  FixedValues values;
  const std::vector<Value> sources = {random_tensor({2}, DType::f32, 1)};
  const std::vector<Value> equal = {random_tensor({2}, DType::f32, 1)};
  EXPECT_EQ(values.find(sources), nullptr);
  const auto kept = std::make_shared<const std::vector<Value>>();
  values.keep(sources, kept);
  EXPECT_EQ(values.find(sources), kept);
  EXPECT_EQ(values.find(equal), nullptr);
}

TEST(FixedNodes, AreThoseThatReadWeightsAlone) {
  const test::TemporaryFolder folder;
  const auto program = open_program(open_file(exported(folder), {}), true);
  find_fixed_nodes(*program);
  std::vector<std::string_view> fixed, others;
  for (const PlannedNode& node : program->main.nodes) (node.fixed ? fixed : others).push_back(node.op);
  EXPECT_EQ(fixed, (std::vector<std::string_view>{"Exp", "Transpose"}));
  EXPECT_EQ(others, (std::vector<std::string_view>{"MatMul", "MatMul", "Identity"}));
  EXPECT_EQ(program->main.fixed_sources.size(), 1U);
  EXPECT_EQ(program->main.fixed_results.size(), 1U);
}

TEST(FixedNodes, FollowTheirWeightsAndLetGradientsThrough) {
  const test::TemporaryFolder folder;
  const auto model = load_onnx(exported(folder));
  const Tensor x = random_tensor({2, 4}, DType::f32, 2);
  const auto kept = [&] {
    const NoGrad no_grad;
    return model->forward(x);
  };
  const Tensor before = kept();
  EXPECT_BITS_EQ(kept(), before);
  EXPECT_BITS_EQ(model->forward(x), before);
  optim::SGD optimizer(model->parameters(), {.lr = 0.1});
  sum(model->forward(x)).backward();
  optimizer.step();
  const Tensor after = model->forward(x);
  EXPECT_BITS_EQ(kept(), after);
  EXPECT_NE(after.hash(), before.hash());
}

// What was kept outside of a scope is not what its arithmetic gives.
TEST(FixedNodes, AreComputedAnewInScopesThatChangeArithmetic) {
  const test::TemporaryFolder folder;
  const Squared layer;
  const Tensor x = random_tensor({2, 4}, DType::f32, 2);
  save_onnx(folder.path("net.onnx"), layer, {x});
  const auto answer = [&](OnnxModel& model, bool narrow) {
    const NoGrad no_grad;
    std::optional<Autocast> scope;
    if (narrow) scope.emplace(DType::bf16);
    return model.forward(x).eval();
  };
  const Tensor expected = answer(*load_onnx(folder.path("net.onnx"), {.fold = false}), true);
  const auto model = load_onnx(folder.path("net.onnx"), {.fold = false});
  const Tensor exact = answer(*model, false);
  EXPECT_BITS_EQ(answer(*model, true), expected);
  EXPECT_BITS_EQ(answer(*model, false), exact);
  EXPECT_NE(exact.hash(), expected.to(exact.dtype()).hash());
}

}  // namespace
}  // namespace lockstep::io::onnx
