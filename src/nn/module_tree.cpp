// Modules as a tree: walking it, and making one equal to another.
#include <lockstep/nn/module.h>

#include <algorithm>

#include <lockstep/check.h>
#include <lockstep/random.h>

namespace lockstep {
inline namespace v0 {
namespace nn {
namespace {

template <typename ModuleType>
void collect(ModuleType& module, const std::string& name, std::vector<std::pair<std::string, ModuleType*>>& all) {
  all.emplace_back(name, &module);
  for (Module* child : module.children()) {
    collect<ModuleType>(*child, name.empty() ? child->name() : name + "." + child->name(), all);
  }
}

}  // namespace

Module& Module::no_parent() {
  static Module* const none = new Module;  // never destroyed: modules with static storage may outlive any static here
  return *none;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> all;
  collect(*this, "", all);
  return all;
}

std::vector<std::pair<std::string, const Module*>> Module::named_modules() const {
  std::vector<std::pair<std::string, const Module*>> all;
  collect(*this, "", all);
  return all;
}

void Module::apply(const std::function<void(Module&)>& change) {
  for (Module* child : children_) child->apply(change);
  change(*this);
}

void Module::add_missing(const Module&) {}

void Module::add_all_missing(const Module& other) {
  add_missing(other);
  for (Module* child : children_) {
    for (const Module* twin : other.children_) {
      if (child->name_ == twin->name_) child->add_all_missing(*twin);
    }
  }
}

void Module::become(const Module& other, CallSite site) {
  const CallScope call("become", site);
  if (&other == this) return;
  add_all_missing(other);
  const auto here = named_modules();
  const auto there = other.named_modules();
  const bool same = std::equal(here.begin(), here.end(), there.begin(), there.end(),
                               [](const auto& a, const auto& b) { return a.first == b.first; });
  if (!same) {
    fail<ValueError>("the other module does not consist of the same modules", {},
                     "construct this one as the other was: pass clone the same arguments");
  }
  load_state_dict(other.state_dict());
  // The values once more, now without a cast to what this module was made with.
  const StateDict::Map values = other.state_dict();
  const auto take = [&](auto cells) {
    for (auto& [key, cell] : cells) {
      if (const auto value = values.find(key); value != values.end()) cell.set(value->second);
    }
  };
  take(named_parameters());
  take(named_buffers());
  const auto theirs = other.named_parameters();
  auto ours = named_parameters();
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i].second.requires_grad(theirs[i].second.requires_grad());
  for (std::size_t i = 0; i < here.size(); ++i) here[i].second->training_ = there[i].second->training_;
}

void detail::keeping_draws(const std::function<void()>& make) {
  Generator& generator = default_generator();
  struct Restore {
    Generator& generator;
    std::uint64_t seed, draws;
    ~Restore() { generator.restore(seed, draws); }
  } restore{generator, generator.seed(), generator.draws()};
  make();
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
