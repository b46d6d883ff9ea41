// Constants that are computed when a model is loaded.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "io/onnx/export/message_writer.h"
#include "io/onnx/loaded.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::io::onnx {
namespace {

MessageWriter matrix(const std::vector<float>& values) {
  MessageWriter tensor;
  tensor.integers(1, std::array<std::int64_t, 2>{2, 2});
  tensor.integer(2, 1);  // float
  for (const float value : values) tensor.number(4, value);
  return tensor;
}

MessageWriter node_of(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
  MessageWriter writer;
  for (const std::string& input : inputs) writer.text(1, input);
  writer.text(2, output);
  writer.text(4, op);
  return writer;
}

MessageWriter stated(const std::vector<float>& values, const std::string& name) {
  MessageWriter attribute;
  attribute.text(1, "value");
  attribute.message(5, matrix(values));
  attribute.integer(20, 4);  // a tensor
  MessageWriter writer = node_of("Constant", {}, name);
  writer.message(5, attribute);
  return writer;
}

MessageWriter named(const std::string& name) {
  MessageWriter writer;
  writer.text(1, name);
  return writer;
}

// y = x + a b, of which a b is computed at load.
std::string model_with_a_product_of_constants() {
  MessageWriter graph;
  graph.message(1, stated({1.001f, 2.003f, 3.007f, 4.011f}, "a"));
  graph.message(1, stated({0.501f, 0.703f, 0.907f, 1.103f}, "b"));
  graph.message(1, node_of("MatMul", {"a", "b"}, "ab"));
  graph.message(1, node_of("Add", {"x", "ab"}, "y"));
  graph.text(2, "graph");
  graph.message(11, named("x"));
  graph.message(12, named("y"));
  MessageWriter opset;
  opset.integer(2, 17);
  MessageWriter model;
  model.integer(1, 8);
  model.message(7, graph);
  model.message(8, opset);
  return model.bytes();
}

class FoldedConstants : public ::testing::Test {
 protected:
  FoldedConstants() { folder_.write("net.onnx", model_with_a_product_of_constants()); }

  std::unique_ptr<OnnxModel> load(bool fold) const { return load_onnx(folder_.path("net.onnx"), {.fold = fold}); }
  static Tensor answer(const OnnxModel& model, bool narrow) {
    std::optional<Autocast> scope;
    if (narrow) scope.emplace(DType::bf16);
    return model.forward(random_tensor({2, 2}, DType::f32, 1)).to(DType::f32).eval();
  }

  const test::TemporaryFolder folder_;
};

TEST_F(FoldedConstants, AreComputedAnewInScopesThatChangeArithmetic) {
  const auto model = load(true);
  const Tensor exact = answer(*model, false);
  const Tensor expected = answer(*load(false), true);
  EXPECT_BITS_EQ(answer(*model, true), expected);
  EXPECT_BITS_EQ(answer(*model, false), exact);
  EXPECT_BITS_EQ(exact, answer(*load(false), false));
  EXPECT_NE(exact.hash(), expected.hash());
}

TEST_F(FoldedConstants, AreNotThoseOfAScopeInWhichTheModelIsLoaded) {
  const auto model = [&] {
    const Autocast scope(DType::bf16);
    return load(true);
  }();
  EXPECT_BITS_EQ(answer(*model, false), answer(*load(false), false));
}

}  // namespace
}  // namespace lockstep::io::onnx
