#include <lockstep/data/loader.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check.h>

#include "core/fp_state.h"
#include "data/prefetcher.h"
#include "data/random.h"
#include "data/state.h"

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr int kMaxPrefetch = 1 << 20;
constexpr std::int64_t kMaxShards = 1 << 16;

// A data set's functions may draw from the thread's generator: it then depends on the batch and not on the thread.
class GeneratorScope {
 public:
  GeneratorScope(std::uint64_t seed, std::uint64_t epoch, std::int64_t batch) : found_(default_generator()) {
    RandomStream stream(seed, Purpose::user_code, epoch, static_cast<std::uint64_t>(batch));
    default_generator().restore(stream.word64(), 0);
  }
  ~GeneratorScope() { default_generator() = found_; }
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  Generator found_;
};

std::uint64_t draw_seed(const DataLoaderOptions& options) {
  if (options.seed) return *options.seed;
  Generator& from = options.generator == nullptr ? default_generator() : *options.generator;
  return RandomStream(from.seed(), Purpose::seed, 0, from.next_draw()).word64();
}

void check_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return;
  fail<ValueError>(fmt::format("{} is {}", name, value), {},
                   high == INT64_MAX ? fmt::format("use {} or more", low) : fmt::format("use {} to {}", low, high));
}

}  // namespace

struct DataLoader::State {
  DatasetPtr dataset;
  DataLoaderOptions options;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::int64_t position = 0;
  bool in_loop = false;

  std::int64_t examples(std::int64_t batch) const {
    return std::min(options.batch_size, dataset->size() - batch * options.batch_size);
  }
  std::int64_t batches() const {
    const std::int64_t full = dataset->size() / options.batch_size;
    return full + (options.drop_last || dataset->size() % options.batch_size == 0 ? 0 : 1);
  }
  void check_outside_loop() const {
    check<ValueError>(!in_loop, "a loop over this loader is under way", {}, "let it end first, or use another loader");
  }
};

// What one loop over the rest of an epoch needs. Its items, the wanted shards of all batches, are made by the workers, or
// else by the caller.
struct DataLoader::Pass {
  Pass(State& of, const ShardRange& wanted)
      : state(of), shards(wanted), end(of.batches() * shards.count), epoch(of.epoch), next(of.position * shards.count) {
    const auto stream = RandomStream(state.seed, Purpose::shuffle, epoch, 0);
    if (state.options.shuffle) order = permutation(state.dataset->size(), stream);
    if (state.options.workers > 0 && next < end) {
      prefetcher.emplace(next, end, state.options.workers, state.options.workers * state.options.prefetch,
                         [this](std::int64_t i) { return make(i); });
    }
    state.in_loop = true;
  }
  ~Pass() { state.in_loop = false; }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // Reads nothing that changes: workers call it.
  Batch make(std::int64_t item) const {
    const std::int64_t batch = item / shards.count;
    const std::int64_t shard = shards.first + item % shards.count;
    const std::int64_t least = state.examples(batch) / shards.of;
    const std::int64_t longer = state.examples(batch) % shards.of;
    const std::int64_t first = batch * state.options.batch_size + shard * least + std::min(shard, longer);
    const std::int64_t count = least + (shard < longer ? 1 : 0);
    if (count == 0) return {};
    std::vector<std::int64_t> indices;
    indices.reserve(static_cast<std::size_t>(count));
    for (std::int64_t k = first; k < first + count; ++k) {
      indices.push_back(order.empty() ? k : order[static_cast<std::size_t>(k)]);
    }
    const NoGrad no_grad;
    const FloatingPointScope arithmetic;
    const GeneratorScope generator(state.seed, epoch, batch * shards.of + shard);
    return state.dataset->fetch({indices, state.seed, epoch});
  }

  void advance() {
    current = {};
    ended = true;  // unless a batch arrives
    if (next == end) {
      ++state.epoch;
      state.position = 0;
      return;
    }
    Batch item = prefetcher ? prefetcher->take() : make(next);
    if (item.input.defined()) item.input = item.input.to(state.options.device);
    if (item.target.defined()) item.target = item.target.to(state.options.device);
    current = std::move(item);
    ended = false;
    state.position = next++ / shards.count + 1;
  }

  State& state;
  const ShardRange shards;
  const std::int64_t end;
  const std::uint64_t epoch;
  std::int64_t next;
  std::vector<std::int64_t> order;  // empty: as they come
  Batch current;
  bool ended = false;
  std::optional<Prefetcher> prefetcher;  // last: its threads end before anything that they use
};

DataLoader::DataLoader(DatasetPtr dataset, DataLoaderOptions options, CallSite site)
    : state_(std::make_unique<State>()) {
  const CallScope call("DataLoader", site);
  if (!dataset) fail<ValueError>("there is no data set", {}, "pass one");
  check_range("batch_size", options.batch_size, 1, INT64_MAX);
  check_range("workers", options.workers, 0, kMaxWorkers);
  check_range("prefetch", options.prefetch, 1, kMaxPrefetch);
  Tensor::from(std::vector<float>(1), {1}, options.device);  // DeviceError now and not in the first epoch
  state_->seed = draw_seed(options);
  options.generator = nullptr;
  state_->dataset = std::move(dataset);
  state_->options = options;
  if (state_->batches() == 0) {
    const std::int64_t size = state_->dataset->size();
    fail<ValueError>(size == 0 ? std::string("the data set is empty")
                               : fmt::format("{} examples do not fill one batch of {}, and drop_last drops it", size,
                                             options.batch_size),
                     {}, size == 0 ? "check where the examples come from" : "use smaller batches, or keep the last");
  }
}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

const Dataset& DataLoader::dataset() const {
  return *state_->dataset;
}
std::int64_t DataLoader::batches() const {
  return state_->batches();
}
std::int64_t DataLoader::examples(std::int64_t batch) const {
  return state_->examples(batch);
}
std::uint64_t DataLoader::seed() const {
  return state_->seed;
}
std::uint64_t DataLoader::epoch() const {
  return state_->epoch;
}
std::int64_t DataLoader::position() const {
  return state_->position;
}

void DataLoader::set_epoch(std::uint64_t epoch, CallSite site) {
  const CallScope call("DataLoader::set_epoch", site);
  state_->check_outside_loop();
  state_->epoch = epoch;
  state_->position = 0;
}

DataLoader::Iterator DataLoader::begin(CallSite site) {
  return begin(ShardRange{}, site);
}

DataLoader::Iterator DataLoader::begin(const ShardRange& shards, CallSite site) {
  {
    const CallScope call("DataLoader::begin", site);
    state_->check_outside_loop();
    check_range("a batch's number of shards", shards.of, 1, kMaxShards);
    check_range("the first shard", shards.first, 0, shards.of - 1);
    check_range("the number of wanted shards", shards.count, 1, shards.of - shards.first);
  }
  Iterator iterator(std::make_unique<Pass>(*state_, shards));
  ++iterator;
  return iterator;
}

nn::StateDict DataLoader::state_dict() const {
  nn::StateDict state;
  put_integer(state, "seed", state_->seed);
  put_integer(state, "epoch", state_->epoch);
  put_integer(state, "position", static_cast<std::uint64_t>(state_->position));
  put_integer(state, "examples", static_cast<std::uint64_t>(state_->dataset->size()));
  put_integer(state, "batch_size", static_cast<std::uint64_t>(state_->options.batch_size));
  put_integer(state, "shuffle", state_->options.shuffle);
  put_integer(state, "drop_last", state_->options.drop_last);
  return state;
}

void DataLoader::load_state_dict(const nn::StateDict& state, CallSite site) {
  const CallScope call("DataLoader::load_state_dict", site);
  state_->check_outside_loop();
  check_names(state, {"seed", "epoch", "position", "examples", "batch_size", "shuffle", "drop_last"});
  // Of another size or order the position would mean other examples.
  const nn::StateDict own = state_dict();
  for (const char* name : {"examples", "batch_size", "shuffle", "drop_last"}) {
    const std::uint64_t saved = get_integer(state, name);
    const std::uint64_t here = get_integer(own, name);
    if (saved == here) continue;
    fail<ValueError>(fmt::format("the state is of a loader with {} = {}, and this one has {}", name, saved, here), {},
                     "continue with the data and options that the run began with");
  }
  const std::uint64_t seed = get_integer(state, "seed");
  const std::uint64_t epoch = get_integer(state, "epoch");
  const std::uint64_t position = get_integer(state, "position");
  if (position > static_cast<std::uint64_t>(batches())) {
    fail<ValueError>(fmt::format("batch {} of an epoch of {}", position, batches()), {}, "load what state_dict() gave");
  }
  state_->seed = seed;
  state_->epoch = epoch;
  state_->position = static_cast<std::int64_t>(position);
}

DataLoader::Iterator::Iterator(std::unique_ptr<Pass> pass) : pass_(std::move(pass)) {}
DataLoader::Iterator::~Iterator() = default;
DataLoader::Iterator::Iterator(Iterator&&) noexcept = default;
DataLoader::Iterator& DataLoader::Iterator::operator=(Iterator&&) noexcept = default;

const Batch& DataLoader::Iterator::operator*() const {
  return pass_->current;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  pass_->advance();
  return *this;
}

bool DataLoader::Iterator::at_end() const {
  return pass_->ended;
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
