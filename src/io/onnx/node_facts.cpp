#include "io/onnx/operator.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/onnx/plan.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

const Attribute& typed(const NodeFacts& node, const Attribute& attribute, AttributeType type) {
  if (attribute.type != type) {
    throw FormatError(fmt::format("{}: attribute {} is of a wrong type", node.title(), in_quotes(attribute.name)));
  }
  return attribute;
}

const Attribute& required(const NodeFacts& node, std::string_view name, AttributeType type) {
  const Attribute* attribute = node.attribute(name);
  if (attribute == nullptr) throw FormatError(fmt::format("{} lacks the attribute {}", node.title(), name));
  return typed(node, *attribute, type);
}

[[noreturn]] void refuse_type(const NodeFacts& node, std::string_view attribute) {
  throw UnsupportedError(fmt::format("{}: {}={}, which tensors do not have", node.title(), attribute,
                                     name_of_type(node.integer(attribute))));
}

}  // namespace

std::string_view NodeFacts::domain() const {
  return node_->domain;
}
std::string_view NodeFacts::op() const {
  return node_->op;
}
std::string NodeFacts::title() const {
  return fmt::format("{} {}", node_->op, in_quotes(node_->name));
}
int NodeFacts::version() const {
  return node_->version;
}

const Attribute* NodeFacts::attribute(std::string_view name) const {
  const auto found = std::find_if(node_->attributes.begin(), node_->attributes.end(),
                                  [&](const Attribute* attribute) { return attribute->name == name; });
  return found == node_->attributes.end() ? nullptr : *found;
}
bool NodeFacts::has_attribute(std::string_view name) const {
  return attribute(name) != nullptr;
}
std::int64_t NodeFacts::integer(std::string_view name, std::int64_t fallback) const {
  const Attribute* found = attribute(name);
  return found == nullptr ? fallback : typed(*this, *found, AttributeType::integer).integer;
}
float NodeFacts::number(std::string_view name, float fallback) const {
  const Attribute* found = attribute(name);
  return found == nullptr ? fallback : typed(*this, *found, AttributeType::number).number;
}
std::string_view NodeFacts::text(std::string_view name, std::string_view fallback) const {
  const Attribute* found = attribute(name);
  return found == nullptr ? fallback : typed(*this, *found, AttributeType::text).text;
}
std::vector<std::int64_t> NodeFacts::integers(std::string_view name, std::vector<std::int64_t> fallback) const {
  const Attribute* found = attribute(name);
  return found == nullptr ? std::move(fallback) : typed(*this, *found, AttributeType::integers).integers;
}
std::vector<float> NodeFacts::numbers(std::string_view name, std::vector<float> fallback) const {
  const Attribute* found = attribute(name);
  return found == nullptr ? std::move(fallback) : typed(*this, *found, AttributeType::numbers).numbers;
}
std::vector<std::string> NodeFacts::texts(std::string_view name, std::vector<std::string> fallback) const {
  const Attribute* found = attribute(name);
  if (found == nullptr) return fallback;
  const auto& texts = typed(*this, *found, AttributeType::texts).texts;
  return {texts.begin(), texts.end()};
}
std::int64_t NodeFacts::integer(std::string_view name) const {
  return required(*this, name, AttributeType::integer).integer;
}
std::string_view NodeFacts::text(std::string_view name) const {
  return required(*this, name, AttributeType::text).text;
}
std::vector<std::int64_t> NodeFacts::required_integers(std::string_view name) const {
  return required(*this, name, AttributeType::integers).integers;
}
DType NodeFacts::dtype(std::string_view name, DType fallback) const {
  const ElementType type = element_type(name, {fallback, Narrow::none});
  if (type.narrow != Narrow::none) refuse_type(*this, name);
  return type.dtype;
}
ElementType NodeFacts::element_type(std::string_view name, ElementType fallback) const {
  const Attribute* found = attribute(name);
  if (found == nullptr) return fallback;
  const std::optional<ElementType> type = element_type_of(typed(*this, *found, AttributeType::integer).integer);
  if (!type) refuse_type(*this, name);
  return *type;
}

std::size_t NodeFacts::inputs() const {
  return node_->inputs.size();
}
std::size_t NodeFacts::outputs() const {
  return node_->outputs.size();
}
bool NodeFacts::has(std::size_t i) const {
  return i < node_->inputs.size() && node_->inputs[i] != kNoSlot;
}
bool NodeFacts::wants(std::size_t i) const {
  return i < node_->outputs.size() && node_->outputs[i] != kNoSlot;
}

bool NodeFacts::is_fixed(std::size_t i) const {
  return i < 64 && (node_->fixed_inputs >> i & 1u) != 0;
}

const Value& Call::value(std::size_t i) const {
  static const Value kAbsent;
  return i < values_.size() ? values_[i] : kAbsent;
}
const Tensor& Call::input(std::size_t i) const {
  const Value& given = value(i);
  if (!given.is_tensor()) {
    throw FormatError(
        fmt::format("{}: input {} is {}, not a tensor", title(), i, given.is_sequence() ? "a sequence" : "left out"));
  }
  return given.tensor(device_);
}
Tensor Call::optional_input(std::size_t i) const {
  return value(i).absent() ? Tensor() : input(i);
}
const std::vector<Value>& Call::sequence(std::size_t i) const {
  if (!value(i).is_sequence()) throw FormatError(fmt::format("{}: input {} is no sequence", title(), i));
  return value(i).sequence();
}
const Shape& Call::shape(std::size_t i) const {
  return value(i).is_tensor() ? value(i).shape() : input(i).shape();
}
DType Call::dtype_of_input(std::size_t i) const {
  return value(i).is_tensor() ? value(i).dtype() : input(i).dtype();
}

std::vector<std::int64_t> Call::host_integers(std::size_t i) const {
  if (is_float(dtype_of_input(i))) invalid(fmt::format("input {} is of floats, where integers are needed", i));
  if (const HostArray* host = value(i).host()) return host->integers;
  if (is_storage_only(dtype_of_input(i))) unsupported(fmt::format("input {} is {}", i, name_of(dtype_of_input(i))));
  return read_to_host(input(i)).integers;
}
std::vector<double> Call::host_numbers(std::size_t i) const {
  if (!is_float(dtype_of_input(i))) invalid(fmt::format("input {} is of integers, where floats are needed", i));
  if (const HostArray* host = value(i).host()) return host->numbers;
  return read_to_host(input(i)).numbers;
}
std::int64_t Call::host_integer(std::size_t i) const {
  const std::vector<std::int64_t> elements = host_integers(i);
  if (elements.size() != 1)
    throw ShapeError(fmt::format("{}: input {} has {} elements, not one", title(), i, elements.size()));
  return elements.front();
}
double Call::host_number(std::size_t i) const {
  const std::vector<double> elements = host_numbers(i);
  if (elements.size() != 1)
    throw ShapeError(fmt::format("{}: input {} has {} elements, not one", title(), i, elements.size()));
  return elements.front();
}

std::vector<Value> Call::run_graph(std::string_view name, std::vector<Value> inputs) const {
  if (graphs_ == nullptr) unsupported("graphs inside of nodes cannot run here");
  return graphs_->run(planned(), name, std::move(inputs));
}

Value Call::tensor(std::string_view name) const {
  const Attribute& attribute = required(*this, name, AttributeType::tensor);
  return value_of(*attribute.tensor, planned().program->model->file, nullptr);
}

void Call::unsupported(std::string_view reason) const {
  throw UnsupportedError(fmt::format("{}: not supported: {}", title(), reason));
}
void Call::invalid(std::string_view what) const {
  throw ValueError(fmt::format("{}: {}", title(), what));
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
