#include "parallel/pipeline_impl.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "dist/group.h"
#include "graph/make.h"
#include "optim/clip_factor.h"
#include "optim/scaler_access.h"
#include "parallel/shard_scope.h"
#include "parallel/shard_tree.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

void check_alike(const Group& group, const std::string& what, std::uint64_t number) {
  for (const Tensor& one : group.all_gather(Tensor::from(std::vector{std::bit_cast<std::int64_t>(number)}, {1}))) {
    check<ValueError>(std::bit_cast<std::uint64_t>(one.item<std::int64_t>()) == number,
                      fmt::format("ranks differ in {}", what));
  }
}

std::int64_t elements_of(const nn::Layer& layer) {
  std::int64_t sum = 0;
  for (const nn::Parameter& parameter : layer.parameters()) sum += parameter.numel();
  return sum;
}

// Each rank goes on until it has its share of what there is, and leaves a layer with parameters to each rank behind it.
std::vector<std::int64_t> equal_stages(const nn::Sequential& module, int ranks) {
  std::vector<double> sizes;
  double all = 0;
  for (std::size_t i = 0; i < module.size(); ++i) {
    sizes.push_back(static_cast<double>(elements_of(module[i])));
    all += sizes.back();
  }
  std::vector<std::int64_t> layers(static_cast<std::size_t>(ranks), 0);
  std::int64_t left = std::ranges::count_if(sizes, [](double size) { return size > 0; });
  double before = 0;
  int rank = 0;
  bool has_some = false;
  for (const double size : sizes) {
    const bool is_full = before + size / 2 > all * (rank + 1) / ranks || left < ranks - rank;
    if (size > 0 && has_some && is_full && rank + 1 < ranks) {
      ++rank;
      has_some = false;
    }
    has_some = has_some || size > 0;
    if (size > 0) --left;
    before += size;
    ++layers[static_cast<std::size_t>(rank)];
  }
  return layers;
}

// What a rank says of the tensor that it gives to the next one.
std::vector<std::int64_t> head_of(const Tensor& x) {
  std::vector<std::int64_t> head{static_cast<std::int64_t>(default_generator().draws()),
                                 static_cast<std::int64_t>(x.dtype()), static_cast<std::int64_t>(x.rank())};
  for (int i = 0; i < x.rank(); ++i) head.push_back(x.shape()[i]);
  head.resize(3 + kMaxRank, 0);
  return head;
}

}  // namespace

void Pipeline::Impl::place() {
  std::vector<std::int64_t> counts = options.layers.empty() ? equal_stages(module, group.size()) : options.layers;
  std::size_t layer = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) first = layer;
    bool is_trained = false;
    for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(rank)]; ++i, ++layer) {
      for (const nn::Parameter& parameter : module[layer].parameters()) {
        parameters.push_back({parameter, rank, parameter.requires_grad()});
        is_trained = is_trained || parameter.requires_grad();
        if (rank == group.rank() && parameter.requires_grad()) own.push_back(parameter);
      }
      for (const auto& [name, buffer] : module[layer].named_buffers()) buffers.emplace_back(buffer, rank);
    }
    check<ValueError>(is_trained, fmt::format("rank {} has no layer with parameters to train", rank), {},
                      "use fewer ranks, or say PipelineOptions::layers");
    if (rank == group.rank()) end = layer;
  }
}

// Those of the others go.
void Pipeline::Impl::divide() {
  if (!std::exchange(is_whole, false)) return;
  for (Placed& one : parameters) {
    if (one.rank == group.rank()) continue;
    const Tensor& value = one.parameter;
    one.parameter.requires_grad(false);
    one.parameter.set(graph::away_tensor(nullptr, value.shape(), value.dtype(), value.device()));
  }
}

void Pipeline::Impl::give(const Tensor& output) const {
  group.send(Tensor::from(head_of(output), {3 + kMaxRank}, Device{}), group.rank() + 1);
  group.send(detach(output), group.rank() + 1);
}

Tensor Pipeline::Impl::get(Device device) const {
  const Tensor like = zeros({3 + kMaxRank}, {.dtype = DType::i64, .device = Device{}});
  const std::vector<std::int64_t> head = group.recv(like, group.rank() - 1).to_vector<std::int64_t>();
  const bool is_tensor = head[1] >= 0 && head[1] < kDTypeCount && head[2] >= 0 && head[2] <= kMaxRank;
  if (!is_tensor) {
    throw DistributedError(fmt::format("dist: what rank {} gives is no tensor", group.rank() - 1), group.rank() - 1);
  }
  default_generator().restore(default_generator().seed(), static_cast<std::uint64_t>(head[0]));
  const std::span<const std::int64_t> sizes(head.data() + 3, static_cast<std::size_t>(head[2]));
  return group.recv(zeros(Shape(sizes), {.dtype = static_cast<DType>(head[1]), .device = device}), group.rank() - 1);
}

Pipeline::Impl::MicroBatch Pipeline::Impl::forward(const data::Batch& shard, const Loss& loss) const {
  MicroBatch held;
  held.input = is_first() ? shard.input : requires_grad(get(own.front().device()));
  held.output = held.input;
  for (std::size_t i = first; i < end; ++i) held.output = module[i](held.output);
  if (is_last()) {
    held.output = loss(held.output, shard.target);
    held.output.eval();  // while the rank before computes the next one
  } else {
    give(held.output);
  }
  check<ValueError>(is_tracked(held.output), fmt::format("what rank {} computes has no gradient", group.rank()),
                    {{"output", held.output}});
  return held;
}

void Pipeline::Impl::backward(const MicroBatch& held, double weight, const optim::GradScaler* scaler,
                              CallSite site) const {
  if (is_last()) {
    const Tensor weighted = weight == 1 ? held.output : held.output * weight;
    lockstep::backward(scaler == nullptr ? weighted : scaler->scale(weighted), {}, site);
  } else {
    lockstep::backward(held.output, {.seed = group.recv(detach(held.output), group.rank() + 1)}, site);
  }
  if (is_first()) return;
  const Tensor gradient = grad(held.input);
  group.send(gradient.defined() ? detach(gradient) : zeros_like(detach(held.input)), group.rank() - 1);
}

void Pipeline::Impl::update(optim::Optimizer& optimizer, optim::GradScaler* scaler, CallSite site) const {
  const double scale = scaler == nullptr ? 1 : scaler->scale();
  if (options.clip_norm) {
    const Tensor factor = optim::clip_factor(norm(), *options.clip_norm * scale);
    for (nn::Parameter parameter : own) {
      const Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      const DType wide = graph::wide(gradient.dtype());
      parameter.set_grad((gradient.to(wide) * factor.to(wide)).to(gradient.dtype()));
    }
  }
  const bool any = std::ranges::any_of(own, [](const nn::Parameter& one) { return one.grad().defined(); });
  bool is_finite = true;
  if (scaler != nullptr) {
    is_finite = all(!any || optim::GradScalerAccess::sees_finite(*scaler, optimizer));
    optim::GradScalerAccess::adapt(*scaler, is_finite);
  }
  if (any && is_finite) optimizer.step_scaled(1 / scale, site);
}

bool Pipeline::Impl::all(bool here) const {
  for (const Tensor& one : group.all_gather(Tensor::from(std::vector{std::uint8_t{here}}, {1}, Device{}))) {
    if (one.item<std::uint8_t>() == 0) return false;
  }
  return true;
}

// As Parallel adds it: in the order of the shards, in f64.
double Pipeline::Impl::total(const std::vector<double>& weights, const std::vector<Tensor>& losses) const {
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) sum += weights[i] * losses[i].to(DType::f64).item<double>();
  return group.broadcast(Tensor::from(std::vector{sum}, {1}, Device{}), group.size() - 1).item<double>();
}

Pipeline::Pipeline(nn::Sequential& module, Group group, const PipelineOptions& options, CallSite site) {
  const CallScope call("Pipeline", site);
  const auto ranks = static_cast<std::size_t>(group.size());
  check<ValueError>(options.shards >= 2 && options.shards <= kMostShards &&
                        std::has_single_bit(static_cast<unsigned>(options.shards)),
                    fmt::format("{} shards", options.shards), {},
                    fmt::format("use a power of two from 2 to {}", kMostShards));
  check<ValueError>(module.size() >= ranks, fmt::format("{} layers for {} ranks", module.size(), ranks));
  if (!options.layers.empty()) {
    std::int64_t sum = 0;
    for (const std::int64_t count : options.layers) sum += std::max<std::int64_t>(count, 0);
    check<ValueError>(options.layers.size() == ranks && sum == static_cast<std::int64_t>(module.size()) &&
                          std::ranges::min(options.layers) >= 1,
                      "PipelineOptions::layers gives each rank some of the layers, and all of them together");
  }
  impl_.reset(new Impl{module, std::move(group), options});
  impl_->place();
  check<ValueError>(!options.clip_norm || *options.clip_norm >= 0, "clip_norm must not be negative");
  check_alike(impl_->group, "the number of shards", static_cast<std::uint64_t>(options.shards));
  check_alike(impl_->group, "the norm that gradients are clipped to",
              options.clip_norm ? std::bit_cast<std::uint64_t>(*options.clip_norm) : ~std::uint64_t{0});
  check_alike(impl_->group, "the layers of each stage",
              options.layers.empty() ? 0 : Tensor::from(options.layers, {static_cast<std::int64_t>(ranks)}).hash());
  check_alike(impl_->group, "the weights (seed them alike before the model is made, or load one file)",
              nn::state_hash(module.state_dict()));
  check_alike(impl_->group, "the seed of random draws (call manual_seed on every rank)", default_generator().seed());
  check_alike(impl_->group, "the number of random draws", default_generator().draws());
  impl_->divide();
}

Pipeline::~Pipeline() = default;

std::vector<nn::Parameter> Pipeline::parameters() const {
  return impl_->own;
}

data::LocalBatches Pipeline::batches(data::DataLoader& loader) const {
  return data::LocalBatches(loader, {.of = impl_->options.shards, .first = 0, .count = impl_->options.shards});
}

double Pipeline::step(optim::Optimizer& optimizer, const data::LocalBatch& batch, const Loss& loss, CallSite site) {
  const CallScope call("Pipeline::step", site);
  return impl_->step(optimizer, batch, loss, nullptr, site);
}

double Pipeline::step(optim::Optimizer& optimizer, const data::LocalBatch& batch, const Loss& loss,
                      optim::GradScaler& scaler, CallSite site) {
  const CallScope call("Pipeline::step", site);
  return impl_->step(optimizer, batch, loss, optim::GradScalerAccess::is_enabled(scaler) ? &scaler : nullptr, site);
}

double Pipeline::Impl::step(optim::Optimizer& optimizer, const data::LocalBatch& batch, const Loss& loss,
                            optim::GradScaler* scaler, CallSite site) {
  const int shards = options.shards;
  check<ValueError>(static_cast<int>(batch.shards.size()) == shards,
                    fmt::format("{} shards of the batch, where there are {}", batch.shards.size(), shards), {},
                    "loop over Pipeline::batches(loader)");
  check<ValueError>(batch.examples > 0, "the batch has no examples");
  divide();
  ShardBuffers stage_buffers(module);
  std::vector<MicroBatch> held;  // of shards that have examples, which come first
  std::vector<double> weights;
  std::vector<Tensor> losses;
  {
    const ShardGenerators generators(shards);
    for (int shard = 0; shard < shards; ++shard) {
      const std::int64_t count = examples_of(shards, shard, batch.examples);
      if (count == 0) break;
      weights.push_back(static_cast<double>(count) / static_cast<double>(batch.examples));
      generators.begin(shard);
      stage_buffers.begin();
      held.push_back(forward(batch.shards[static_cast<std::size_t>(shard)], loss));
      stage_buffers.end(weights.back());
      if (is_last()) losses.push_back(detach(held.back().output));
    }
  }
  std::vector<ShardTree> trees(own.size());
  std::vector<bool> present(own.size());
  for (int shard = 0; shard < shards; ++shard) {
    optimizer.zero_grad();
    if (static_cast<std::size_t>(shard) < held.size()) {
      MicroBatch& one = held[static_cast<std::size_t>(shard)];
      backward(one, weights[static_cast<std::size_t>(shard)], scaler, site);
      one = {};
    }
    for (std::size_t p = 0; p < own.size(); ++p) {
      const Tensor& gradient = own[p].grad();
      present[p] = present[p] || gradient.defined();
      const Tensor value = gradient.defined() ? detach(gradient) : zeros_like(detach(own[p]));
      trees[p].add({{shard, 1}, value.eval()});
    }
  }
  const NoGrad no_grad;
  const Group alone = GroupAccess::make({});
  stage_buffers.combine(alone, {.of = shards, .first = 0, .count = shards}, stage_buffers.changed());
  for (std::size_t p = 0; p < own.size(); ++p) {
    if (present[p]) own[p].set_grad(trees[p].nodes().front().sum);
  }
  update(optimizer, scaler, site);
  optimizer.zero_grad();
  return total(weights, losses);
}

void Pipeline::make_whole(CallSite site) {
  const CallScope call("Pipeline::make_whole", site);
  Impl& impl = *impl_;
  const NoGrad no_grad;
  for (Impl::Placed& one : impl.parameters) {
    const bool is_own = one.rank == impl.group.rank();
    const Tensor like =
        is_own ? detach(one.parameter)
               : zeros(one.parameter.shape(), {.dtype = one.parameter.dtype(), .device = one.parameter.device()});
    const Tensor value = impl.group.broadcast(like, one.rank);
    if (is_own) continue;
    one.parameter.set(value);
    one.parameter.requires_grad(one.is_trained);
  }
  for (auto& [buffer, rank] : impl.buffers) {
    const Tensor value = impl.group.broadcast(buffer.tensor(), rank);
    if (rank != impl.group.rank()) buffer.set(value);
  }
  impl.is_whole = true;
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
