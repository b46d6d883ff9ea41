#include "io/onnx/replays.h"

#include <algorithm>
#include <utility>

#include "graph/make.h"
#include "io/onnx/value.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

constexpr std::size_t kMostEntries = 4;
constexpr std::size_t kMostKinds = 64;
// Runs of a kind before one is recorded, and how many more are tried where that fails.
constexpr int kBefore = 2;
constexpr int kTries = 2;

void append(std::string& kind, std::int64_t number) {
  kind.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::vector<std::uint64_t> numbers_of(const std::vector<Cell>& weights) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(weights.size());
  for (const Cell& cell : weights) numbers.push_back(cell.defined() ? graph::node_of(cell.tensor())->id : 0);
  return numbers;
}

}  // namespace

bool is_known(const Tensor& input) {
  const graph::Node& node = *graph::node_of(input);
  return input.numel() == 1 && input.rank() <= 1 && is_host(input.device()) && !is_float(input.dtype()) &&
         fits_host(input.dtype(), input.shape()) && graph::form_of(node.op) == graph::Form::given;
}

std::vector<Tensor> unknown_of(const TensorMap& inputs) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : inputs) {
    if (!is_known(tensor)) tensors.push_back(tensor);
  }
  return tensors;
}

std::vector<Tensor> tensors_of(const TensorMap& map) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : map) tensors.push_back(tensor);
  return tensors;
}

std::string Replays::kind_of(const TensorMap& inputs) {
  std::string kind;
  for (const auto& [name, tensor] : inputs) {
    kind += name;
    append(kind, static_cast<std::int64_t>(tensor.dtype()));
    append(kind, tensor.rank());
    for (const std::int64_t size : tensor.shape()) append(kind, size);
    if (is_known(tensor)) append(kind, read_to_host(tensor).integers.front());
  }
  return kind;
}

std::optional<TensorMap> Replays::run(const std::vector<Cell>& weights, const std::string& kind,
                                      const TensorMap& inputs) {
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
  std::optional<std::vector<Tensor>> results = captured->run(unknown_of(inputs));
  if (!results) return std::nullopt;
  TensorMap outputs;
  for (std::size_t i = 0; i < names.size(); ++i) outputs.emplace(std::move(names[i]), std::move((*results)[i]));
  return outputs;
}

bool Replays::wants(const std::string& kind) {
  const std::lock_guard lock(mutex_);
  if (ordinary_.size() > kMostKinds) ordinary_.clear();
  const int before = ordinary_[kind]++;
  if (before < kBefore || before >= kBefore + kTries) return false;
  return std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.kind == kind; });
}

void Replays::keep(const std::vector<Cell>& weights, std::string kind, const TensorMap& outputs,
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

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
