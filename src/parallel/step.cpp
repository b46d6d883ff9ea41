// A step: gradients of this rank's shards, their sum over all ranks, the optimiser's change.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autocast.h>
#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "dist/group.h"
#include "graph/make.h"
#include "graph/window.h"
#include "optim/clip_factor.h"
#include "optim/scaler_access.h"
#include "parallel/parallel_impl.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

std::vector<Tensor> Parallel::Impl::values() const {
  std::vector<Tensor> values;
  for (const nn::Parameter& parameter : parameters) values.push_back(detach(parameter));
  return values;
}

bool Parallel::Impl::has_examples(std::int64_t shard, std::int64_t examples) const {
  return examples_of(options.shards, shard, examples) > 0;
}
double Parallel::Impl::weight_of(std::int64_t shard, std::int64_t examples) const {
  return static_cast<double>(examples_of(options.shards, shard, examples)) / static_cast<double>(examples);
}

StepResult Parallel::Impl::step(const data::LocalBatch& batch, const Measure& measure, optim::GradScaler* scaler,
                                CallSite site) {
  check<ValueError>(static_cast<std::int64_t>(batch.shards.size()) == own().count,
                    fmt::format("{} shards of the batch, and this rank has {}", batch.shards.size(), own().count), {},
                    "loop over Parallel::batches(loader)");
  check<ValueError>(batch.examples > 0, "the batch has no examples");
  if (keeper != nullptr && std::exchange(is_whole, false)) keeper->divide();
  ShardBuffers buffers(module);
  Local local;
  local.scaler = scaler;
  compute(batch, measure, buffers, local, site);
  std::vector<bool> changed = buffers.changed();
  const std::size_t sums = agree(local, changed);
  bool stepped = true;
  {
    const NoGrad no_grad;
    const Autocast outside(DType::f32);
    if (options.shards > 1) buffers.combine(group, own(), changed);
    stepped = update(local, scaler, site);
  }
  StepResult result = total(local, sums, batch.examples);
  GroupAccess::finish(group);
  result.stepped = stepped;
  ++steps;
  return result;
}

void Parallel::Impl::compute(const data::LocalBatch& batch, const Measure& measure, ShardBuffers& buffers, Local& local,
                             CallSite site) {
  std::vector<bool> trained;
  std::set<Device> devices;
  for (const nn::Parameter& parameter : parameters) {
    trained.push_back(parameter.requires_grad());
    devices.insert(parameter.device());
  }
  local.kinds = flat_kinds(values(), trained);
  local.buckets = buckets_of(local.kinds, group.size() == 1 ? 0 : options.bucket_bytes);
  local.exchange = std::make_unique<BucketExchange>(group, options.shards, local.kinds, local.buckets,
                                                    slices_of(local.kinds), options.clip_norm.has_value(), parameters);
  local.present.resize(parameters.size());
  const ShardGenerators generators(options.shards);
  std::int64_t most = 0;  // shards of a rank
  for (int rank = 0; rank < group.size(); ++rank) {
    most = std::max(most, shards_of(options.shards, group.size(), rank).count);
  }
  for (std::int64_t i = 0; i < most; ++i) {
    const std::int64_t shard = own().first + i;
    if (i < own().count && !has_examples(shard, batch.examples)) {
      // Of all that this rank has: a shard with examples never comes after one without.
      optimizer.zero_grad();
      for (Bucket& bucket : local.buckets) local.exchange->add(bucket, shard);
    }
    pass(i, batch.examples, [&] {
      const double weight = weight_of(shard, batch.examples);
      generators.begin(shard);
      buffers.begin();
      optimizer.zero_grad();
      const Measured measured = measure(batch.shards[static_cast<std::size_t>(i)]);
      buffers.end(weight);
      measure_shard(measured, weight, local, shard, batch.examples, site);
      optimizer.zero_grad();
      if (options.shards == 1) return;  // computed with the optimiser's change
      // Activations go now.
      for (const Device device : devices) graph::flush(device);
    });
  }
  local.exchange->begin_all(-1);  // where the last shard had no examples
}

void Parallel::Impl::pass(std::int64_t i, std::int64_t examples, const std::function<void()>& work) const {
  std::vector<bool> here;
  for (int rank = 0; rank < group.size(); ++rank) {
    const data::ShardRange range = shards_of(options.shards, group.size(), rank);
    here.push_back(i < range.count && has_examples(range.first + i, examples));
  }
  if (std::ranges::find(here, true) == here.end()) return;
  if (keeper != nullptr) {
    keeper->pass(here, work);
  } else if (here[static_cast<std::size_t>(group.rank())]) {
    work();
  }
}

void Parallel::Impl::measure_shard(const Measured& measured, double weight, Local& local, std::int64_t shard,
                                   std::int64_t examples, CallSite site) {
  check_defined({{"loss", measured.loss}});
  // Where parameters come meanwhile, in one order on all ranks, all of them must have such a shard now.
  const bool are_alike = keeper == nullptr || (options.shards % group.size() == 0 && examples >= options.shards);
  const bool is_last =
      group.size() > 1 && options.bucket_bytes > 0 && are_alike && shard == own().first + own().count - 1;
  {
    Additions seen;
    const graph::LeafWatch exchange = is_last ? local.exchange->watch(shard, additions) : graph::LeafWatch();
    const graph::LeafWatch watch = [&](const Tensor* sink) {
      ++seen[sink];
      if (exchange) exchange(sink);
    };
    std::optional<graph::WatchedLeaves> watched;
    if (group.size() > 1) watched.emplace(watch);
    const Tensor weighted = weight == 1 ? measured.loss : measured.loss * weight;
    backward(local.scaler == nullptr ? weighted : local.scaler->scale(weighted), {}, site);
    additions = std::move(seen);
  }
  const NoGrad no_grad;
  for (const FlatKind& kind : local.kinds) {
    for (const std::size_t p : kind.members) {
      const bool is_there = parameters[p].grad().defined() || additions.contains(&parameters[p].grad());
      local.present[p] = local.present[p] || is_there;
    }
  }
  if (is_last) {
    local.exchange->begin_all(shard);
  } else {
    for (Bucket& bucket : local.buckets) local.exchange->add(bucket, shard);
  }
  std::vector<Tensor> values{detach(measured.loss)};
  for (const Tensor& sum : measured.sums) values.push_back(detach(sum));
  local.held.push_back(std::move(values));
}

std::size_t Parallel::Impl::agree(Local& local, std::vector<bool>& changed) const {
  std::vector<std::uint8_t> mine{static_cast<std::uint8_t>(local.held.empty() ? 0 : local.held.front().size())};
  for (const bool present : local.present) mine.push_back(present ? 1 : 0);
  for (const bool one : changed) mine.push_back(one ? 1 : 0);
  std::vector<std::uint8_t> all = mine;
  for (const Tensor& other : group.all_gather(Tensor::from(mine, {static_cast<std::int64_t>(mine.size())}, Device{}))) {
    const std::vector<std::uint8_t> theirs = other.to_vector<std::uint8_t>();
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], theirs[i]);
  }
  const std::size_t first_buffer = 1 + local.present.size();
  for (std::size_t p = 0; p < local.present.size(); ++p) local.present[p] = all[1 + p] != 0;
  for (std::size_t b = 0; b < changed.size(); ++b) changed[b] = all[first_buffer + b] != 0;
  return all[0];
}

std::vector<Slices> Parallel::Impl::slices_of(const std::vector<FlatKind>& kinds) const {
  std::vector<Slices> all;
  for (const FlatKind& kind : kinds) {
    Slices& slices = all.emplace_back();
    if (options.zero == 0) {
      slices.are_gathered = true;
      continue;
    }
    const Cuts cuts = owner_cuts(kind);
    slices.first.assign(cuts.begin(), cuts.end() - 1);
    slices.end.assign(cuts.begin() + 1, cuts.end());
    if (!options.clip_norm) continue;
    for (std::size_t r = 0; r < slices.first.size(); ++r) {  // whole chunks, for the norm
      if (slices.first[r] == slices.end[r]) continue;
      slices.first[r] = floor_chunk(slices.first[r]);
      slices.end[r] = std::min(ceil_chunk(slices.end[r]), kind.layout.size());
    }
  }
  return all;
}

std::vector<Tensor> Parallel::Impl::sums_of(Local& local) const {
  check<ValueError>(std::ranges::find(local.present, true) != local.present.end(),
                    fmt::format("none of the {} parameters has a gradient", parameters.size()), {},
                    "give Parallel the optimiser of the module whose loss is measured");
  std::vector<Tensor> sums = local.exchange->take();
  const bool is_complete = std::ranges::all_of(local.kinds, [&](const FlatKind& kind) {
    return std::ranges::all_of(kind.members, [&](std::size_t p) { return local.present[p]; });
  });
  // Elements are added alike wherever they lie; a norm's chunks lie elsewhere without those that have none.
  if (is_complete || !options.clip_norm) return sums;
  keep_present(local);
  const std::vector<Slices> slices = slices_of(local.kinds);
  sums.clear();
  for (std::size_t k = 0; k < local.kinds.size(); ++k) {
    if (!slices[k].are_gathered) {
      sums.push_back(sum_of_shards(group, options.shards, local.gradients[k], slices[k].first, slices[k].end));
      continue;
    }
    const Cuts cuts = equal_cuts(local.kinds[k].layout.size(), group.size());
    const Tensor sum = sum_of_shards(group, options.shards, local.gradients[k], {cuts.begin(), cuts.end() - 1},
                                     {cuts.begin() + 1, cuts.end()});
    sums.push_back(gathered(group, sum, cuts));
  }
  return sums;
}

void Parallel::Impl::keep_present(Local& local) const {
  std::vector<FlatKind> kinds = flat_kinds(values(), local.present);
  std::vector<ShardTree> trees(kinds.size());
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    // By parameter: its bucket, and its place there.
    std::map<std::size_t, std::pair<const Bucket*, std::size_t>> places;
    for (const Bucket& bucket : local.buckets) {
      for (std::size_t m = bucket.first; m < bucket.end; ++m) {
        places[local.kinds[bucket.kind].members[m]] = {&bucket, m - bucket.first};
      }
    }
    const std::vector<ShardTree::Node>& nodes =
        local.buckets.front().tree.nodes();  // every bucket has the same subtrees
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      std::vector<Tensor> parts;
      for (const std::size_t p : kinds[k].members) {
        const auto& [bucket, place] = places.at(p);
        parts.push_back(bucket->layout.part(bucket->tree.nodes()[n].sum, place));
      }
      trees[k].add({nodes[n].subtree, kinds[k].layout.pack(parts, optim::Layout::Gaps::zero)});
    }
  }
  local.kinds = std::move(kinds);
  local.gradients = std::move(trees);
}

Cuts Parallel::Impl::owner_cuts(const FlatKind& kind) const {
  Cuts cuts(static_cast<std::size_t>(group.size()) + 1, kind.layout.size());
  for (std::size_t m = kind.members.size(); m-- > 0;) {
    for (int rank = 0; rank <= owners[kind.members[m]]; ++rank) {
      cuts[static_cast<std::size_t>(rank)] = kind.layout.offset(m);
    }
  }
  return cuts;
}

bool Parallel::Impl::update(Local& local, optim::GradScaler* scaler, CallSite site) {
  const auto own_rank = static_cast<std::size_t>(group.rank());
  std::vector<Tensor> parts = sums_of(local);
  std::vector<std::int64_t> begins;  // where they begin
  for (const Slices& slices : slices_of(local.kinds)) {
    begins.push_back(slices.are_gathered || group.size() == 1 ? 0 : slices.first[own_rank]);
  }
  const double scale = scaler == nullptr ? 1 : scaler->scale();
  std::optional<Tensor> factor;
  if (options.clip_norm) factor = optim::clip_factor(norm_of(local.kinds, parts), *options.clip_norm * scale);
  bool any = false;
  for (std::size_t k = 0; k < local.kinds.size(); ++k) {
    const FlatKind& kind = local.kinds[k];
    Tensor part = parts[k];
    if (factor) {
      const DType wide = graph::wide(part.dtype());
      part = (part.to(wide) * factor->to(wide).to(part.device())).to(part.dtype());
    }
    for (std::size_t m = 0; m < kind.members.size(); ++m) {
      nn::Parameter& parameter = parameters[kind.members[m]];
      if (!is_own(kind.members[m]) || !local.present[kind.members[m]]) continue;
      any = true;
      parameter.set_grad(
          part.narrow(0, kind.layout.offset(m) - begins[k], parameter.numel()).reshape(parameter.shape()));
    }
  }
  parts.clear();
  bool is_finite = true;
  if (scaler != nullptr) {
    is_finite = !any || optim::GradScalerAccess::sees_finite(*scaler, optimizer);
    if (options.zero > 0) is_finite = is_finite_everywhere(is_finite);
    optim::GradScalerAccess::adapt(*scaler, is_finite);
  }
  if (any && is_finite) optimizer.step_scaled(1 / scale, site);
  optimizer.zero_grad();
  if (options.zero > 0 && is_finite) share_values(local);
  return is_finite;
}

bool Parallel::Impl::is_finite_everywhere(bool here) const {
  for (const Tensor& one : group.all_gather(Tensor::from(std::vector{std::uint8_t{here}}, {1}, Device{}))) {
    if (one.item<std::uint8_t>() == 0) return false;
  }
  return true;
}

Tensor Parallel::Impl::norm_of(const std::vector<FlatKind>& kinds, const std::vector<Tensor>& parts) const {
  std::vector<Tensor> norms;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    Tensor squares;
    if (options.zero == 0 || group.size() == 1) {
      squares = squares_of_chunks(parts[k]);
    } else {
      // A chunk belongs to the rank that has its first element.
      Cuts chunks = owner_cuts(kinds[k]);
      for (std::int64_t& cut : chunks) cut = (cut + kChunk - 1) / kChunk;
      const auto rank = static_cast<std::size_t>(group.rank());
      const std::int64_t first = floor_chunk(owner_cuts(kinds[k])[rank]);
      const Tensor all = squares_of_chunks(parts[k]);
      const std::int64_t count = chunks[rank + 1] - chunks[rank];
      squares = gathered(group, all.narrow(0, count == 0 ? 0 : chunks[rank] - first / kChunk, count), chunks);
    }
    norms.push_back(sqrt(graph::reduce(ReduceOp::sum, squares, 1u).reshape({})));
  }
  return optim::norm_of_norms(norms, 2);
}

void Parallel::Impl::share_values(const Local& local) {
  if (group.size() == 1) return;
  for (const FlatKind& kind : local.kinds) {
    std::vector<std::vector<std::size_t>> members(static_cast<std::size_t>(group.size()));
    for (const std::size_t p : kind.members) {
      if (local.present[p] && !is_divided(p)) members[static_cast<std::size_t>(owners[p])].push_back(p);
    }
    std::vector<optim::Layout> layouts;
    std::vector<Shape> shapes;
    for (const std::vector<std::size_t>& list : members) {
      std::vector<Shape> of_parameters;
      for (const std::size_t p : list) of_parameters.push_back(parameters[p].shape());
      layouts.emplace_back(std::move(of_parameters));
      shapes.push_back({layouts.back().size()});
    }
    const auto own_rank = static_cast<std::size_t>(group.rank());
    std::vector<Tensor> values;
    for (const std::size_t p : members[own_rank]) values.push_back(detach(parameters[p]));
    const Tensor mine = values.empty() ? zeros({0}, {.dtype = kind.dtype, .device = kind.device})
                                       : layouts[own_rank].pack(values, optim::Layout::Gaps::zero);
    const std::vector<Tensor> all = group.all_gather(mine, shapes);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank == own_rank) continue;
      for (std::size_t m = 0; m < members[rank].size(); ++m) {
        parameters[members[rank][m]].set(layouts[rank].part(all[rank], m));
      }
    }
  }
}

StepResult Parallel::Impl::total(const Local& local, std::size_t sums, std::int64_t examples) const {
  const auto width = static_cast<std::int64_t>(sums);
  std::vector<double> mine(static_cast<std::size_t>(own().count * width));
  for (std::size_t i = 0; i < local.held.size(); ++i) {
    check<ValueError>(local.held[i].size() == sums, "shards give different numbers of sums");
    for (std::size_t v = 0; v < sums; ++v) mine[i * sums + v] = local.held[i][v].to(DType::f64).item<double>();
  }
  std::vector<Shape> shapes;
  for (int rank = 0; rank < group.size(); ++rank) {
    shapes.push_back({shards_of(options.shards, group.size(), rank).count, width});
  }
  const Tensor own_values = Tensor::from(mine, {own().count, width}, Device{});
  StepResult result;
  result.sums.resize(sums - 1);
  std::int64_t shard = 0;
  for (const Tensor& values : group.all_gather(own_values, shapes)) {
    const std::vector<double> rows = values.to_vector<double>();
    for (std::size_t row = 0; row < rows.size(); row += sums, ++shard) {
      const double weight = weight_of(shard, examples);
      if (weight == 0) continue;
      result.loss += weight * rows[row];
      for (std::size_t v = 1; v < sums; ++v) result.sums[v - 1] += rows[row + v];
    }
  }
  return result;
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
