// What is computed of small arrays on the host is what the operators give.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include <lockstep/lockstep.h>

#include "graph/window.h"
#include "io/onnx/execution.h"
#include "io/onnx/model.h"
#include "io/onnx/node_check.h"
#include "io/onnx/operators.h"

namespace lockstep::io::onnx {
namespace {

class HostRules : public ::testing::Test {
 protected:
  struct Case {
    std::string_view op;
    std::vector<HostArray> inputs;
    std::vector<Attribute> attributes;
  };

  static HostArray integers(std::vector<std::int64_t> elements) {
    const Shape shape = {static_cast<std::int64_t>(elements.size())};
    return {DType::i64, shape, std::move(elements), {}};
  }
  static HostArray number(std::int64_t value) { return {DType::i64, {}, {value}, {}}; }
  static Attribute list(std::string_view name, std::vector<std::int64_t> elements) {
    Attribute attribute;
    attribute.name = name;
    attribute.type = AttributeType::integers;
    attribute.integers = std::move(elements);
    return attribute;
  }
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator_);
  }
  Shape shape(int least_rank = 0) {
    Shape result;
    for (std::int64_t left = draw(least_rank, 3); left > 0; --left) result.push_back(draw(1, 4));
    return result;
  }
  HostArray array(const Shape& shape, DType dtype = DType::i64) {
    HostArray result{dtype, shape, {}, {}};
    for (std::int64_t left = shape.numel(); left > 0; --left) {
      if (is_float(dtype)) {
        result.numbers.push_back(static_cast<double>(draw(-9, 9)));
      } else {
        result.integers.push_back(dtype == DType::boolean ? draw(0, 1) : draw(-9, 9));
      }
    }
    return result;
  }

  // Whether the rule says something, which then is what the operator gives.
  static bool holds(const Case& c) {
    PlannedNode node;
    node.op = c.op;
    node.version = 17;
    node.row = find_operator("", c.op, node.version);
    for (const Attribute& attribute : c.attributes) node.attributes.push_back(&attribute);
    std::vector<Value> values;
    for (const HostArray& input : c.inputs) {
      node.inputs.push_back(static_cast<int>(values.size()));
      values.emplace_back(input);
    }
    const Call call(node, values, Device{});
    const std::uint64_t kernels = graph::window_statistics(Device{}).kernels;
    const auto answer = find_host_rule(c.op)(call);
    EXPECT_EQ(graph::window_statistics(Device{}).kernels, kernels);
    if (!answer) return false;
    EXPECT_EQ(difference_of(0, answer->at(0), Value(node.row->run(call).at(0))), "") << c.op;
    return true;
  }

  std::mt19937 generator_{7};  // NOLINT: the same numbers each time
};

TEST_F(HostRules, ReshapeIsTheOperators) {
  for (int i = 0; i < 200; ++i) {
    const Shape from = shape(1);
    const DType dtype = i % 2 == 0 ? DType::i64 : DType::f32;
    EXPECT_TRUE(holds({"Reshape", {array(from, dtype), integers({-1})}, {}}));
    EXPECT_TRUE(holds({"Reshape", {array(from, dtype), integers({0, -1, 1})}, {}}));
    EXPECT_TRUE(holds({"Reshape", {array(from, dtype), integers({1, from.numel()})}, {}}));
  }
  EXPECT_TRUE(holds({"Reshape", {array({1}), integers({})}, {}}));
}

TEST_F(HostRules, TransposeIsTheOperators) {
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(holds({"Transpose", {array(shape())}, {}}));
  EXPECT_TRUE(holds({"Transpose", {array({2, 3, 4})}, {list("perm", {2, 0, 1})}}));
  EXPECT_TRUE(holds({"Transpose", {array({2, 3}, DType::f32)}, {list("perm", {-1, 0})}}));
}

TEST_F(HostRules, SliceIsTheOperators) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  int known = 0;
  for (int i = 0; i < 500; ++i) {
    const Shape from = shape(1);
    const std::int64_t step = draw(0, 1) == 0 ? draw(1, 3) : draw(-3, -1);
    const std::int64_t axis = draw(-from.rank(), from.rank() - 1);
    known += holds({"Slice",
                    {array(from), integers({draw(-6, 6)}), integers({draw(-6, 6)}), integers({axis}), integers({step})},
                    {}});
  }
  EXPECT_GT(known, 150);
  for (const std::int64_t step : {-1L, -2L, -kMost, -kMost - 1}) {
    EXPECT_TRUE(
        holds({"Slice", {array({4, 2}), integers({-1}), integers({-kMost}), integers({0}), integers({step})}, {}}));
  }
  EXPECT_TRUE(holds({"Slice", {array({4, 2}), integers({0, 1}), integers({kMost, kMost})}, {}}));
  EXPECT_TRUE(holds({"Slice", {array({4}), integers({1}), integers({4}), integers({0}), integers({kMost})}, {}}));
}

TEST_F(HostRules, ExpandAndWhereAreTheOperators) {
  int expanded = 0, chosen = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t left = draw(0, 3); left > 0; --left) sizes.push_back(draw(1, 2) == 1 ? 1 : 3);
    Shape from;
    for (std::int64_t left = draw(0, 3); left > 0; --left) from.push_back(draw(1, 2) == 1 ? 1 : 3);
    const Shape to{std::span<const std::int64_t>(sizes)};
    const DType dtype = i % 2 == 0 ? DType::i32 : DType::f64;
    expanded += holds({"Expand", {array(from, dtype), integers(sizes)}, {}});
    chosen += holds({"Where", {array(from, DType::boolean), array(to), array(from)}, {}});
  }
  EXPECT_EQ(expanded, 500);
  EXPECT_EQ(chosen, 500);
}

TEST_F(HostRules, RangeAndNegAreTheOperators) {
  int known = 0;
  for (int i = 0; i < 300; ++i) {
    const std::int64_t step = draw(0, 1) == 0 ? draw(1, 4) : draw(-4, -1);
    known += holds({"Range", {number(draw(-9, 9)), number(draw(-9, 9)), number(step)}, {}});
  }
  EXPECT_EQ(known, 300);
  EXPECT_TRUE(holds({"Neg", {array({2, 3})}, {}}));
}

TEST_F(HostRules, SayNothingOfWhatTheyDoNotKnow) {
  EXPECT_FALSE(holds({"Reshape", {array({4}), integers({3})}, {}}));
  EXPECT_FALSE(holds({"Reshape", {array({4}), integers({-1, -1})}, {}}));
  EXPECT_FALSE(holds({"Reshape", {array({0}), integers({0})}, {}}));
  EXPECT_FALSE(holds({"Transpose", {array({2, 3})}, {list("perm", {0, 0})}}));
  EXPECT_FALSE(holds({"Slice", {array({4}), integers({3}), integers({1})}, {}}));
  EXPECT_FALSE(holds({"Expand", {array({2}), integers({3})}, {}}));
  EXPECT_FALSE(holds({"Expand", {array({1}), integers({4096})}, {}}));
  EXPECT_FALSE(holds({"Where", {array({2}, DType::boolean), array({3}), array({3})}, {}}));
  EXPECT_FALSE(holds({"Where", {array({2}, DType::boolean), array({2})}, {}}));
  EXPECT_FALSE(holds({"Range", {number(0), number(1), number(0)}, {}}));
  EXPECT_FALSE(holds({"Range", {number(0), number(2000), number(1)}, {}}));
  EXPECT_FALSE(holds({"Neg", {number(std::numeric_limits<std::int64_t>::min())}, {}}));
}

}  // namespace
}  // namespace lockstep::io::onnx
