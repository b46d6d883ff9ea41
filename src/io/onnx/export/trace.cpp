#include "io/onnx/export/trace.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/io/onnx.h>

#include "graph/recording.h"
#include "io/onnx/export/graph_builder.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

using graph::Node;
using graph::NodeRef;

// What a recorded value is made of: the operands of a call that can be written, else those of the primitive.
struct Maker {
  const graph::RecordedCall* call = nullptr;
  std::vector<NodeRef> inputs;
};

class Tracer {
 public:
  Tracer(const TraceRequest& request, const graph::Recording& recording, const GraphBuilder::StateNames& state)
      : request_(request), recording_(recording), state_(state), builder_(request.options.opset, state) {}

  ExportedGraph run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    name_inputs(inputs);
    for (const NodeRef& node : made_by(outputs)) write(node);
    if (!problems_.empty()) fail_unsupported();
    check_inputs(inputs);
    const auto names = names_of(request_.options.output_names, outputs.size(), "output");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const NodeRef& node = graph::Access::node(outputs[i]);
      builder_.begin(node);
      const std::string name = builder_.unique(names[i]);
      builder_.add("Identity", {builder_.name_of(node)});
      builder_.graph().nodes.back().outputs = {name};
      builder_.graph().outputs.push_back({.name = name, .dtype = node->dtype, .shape = node->shape});
    }
    return std::move(builder_.graph());
  }

 private:
  std::vector<std::string> names_of(const std::vector<std::string>& given, std::size_t count, const char* fallback) {
    if (!given.empty() && given.size() != count) {
      throw ValueError(fmt::format("{}: {} names for {} {}s", request_.path, given.size(), count, fallback));
    }
    std::vector<std::string> names = given;
    for (std::size_t i = names.size(); i < count; ++i)
      names.push_back(count == 1 ? fallback : fmt::format("{}_{}", fallback, i));
    if (std::set<std::string>(names.begin(), names.end()).size() != count ||
        std::find(names.begin(), names.end(), "") != names.end()) {
      throw ValueError(fmt::format("{}: the names of the {}s are not all different", request_.path, fallback));
    }
    return names;
  }

  void name_inputs(const std::vector<Tensor>& inputs) {
    const auto names = names_of(request_.options.input_names, inputs.size(), "input");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      builder_.add_input(names[i], inputs[i]);
      given_.insert(graph::Access::node(inputs[i]).get());
    }
  }

  Maker maker_of(const NodeRef& node) const {
    if (given_.contains(node.get()) || state_.contains(node.get())) return {};
    const graph::RecordedNode* const recorded = recording_.find(node.get());
    if (recorded == nullptr) {
      // Older views, of weights that are stored as others.
      if (std::holds_alternative<graph::ViewOf>(node->op)) return {.inputs = {node->inputs[0]}};
      return {};
    }
    if (recorded->call && can_write_call(request_.options.opset, *recorded->call, *node)) {
      return {.call = &*recorded->call, .inputs = recorded->call->operands};
    }
    return {.inputs = recorded->inputs};
  }

  // What the outputs are made of and that varies, operands first. Nodes are numbered in the order of their creation.
  std::vector<NodeRef> made_by(const std::vector<Tensor>& outputs) {
    std::vector<NodeRef> found;
    std::unordered_set<const Node*> seen;
    std::vector<NodeRef> open;
    for (const Tensor& output : outputs) open.push_back(graph::Access::node(output));
    while (!open.empty()) {
      const NodeRef node = std::move(open.back());
      open.pop_back();
      if (node == nullptr || !seen.insert(node.get()).second) continue;
      found.push_back(node);
      for (const NodeRef& input : maker_of(node).inputs) open.push_back(input);
    }
    std::sort(found.begin(), found.end(), [](const NodeRef& a, const NodeRef& b) { return a->id < b->id; });
    std::vector<NodeRef> varying;
    for (const NodeRef& node : found) {
      const bool is_leaf = given_.contains(node.get()) || state_.contains(node.get());
      const Maker maker = maker_of(node);
      const bool varies = is_leaf || std::any_of(maker.inputs.begin(), maker.inputs.end(), [&](const NodeRef& input) {
                            return input != nullptr && varying_.contains(input.get());
                          });
      if (given_.contains(node.get())) used_.insert(node.get());
      // Drawn while the function ran: another run draws others.
      if (std::holds_alternative<graph::Random>(node->op) && recording_.find(node.get()) != nullptr) {
        refuse(node, "random numbers");
      }
      if (!varies) continue;
      varying_.insert(node.get());
      if (!is_leaf) varying.push_back(node);
    }
    return varying;
  }

  // A constant that was spread over sizes is written as that, and not with every copy.
  void write_spread(const NodeRef& node) {
    if (node == nullptr || varying_.contains(node.get()) || builder_.is_named(node.get())) return;
    const graph::RecordedNode* const recorded = recording_.find(node.get());
    if (recorded != nullptr && recorded->call && recorded->call->op == "expand") write(node);
  }

  void refuse(const NodeRef& node, const std::string& problem) {
    const std::string& module = builder_.module();
    problems_[fmt::format("{} ({}): {}", node->name, graph::name_of(node->op), problem)].push_back(
        fmt::format("{} at {}:{}", module.empty() ? "before the first module" : "behind module '" + module + "'",
                    node->where.file, node->where.line));
  }

  void write(const NodeRef& node) {
    const Maker maker = maker_of(node);
    for (const NodeRef& input : maker.inputs) write_spread(input);
    builder_.begin(node);
    std::string problem;
    std::string name = maker.call != nullptr ? write_call(builder_, *maker.call, *node)
                                             : write_primitive(builder_, *node, maker.inputs, problem);
    if (name.empty()) {
      refuse(node, problem);
      name = "missing";  // it has a name, too, so that everything else is looked at
    }
    builder_.set_name(node, std::move(name));
  }

  [[noreturn]] void fail_unsupported() const {
    std::size_t count = 0;
    std::string lines;
    for (const auto& [what, places] : problems_) {
      count += places.size();
      lines += fmt::format("\n  {} x{}   first: {}", what, places.size(), places.front());
    }
    throw UnsupportedError(fmt::format("{} cannot be written: {} operations have no form in opset {}{}", request_.path,
                                       count, request_.options.opset, lines));
  }

  void check_inputs(const std::vector<Tensor>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (used_.contains(graph::Access::node(inputs[i]).get())) continue;
      throw ValueError(
          fmt::format("{}: nothing reads input {} ('{}')", request_.path, i, builder_.graph().inputs[i].name));
    }
  }

  const TraceRequest& request_;
  const graph::Recording& recording_;
  const GraphBuilder::StateNames& state_;
  GraphBuilder builder_;
  std::unordered_set<const Node*> given_, used_, varying_;
  std::map<std::string, std::vector<std::string>> problems_;
};

}  // namespace

ExportedGraph trace(const TraceRequest& request, const std::vector<Tensor>& inputs) {
  const NoGrad no_grad;
  GraphBuilder::StateNames state;
  for (const auto& [name, tensor] : request.model.state_dict()) {
    state.emplace(graph::Access::node(tensor).get(), std::pair(name, tensor));
  }
  // Values of their own, which are neither parameters nor views.
  std::vector<Tensor> given;
  for (const Tensor& input : inputs) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(input.numel()) * size_of(input.dtype()));
    input.read_bytes(bytes.data());
    given.push_back(Tensor::from_bytes(bytes.data(), bytes.size(), input.shape(), input.dtype(), input.device()));
  }
  const graph::Recording recording(given);
  const std::vector<Tensor> outputs = request.function(given);
  if (outputs.empty()) throw ValueError(fmt::format("{}: the function has no outputs", request.path));
  for (const Tensor& output : outputs) {
    if (!output.defined()) throw ValueError(fmt::format("{}: an output is undefined", request.path));
  }
  return Tracer(request, recording, state).run(given, outputs);
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
