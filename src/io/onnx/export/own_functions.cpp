#include "io/onnx/export/own_functions.h"

#include <charconv>
#include <map>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

/// output = op(inputs); an input that is a number stands for one of the dtype of the function's first input.
struct Step {
  std::string output;
  std::string op;
  std::vector<std::string> inputs;
};

struct OwnRow {
  std::string_view name;
  std::vector<std::string> inputs;
  std::vector<Step> steps;
};

const std::map<Op, OwnRow>& rows() {
  static const std::map<Op, OwnRow> table = {
      {Op::rsqrt, {"Rsqrt", {"x"}, {{"r", "Sqrt", {"x"}}, {"y", "Reciprocal", {"r"}}}}},
      {Op::exp2, {"Exp2", {"x"}, {{"y", "Pow", {"2", "x"}}}}},
      {Op::expm1, {"Expm1", {"x"}, {{"e", "Exp", {"x"}}, {"y", "Sub", {"e", "1"}}}}},
      {Op::log1p, {"Log1p", {"x"}, {{"s", "Add", {"x", "1"}}, {"y", "Log", {"s"}}}}},
      {Op::log2, {"Log2", {"x"}, {{"l", "Log", {"x"}}, {"y", "Div", {"l", "0.6931471805599453"}}}}},
      {Op::log10, {"Log10", {"x"}, {{"l", "Log", {"x"}}, {"y", "Div", {"l", "2.302585092994046"}}}}},
      {Op::erfc, {"Erfc", {"x"}, {{"e", "Erf", {"x"}}, {"y", "Sub", {"1", "e"}}}}},
      {Op::trunc,
       {"Trunc", {"x"}, {{"a", "Abs", {"x"}}, {"f", "Floor", {"a"}}, {"s", "Sign", {"x"}}, {"y", "Mul", {"s", "f"}}}}},
      {Op::frac,
       {"Frac",
        {"x"},
        {{"a", "Abs", {"x"}},
         {"f", "Floor", {"a"}},
         {"s", "Sign", {"x"}},
         {"t", "Mul", {"s", "f"}},
         {"y", "Sub", {"x", "t"}}}}},
      {Op::hypot,
       {"Hypot",
        {"a", "b"},
        {{"p", "Mul", {"a", "a"}}, {"q", "Mul", {"b", "b"}}, {"s", "Add", {"p", "q"}}, {"y", "Sqrt", {"s"}}}}},
      {Op::logaddexp,
       {"LogAddExp",
        {"a", "b"},
        {{"d", "Sub", {"a", "b"}},
         {"m", "Abs", {"d"}},
         {"n", "Neg", {"m"}},
         {"e", "Exp", {"n"}},
         {"s", "Add", {"e", "1"}},
         {"l", "Log", {"s"}},
         {"h", "Max", {"a", "b"}},
         {"y", "Add", {"h", "l"}}}}},
      {Op::xlogy,
       {"XLogY",
        {"a", "b"},
        {{"l", "Log", {"b"}}, {"p", "Mul", {"a", "l"}}, {"z", "Equal", {"a", "0"}}, {"y", "Where", {"z", "0", "p"}}}}},
      {Op::copysign,
       {"CopySign",
        {"a", "b"},
        {{"m", "Abs", {"a"}}, {"n", "Neg", {"m"}}, {"s", "Less", {"b", "0"}}, {"y", "Where", {"s", "n", "m"}}}}},
      {Op::atan2,
       {"Atan2",
        {"a", "b"},
        {{"q", "Div", {"a", "b"}},
         {"t", "Atan", {"q"}},
         {"up", "Add", {"t", "3.141592653589793"}},
         {"down", "Sub", {"t", "3.141592653589793"}},
         {"under", "Less", {"a", "0"}},
         {"behind", "Less", {"b", "0"}},
         {"turned", "Where", {"under", "down", "up"}},
         {"y", "Where", {"behind", "turned", "t"}}}}},
      {Op::floor_divide, {"FloorDivide", {"a", "b"}, {{"q", "Div", {"a", "b"}}, {"y", "Floor", {"q"}}}}},
      {Op::remainder,
       {"Remainder",
        {"a", "b"},
        {{"q", "Div", {"a", "b"}}, {"f", "Floor", {"q"}}, {"p", "Mul", {"f", "b"}}, {"y", "Sub", {"a", "p"}}}}},
  };
  return table;
}

bool is_number(const std::string& text) {
  return text.front() >= '0' && text.front() <= '9';
}

// Numbers become nodes in front of the step that reads them.
std::vector<ExportedNode> body_of(const OwnRow& row) {
  std::vector<ExportedNode> body;
  for (const Step& step : row.steps) {
    ExportedNode node{.op = step.op, .outputs = {step.output}};
    for (const std::string& input : step.inputs) {
      if (!is_number(input)) {
        node.inputs.push_back(input);
        continue;
      }
      double number = 0;
      const auto read = std::from_chars(input.data(), input.data() + input.size(), number);
      LOCKSTEP_ASSERT(read.ec == std::errc());
      const std::string name = step.output + "_" + std::to_string(node.inputs.size());
      body.push_back({.op = "Constant",
                      .outputs = {name + "_number"},
                      .attributes = {{"value_float", static_cast<float>(number)}}});
      body.push_back({.op = "CastLike", .inputs = {name + "_number", row.inputs.front()}, .outputs = {name}});
      node.inputs.push_back(name);
    }
    body.push_back(std::move(node));
  }
  return body;
}

}  // namespace

std::string_view own_name(Op op) {
  const auto row = rows().find(op);
  return row == rows().end() ? std::string_view() : row->second.name;
}

OwnFunction own_function(std::string_view name) {
  if (name == "SumOfProducts") {
    return {
        .name = std::string(name),
        .inputs = {"a", "b"},
        .attributes = {"axes"},
        .body = {{.op = "Mul", .inputs = {"a", "b"}, .outputs = {"products"}},
                 {.op = "Constant", .outputs = {"dims"}, .attributes = {{"value_ints", AttributeReference{"axes"}}}},
                 {.op = "ReduceSum", .inputs = {"products", "dims"}, .outputs = {"y"}}}};
  }
  for (const auto& [op, row] : rows()) {
    if (row.name == name)
      return {.name = std::string(name), .inputs = row.inputs, .attributes = {}, .body = body_of(row)};
  }
  LOCKSTEP_ASSERT(false);
  return {};
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
