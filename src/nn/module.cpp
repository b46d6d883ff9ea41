#include <lockstep/nn/module.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <typeinfo>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "graph/module_watch.h"
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
  static const Tensor& undefined = *new Tensor;
  if (!requires_grad()) return undefined;
  const CallScope call("grad", CallSite("", 0));
  return *slot().gradient;
}

void Parameter::set_grad(const Tensor& gradient, CallSite site) {
  const CallScope call("set_grad", site);
  Slot& slot = this->slot();
  if (!gradient.defined()) {
    if (slot.gradient != nullptr) *slot.gradient = {};
    return;
  }
  const std::vector<Shown> operands{{slot.name, slot.value}, {"gradient", gradient}};
  if (slot.gradient == nullptr) {
    fail<ValueError>("the parameter is frozen", operands, "call requires_grad(true) first");
  }
  check_same_device(operands);
  check_same_dtype(operands);
  if (gradient.shape() != slot.value.shape()) {
    fail<ShapeError>("the gradient has another shape than the parameter", operands);
  }
  *slot.gradient = gradient;
}

bool Parameter::requires_grad() const {
  return defined() && slot().gradient != nullptr;
}

void Parameter::requires_grad(bool on, CallSite site) {
  const CallScope call("requires_grad", site);
  Slot& slot = this->slot();
  if (on == (slot.gradient != nullptr)) return;
  if (on) check_float({slot.name, slot.value});
  slot.gradient = on ? std::make_shared<Tensor>() : nullptr;
  put(slot, slot.value);
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
  // Containers may destroy a parent first.
  for (Module* child : children_) child->parent_ = nullptr;
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
  const CallScope call("requires_grad", site);
  for (Parameter& parameter : parameters()) parameter.requires_grad(on);
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters()) count += parameter.numel();
  return count;
}

StateDict Module::state_dict() const {
  StateDict result;
  for_each_cell("", [&](const std::string& key, const Cell& cell, bool) {
    result.push_back(key, graph::untraced(cell.tensor()));
  });
  return result;
}

void Module::load_state_dict(const StateDict& tensors, LoadStateOptions options, CallSite site) {
  const CallScope call("load_state_dict", site);
  std::map<std::string_view, const Tensor*> given;
  for (const auto& [name, tensor] : tensors) given.emplace(name, &tensor);

  // Everything is checked before anything is changed.
  std::vector<std::pair<Cell, const Tensor*>> matches;
  std::size_t missing = 0;
  std::size_t misshaped = 0;
  std::size_t uncast = 0;
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
    check_defined({{key, value}});
    if (value.shape() != cell.shape()) {
      ++misshaped;
      line("misshaped", key, value, fmt::format(", the module has {}", cell.shape().to_string()));
      return;
    }
    if (value.dtype() != cell.dtype() && (is_storage_only(value.dtype()) || is_storage_only(cell.dtype()))) {
      ++uncast;
      line("not cast", key, value, fmt::format(", the module has {}", name_of(cell.dtype())));
      return;
    }
    matches.emplace_back(cell, &value);
  });
  const std::size_t unexpected = options.strict ? given.size() : 0;
  if (options.strict) {
    for (const auto& [name, tensor] : given) {
      check_defined({{std::string(name), *tensor}});
      line("unexpected", name, *tensor, "");
    }
  }
  if (!problems.empty()) {
    problems.pop_back();  // the end of the last line
    const std::string what = fmt::format(
        "the tensors do not fit the module: {} missing, {} unexpected, {} misshaped{}\n{}", missing, unexpected,
        misshaped, uncast == 0 ? "" : fmt::format(", {} of a dtype that does not cast", uncast), problems);
    if (missing + unexpected + misshaped == 0) {
      fail<DTypeError>(what, {}, "read them (to_vector), and make tensors of the module's dtype with Tensor::from");
    }
    if (missing + unexpected + uncast == 0) fail<ShapeError>(what, {}, "build the module as it was saved");
    fail<ValueError>(what, {}, "build the module as it was saved, or pass {.strict = false} to load what fits by name");
  }

  std::vector<Tensor> values;
  for (const auto& [cell, value] : matches) values.push_back(value->to(cell.dtype()).to(cell.device()));
  for (std::size_t i = 0; i < matches.size(); ++i) matches[i].first.set(values[i]);
}

void Module::to(Device device, CallSite site) {
  const CallScope call("Module::to", site);
  for_each_cell("", [&](const std::string&, Cell cell, bool) { cell.set(graph::untraced(cell.tensor()).to(device)); });
}

void Module::to(DType dtype, CallSite site) {
  const CallScope call("Module::to", site);
  if (!is_float(dtype)) {
    fail<DTypeError>(fmt::format("parameters cannot become {}", name_of(dtype)), {}, "use f16, bf16, f32 or f64");
  }
  for_each_cell("", [&](const std::string&, Cell cell, bool) {
    if (is_float(cell.dtype())) cell.set(graph::untraced(cell.tensor()).to(dtype));
  });
}

void Module::train(bool on) {
  training_ = on;
  for (Module* child : children_) child->train(on);
}

namespace {

// "Conv2d" of lockstep::v0::nn::Conv2d.
std::string class_of(const Module& module) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(typeid(module).name(), nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 ? text.get() : typeid(module).name();
  const std::size_t colon = name.find('<') == std::string::npos ? name.rfind(':') : std::string::npos;
  return colon == std::string::npos ? name : name.substr(colon + 1);
}

}  // namespace

Tensor Layer::operator()(const Operand& x) const {
  if (!graph::has_module_watch()) return forward(x);
  const graph::ModuleScope scope(path());
  Tensor output = forward(x);
  graph::show_output(path(), class_of(*this), output, x.site());
  return output;
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
