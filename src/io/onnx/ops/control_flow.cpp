// If, Loop and Scan: the graphs in their attributes, run once, repeatedly, or along a dimension. A condition is read on
// the host, which waits for it where a device computed it.
#include <lockstep/ops.h>

#include <algorithm>

#include "io/onnx/operators.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

constexpr std::int64_t kMostTrips = 1 << 24;

std::vector<Value> branch(const Call& call) {
  return call.run_graph(call.host_integer(0) != 0 ? "then_branch" : "else_branch", {});
}

// What a body's output number `i` was in each trip, along a new dimension.
Value stacked(const Call& call, std::vector<Tensor> slices, std::int64_t axis, bool backwards) {
  if (slices.empty()) call.unsupported("a loop of no trips that collects values, whose shape nothing tells");
  if (backwards) std::reverse(slices.begin(), slices.end());
  const std::int64_t rank = slices.front().rank() + 1;
  call.require(axis >= -rank && axis < rank, "a scan axis is outside of the rank");
  return stack(slices, static_cast<int>(axis));
}

// A value that is put together with others of its kind.
const Tensor& part(const Call& call, const Value& value) {
  call.require(value.is_tensor(), "a value that is collected is no tensor");
  if (value.narrow() != Narrow::none) call.unsupported("numbers of less than a byte that are collected");
  return value.tensor(call.device());
}

std::vector<Value> loop(const Call& call) {
  const std::int64_t trips = call.has(0) ? call.host_integer(0) : kMostTrips + 1;
  bool goes_on = !call.has(1) || call.host_integer(1) != 0;
  std::vector<Value> carried;
  for (std::size_t i = 2; i < call.inputs(); ++i) carried.push_back(call.value(i));
  const std::size_t collected = call.outputs() - std::min(call.outputs(), carried.size());
  std::vector<std::vector<Tensor>> slices(collected);
  for (std::int64_t trip = 0; trip < trips && goes_on; ++trip) {
    if (trip == kMostTrips) call.unsupported("a loop of more than 2^24 trips");
    std::vector<Value> inputs = {HostArray{DType::i64, {}, {trip}, {}}, HostArray{DType::boolean, {}, {1}, {}}};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    std::vector<Value> outputs = call.run_graph("body", std::move(inputs));
    call.require(outputs.size() >= 1 + carried.size() + collected, "the body has too few outputs");
    const Call condition(call.planned(), std::span(outputs).first(1), call.device());
    goes_on = condition.host_integer(0) != 0;
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = std::move(outputs[1 + i]);
    for (std::size_t i = 0; i < collected; ++i) {
      slices[i].push_back(part(call, outputs[1 + carried.size() + i]));
    }
  }
  for (std::vector<Tensor>& list : slices) carried.push_back(stacked(call, std::move(list), 0, false));
  return carried;
}

// Element `i` of a list that may be left out.
std::int64_t entry(const Call& call, const std::vector<std::int64_t>& list, std::size_t i) {
  if (list.empty()) return 0;
  call.require(i < list.size(), "a list of axes or directions is too short");
  return list[i];
}

// What a body does along sequences of slices: the states at the end, and what every trip collects.
struct Scanned {
  std::vector<Value> states;
  std::vector<std::vector<Tensor>> slices;
};
Scanned scan_along(const Call& call, std::vector<Value> states, const std::vector<std::vector<Tensor>>& sequences,
                   std::size_t trips) {
  call.require(call.outputs() >= states.size(), "has fewer outputs than states");
  Scanned result{.states = std::move(states), .slices = {}};
  const std::size_t count = result.states.size();
  result.slices.resize(call.outputs() - count);
  for (std::size_t trip = 0; trip < trips; ++trip) {
    std::vector<Value> given = result.states;
    for (const std::vector<Tensor>& sequence : sequences) given.emplace_back(sequence[trip]);
    std::vector<Value> outputs = call.run_graph("body", std::move(given));
    call.require(outputs.size() >= count + result.slices.size(), "the body has too few outputs");
    for (std::size_t i = 0; i < count; ++i) result.states[i] = std::move(outputs[i]);
    for (std::size_t i = 0; i < result.slices.size(); ++i) {
      result.slices[i].push_back(part(call, outputs[count + i]));
    }
  }
  return result;
}

// How many of `inputs` are scanned.
std::size_t scanned_of(const Call& call, std::size_t inputs) {
  const std::int64_t scanned = call.integer("num_scan_inputs");
  call.require(scanned >= 1 && scanned <= static_cast<std::int64_t>(inputs),
               "num_scan_inputs is not a number of inputs");
  return static_cast<std::size_t>(scanned);
}

std::vector<Value> scan(const Call& call) {
  const std::size_t scanned = scanned_of(call, call.inputs());
  const std::size_t states = call.inputs() - scanned;
  const auto input_axes = call.integers("scan_input_axes");
  const auto input_directions = call.integers("scan_input_directions");
  const auto output_axes = call.integers("scan_output_axes");
  const auto output_directions = call.integers("scan_output_directions");
  std::vector<std::vector<Tensor>> sequences;
  for (std::size_t i = 0; i < scanned; ++i) {
    const Tensor& input = call.input(states + i);
    const std::int64_t axis = entry(call, input_axes, i);
    call.require(axis >= -input.rank() && axis < input.rank(), "a scan axis is outside of the rank");
    sequences.push_back(input.unbind(static_cast<int>(axis)));
    if (entry(call, input_directions, i) == 1) std::reverse(sequences.back().begin(), sequences.back().end());
    call.require(sequences.back().size() == sequences.front().size(), "the scanned inputs differ in length");
  }
  std::vector<Value> carried;
  for (std::size_t i = 0; i < states; ++i) carried.push_back(call.value(i));
  Scanned result = scan_along(call, std::move(carried), sequences, sequences.front().size());
  for (std::size_t i = 0; i < result.slices.size(); ++i) {
    const bool backwards = entry(call, output_directions, i) == 1;
    result.states.push_back(stacked(call, std::move(result.slices[i]), entry(call, output_axes, i), backwards));
  }
  return std::move(result.states);
}

// Version 8: every value has a batch in front, whose rows are scanned one by one, each as far as its length says; zeros
// follow.
std::vector<Value> scan_of_batch(const Call& call) {
  call.require(call.inputs() >= 2, "has no inputs to scan");
  const std::size_t scanned = scanned_of(call, call.inputs() - 1);
  const std::size_t first = call.inputs() - scanned;
  const std::int64_t batch = call.input(first).size(0), length = call.input(first).size(1);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), length);
  if (call.has(0)) lengths = call.host_integers(0);
  call.require(batch > 0 && std::ssize(lengths) == batch, "sequence_lens has not one number a row");
  const auto directions = call.integers("directions");
  std::vector<std::vector<Tensor>> rows(call.outputs());
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::int64_t trips = lengths[static_cast<std::size_t>(row)];
    call.require(trips > 0 && trips <= length, "a length is not one of the sequence");
    std::vector<Value> states;
    for (std::size_t i = 1; i < first; ++i) states.emplace_back(call.input(i).select(0, row));
    std::vector<std::vector<Tensor>> sequences;
    for (std::size_t i = first; i < call.inputs(); ++i) {
      call.require(call.input(i).size(1) == length, "the scanned inputs differ in length");
      sequences.push_back(call.input(i).select(0, row).narrow(0, 0, trips).unbind(0));
      if (entry(call, directions, i - first) == 1) std::reverse(sequences.back().begin(), sequences.back().end());
    }
    Scanned result = scan_along(call, std::move(states), sequences, static_cast<std::size_t>(trips));
    for (std::size_t i = 0; i < result.states.size(); ++i) {
      rows[i].push_back(part(call, result.states[i]));
    }
    for (std::size_t i = 0; i < result.slices.size(); ++i) {
      std::vector<Tensor>& slices = result.slices[i];
      slices.resize(static_cast<std::size_t>(length), zeros_like(slices.front()));
      rows[result.states.size() + i].push_back(stack(slices, 0));
    }
  }
  std::vector<Value> outputs;
  for (const std::vector<Tensor>& list : rows) outputs.emplace_back(stack(list, 0));
  return outputs;
}

constexpr Operator kControlFlowOperators[] = {
    {.name = "If", .run_values = branch},
    {.name = "Loop", .run_values = loop},
    {.name = "Scan", .since = 8, .until = 8, .run_values = scan_of_batch},
    {.name = "Scan", .since = 9, .run_values = scan},
};

}  // namespace

std::span<const Operator> control_flow_operators() {
  return kControlFlowOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
