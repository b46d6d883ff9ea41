// Shapes as values, and the rules by which what exporters compute of them stays on the host: a Reshape whose sizes were
// computed on a GPU would have to wait for it. A rule says nothing where it is not sure; then our ops compute the same.
#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "io/onnx/execution.h"
#include "io/onnx/operators.h"
#include "io/onnx/ops/host_views.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

using HostValues = std::optional<std::vector<Value>>;

std::vector<Value> shape_of_input(const Call& call) {
  const Shape& shape = call.shape(0);
  const std::int64_t rank = shape.rank();
  const auto within = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t first = within(call.integer("start", 0));
  const std::int64_t last = std::max(first, within(call.integer("end", rank)));
  HostArray result{DType::i64, {last - first}, {}, {}};
  for (std::int64_t d = first; d < last; ++d) result.integers.push_back(shape[static_cast<int>(d)]);
  return {std::move(result)};
}

std::vector<Value> size_of_input(const Call& call) {
  return {HostArray{DType::i64, {}, {call.shape(0).numel()}, {}}};
}

bool holds(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::i64: return true;
    case DType::i32:
      return value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
    case DType::boolean: return value == 0 || value == 1;
    default: return false;  // rare in shapes: our ops know how they wrap
  }
}

// Of two arrays of one shape, or with one element on a side.
template <typename Compute> HostValues elementwise_rule(const Call& call, DType result_type, const Compute& compute) {
  const HostArray& a = *call.value(0).host();
  const HostArray& b = *call.value(1).host();
  if (a.dtype != b.dtype || (a.dtype != DType::i64 && a.dtype != DType::i32)) return std::nullopt;
  const bool same = a.shape == b.shape;
  if (!same && !(b.size() == 1 && b.shape.rank() <= a.shape.rank()) &&
      !(a.size() == 1 && a.shape.rank() <= b.shape.rank())) {
    return std::nullopt;
  }
  const bool by_a = same || b.size() == 1;
  HostArray result{result_type, by_a ? a.shape : b.shape, {}, {}};
  const std::size_t count = by_a ? a.size() : b.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t value = 0;
    const std::int64_t left = a.integers[same || by_a ? i : 0];
    const std::int64_t right = b.integers[same || !by_a ? i : 0];
    if (!compute(left, right, value) || !holds(result_type, value)) return std::nullopt;
    result.integers.push_back(value);
  }
  return std::vector<Value>{std::move(result)};
}

HostValues add_rule(const Call& call) {
  return elementwise_rule(call, call.value(0).dtype(), [](std::int64_t a, std::int64_t b, std::int64_t& r) {
    return !__builtin_add_overflow(a, b, &r);
  });
}
HostValues sub_rule(const Call& call) {
  return elementwise_rule(call, call.value(0).dtype(), [](std::int64_t a, std::int64_t b, std::int64_t& r) {
    return !__builtin_sub_overflow(a, b, &r);
  });
}
HostValues mul_rule(const Call& call) {
  return elementwise_rule(call, call.value(0).dtype(), [](std::int64_t a, std::int64_t b, std::int64_t& r) {
    return !__builtin_mul_overflow(a, b, &r);
  });
}
// Integers are divided towards 0.
HostValues div_rule(const Call& call) {
  return elementwise_rule(call, call.value(0).dtype(), [](std::int64_t a, std::int64_t b, std::int64_t& r) {
    if (b == 0 || b == -1) return false;
    r = a / b;
    return true;
  });
}
HostValues equal_rule(const Call& call) {
  return elementwise_rule(call, DType::boolean,
                          [](std::int64_t a, std::int64_t b, std::int64_t& r) { return r = a == b, true; });
}
HostValues less_rule(const Call& call) {
  return elementwise_rule(call, DType::boolean,
                          [](std::int64_t a, std::int64_t b, std::int64_t& r) { return r = a < b, true; });
}
HostValues greater_rule(const Call& call) {
  return elementwise_rule(call, DType::boolean,
                          [](std::int64_t a, std::int64_t b, std::int64_t& r) { return r = a > b, true; });
}

// Along the only dimension.
HostValues gather_rule(const Call& call) {
  const HostArray& data = *call.value(0).host();
  const HostArray& indices = *call.value(1).host();
  const std::int64_t axis = call.integer("axis", 0);
  if (data.shape.rank() != 1 || (axis != 0 && axis != -1) || !data.numbers.empty()) return std::nullopt;
  HostArray result{data.dtype, indices.shape, {}, {}};
  const auto size = static_cast<std::int64_t>(data.size());
  for (const std::int64_t index : indices.integers) {
    if (index < -size || index >= size) return std::nullopt;
    result.integers.push_back(data.integers[static_cast<std::size_t>(index < 0 ? index + size : index)]);
  }
  return std::vector<Value>{std::move(result)};
}

HostValues concat_rule(const Call& call) {
  HostArray result{call.value(0).dtype(), {0}, {}, {}};
  if (is_float(result.dtype)) return std::nullopt;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    if (call.value(i).absent()) return std::nullopt;
    const HostArray& part = *call.value(i).host();
    if (part.shape.rank() != 1 || part.dtype != result.dtype) return std::nullopt;
    result.integers.insert(result.integers.end(), part.integers.begin(), part.integers.end());
  }
  if (result.integers.size() > static_cast<std::size_t>(kMaxHostElements)) return std::nullopt;
  result.shape = {static_cast<std::int64_t>(result.integers.size())};
  return std::vector<Value>{std::move(result)};
}

// A single number gets a dimension, or loses its dimensions.
HostValues unsqueeze_rule(const Call& call) {
  HostArray result = *call.value(0).host();
  if (result.shape.rank() != 0) return std::nullopt;
  const std::vector<std::int64_t> axes = call.inputs() > 1 ? call.host_integers(1) : call.integers("axes");
  if (axes.size() != 1 || (axes[0] != 0 && axes[0] != -1)) return std::nullopt;
  result.shape = {1};
  return std::vector<Value>{std::move(result)};
}
HostValues squeeze_rule(const Call& call) {
  HostArray result = *call.value(0).host();
  if (result.shape.rank() != 1 || result.size() != 1) return std::nullopt;
  const std::vector<std::int64_t> axes = call.inputs() > 1 ? call.host_integers(1) : call.integers("axes");
  if (axes.size() > 1 || (axes.size() == 1 && axes[0] != 0 && axes[0] != -1)) return std::nullopt;
  result.shape = {};
  return std::vector<Value>{std::move(result)};
}

HostValues cast_rule(const Call& call) {
  HostArray result = *call.value(0).host();
  if (call.element_type("to", {}).dtype != DType::i64 || (result.dtype != DType::i64 && result.dtype != DType::i32))
    return std::nullopt;
  result.dtype = DType::i64;
  return std::vector<Value>{std::move(result)};
}

HostValues neg_rule(const Call& call) {
  HostArray result = *call.value(0).host();
  if (result.dtype != DType::i64 && result.dtype != DType::i32) return std::nullopt;
  for (std::int64_t& value : result.integers) {
    if (__builtin_sub_overflow(std::int64_t{0}, value, &value) || !holds(result.dtype, value)) return std::nullopt;
  }
  return std::vector<Value>{std::move(result)};
}

HostValues range_rule(const Call& call) {
  std::array<std::int64_t, 3> numbers{};  // start, limit and step
  if (call.inputs() != numbers.size()) return std::nullopt;
  const DType dtype = call.dtype_of_input(0);
  if (dtype != DType::i64 && dtype != DType::i32) return std::nullopt;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const HostArray* const array = call.value(i).host();
    if (array == nullptr || array->dtype != dtype || array->integers.size() != 1) return std::nullopt;
    numbers[i] = array->integers[0];
    if (!holds(DType::i32, numbers[i])) return std::nullopt;
  }
  const auto [start, limit, step] = numbers;
  if (step == 0) return std::nullopt;
  HostArray result{dtype, {}, {}, {}};
  for (std::int64_t value = start; step > 0 ? value < limit : value > limit; value += step) {
    if (result.integers.size() == static_cast<std::size_t>(kMaxHostElements)) return std::nullopt;
    result.integers.push_back(value);
  }
  result.shape = {static_cast<std::int64_t>(result.integers.size())};
  return std::vector<Value>{std::move(result)};
}

const std::map<std::string_view, HostRule>& host_rules() {
  static const std::map<std::string_view, HostRule> rules = {
      {"Add", add_rule},         {"Sub", sub_rule},
      {"Mul", mul_rule},         {"Div", div_rule},
      {"Equal", equal_rule},     {"Less", less_rule},
      {"Greater", greater_rule}, {"Gather", gather_rule},
      {"Concat", concat_rule},   {"Unsqueeze", unsqueeze_rule},
      {"Squeeze", squeeze_rule}, {"Cast", cast_rule},
      {"Neg", neg_rule},         {"Range", range_rule},
      {"Reshape", reshape_rule}, {"Transpose", transpose_rule},
      {"Slice", slice_rule},     {"Expand", expand_rule},
      {"Where", where_rule},
  };
  return rules;
}

constexpr std::array<std::string_view, 54> kShapeOperators = {"Abs",       "Add",         "And",
                                                              "ArgMax",    "ArgMin",      "Cast",
                                                              "CastLike",  "Ceil",        "Clip",
                                                              "Concat",    "CumSum",      "Div",
                                                              "Equal",     "Expand",      "Flatten",
                                                              "Floor",     "Gather",      "GatherElements",
                                                              "GatherND",  "Greater",     "GreaterOrEqual",
                                                              "Less",      "LessOrEqual", "Max",
                                                              "Min",       "Mod",         "Mul",
                                                              "Neg",       "NonZero",     "Not",
                                                              "OneHot",    "Or",          "Pad",
                                                              "Pow",       "Range",       "ReduceMax",
                                                              "ReduceMin", "ReduceProd",  "ReduceSum",
                                                              "Reshape",   "Round",       "ScatterElements",
                                                              "ScatterND", "Sign",        "Slice",
                                                              "Split",     "Sqrt",        "Squeeze",
                                                              "Sub",       "Tile",        "Transpose",
                                                              "Unsqueeze", "Where",       "Xor"};

constexpr Operator kShapeArithmeticOperators[] = {
    {.name = "Shape", .run_values = shape_of_input, .narrow = NarrowInputs::taken},
    {.name = "Size", .run_values = size_of_input, .narrow = NarrowInputs::taken},
};

}  // namespace

HostRule find_host_rule(std::string_view name) {
  const auto rule = host_rules().find(name);
  return rule == host_rules().end() ? nullptr : rule->second;
}

bool computes_shapes(std::string_view name) {
  return std::binary_search(kShapeOperators.begin(), kShapeOperators.end(), name);
}

std::span<const Operator> shape_arithmetic_operators() {
  return kShapeArithmeticOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
