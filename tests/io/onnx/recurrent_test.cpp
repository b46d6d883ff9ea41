// GRU and LSTM that read their sequence from the end.
#include <gtest/gtest.h>

#include <string>

#include <lockstep/io/onnx.h>
#include <lockstep/ops.h>

#include "io/onnx/one_node.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::io::onnx {
namespace {

void expect_reverse_is_forward_of_the_other_order(const std::string& op, std::int64_t gates) {
  constexpr std::int64_t kHidden = 6;
  const auto numbers = [](const Shape& shape, std::uint64_t seed) { return random_tensor(shape, DType::f32, seed); };
  TensorMap values = {{"x", numbers({5, 2, 3}, 1)},
                      {"w", numbers({1, gates * kHidden, 3}, 2)},
                      {"r", numbers({1, gates * kHidden, kHidden}, 3)},
                      {"b", numbers({1, 2 * gates * kHidden}, 4)},
                      {"h", numbers({1, 2, kHidden}, 5)}};
  const test::TemporaryFolder folder;
  const auto run = [&](const std::string& direction) {
    test::OneNode node{.op = op,
                       .operands = {"x", "w", "r", "b", "", "h"},
                       .results = {"y", "y_h"},
                       .attributes = {{"direction", direction}, {"hidden_size", kHidden}}};
    if (op == "GRU") node.attributes.emplace_back("linear_before_reset", std::int64_t{1});
    folder.write("model.onnx", test::model_of(node, values));
    return load_onnx(folder.path("model.onnx"))->run(values);
  };
  const TensorMap reverse = run("reverse");
  values["x"] = values["x"].flip({0}).contiguous();
  const TensorMap forward = run("forward");
  EXPECT_BITS_EQ(reverse.at("y"), forward.at("y").flip({0}));
  EXPECT_BITS_EQ(reverse.at("y_h"), forward.at("y_h"));
}

TEST(OnnxRecurrent, ReverseIsForwardOfTheOtherOrder) {
  expect_reverse_is_forward_of_the_other_order("LSTM", 4);
  expect_reverse_is_forward_of_the_other_order("GRU", 3);
}

}  // namespace
}  // namespace lockstep::io::onnx
