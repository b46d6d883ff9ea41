#include "io/onnx/export/graph_builder.h"

#include <fmt/format.h>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

void GraphBuilder::add_input(const std::string& name, const Tensor& value) {
  graph_.inputs.push_back({.name = unique(name), .dtype = value.dtype(), .shape = value.shape()});
  kept_.push_back(graph::Access::node(value));
  names_[kept_.back().get()] = name;
}

std::string GraphBuilder::unique(const std::string& wanted) {
  std::string name = wanted;
  while (!taken_.insert(name).second) name = fmt::format("{}_{}", wanted, ++counts_[wanted]);
  return name;
}

std::string GraphBuilder::add_output(std::string_view op, std::vector<std::string> inputs, Attributes attributes,
                                     std::size_t output) {
  // The module's name leads, as in the files of other exporters: "/layer1/0/conv1/Conv".
  std::string path = "/" + path_;
  for (char& c : path) c = c == '.' ? '/' : c;
  if (!path_.empty()) path += "/";
  ExportedNode node{.op = std::string(op),
                    .domain = {},
                    .inputs = std::move(inputs),
                    .outputs = {},
                    .attributes = std::move(attributes),
                    .story = story_};
  for (std::size_t i = 0; i < output; ++i) node.outputs.push_back(unique("unused"));
  node.outputs.push_back(unique(fmt::format("{}{}", path, op)));
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs.back();
}

std::string GraphBuilder::add(std::string_view op, std::vector<std::string> inputs, Attributes attributes,
                              std::string_view domain) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  std::string name = add_output(op, std::move(inputs), std::move(attributes), 0);
  graph_.nodes.back().domain = domain;
  return name;
}

std::string GraphBuilder::sizes(std::vector<std::int64_t> values) {
  graph_.sizes.push_back({unique("sizes"), std::move(values)});
  return graph_.sizes.back().name;
}

std::string GraphBuilder::constant(const Tensor& value) {
  graph_.tensors.push_back({.name = unique("constant"), .value = value});
  return graph_.tensors.back().name;
}

std::string GraphBuilder::scalar(double value, DType dtype) {
  return constant(full({}, value, {.dtype = dtype, .device = Device{}}));
}

std::string GraphBuilder::reshape(const std::string& value, const Shape& from, const Shape& to) {
  return from == to ? value : add("Reshape", {value, sizes(to)});
}

std::string GraphBuilder::cast(const std::string& value, DType from, DType to) {
  return from == to ? value : add("Cast", {value}, {{"to", data_type_of(to)}});
}

std::string GraphBuilder::transpose(const std::string& value, const Shape& order) {
  bool same = true;
  for (int d = 0; d < order.rank(); ++d) same = same && order[d] == d;
  return same ? value : add("Transpose", {value}, {{"perm", std::vector<std::int64_t>(order.begin(), order.end())}});
}

std::string GraphBuilder::name_of(const graph::NodeRef& node) {
  if (const auto found = names_.find(node.get()); found != names_.end()) return found->second;
  std::string name;
  const auto state = state_.find(node.get());
  if (state != state_.end()) {
    name = unique(state->second.first);
    path_ = name.substr(0, name.rfind('.') == std::string::npos ? 0 : name.rfind('.'));
    if (!path_.empty()) module_ = path_;
    graph_.tensors.push_back({.name = name, .value = state->second.second, .is_state = true});
  } else if (const auto* fill = std::get_if<graph::Full>(&node->op); fill != nullptr && node->shape.numel() > 1) {
    const Tensor one = graph::Access::tensor(graph::make_node(*fill, {}, {}, node->dtype, node->device));
    name = add("Expand", {constant(one), sizes(node->shape)});
  } else {
    name = constant(graph::Access::tensor(node));
  }
  kept_.push_back(node);
  names_[node.get()] = name;
  return name;
}

void GraphBuilder::begin(const graph::NodeRef& node) {
  path_.clear();
  story_ = fmt::format("{} at {}:{}", node->name, node->where.file, node->where.line);
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
