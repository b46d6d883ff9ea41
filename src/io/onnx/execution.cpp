#include "io/onnx/execution.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io/onnx.h>
#include <lockstep/random.h>

#include "core/assert.h"
#include "core/checked.h"
#include "graph/make.h"
#include "nn/replays.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// The same error, with the node in front: the types are those that a caller may tell apart.
template <typename ErrorType> [[noreturn]] void rethrow(const NodeFacts& node, const ErrorType& error) {
  const std::string_view what = error.what();
  const std::string title = node.title();
  if (what.find(title) != std::string_view::npos) throw ErrorType(std::string(what));
  throw ErrorType(fmt::format("{}: {}", title, what));
}

// What no op computes with is unsupported, not wrong.
bool has_stored_only(std::span<const Value> inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Value& value) { return value.is_tensor() && is_storage_only(value.dtype()); });
}

template <typename RunIt> auto naming(const NodeFacts& node, std::span<const Value> inputs, const RunIt& run) {
  try {
    return run();
  } catch (const UnsupportedError& error) {
    rethrow(node, error);
  } catch (const ShapeError& error) {
    rethrow(node, error);
  } catch (const DTypeError& error) {
    if (has_stored_only(inputs)) rethrow(node, UnsupportedError(error.what()));
    rethrow(node, error);
  } catch (const IndexError& error) {
    rethrow(node, error);
  } catch (const ValueError& error) {
    rethrow(node, error);
  }
}

std::vector<Value> as_values(std::vector<Tensor> tensors) {
  std::vector<Value> values;
  values.reserve(tensors.size());
  for (Tensor& tensor : tensors) values.push_back(tensor.defined() ? Value(std::move(tensor)) : Value());
  return values;
}

std::vector<Value> call_row(const Operator& row, const Call& call) {
  return row.run_values != nullptr ? row.run_values(call) : as_values(row.run(call));
}

bool is_narrow(const Value& value) {
  return value.narrow() != Narrow::none;
}
std::vector<Value> call_with_narrow(const Operator& row, const Call& call, const Value& first) {
  if (row.narrow == NarrowInputs::refused) call.unsupported(kNarrowRefused);
  std::vector<Value> outputs = call_row(row, call);
  if (row.narrow == NarrowInputs::taken) return outputs;
  for (Value& output : outputs) output = Value(output.tensor(call.device()), first.narrow());
  return outputs;
}

// Run on the CPU and read, if all outputs are small; nothing otherwise.
std::optional<std::vector<Value>> on_host(const PlannedNode& node, std::span<const Value> inputs) {
  std::vector<Value> outputs = call_row(*node.row, Call(node, inputs, Device{}));
  for (Value& output : outputs) {
    if (output.absent()) continue;
    output = settled(output);
    if (output.host() == nullptr) return std::nullopt;
  }
  return outputs;
}

constexpr std::uint64_t kMostFixedBytes = 64 << 20;

// Computes what is kept. A view needs no memory of its own.
void evaluate(const Value& value) {
  const Tensor& tensor = value.tensor();
  if (tensor.defined() && !std::holds_alternative<graph::ViewOf>(graph::node_of(tensor)->op)) tensor.eval();
}

// The thread's generator at an earlier draw, while this lives.
class FromDraw {
 public:
  explicit FromDraw(std::uint64_t draw) : after_(default_generator().draws()) {
    default_generator().restore(default_generator().seed(), draw);
  }
  ~FromDraw() { default_generator().restore(default_generator().seed(), after_); }
  FromDraw(const FromDraw&) = delete;
  FromDraw& operator=(const FromDraw&) = delete;

 private:
  std::uint64_t after_;
};

}  // namespace

std::vector<Value> Execution::run_node(const PlannedNode& node, std::span<const Value> inputs) {
  LOCKSTEP_ASSERT(node.row != nullptr);
  const Call call(node, inputs, device_, this, training_);
  return naming(call, inputs, [&]() -> std::vector<Value> {
    const auto on_the_host = [](const Value& value) { return value.absent() || value.host() != nullptr; };
    if (node.domain.empty() && !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), on_the_host)) {
      const bool complete = std::none_of(inputs.begin(), inputs.end(), [](const Value& v) { return v.absent(); });
      if (const HostRule rule = complete ? find_host_rule(node.op) : nullptr) {
        if (auto outputs = rule(call)) return std::move(*outputs);
      }
      if (computes_shapes(node.op)) {
        if (auto outputs = on_host(node, inputs)) return std::move(*outputs);
      }
    }
    if (std::any_of(inputs.begin(), inputs.end(), is_narrow)) return call_with_narrow(*node.row, call, inputs[0]);
    return call_row(*node.row, call);
  });
}

std::vector<Value> Execution::run_again(const NodeRun& run, Device device) const {
  Execution other(constants_, device, training_);
  other.frames_ = frames_;
  const FromDraw same_numbers(run.draws);
  // A value that moves to the device moves in these copies only.
  const std::vector<Value> inputs(run.inputs.begin(), run.inputs.end());
  return other.run_node(run.node, inputs);
}

void Execution::step(const PlannedNode& node, std::vector<Value>& frame) {
  std::vector<Value> inputs(node.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] != kNoSlot) inputs[i] = frame[static_cast<std::size_t>(node.inputs[i])];
  }
  frames_.push_back(&frame);
  const std::uint64_t draws = observer_ == nullptr ? 0 : default_generator().draws();
  std::vector<Value> outputs = run_node(node, inputs);
  if (observer_ != nullptr) observer_->ran({node, inputs, outputs, draws}, *this);
  frames_.pop_back();
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoSlot) continue;
    if (i >= outputs.size()) {
      throw UnsupportedError(fmt::format("{}: output {} is not supported", NodeFacts(node).title(), i));
    }
    frame[static_cast<std::size_t>(node.outputs[i])] = std::move(outputs[i]);
  }
  for (const int slot : node.last_uses) frame[static_cast<std::size_t>(slot)] = Value();
}

// Sets what fixed nodes gave, computing it where it is not known, so that these need not run. False where they must: a
// gradient is wanted of them, somebody looks at every node, or their values are too many to be kept.
bool Execution::restore_fixed(const Plan& plan, std::vector<Value>& frame) {
  if (plan.fixed_results.empty() || observer_ != nullptr || training_ || plan.fixed->refused()) return false;
  std::vector<Value> sources;
  sources.reserve(plan.fixed_sources.size());
  for (const int slot : plan.fixed_sources) {
    sources.push_back(frame[static_cast<std::size_t>(slot)]);
    if (const Tensor& tensor = sources.back().tensor(); tensor.defined() && graph::is_tracing({&tensor})) return false;
  }
  FixedValues::Kept kept = plan.fixed->find(sources);
  if (kept == nullptr) {
    kept = std::make_shared<const std::vector<Value>>(compute_fixed(plan, frame));
    std::uint64_t before = 0, after = 0;
    for (const Value& source : sources) before += bytes_of(source);
    for (const Value& value : *kept) after += bytes_of(value);
    // Integers of a byte may become floats of four; a graph that makes much of little is not worth the memory.
    if (after > 4 * before + kMostFixedBytes) {
      plan.fixed->refuse();
      return false;
    }
    for (const Value& value : *kept) evaluate(value);
    plan.fixed->keep(std::move(sources), kept);
  }
  for (std::size_t i = 0; i < kept->size(); ++i) frame[static_cast<std::size_t>(plan.fixed_results[i])] = (*kept)[i];
  return true;
}

std::vector<Value> Execution::compute_fixed(const Plan& plan, std::vector<Value> frame) {
  const NoGrad no_grad;
  for (const PlannedNode& node : plan.nodes) {
    if (!node.fixed || node.folded) continue;
    std::vector<Value> inputs;
    for (const int slot : node.inputs)
      inputs.push_back(slot == kNoSlot ? Value() : frame[static_cast<std::size_t>(slot)]);
    std::vector<Value> outputs = run_node(node, inputs);
    outputs.resize(std::max(outputs.size(), node.outputs.size()));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoSlot) frame[static_cast<std::size_t>(node.outputs[i])] = std::move(outputs[i]);
    }
  }
  std::vector<Value> results;
  for (const int slot : plan.fixed_results) results.push_back(std::move(frame[static_cast<std::size_t>(slot)]));
  return results;
}

std::vector<Value> Execution::run(const Plan& plan, std::vector<Value> inputs, std::vector<Value> captured) {
  LOCKSTEP_ASSERT(captured.size() == plan.captures.size());
  std::vector<Value> frame(static_cast<std::size_t>(plan.slots));
  for (const SlotOfConstant& entry : plan.constants)
    frame[static_cast<std::size_t>(entry.slot)] = constants_[entry.constant];
  for (std::size_t i = 0; i < inputs.size(); ++i)
    frame[static_cast<std::size_t>(plan.inputs[i])] = std::move(inputs[i]);
  for (std::size_t i = 0; i < captured.size(); ++i) {
    frame[static_cast<std::size_t>(plan.captures[i].inner)] = std::move(captured[i]);
  }
  const bool scoped = nn::changes_arithmetic();
  const bool restored = !scoped && restore_fixed(plan, frame);
  for (const PlannedNode& node : plan.nodes) {
    const bool known = node.folded ? !scoped : restored && node.fixed;
    if (!known) step(node, frame);
  }
  std::vector<Value> outputs;
  for (const int slot : plan.outputs) outputs.push_back(frame[static_cast<std::size_t>(slot)]);
  return outputs;
}

std::vector<Value> Execution::run(const PlannedNode& node, std::string_view attribute, std::vector<Value> inputs) {
  const auto found =
      std::find_if(node.graphs.begin(), node.graphs.end(), [&](const auto& graph) { return graph.first == attribute; });
  if (found == node.graphs.end()) {
    throw FormatError(fmt::format("{} lacks the graph {}", NodeFacts(node).title(), attribute));
  }
  const Plan& plan = *found->second;
  if (plan.inputs.size() != inputs.size()) {
    throw FormatError(fmt::format("{}: the graph {} takes {} inputs, and is given {}", NodeFacts(node).title(),
                                  attribute, plan.inputs.size(), inputs.size()));
  }
  const std::vector<Value>& outside = *frames_.back();
  std::vector<Value> captured;
  for (const Capture& capture : plan.captures) captured.push_back(outside[static_cast<std::size_t>(capture.outer)]);
  return run(plan, std::move(inputs), std::move(captured));
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
