// The state of a stage on its way to a checkpoint of the whole, and back.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "optim/optimizer_impl.h"
#include "parallel/pipeline_impl.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

void check_own(const optim::Optimizer& optimizer, const std::vector<nn::Parameter>& own) {
  const auto is_same = [](const nn::Parameter& a, const nn::Parameter& b) { return same_slot(a, b); };
  check<ValueError>(optimizer.group_count() == 1 && std::ranges::equal(optimizer.parameters(), own, is_same),
                    "the optimiser is not one of Pipeline::parameters(), in one group");
}

bool begins_with_any(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); });
}

// `name` with the prefix of the same place in the other list.
std::string renamed(const std::string& name, const std::vector<std::string>& from, const std::vector<std::string>& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (name.starts_with(from[i])) return to[i] + name.substr(from[i].size());
  }
  return name;
}

}  // namespace

std::vector<std::string> Pipeline::Impl::whole_prefixes() const {
  std::vector<nn::Parameter> trained;
  std::vector<bool> is_here;
  for (const Placed& one : parameters) {
    if (!one.is_trained) continue;
    trained.push_back(one.parameter);
    is_here.push_back(one.rank == group.rank());
  }
  const std::vector<std::string> keys = optim::keys_of(trained);
  std::vector<std::string> prefixes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (is_here[i]) prefixes.push_back(optim::state_prefix(keys[i]));
  }
  return prefixes;
}

std::map<std::string, int> Pipeline::Impl::ranks_by_name() const {
  std::map<std::string, int> ranks;
  for (const auto& [name, parameter] : module.named_parameters()) {
    for (const Placed& one : parameters) {
      if (same_slot(one.parameter, parameter)) ranks[name] = one.rank;
    }
  }
  for (const auto& [name, buffer] : module.named_buffers()) {
    for (const auto& [other, rank] : buffers) {
      if (same_slot(other, buffer)) ranks[name] = rank;
    }
  }
  return ranks;
}

nn::StateDict Pipeline::own_module_state(CallSite site) const {
  const CallScope call("Pipeline::own_module_state", site);
  const std::map<std::string, int> ranks = impl_->ranks_by_name();
  nn::StateDict state;
  for (const auto& [name, tensor] : impl_->module.state_dict()) {
    if (ranks.at(name) == impl_->group.rank()) state.push_back(name, tensor);
  }
  return state;
}

void Pipeline::load_module_state(const nn::StateDict& state, CallSite site) {
  const CallScope call("Pipeline::load_module_state", site);
  if (impl_->is_whole) return impl_->module.load_state_dict(state, {}, site);
  const std::map<std::string, int> ranks = impl_->ranks_by_name();
  nn::StateDict own;
  for (const auto& [name, value] : impl_->module.state_dict()) {
    const Tensor* saved = state.find(name);
    check<ValueError>(saved != nullptr, fmt::format("{} is missing", name));
    check<ShapeError>(saved->shape() == value.shape(), fmt::format("{} has another shape", name),
                      {{"saved", *saved}, {"module", value}});
    if (ranks.at(name) == impl_->group.rank()) own.push_back(name, *saved);
  }
  for (const auto& [name, value] : state) {
    check<ValueError>(ranks.contains(name), fmt::format("the module has no {}", name));
  }
  impl_->module.load_state_dict(own, {.strict = false}, site);
}

nn::StateDict Pipeline::own_optimizer_state(const optim::Optimizer& optimizer, CallSite site) const {
  const CallScope call("Pipeline::own_optimizer_state", site);
  check_own(optimizer, impl_->own);
  const std::vector<std::string> here = optim::OptimizerAccess::state_prefixes(optimizer);
  const std::vector<std::string> whole = impl_->whole_prefixes();
  nn::StateDict state;
  for (const auto& [name, tensor] : optimizer.state_dict()) {
    if (impl_->is_first() || begins_with_any(name, here)) state.push_back(renamed(name, here, whole), tensor);
  }
  return state;
}

void Pipeline::load_optimizer_state(optim::Optimizer& optimizer, const nn::StateDict& state, CallSite site) const {
  const CallScope call("Pipeline::load_optimizer_state", site);
  check_own(optimizer, impl_->own);
  const std::vector<std::string> here = optim::OptimizerAccess::state_prefixes(optimizer);
  const std::vector<std::string> whole = impl_->whole_prefixes();
  nn::StateDict own;
  for (const auto& [name, tensor] : state) {
    if (!name.starts_with("state.") || begins_with_any(name, whole)) own.push_back(renamed(name, whole, here), tensor);
  }
  optimizer.load_state_dict(own, site);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
