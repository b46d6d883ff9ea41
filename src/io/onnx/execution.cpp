#include "io/onnx/execution.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/onnx.h>
#include <lockstep/random.h>

#include "core/assert.h"
#include "core/checked.h"

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

// Run on the CPU and read, if all outputs are small; nothing otherwise.
std::optional<std::vector<Value>> on_host(const PlannedNode& node, std::span<const Value> inputs) {
  std::vector<Value> outputs = call_row(*node.row, Call(node, inputs, Device{}));
  for (Value& output : outputs) {
    if (output.absent() || output.host() != nullptr) continue;
    if (!output.is_tensor() || !fits_host(output.dtype(), output.shape())) return std::nullopt;
    const Tensor tensor = output.tensor(Device{});
    output = Value(tensor, read_to_host(tensor));
  }
  return outputs;
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
      if (const HostRule rule = find_host_rule(node.op)) {
        if (auto outputs = rule(call)) return std::move(*outputs);
      }
      if (computes_shapes(node.op)) {
        if (auto outputs = on_host(node, inputs)) return std::move(*outputs);
      }
    }
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
  for (const PlannedNode& node : plan.nodes) step(node, frame);
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
