// Making optimisers, their groups, and their state on its way to files and back.
#include <lockstep/optim/optimizer.h>

#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "optim/optimizer_impl.h"
#include "optim/state_reader.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

std::string state_prefix(const std::string& key) {
  return "state." + key + ".";
}

std::vector<std::string> keys_of(const std::vector<nn::Parameter>& parameters) {
  std::map<std::string, int> times;
  std::vector<std::string> keys;
  for (const nn::Parameter& parameter : parameters) {
    const int before = times[parameter.name()]++;
    keys.push_back(before == 0 ? parameter.name() : fmt::format("{}#{}", parameter.name(), before));
  }
  return keys;
}

Optimizer::Optimizer(const char* name, ParameterGroups groups, const Common& common, CallSite site)
    : impl_(std::make_unique<Impl>()) {
  const CallScope call(name, site);
  impl_->name = name;
  impl_->common = common;
  check<ValueError>(!common.momentum || (*common.momentum >= 0 && *common.momentum < 1),
                    "momentum (or betas) must be in [0, 1)");
  for (const ParameterGroup& group : groups.list()) {
    check<ValueError>(!group.parameters.empty(), "a group has no parameters");
    const Impl::Group values{group.lr.value_or(common.lr), group.weight_decay.value_or(common.weight_decay),
                             common.momentum.value_or(0)};
    check<ValueError>(std::isfinite(values.lr) && values.lr >= 0, "the learning rate must be finite and not negative");
    check<ValueError>(std::isfinite(values.weight_decay) && values.weight_decay >= 0,
                      "the weight decay must be finite and not negative");
    for (const nn::Parameter& parameter : group.parameters) {
      check<ValueError>(parameter.defined(), "a parameter is undefined");
      for (const nn::Parameter& other : impl_->parameters) {
        if (same_slot(parameter, other)) {
          fail<ValueError>("a parameter is given twice", {{"parameter", parameter.tensor()}},
                           "list each parameter once, in one group");
        }
      }
      impl_->parameters.push_back(parameter);
      impl_->trained.push_back({parameter, impl_->groups.size(), {}, 0, {}});
    }
    impl_->groups.push_back(values);
  }
  check<ValueError>(!impl_->groups.empty(), "there are no parameters");
  std::vector<std::string> keys = keys_of(impl_->parameters);
  for (std::size_t i = 0; i < keys.size(); ++i) impl_->trained[i].key = std::move(keys[i]);
}

Optimizer::~Optimizer() = default;

// --- groups -----------------------------------------------------------------------------------------------------

Optimizer::Impl::Group& Optimizer::Impl::group(std::size_t number) {
  if (number >= groups.size()) {
    fail<IndexError>(fmt::format("{} has {} groups, there is no group {}", name, groups.size(), number));
  }
  return groups[number];
}

double Optimizer::lr(std::size_t group, CallSite site) const {
  const CallScope call("lr", site);
  return impl_->group(group).lr;
}

void Optimizer::set_lr(double lr, CallSite site) {
  const CallScope call("set_lr", site);
  for (std::size_t group = 0; group < group_count(); ++group) set_lr(group, lr);
}

void Optimizer::set_lr(std::size_t group, double lr, CallSite site) {
  const CallScope call("set_lr", site);
  Impl::Group& values = impl_->group(group);
  check<ValueError>(std::isfinite(lr) && lr >= 0, "the learning rate must be finite and not negative");
  values.lr = lr;
}

double Optimizer::momentum(std::size_t group, CallSite site) const {
  const CallScope call("momentum", site);
  return impl_->group(group).momentum;
}

void Optimizer::set_momentum(std::size_t group, double momentum, CallSite site) {
  const CallScope call("set_momentum", site);
  Impl::Group& values = impl_->group(group);
  check<ValueError>(impl_->common.momentum.value_or(0) != 0, fmt::format("{} was made without momentum", impl_->name));
  check<ValueError>(momentum >= 0 && momentum < 1, "momentum must be in [0, 1)");
  values.momentum = momentum;
}

std::size_t Optimizer::group_count() const {
  return impl_->groups.size();
}

const std::vector<nn::Parameter>& Optimizer::parameters() const {
  return impl_->parameters;
}

void Optimizer::zero_grad() {
  for (nn::Parameter& parameter : impl_->parameters) parameter.zero_grad();
}

// --- state ------------------------------------------------------------------------------------------------------

std::vector<std::string> OptimizerAccess::state_prefixes(const Optimizer& optimizer) {
  std::vector<std::string> result;
  for (const auto& trained : optimizer.impl_->trained) result.push_back(state_prefix(trained.key));
  return result;
}

nn::StateDict Optimizer::state_dict() const {
  const CallScope call("state_dict", CallSite("", 0));
  nn::StateDict result;
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    result.push_back(fmt::format("group.{}.lr", g), saved_number(impl_->groups[g].lr));
    result.push_back(fmt::format("group.{}.momentum", g), saved_number(impl_->groups[g].momentum));
  }
  impl_->take_apart();
  for (const Impl::Trained& trained : impl_->trained) {
    if (trained.step == 0) continue;
    const std::string prefix = state_prefix(trained.key);
    result.push_back(prefix + "step", saved_count(trained.step));
    const std::vector<State> kinds = impl_->states(*this, trained.parameter);
    for (std::size_t s = 0; s < kinds.size(); ++s) result.push_back(prefix + kinds[s].name, trained.state[s]);
  }
  return result;
}

void Optimizer::load_state_dict(const nn::StateDict& state, CallSite site) {
  const CallScope call("load_state_dict", site);
  StateReader reader(impl_->name, state);
  std::vector<Impl::Group> groups = impl_->groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].lr = reader.number(fmt::format("group.{}.lr", g));
    groups[g].momentum = reader.number(fmt::format("group.{}.momentum", g));
  }
  std::vector<Impl::Trained> all = impl_->trained;
  for (Impl::Trained& trained : all) {
    trained.step = 0;
    trained.state.clear();
    const std::string prefix = state_prefix(trained.key);
    const std::vector<State> kinds = impl_->states(*this, trained.parameter);
    bool present = reader.has(prefix + "step");
    for (const State& kind : kinds) present = present || reader.has(prefix + kind.name);
    if (!present) continue;  // never stepped
    trained.step = reader.count(prefix + "step");
    const DType dtype = impl_->state_dtype(trained.parameter.dtype());
    for (const State& kind : kinds) {
      const Tensor value = reader.tensor(prefix + kind.name, dtype, kind.shape.value_or(trained.parameter.shape()));
      if (value.defined()) trained.state.push_back(value.to(trained.parameter.device()));
    }
  }
  reader.finish();
  for (const Impl::Group& group : groups) {
    check<ValueError>(std::isfinite(group.lr) && group.lr >= 0 && group.momentum >= 0 && group.momentum < 1,
                      "a learning rate or momentum is out of range");
  }
  impl_->batches.clear();
  impl_->groups = std::move(groups);
  impl_->trained = std::move(all);
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
