// Modules under names of the user's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/nn/sequential.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// Modules that are called by who holds them, in the order in which they were added. `Base` is what operator[] gives.
/// PyTorch: nn.ModuleDict.
template <typename Base = Module> class ModuleDict : public Module {
 public:
  using Module::Module;

  /// Constructs ModuleType(*this, name, arguments...). ValueError for a name that is taken.
  template <typename ModuleType = Base, typename... Arguments>
  ModuleType& add(const std::string& name, Arguments&&... arguments) {
    auto maker = detail::maker_of<Base, ModuleType>(arguments...);  // before they are forwarded
    auto module = std::make_unique<ModuleType>(*this, name, std::forward<Arguments>(arguments)...);
    ModuleType& added = *module;
    entries_.push_back({std::move(module), std::move(maker)});
    return added;
  }

  std::size_t size() const { return entries_.size(); }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(entry.module->name());
    return names;
  }
  /// Throws IndexError that lists the names.
  Base& operator[](std::string_view name) const {
    if (Base* const found = find(name)) return *found;
    std::string known;
    for (const Entry& entry : entries_) known += (known.empty() ? "" : ", ") + entry.module->name();
    throw IndexError((path().empty() ? "ModuleDict" : path()) + ": no module \"" + std::string(name) + "\" among " +
                     (known.empty() ? "none" : known));
  }

 protected:
  void add_missing(const Module& other) override {
    const auto* const dict = dynamic_cast<const ModuleDict*>(&other);
    if (dict == nullptr) return;
    for (const Entry& entry : dict->entries_) {
      if (contains(entry.module->name())) continue;
      detail::check_maker(static_cast<bool>(entry.maker), *entry.module);
      entries_.push_back({entry.maker(*this, entry.module->name()), entry.maker});
    }
  }

 private:
  struct Entry {
    std::unique_ptr<Base> module;
    detail::Maker<Base> maker;
  };
  Base* find(std::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.module->name() == name) return entry.module.get();
    }
    return nullptr;
  }
  std::vector<Entry> entries_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
