#include "nn/replays.h"

#include <algorithm>
#include <utility>

#include <lockstep/numerics.h>

#include "graph/autocast.h"
#include "graph/capture_watch.h"
#include "graph/make.h"
#include "graph/record.h"
#include "graph/recording.h"
#include "graph/tape.h"

namespace lockstep {
inline namespace v0 {
namespace nn {
namespace {

constexpr std::size_t kMostEntries = 4;
constexpr std::size_t kMostKinds = 64;
// Runs of a kind before one is recorded, and how many more are tried where that fails.
constexpr int kBefore = 2;
constexpr int kTries = 2;

std::vector<std::uint64_t> numbers_of(const std::vector<Cell>& weights) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(weights.size());
  for (const Cell& cell : weights) numbers.push_back(cell.defined() ? graph::node_of(cell.tensor())->id : 0);
  return numbers;
}

}  // namespace

void append_kind(std::string& kind, std::int64_t number) {
  kind.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_kind(std::string& kind, const Tensor& input) {
  append_kind(kind, static_cast<std::int64_t>(input.dtype()));
  append_kind(kind, input.rank());
  for (const std::int64_t size : input.shape()) append_kind(kind, size);
}

std::vector<Tensor> tensors_of(const Replays::Map& map) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : map) tensors.push_back(tensor);
  return tensors;
}

bool changes_arithmetic() {
  return graph::is_autocasting() || current_numerics() != Numerics::exact;
}

bool looks_at_nodes(std::span<const Tensor> inputs, const std::vector<Cell>& weights) {
  return changes_arithmetic() || is_followed(inputs, weights);
}

bool is_followed(std::span<const Tensor> inputs, const std::vector<Cell>& weights) {
  if (graph::is_recording() || graph::looks_at_new_nodes() || graph::is_capturing()) return true;
  const auto is_traced = [](const Tensor& tensor) { return graph::is_tracing({&tensor}); };
  return std::any_of(inputs.begin(), inputs.end(), is_traced) ||
         std::any_of(weights.begin(), weights.end(),
                     [&](const Cell& cell) { return cell.defined() && is_traced(cell.tensor()); });
}

std::optional<Replays::Map> Replays::run(const std::vector<Cell>& weights, const std::string& kind,
                                         std::span<const Tensor> inputs, std::span<const Tensor> given_up) {
  std::shared_ptr<graph::Captured> captured;
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.kind == kind; });
    if (found == entries_.end()) return std::nullopt;
    if (found->weights != numbers_of(weights)) {
      entries_.erase(found);
      ordinary_.erase(kind);
      return std::nullopt;
    }
    captured = found->captured;
    names = found->outputs;
  }
  std::optional<std::vector<Tensor>> results = captured->run(inputs, given_up);
  if (!results) {
    if (captured->has_missed()) {
      const std::lock_guard lock(mutex_);
      std::erase_if(entries_, [&](const Entry& entry) { return entry.captured == captured; });
    }
    return std::nullopt;
  }
  Map outputs;
  for (std::size_t i = 0; i < names.size(); ++i) outputs.emplace(std::move(names[i]), std::move((*results)[i]));
  return outputs;
}

bool Replays::wants(const std::string& kind, bool at_once) {
  const std::lock_guard lock(mutex_);
  if (ordinary_.size() > kMostKinds) ordinary_.clear();
  const int before = ordinary_[kind]++;
  if ((before < kBefore && !at_once) || before >= kBefore + kTries) return false;
  return std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.kind == kind; });
}

void Replays::keep(const std::vector<Cell>& weights, std::string kind, const Map& outputs,
                   std::unique_ptr<graph::Captured> captured) {
  if (captured == nullptr) return;
  Entry entry{std::move(kind), numbers_of(weights), {}, std::move(captured)};
  for (const auto& [name, tensor] : outputs) entry.outputs.push_back(name);
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kMostEntries) entries_.erase(entries_.begin());
  entries_.push_back(std::move(entry));
}

void Replays::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  ordinary_.clear();
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
