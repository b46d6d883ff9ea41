#include <lockstep/optim/ema.h>

#include <set>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "graph/make.h"
#include "graph/window.h"
#include "optim/state_reader.h"
#include "optim/together.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

EMA::EMA(nn::Module& module, EMAOptions options, CallSite site) : options_(options) {
  const CallScope call("EMA", site);
  if (!(options.decay >= 0 && options.decay <= 1)) {
    fail<ValueError>("decay must be in [0, 1]");
  }
  for (const auto& [name, parameter] : module.named_parameters()) averages_.push_back({name, parameter, {}});
  if (!options.use_buffers) return;
  for (const auto& [name, buffer] : module.named_buffers()) {
    if (is_float(buffer.dtype())) averages_.push_back({name, buffer, {}});
  }
}

void EMA::update(CallSite site) {
  const CallScope call("update", site);
  const NoGrad scope;
  std::vector<Tensor> values;
  for (const Average& average : averages_) values.push_back(detach(average.cell));
  std::set<Device> devices;
  for (const Pack& pack : pack_kinds(values, Layout::Gaps::any)) {
    const Device device = pack.flat.device();
    const DType dtype = graph::wide(pack.flat.dtype());
    Tensor next = pack.flat.to(dtype);
    if (updates_ > 0) {
      std::vector<Tensor> before;
      for (const std::size_t i : pack.members) {
        before.push_back(averages_[i].value.to(device).to(dtype));
      }
      next = lerp(pack.layout.pack(before, Layout::Gaps::any), next, 1 - options_.decay);
    }
    for (std::size_t m = 0; m < pack.members.size(); ++m) {
      averages_[pack.members[m]].value = pack.layout.part(next, m);
    }
    devices.insert(device);
  }
  ++updates_;
  values.clear();
  for (const Device device : devices) graph::flush(device);
}

EMA::Applied EMA::applied(CallSite site) const {
  return Applied(*this, site);
}

EMA::Applied::Applied(const EMA& average, CallSite site) {
  const CallScope call("applied", site);
  if (average.updates_ == 0) {
    fail<ValueError>("there is no average yet", {}, "call update() after each step");
  }
  const NoGrad scope;
  for (const Average& entry : average.averages_) {
    Cell cell = entry.cell;
    values_.emplace_back(cell, detach(cell));
    cell.set(entry.value.to(cell.dtype()).to(cell.device()));
  }
}

EMA::Applied::~Applied() {
  for (auto& [cell, value] : values_) cell.set(value);
}

nn::StateDict EMA::state_dict() const {
  nn::StateDict result;
  result.push_back("updates", saved_count(updates_));
  for (const Average& average : averages_) {
    if (updates_ > 0) result.push_back("average." + average.name, average.value);
  }
  return result;
}

void EMA::load_state_dict(const nn::StateDict& state, CallSite site) {
  const CallScope call("load_state_dict", site);
  StateReader reader("EMA", state);
  const std::int64_t updates = reader.count("updates");
  std::vector<Tensor> values;
  for (const Average& average : averages_) {
    if (updates == 0) continue;
    values.push_back(reader.tensor("average." + average.name, graph::wide(average.cell.dtype()), average.cell.shape()));
  }
  reader.finish();
  updates_ = updates;
  for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i].value = updates == 0 ? Tensor() : values[i];
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
