#include <lockstep/parallel.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "core/call.h"
#include "optim/scaler_access.h"
#include "parallel/parallel_impl.h"
#include "parallel/shard_tree.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

// Ranges of parameters, in their order, of about one size.
std::vector<int> owners_of(const std::vector<nn::Parameter>& parameters, int ranks) {
  double all = 0;
  for (const nn::Parameter& parameter : parameters) all += static_cast<double>(parameter.numel());
  std::vector<int> owners;
  double before = 0;
  for (const nn::Parameter& parameter : parameters) {
    const double middle = before + static_cast<double>(parameter.numel()) / 2;
    owners.push_back(all == 0 ? 0 : std::min(ranks - 1, static_cast<int>(middle * ranks / all)));
    before += static_cast<double>(parameter.numel());
  }
  return owners;
}

std::vector<std::uint64_t> numbers_of_all(const Group& group, std::uint64_t number) {
  std::vector<std::uint64_t> numbers;
  const Tensor own = Tensor::from(std::vector{std::bit_cast<std::int64_t>(number)}, Shape(), Device{});
  for (const Tensor& one : group.all_gather(own))
    numbers.push_back(std::bit_cast<std::uint64_t>(one.item<std::int64_t>()));
  return numbers;
}

data::Batch part_of(const data::Batch& batch, std::int64_t first, std::int64_t count) {
  data::Batch part{.input = batch.input.narrow(0, first, count), .target = {}};
  if (batch.target.defined()) part.target = batch.target.narrow(0, first, count);
  return part;
}

}  // namespace

Parallel::Parallel(nn::Module& module, optim::Optimizer& optimizer, Group group, const ParallelOptions& options,
                   CallSite site) {
  const CallScope call("Parallel", site);
  const int ranks = group.size();
  check<ValueError>(options.shards >= 1 && options.shards <= kMostShards &&
                        std::has_single_bit(static_cast<unsigned>(options.shards)),
                    fmt::format("{} shards", options.shards), {},
                    fmt::format("use a power of two up to {}", kMostShards));
  check<ValueError>(ranks <= options.shards, fmt::format("{} ranks share {} shards", ranks, options.shards), {},
                    "as many shards as ranks, or more");
  check<ValueError>(options.zero == 0 || options.zero == 1 || options.zero == 3,
                    fmt::format("zero is {}", options.zero), {}, "use 0, 1 or 3");
  check<ValueError>(!options.clip_norm || *options.clip_norm >= 0, "clip_norm must not be negative");
  check<ValueError>(options.compare_every >= 0, "compare_every is negative");
  check<ValueError>(options.bucket_bytes >= 0, "bucket_bytes is negative");
  check<ValueError>(options.gather_bytes >= 0, "gather_bytes is negative");
  check<ValueError>(options.whole_bytes >= 0, "whole_bytes is negative");
  impl_.reset(new Impl{module, optimizer, std::move(group), options, optimizer.parameters(),
                       owners_of(optimizer.parameters(), ranks)});
  check_same("the number of shards", static_cast<std::uint64_t>(options.shards));
  check_same("zero", static_cast<std::uint64_t>(options.zero));
  check_same("bucket_bytes", static_cast<std::uint64_t>(options.bucket_bytes));
  check_same("gather_bytes", static_cast<std::uint64_t>(options.gather_bytes));
  check_same("whole_bytes", static_cast<std::uint64_t>(options.whole_bytes));
  check_same("compare_every", static_cast<std::uint64_t>(options.compare_every));
  check_same("clip_norm", std::bit_cast<std::uint64_t>(options.clip_norm.value_or(-1)));
  check_same("the hash of the weights (seed ranks alike before the model is made, or load one file)",
             nn::state_hash(module.state_dict()));
  if (options.shards > 1) {
    check_same("the seed of random draws (call manual_seed on every rank)", default_generator().seed());
    check_same("the number of random draws", default_generator().draws());
  }
  if (options.zero == 3 && ranks > 1) {
    impl_->keeper = std::make_shared<ParameterKeeper>(
        impl_->group, impl_->parameters, impl_->owners,
        ParameterKeeper::Limits{.unit_bytes = options.gather_bytes, .whole_bytes = options.whole_bytes});
    impl_->keeper->divide();
  }
}

Parallel::~Parallel() = default;

const Group& Parallel::group() const {
  return impl_->group;
}
const ParallelOptions& Parallel::options() const {
  return impl_->options;
}
data::ShardRange Parallel::own_shards() const {
  return impl_->own();
}

StepResult Parallel::step(const data::LocalBatch& batch,
                          const std::function<Measured(const data::Batch& shard)>& measure, CallSite site) {
  const CallScope call("Parallel::step", site);
  const StepResult result = impl_->step(batch, measure, nullptr, site);
  if (impl_->options.compare_every > 0 && impl_->steps % impl_->options.compare_every == 0) compare(site);
  return result;
}

StepResult Parallel::step(const data::LocalBatch& batch,
                          const std::function<Measured(const data::Batch& shard)>& measure, optim::GradScaler& scaler,
                          CallSite site) {
  const CallScope call("Parallel::step", site);
  const bool is_enabled = optim::GradScalerAccess::is_enabled(scaler);
  const StepResult result = impl_->step(batch, measure, is_enabled ? &scaler : nullptr, site);
  if (impl_->options.compare_every > 0 && impl_->steps % impl_->options.compare_every == 0) compare(site);
  return result;
}

StepResult Parallel::step(const data::Batch& batch, const std::function<Measured(const data::Batch& shard)>& measure,
                          CallSite site) {
  const CallScope call("Parallel::step", site);
  check_defined({{"input", batch.input}});
  check<ShapeError>(batch.input.rank() >= 1, "a batch has a first dimension", {{"input", batch.input}});
  const std::int64_t examples = batch.input.size(0);
  if (batch.target.defined()) {
    check<ShapeError>(batch.target.rank() >= 1 && batch.target.size(0) == examples,
                      "input and target have different numbers of examples",
                      {{"input", batch.input}, {"target", batch.target}});
  }
  data::LocalBatch local{.shards = {}, .examples = examples};
  const data::ShardRange own = own_shards();
  const std::int64_t least = examples / own.of;
  const std::int64_t longer = examples % own.of;
  for (std::int64_t shard = own.first; shard < own.first + own.count; ++shard) {
    const std::int64_t count = least + (shard < longer ? 1 : 0);
    local.shards.push_back(count == 0 ? data::Batch{} : part_of(batch, shard * least + std::min(shard, longer), count));
  }
  return step(local, measure, site);
}

bool Parallel::any(bool here, CallSite site) const {
  const CallScope call("Parallel::any", site);
  const std::vector<std::uint64_t> all = numbers_of_all(impl_->group, here ? 1 : 0);
  return std::ranges::find(all, 1u) != all.end();
}

void Parallel::check_same(const std::string& what, std::uint64_t number, CallSite site) const {
  const CallScope call("Parallel::check_same", site);
  const std::vector<std::uint64_t> all = numbers_of_all(impl_->group, number);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    fail<ValueError>(fmt::format("{} differs: {:x} on rank 0, {:x} on rank {}", what, all[0], all[rank], rank));
  }
}

void Parallel::together(bool here, const std::function<void()>& work, CallSite site) {
  const CallScope call("Parallel::together", site);
  const auto run = [&] {
    const CallExchange users(nullptr);
    work();
  };
  if (impl_->keeper == nullptr || impl_->is_whole) {
    if (here) run();
    return;
  }
  std::vector<bool> all;
  for (const std::uint64_t one : numbers_of_all(impl_->group, here ? 1 : 0)) all.push_back(one != 0);
  if (std::ranges::find(all, true) == all.end()) return;
  impl_->keeper->pass(all, run);
  GroupAccess::finish(impl_->group);
}

void Parallel::make_whole(CallSite site) {
  const CallScope call("Parallel::make_whole", site);
  if (impl_->keeper == nullptr || std::exchange(impl_->is_whole, true)) return;
  impl_->keeper->make_whole();
  GroupAccess::finish(impl_->group);
}

void Parallel::compare(CallSite site) const {
  const CallScope call("Parallel::compare", site);
  const std::map<std::string, int> divided = impl_->divided_by_name();
  nn::StateDict replicated;
  for (const auto& [name, tensor] : impl_->module.state_dict()) {
    if (!divided.contains(name)) replicated.push_back(name, tensor);
  }
  const std::vector<std::uint64_t> hashes = numbers_of_all(impl_->group, nn::state_hash(replicated));
  std::map<std::uint64_t, int> votes;
  for (const std::uint64_t hash : hashes) ++votes[hash];
  if (votes.size() == 1) return;
  const auto most = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  const bool is_clear = 2 * most->second > static_cast<int>(hashes.size());
  int blamed = -1;
  std::string list;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (is_clear && hashes[rank] != most->first && blamed < 0) blamed = static_cast<int>(rank);
    list += fmt::format("\n  rank {}: {:016x}", rank, hashes[rank]);
  }
  throw DistributedError(
      fmt::format(
          "dist: {} after step {}: its memory, processor or device gave a wrong bit, or code changed its weights "
          "alone\n  hashes of the weights:{}\n  fix: go on from the last checkpoint without that machine",
          is_clear ? fmt::format("the weights of rank {} differ from the others'", blamed)
                   : std::string("weights differ between ranks"),
          impl_->steps, list),
      blamed);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
