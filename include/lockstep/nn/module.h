// The base of layers and models. A module knows its parameters, buffers and children by name, in the order of their
// construction; members register themselves:
//
//   struct Net : ls::nn::Module {
//     ls::nn::Linear hidden{*this, "hidden", 784, 256};
//     ls::nn::Linear out{*this, "out", 256, 10};
//     ls::Tensor forward(ls::Tensor x) { return out(ls::gelu(hidden(x))); }
//   };
//
// Names joined by "." are PyTorch's keys, so published weights load unchanged.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/nn/cell.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

class Module;

namespace detail {
/// Calls `make` and puts the thread's generator back where it was.
LOCKSTEP_API void keeping_draws(const std::function<void()>& make);
}  // namespace detail

/// A value that training changes. Registers itself; its tensor bears its full path ("layer1.0.conv1.weight") and is a
/// leaf (autograd.h), so ops on it are tracked: compute what needs no gradients under NoGrad.  PyTorch: nn.Parameter.
class LOCKSTEP_API Parameter : public Cell {
 public:
  Parameter() = default;
  /// Throws ValueError if the module already has something of that name, or the name is empty or contains ".".
  /// DTypeError if the value is no float tensor.
  Parameter(Module& owner, const std::string& name, const Tensor& value);
  Parameter& operator=(const Operand& value);

  /// What backward() has added up; undefined before.  PyTorch: Tensor.grad.
  const Tensor& grad() const;
  /// Replaces the gradient: clipping does. An undefined one clears it. ShapeError, DTypeError or DeviceError if it does
  /// not fit the value; ValueError if the parameter is frozen.
  void set_grad(const Tensor& gradient, CallSite site = {});
  void zero_grad() { set_grad({}); }
  /// Whether it is trained. A frozen parameter has no gradient, and what is computed from it alone is not tracked.
  bool requires_grad() const;
  void requires_grad(bool on, CallSite site = {});
};

struct BufferOptions {
  /// Whether a state dict may lack it: true for what older versions of PyTorch did not save.
  bool optional = false;
};

/// A value that is saved with the model but that training's optimiser does not touch, e.g. running statistics.
class LOCKSTEP_API Buffer : public Cell {
 public:
  Buffer() = default;
  Buffer(Module& owner, const std::string& name, const Tensor& value, BufferOptions options = {});
  Buffer& operator=(const Operand& value);
};

/// The named tensors of a module, in PyTorch's order. Converts from and to the maps that io loads and saves.
class LOCKSTEP_API StateDict {
 public:
  using Map = std::map<std::string, Tensor, std::less<>>;
  using Entry = std::pair<std::string, Tensor>;

  StateDict() = default;
  StateDict(const Map& tensors) : entries_(tensors.begin(), tensors.end()) {}
  operator Map() const { return Map(entries_.begin(), entries_.end()); }

  void push_back(std::string name, Tensor tensor) { entries_.emplace_back(std::move(name), std::move(tensor)); }
  std::size_t size() const { return entries_.size(); }
  std::vector<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::vector<Entry>::const_iterator end() const { return entries_.end(); }
  /// The tensor of that name, or null. Linear in size().
  const Tensor* find(std::string_view name) const;

 private:
  std::vector<Entry> entries_;
};

/// One number for all names and values, the same on every device, in any order and from every file format: XXH3-64 of
/// the lines "name hash\n", sorted by name, where hash is Tensor::hash() in 16 hexadecimal digits. `lockstep hash
/// FILE`.
LOCKSTEP_API std::uint64_t state_hash(const StateDict& state);

struct LoadStateOptions {
  /// Whether every tensor of the module must be in the dict, and nothing else. Shapes must fit always.
  bool strict = true;
};

/// Not copyable and not movable: children and members point to each other. PyTorch: nn.Module.
class LOCKSTEP_API Module {
 public:
  /// A module of its own: the root of a model.
  Module() = default;
  /// A child. It must not be used after its parent is gone. Throws ValueError like Parameter's constructor.
  Module(Module& parent, std::string name);
  virtual ~Module();
  Module(const Module&) = delete;             // write nn::clone(module, arguments of its constructor...)
  Module& operator=(const Module&) = delete;  // write become(other) or load_state_dict(other.state_dict())

  /// The name in the parent; empty for a root.
  const std::string& name() const { return name_; }
  /// Names from the root to this module, joined by "."; empty for a root.
  const std::string& path() const { return path_; }
  const std::vector<Module*>& children() const { return children_; }
  /// This module under "" and everything below it, a module before its children; names are relative to this module.
  std::vector<std::pair<std::string, Module*>> named_modules();
  std::vector<std::pair<std::string, const Module*>> named_modules() const;
  /// Calls `change` with every module below this one, children first, and last with this one.  PyTorch: apply.
  void apply(const std::function<void(Module&)>& change);

  /// Of this module and everything below it; keys are relative to this module.
  std::vector<std::pair<std::string, Parameter>> named_parameters() const;
  std::vector<std::pair<std::string, Buffer>> named_buffers() const;
  std::vector<Parameter> parameters() const;
  /// Clears the gradients of all parameters.
  void zero_grad();
  /// Freezes all parameters, or trains them.  PyTorch: requires_grad_.
  void requires_grad(bool on, CallSite site = {});
  /// Number of elements of all parameters.
  std::int64_t parameter_count() const;

  /// All parameters and buffers: a module's own parameters, its own buffers, then its children's.
  StateDict state_dict() const;
  /// Takes every tensor of the module from `tensors`, cast to the dtype and moved to the device that it has here.
  /// All or nothing. Throws one error that lists every missing, unexpected and misshaped key, and those of a dtype that
  /// does not cast (complex64): ShapeError if only shapes are wrong, DTypeError if only dtypes are, else ValueError.
  void load_state_dict(const StateDict& tensors, LoadStateOptions options = {}, CallSite site = {});

  /// Moves all parameters and buffers.
  void to(Device device, CallSite site = {});
  /// Casts those that are floats. Throws DTypeError unless `dtype` is a float type.
  void to(DType dtype, CallSite site = {});
  /// To the device of that name, e.g. "cuda:0".
  template <std::convertible_to<std::string_view> Name> void to(const Name& device, CallSite site = {}) {
    to(Device::parse(device), site);
  }

  /// Makes this module's values and modes equal to `other`'s: parameters and buffers with dtype and device, which of
  /// them are frozen, and which modules are in training. Containers that hold fewer modules than the other's get theirs
  /// first. All or nothing for the values. ValueError or ShapeError that lists what does not fit. nn::clone calls it.
  void become(const Module& other, CallSite site = {});

  /// Switches this module and everything below it between training and evaluation. A new module is in training.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

 protected:
  /// Stands for a parent where there is none: a layer constructed without one is Layer(no_parent(), {}, ...), a root.
  static Module& no_parent();
  /// What become() calls first: a container adds the modules that `other`, of its own type, has more.
  virtual void add_missing(const Module& other);

 private:
  friend class Parameter;
  friend class Buffer;
  struct OwnBuffer {
    std::string name;
    Buffer buffer;
    bool optional;
  };

  void check_name(std::string_view name) const;
  std::string path_of(std::string_view name) const;
  void add_all_missing(const Module& other);
  /// Calls visit(key, cell, is_optional) in the order of state_dict().
  template <typename Visit> void for_each_cell(const std::string& prefix, const Visit& visit) const;

  Module* parent_ = nullptr;
  std::string name_;
  std::string path_;
  bool training_ = true;
  std::vector<std::pair<std::string, Parameter>> parameters_;
  std::vector<OwnBuffer> buffers_;
  std::vector<Module*> children_;
};

/// A module of its own with the same values and modes. It is constructed anew, as ModuleType(arguments...), so give the
/// arguments that the original was built with; the thread's generator is left as it was. Memory is shared until one of
/// the two changes.  PyTorch: copy.deepcopy.
template <typename ModuleType, typename... Arguments>
requires(std::derived_from<ModuleType, Module>&& std::constructible_from<ModuleType, Arguments...>)
    std::unique_ptr<ModuleType> clone(const ModuleType& module, Arguments&&... arguments) {
  std::unique_ptr<ModuleType> copy;
  detail::keeping_draws([&] { copy = std::make_unique<ModuleType>(std::forward<Arguments>(arguments)...); });
  copy->become(module);
  return copy;
}
/// The same where a function makes the new module: clone(*model, [&] { return architecture.create(10); }).
template <typename ModuleType, std::invocable Make>
std::unique_ptr<ModuleType> clone(const ModuleType& module, const Make& make) {
  std::unique_ptr<ModuleType> copy;
  detail::keeping_draws([&] { copy = make(); });
  copy->become(module);
  return copy;
}

/// A module of one tensor to one tensor. `x` carries the caller's place, so that errors name the user's line.
class LOCKSTEP_API Layer : public Module {
 public:
  using Module::Module;
  virtual Tensor forward(const Operand& x) const = 0;
  /// forward(x). Recordings of modules, and errors of CheckFinite, know whose it was.
  Tensor operator()(const Operand& x) const;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
