#include <lockstep/nn/module.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "graph/check.h"
#include "graph/tape.h"

namespace lockstep {
inline namespace v0 {
namespace nn {

Parameter::Parameter(Module& owner, const std::string& name, const Tensor& value) {
  owner.check_name(name);
  static_cast<Cell&>(*this) = Cell(owner.path_of(name), value);
  requires_grad(true);
  owner.parameters_.emplace_back(name, *this);
}

const Tensor& Parameter::grad() const {
  static const Tensor undefined;
  if (!requires_grad()) return undefined;
  return *slot("grad", {}).gradient;
}

void Parameter::set_grad(const Tensor& gradient, CallSite site) {
  Slot& slot = this->slot("set_grad", site);
  if (!gradient.defined()) {
    if (slot.gradient != nullptr) *slot.gradient = {};
    return;
  }
  const std::vector<graph::Shown> operands{{slot.name, slot.value}, {"gradient", gradient}};
  if (slot.gradient == nullptr) {
    graph::fail<ValueError>("set_grad", "the parameter is frozen", operands, "call requires_grad(true) first", site);
  }
  graph::check_same_device("set_grad", operands, site);
  graph::check_same_dtype("set_grad", operands, site);
  if (gradient.shape() != slot.value.shape()) {
    graph::fail<ShapeError>("set_grad", "the gradient has another shape than the parameter", operands, "", site);
  }
  *slot.gradient = gradient;
}

bool Parameter::requires_grad() const {
  return defined() && slot("requires_grad", {}).gradient != nullptr;
}

void Parameter::requires_grad(bool on, CallSite site) {
  Slot& slot = this->slot("requires_grad", site);
  if (on == (slot.gradient != nullptr)) return;
  if (on) graph::check_float("requires_grad", {slot.name, slot.value}, site);
  slot.gradient = on ? std::make_shared<Tensor>() : nullptr;
  put(slot, slot.value, site);
}

Buffer::Buffer(Module& owner, const std::string& name, const Tensor& value, BufferOptions options) {
  owner.check_name(name);
  static_cast<Cell&>(*this) = Cell(owner.path_of(name), value);
  owner.buffers_.push_back({name, *this, options.optional});
}

const Tensor* StateDict::find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == name; });
  return found == entries_.end() ? nullptr : &found->second;
}

Module::Module(Module& parent, std::string name)
    : parent_(&parent == &no_parent() ? nullptr : &parent), name_(std::move(name)) {
  if (parent_ == nullptr) return;
  path_ = parent.path_of(name_);
  training_ = parent.training_;
  parent.check_name(name_);
  parent.children_.push_back(this);
}

Module::~Module() {
  if (parent_ != nullptr) std::erase(parent_->children_, this);
}

std::string Module::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void Module::check_name(std::string_view name) const {
  const std::string_view here = path_.empty() ? "the root module" : std::string_view(path_);
  if (name.empty() || name.find('.') != std::string_view::npos) {
    throw ValueError(
        fmt::format("{}: \"{}\" cannot be the name of a member: it is empty or contains \".\"", here, name));
  }
  const bool taken =
      std::any_of(parameters_.begin(), parameters_.end(), [&](const auto& own) { return own.first == name; }) ||
      std::any_of(buffers_.begin(), buffers_.end(), [&](const auto& own) { return own.name == name; }) ||
      std::any_of(children_.begin(), children_.end(), [&](const Module* child) { return child->name_ == name; });
  if (taken) throw ValueError(fmt::format("{}: there are two members of the name \"{}\"", here, name));
}

template <typename Visit> void Module::for_each_cell(const std::string& prefix, const Visit& visit) const {
  for (const auto& [name, parameter] : parameters_) visit(prefix + name, parameter, false);
  for (const OwnBuffer& own : buffers_) visit(prefix + own.name, own.buffer, own.optional);
  for (const Module* child : children_) child->for_each_cell(prefix + child->name_ + ".", visit);
}

std::vector<std::pair<std::string, Parameter>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Parameter>> result;
  const auto visit = [&](const std::string& key, const auto& cell, bool) {
    if constexpr (std::is_same_v<decltype(cell), const Parameter&>) result.emplace_back(key, cell);
  };
  for_each_cell("", visit);
  return result;
}

std::vector<std::pair<std::string, Buffer>> Module::named_buffers() const {
  std::vector<std::pair<std::string, Buffer>> result;
  const auto visit = [&](const std::string& key, const auto& cell, bool) {
    if constexpr (std::is_same_v<decltype(cell), const Buffer&>) result.emplace_back(key, cell);
  };
  for_each_cell("", visit);
  return result;
}

std::vector<Parameter> Module::parameters() const {
  std::vector<Parameter> result;
  for (auto& [name, parameter] : named_parameters()) result.push_back(parameter);
  return result;
}

void Module::zero_grad() {
  for (Parameter& parameter : parameters()) parameter.zero_grad();
}

void Module::requires_grad(bool on, CallSite site) {
  for (Parameter& parameter : parameters()) parameter.requires_grad(on, site);
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters()) count += parameter.numel();
  return count;
}

StateDict Module::state_dict() const {
  StateDict result;
  for_each_cell("", [&](const std::string& key, const Cell& cell, bool) { result.push_back(key, graph::untraced(cell.tensor())); });
  return result;
}

void Module::load_state_dict(const StateDict& tensors, LoadStateOptions options, CallSite site) {
  std::map<std::string_view, const Tensor*> given;
  for (const auto& [name, tensor] : tensors) given.emplace(name, &tensor);

  // Everything is checked before anything is changed.
  std::vector<std::pair<Cell, const Tensor*>> matches;
  std::size_t missing = 0;
  std::size_t misshaped = 0;
  std::string problems;
  const auto line = [&](const char* problem, std::string_view key, const Tensor& tensor, std::string_view rest) {
    problems += fmt::format("  {:<11} {:<32} {} {}{}\n", problem, key, name_of(tensor.dtype()),
                            tensor.shape().to_string(), rest);
  };
  for_each_cell("", [&](const std::string& key, const Cell& cell, bool optional) {
    const auto found = given.find(key);
    if (found == given.end()) {
      if (!options.strict || optional) return;
      ++missing;
      line("missing", key, cell.tensor(), "");
      return;
    }
    const Tensor& value = *found->second;
    given.erase(found);
    graph::check_defined("load_state_dict", {{key, value}}, site);
    if (value.shape() != cell.shape()) {
      ++misshaped;
      line("misshaped", key, value, fmt::format(", the module has {}", cell.shape().to_string()));
      return;
    }
    matches.emplace_back(cell, &value);
  });
  const std::size_t unexpected = options.strict ? given.size() : 0;
  if (options.strict) {
    for (const auto& [name, tensor] : given) {
      graph::check_defined("load_state_dict", {{std::string(name), *tensor}}, site);
      line("unexpected", name, *tensor, "");
    }
  }
  if (!problems.empty()) {
    const std::string text = fmt::format(
        "load_state_dict: the tensors do not fit the module: {} missing, {} unexpected, {} misshaped\n{}"
        "  fix: build the module as it was saved{}\n  at {}:{}",
        missing, unexpected, misshaped, problems,
        missing + unexpected > 0 ? ", or pass {.strict = false} to load what fits by name" : "", site.file, site.line);
    if (missing + unexpected == 0) throw ShapeError(text);
    throw ValueError(text);
  }

  std::vector<Tensor> values;
  for (const auto& [cell, value] : matches) values.push_back(value->to(cell.dtype(), site).to(cell.device(), site));
  for (std::size_t i = 0; i < matches.size(); ++i) matches[i].first.set(values[i], site);
}

void Module::to(Device device, CallSite site) {
  for_each_cell("", [&](const std::string&, Cell cell, bool) { cell.set(graph::untraced(cell.tensor()).to(device, site), site); });
}

void Module::to(DType dtype, CallSite site) {
  if (!is_float(dtype)) {
    throw DTypeError(
        fmt::format("Module::to: parameters cannot become {}\n  fix: use f16, bf16, f32 or f64\n  at {}:{}",
                    name_of(dtype), site.file, site.line));
  }
  for_each_cell("", [&](const std::string&, Cell cell, bool) {
    if (is_float(cell.dtype())) cell.set(graph::untraced(cell.tensor()).to(dtype, site), site);
  });
}

void Module::train(bool on) {
  training_ = on;
  for (Module* child : children_) child->train(on);
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
