// Operators whose result is stated in the node itself, or is their input.
#include <lockstep/ops/creation.h>

#include "io/onnx/model.h"
#include "io/onnx/operators.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

std::vector<Value> identity(const Call& call) {
  return {call.value(0)};
}

// Known on the host if it is small: shapes and axes are given this way.
Value settled_constant(const Value& on_host, Device device) {
  const Value value = settled(on_host);
  value.tensor(device);
  return value;
}

std::vector<Value> constant(const Call& call) {
  const auto list = [](std::size_t size) { return Shape{static_cast<std::int64_t>(size)}; };
  if (call.has_attribute("value")) {
    return {settled_constant(call.tensor("value"), call.device())};
  }
  if (call.has_attribute("value_int")) return {HostArray{DType::i64, {}, {call.integer("value_int")}, {}}};
  if (call.has_attribute("value_ints")) {
    const std::vector<std::int64_t> values = call.required_integers("value_ints");
    return {settled_constant(Tensor::from(values, list(values.size()), Device{}), call.device())};
  }
  if (call.has_attribute("value_float")) {
    return {
        settled_constant(Tensor::from(std::vector<float>{call.number("value_float", 0)}, {}, Device{}), call.device())};
  }
  if (call.has_attribute("value_floats")) {
    const std::vector<float> values = call.numbers("value_floats");
    return {settled_constant(Tensor::from(values, list(values.size()), Device{}), call.device())};
  }
  call.unsupported("a constant without a value");
}

std::string check_constant(const NodeFacts& node) {
  for (const std::string_view name : {"value_string", "value_strings"}) {
    if (node.has_attribute(name)) return "a constant of type string";
  }
  if (node.has_attribute("sparse_value")) return "a sparse constant";
  const Attribute* value = node.attribute("value");
  if (value != nullptr && value->tensor != nullptr && !element_type_of(value->tensor->type)) {
    return "a constant of type " + name_of_type(value->tensor->type);
  }
  return "";
}

// One element, everywhere in a tensor of the shape that the input states.
std::vector<Value> constant_of_shape(const Call& call) {
  const Shape shape{std::span<const std::int64_t>(call.host_integers(0))};
  for (const std::int64_t size : shape) call.require(size >= 0, "a size is negative");
  if (!call.has_attribute("value")) {
    if (fits_host(DType::f32, shape) && shape.numel() == 0) return {HostArray{DType::f32, shape, {}, {}}};
    return {zeros(shape, {.dtype = DType::f32, .device = call.device()})};
  }
  const Value value = call.tensor("value");
  const Tensor& element = value.tensor();
  call.require(element.numel() == 1, "the attribute value must have one element");
  if (value.narrow() == Narrow::none && fits_host(element.dtype(), shape)) {
    HostArray array = read_to_host(element);
    const auto count = static_cast<std::size_t>(shape.numel());
    array.shape = shape;
    if (!array.integers.empty()) array.integers.assign(count, array.integers.front());
    if (!array.numbers.empty()) array.numbers.assign(count, array.numbers.front());
    return {std::move(array)};
  }
  return {Value(element.to(call.device()).reshape({}).expand(shape), value.narrow())};
}

std::string check_constant_of_shape(const NodeFacts& node) {
  const Attribute* value = node.attribute("value");
  if (value != nullptr && value->tensor != nullptr && !element_type_of(value->tensor->type)) {
    return "a constant of type " + name_of_type(value->tensor->type);
  }
  return "";
}

Narrow type_of_first(const NodeFacts&, std::span<const Narrow> inputs) {
  return inputs.empty() ? Narrow::none : inputs[0];
}
Narrow type_of_value(const NodeFacts& node, std::span<const Narrow>) {
  const Attribute* value = node.attribute("value");
  const auto type = value != nullptr && value->tensor != nullptr ? element_type_of(value->tensor->type) : std::nullopt;
  return type ? type->narrow : Narrow::none;
}

constexpr Operator kConstantOperators[] = {
    {.name = "Identity", .run_values = identity, .narrow = NarrowInputs::taken, .narrow_output = type_of_first},
    {.name = "Constant", .run_values = constant, .check = check_constant, .narrow_output = type_of_value},
    {.name = "ConstantOfShape",
     .since = 9,
     .run_values = constant_of_shape,
     .check = check_constant_of_shape,
     .narrow_output = type_of_value},
};

}  // namespace

std::span<const Operator> constant_operators() {
  return kConstantOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
