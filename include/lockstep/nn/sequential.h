// Layers that arrange others, or only shapes.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

namespace detail {

/// Constructs a module once more, for clone; empty where what it was constructed from cannot be copied.
template <typename Base> using Maker = std::function<std::unique_ptr<Base>(Module& parent, const std::string& name)>;
template <typename Base, typename ModuleType, typename... Arguments>
Maker<Base> maker_of(const Arguments&... arguments) {
  if constexpr ((std::copy_constructible<std::decay_t<const Arguments&>> && ...) &&
                std::constructible_from<ModuleType, Module&, const std::string&,
                                        const std::decay_t<const Arguments&>&...>) {
    return [kept = std::tuple<std::decay_t<const Arguments&>...>(arguments...)](Module& parent,
                                                                                const std::string& name) {
      return std::apply([&](const auto&... each) { return std::make_unique<ModuleType>(parent, name, each...); }, kept);
    };
  } else {
    return {};
  }
}
/// Throws ValueError that names `module` where there is no maker.
LOCKSTEP_API void check_maker(bool made, const Module& module);

}  // namespace detail

/// Layers one after the other, named "0", "1", ...  PyTorch: nn.Sequential.
class LOCKSTEP_API Sequential : public Layer {
 public:
  using Layer::Layer;
  /// Layers know their parents and stay where they are made, so that there is nothing to hand over.
  template <typename... Layers>
    requires(sizeof...(Layers) > 0 && (std::derived_from<std::remove_cvref_t<Layers>, Module> && ...))
  explicit Sequential(Layers&&... layers) = delete;  // write net.add<nn::Linear>(2, 2)

  /// Constructs Layer(*this, "<n>", arguments...) at the end.
  template <typename LayerType, typename... Arguments> LayerType& add(Arguments&&... arguments) {
    auto maker = detail::maker_of<Layer, LayerType>(arguments...);  // before they are forwarded
    auto layer =
        std::make_unique<LayerType>(*this, std::to_string(layers_.size()), std::forward<Arguments>(arguments)...);
    LayerType& added = *layer;
    layers_.push_back(std::move(layer));
    makers_.push_back(std::move(maker));
    return added;
  }

  std::size_t size() const { return layers_.size(); }
  /// Throws IndexError.
  Layer& operator[](std::size_t index) const;
  Tensor forward(const Operand& x) const override;

 protected:
  void add_missing(const Module& other) override;

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<detail::Maker<Layer>> makers_;
};

/// Modules named "0", "1", ... that are called by who holds the list. `Base` is what operator[] gives.
/// PyTorch: nn.ModuleList.
template <typename Base = Module> class ModuleList : public Module {
 public:
  using Module::Module;

  /// Constructs ModuleType(*this, "<n>", arguments...) at the end.
  template <typename ModuleType = Base, typename... Arguments> ModuleType& add(Arguments&&... arguments) {
    auto maker = detail::maker_of<Base, ModuleType>(arguments...);  // before they are forwarded
    auto module =
        std::make_unique<ModuleType>(*this, std::to_string(modules_.size()), std::forward<Arguments>(arguments)...);
    ModuleType& added = *module;
    modules_.push_back(std::move(module));
    makers_.push_back(std::move(maker));
    return added;
  }

  std::size_t size() const { return modules_.size(); }
  /// Throws IndexError.
  Base& operator[](std::size_t index) const {
    if (index >= modules_.size()) {
      throw IndexError(path() + ": module " + std::to_string(index) + " of " + std::to_string(modules_.size()));
    }
    return *modules_[index];
  }

 protected:
  void add_missing(const Module& other) override {
    const auto* const list = dynamic_cast<const ModuleList*>(&other);
    for (std::size_t i = size(); list != nullptr && i < list->size(); ++i) {
      detail::check_maker(static_cast<bool>(list->makers_[i]), *list->modules_[i]);
      modules_.push_back(list->makers_[i](*this, std::to_string(i)));
      makers_.push_back(list->makers_[i]);
    }
  }

 private:
  std::vector<std::unique_ptr<Base>> modules_;
  std::vector<detail::Maker<Base>> makers_;
};

/// PyTorch: nn.Identity.
class LOCKSTEP_API Identity : public Layer {
 public:
  using Layer::Layer;
  Tensor forward(const Operand& x) const override;
};

/// Joins dimensions first_dim to last_dim.  PyTorch: nn.Flatten.
class LOCKSTEP_API Flatten : public Layer {
 public:
  Flatten(Module& parent, std::string name, int first_dim = 1, int last_dim = -1)
      : Layer(parent, std::move(name)), first_dim_(first_dim), last_dim_(last_dim) {}
  explicit Flatten(int first_dim = 1, int last_dim = -1) : Flatten(no_parent(), {}, first_dim, last_dim) {}
  Tensor forward(const Operand& x) const override;

 private:
  int first_dim_;
  int last_dim_;
};

/// Dimension `dim` as several of these sizes, one of which may be -1.  PyTorch: nn.Unflatten.
class LOCKSTEP_API Unflatten : public Layer {
 public:
  Unflatten(Module& parent, std::string name, int dim, const Shape& sizes)
      : Layer(parent, std::move(name)), dim_(dim), sizes_(sizes) {}
  Unflatten(int dim, const Shape& sizes) : Unflatten(no_parent(), {}, dim, sizes) {}
  Tensor forward(const Operand& x) const override;

 private:
  int dim_;
  Shape sizes_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
