// Steps: which parameters are changed together, and how they and their state lie in memory meanwhile.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autocast.h>
#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>
#include <lockstep/optim/optimizer.h>

#include "graph/make.h"
#include "graph/window.h"
#include "optim/optimizer_impl.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

using graph::wide;

namespace {

/// The state that holds f32 values of f16 and bf16 parameters.
constexpr const char* kMaster = "master";

// Of parameters that are changed together. New values and state stand beside the old ones while they are computed, so
// this bounds what a step needs besides; below it launches would begin to count.
constexpr std::int64_t kBatchBytes = std::int64_t{64} << 20;

}  // namespace

void Optimizer::step(CallSite site) {
  const CallScope call("step", site);
  step_scaled(1);
}

void Optimizer::step_scaled(double factor, CallSite site) {
  const CallScope call("step_scaled", site);
  impl_->apply(*this, factor);
  impl_->flush();
}

void Optimizer::step(const Tensor& loss, CallSite site) {
  const CallScope call("step", site);
  zero_grad();
  backward(loss, {});
  impl_->apply(*this, 1);
  zero_grad();  // before the flush: nobody wants the gradients themselves
  impl_->flush();
}

void Optimizer::Impl::apply(const Optimizer& optimizer, double factor) {
  const NoGrad scope;
  const Autocast outside(DType::f32);
  const std::vector<Members> lists = active(optimizer);
  if (lists.empty()) {
    fail<ValueError>(fmt::format("none of the {} parameters of {} has a gradient", trained.size(), name), {},
                     "call backward(loss) before step(), or step(loss)");
  }
  arrange(lists, optimizer);
  for (Batch& batch : batches) {
    {
      const graph::RecordsToTheEnd whole;
      change(batch, optimizer, factor);
    }
    graph::flush_if_full(batch.device);
  }
}

void Optimizer::Impl::flush() const {
  std::set<Device> devices;
  for (const nn::Parameter& parameter : parameters) devices.insert(parameter.device());
  for (const Device device : devices) graph::flush(device);
}

// --- who is changed with whom -----------------------------------------------------------------------------------

std::vector<Optimizer::Impl::Members> Optimizer::Impl::active(const Optimizer& optimizer) const {
  std::map<std::tuple<std::size_t, DType, Device, std::int64_t>, std::size_t> position;
  std::vector<Members> lists;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const nn::Parameter& parameter = trained[i].parameter;
    if (!parameter.grad().defined()) continue;
    const std::int64_t bytes = parameter.numel() * static_cast<std::int64_t>(size_of(parameter.dtype()));
    const auto [found, fresh] = position.try_emplace(
        {trained[i].group, parameter.dtype(), parameter.device(), optimizer.phase(trained[i].step)}, lists.size());
    if (fresh || !optimizer.is_elementwise() || sizes[found->second] + bytes > kBatchBytes) {
      found->second = lists.size();
      lists.push_back({i});
      sizes.push_back(bytes);
    } else {
      lists[found->second].push_back(i);
      sizes[found->second] += bytes;
    }
  }
  return lists;
}

void Optimizer::Impl::arrange(const std::vector<Members>& lists, const Optimizer& optimizer) {
  const bool unchanged = std::equal(
      lists.begin(), lists.end(), batches.begin(), batches.end(), [&](const Members& list, const Batch& batch) {
        const nn::Parameter& first = parameters[list[0]];
        return list == batch.members && first.dtype() == batch.dtype && first.device() == batch.device;
      });
  if (unchanged) return;
  take_apart();
  std::vector<Batch> made;
  for (const Members& list : lists) made.push_back(batch(list, optimizer));
  batches = std::move(made);
  for (const Members& list : lists) {
    for (const std::size_t i : list) trained[i].state.clear();
  }
}

void Optimizer::Impl::take_apart() {
  for (const Batch& batch : batches) {
    for (std::size_t m = 0; m < batch.members.size(); ++m) {
      for (const Tensor& state : batch.state) {
        trained[batch.members[m]].state.push_back(batch.is_flat() ? batch.arena.layout().part(state, m) : state);
      }
    }
  }
  batches.clear();
}

Optimizer::Impl::Batch Optimizer::Impl::batch(const Members& members, const Optimizer& optimizer) const {
  std::vector<nn::Parameter> cells;
  for (const std::size_t i : members) cells.push_back(parameters[i]);
  Batch result{members, cells[0].dtype(), cells[0].device(), Arena(cells), {}};
  const DType dtype = state_dtype(result.dtype);
  const TensorOptions options{.dtype = dtype, .device = result.device};
  const bool fresh = std::all_of(members.begin(), members.end(), [&](std::size_t i) { return trained[i].step == 0; });

  const std::vector<State> kinds = states(optimizer, cells[0]);
  for (std::size_t s = 0; s < kinds.size(); ++s) {
    if (fresh && result.is_flat()) {
      result.state.push_back(kinds[s].name == kMaster
                                 ? result.arena.values().to(dtype)
                                 : full({result.arena.layout().size()}, kinds[s].initial, options));
      continue;
    }
    std::vector<Tensor> parts;
    for (const std::size_t i : members) {
      const Trained& member = trained[i];
      if (s < member.state.size()) {
        parts.push_back(member.state[s].to(result.device).to(dtype));
      } else if (kinds[s].name == kMaster) {
        parts.push_back(detach(member.parameter).to(dtype));
      } else {
        parts.push_back(full(kinds[s].shape.value_or(member.parameter.shape()), kinds[s].initial, options));
      }
    }
    result.state.push_back(result.is_flat() ? result.arena.layout().pack(parts, Layout::Gaps::any) : parts[0]);
  }
  return result;
}

// --- the change -------------------------------------------------------------------------------------------------

bool Optimizer::Impl::has_master(DType dtype) const {
  return common.master_weights && wide(dtype) != dtype;
}

DType Optimizer::Impl::state_dtype(DType dtype) const {
  return common.master_weights ? wide(dtype) : dtype;
}

std::vector<Optimizer::State> Optimizer::Impl::states(const Optimizer& optimizer,
                                                      const nn::Parameter& parameter) const {
  std::vector<State> result = optimizer.states(parameter.shape());
  if (has_master(parameter.dtype())) result.push_back({.name = kMaster});
  return result;
}

void Optimizer::Impl::change(Batch& batch, const Optimizer& optimizer, double factor) {
  const bool flat = batch.is_flat();
  const DType working = wide(batch.dtype);
  const Layout& layout = batch.arena.layout();
  const Group& group = groups[trained[batch.members[0]].group];

  std::vector<Tensor> gradients;
  for (const nn::Parameter& parameter : batch.arena.parameters()) gradients.push_back(detach(parameter.grad()));
  Tensor gradient = gradients[0];
  if (flat) {
    gradient = layout.pack(gradients, Layout::Gaps::any);
    // They stay where they lie now: nobody needs them in memory of their own besides.
    for (std::size_t m = 0; m < batch.members.size(); ++m) {
      parameters[batch.members[m]].set_grad(layout.part(gradient, m));
    }
  }
  gradients.clear();
  gradient = gradient.to(working);
  if (factor != 1) gradient = gradient * factor;
  if (common.maximize) gradient = -gradient;

  Change change{.lr = group.lr,
                .weight_decay = group.weight_decay,
                .momentum = group.momentum,
                .step = trained[batch.members[0]].step + 1,
                .gradient = std::move(gradient),
                .value = batch.arena.values().to(working),
                .state = {}};
  for (const Tensor& state : batch.state) change.state.push_back(state.to(working));
  if (has_master(batch.dtype)) {
    // The master value, unless somebody gave the parameter another one since.
    const Tensor master = std::move(change.state.back());
    change.state.pop_back();
    const Tensor rounded = master.to(batch.dtype).to(working);
    change.value = where(eq(rounded, change.value), master, change.value);
  }

  optimizer.update(change);

  if (has_master(batch.dtype)) change.state.push_back(change.value);
  for (std::size_t s = 0; s < batch.state.size(); ++s) {
    batch.state[s] = change.state[s].to(state_dtype(batch.dtype));
  }
  batch.arena.set_values(change.value.to(batch.dtype));
  for (const std::size_t i : batch.members) ++trained[i].step;
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
