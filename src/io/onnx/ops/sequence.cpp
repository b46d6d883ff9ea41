// Sequences of tensors, and optionals, which are their element or nothing.
#include <lockstep/ops/shape.h>

#include "io/onnx/operators.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

HostArray flag(bool value) {
  return {DType::boolean, {}, {value ? 1 : 0}, {}};
}

std::vector<Value> construct(const Call& call) {
  std::vector<Value> sequence;
  for (std::size_t i = 0; i < call.inputs(); ++i) sequence.push_back(call.value(i));
  return {Value(std::move(sequence))};
}

std::vector<Value> empty_sequence(const Call&) {
  return {Value(std::vector<Value>{})};
}

// A position, counted from the end where it is negative; up to `last` itself.
std::size_t position(const Call& call, std::size_t input, std::size_t size, std::size_t last) {
  std::int64_t at = call.host_integer(input);
  if (at < 0) at += static_cast<std::int64_t>(size);
  call.require(at >= 0 && at <= static_cast<std::int64_t>(last), "the position is outside of the sequence");
  return static_cast<std::size_t>(at);
}

std::vector<Value> at(const Call& call) {
  const std::vector<Value>& sequence = call.sequence(0);
  call.require(!sequence.empty(), "the sequence is empty");
  return {sequence[position(call, 1, sequence.size(), sequence.size() - 1)]};
}

std::vector<Value> insert(const Call& call) {
  std::vector<Value> sequence = call.sequence(0);
  const std::size_t place = call.has(2) ? position(call, 2, sequence.size(), sequence.size()) : sequence.size();
  sequence.insert(sequence.begin() + static_cast<std::ptrdiff_t>(place), call.value(1));
  return {Value(std::move(sequence))};
}

std::vector<Value> erase(const Call& call) {
  std::vector<Value> sequence = call.sequence(0);
  call.require(!sequence.empty(), "the sequence is empty");
  const std::size_t place = call.has(1) ? position(call, 1, sequence.size(), sequence.size() - 1) : sequence.size() - 1;
  sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(place));
  return {Value(std::move(sequence))};
}

std::vector<Value> length(const Call& call) {
  return {HostArray{DType::i64, {}, {static_cast<std::int64_t>(call.sequence(0).size())}, {}}};
}

std::vector<Value> concat_from_sequence(const Call& call) {
  std::vector<Tensor> tensors;
  for (const Value& value : call.sequence(0)) {
    call.require(value.is_tensor(), "an element of the sequence is no tensor");
    tensors.push_back(value.tensor(call.device()));
  }
  call.require(!tensors.empty(), "the sequence is empty");
  const bool new_axis = call.integer("new_axis", 0) != 0;
  const std::int64_t rank = tensors.front().rank() + (new_axis ? 1 : 0);
  const std::int64_t axis = call.integer("axis");
  call.require(axis >= -rank && axis < rank, "axis is outside of the rank");
  return {new_axis ? stack(tensors, static_cast<int>(axis)) : cat(tensors, static_cast<int>(axis))};
}

std::vector<Value> split_to_sequence(const Call& call) {
  const Tensor& input = call.input(0);
  const std::int64_t rank = input.rank();
  const std::int64_t axis = call.integer("axis", 0);
  call.require(axis >= -rank && axis < rank, "axis is outside of the rank");
  const int dim = static_cast<int>(axis);
  std::vector<Tensor> parts;
  if (!call.has(1)) {
    parts = input.split(1, dim);
    if (call.integer("keepdims", 1) == 0) {
      for (Tensor& part : parts) part = part.squeeze(dim);
    }
  } else if (call.shape(1).rank() == 0) {
    const std::int64_t size = call.host_integer(1);
    call.require(size > 0, "the size of the parts must be positive");
    parts = input.split(size, dim);
  } else {
    parts = input.split(call.host_integers(1), dim);
  }
  return {Value(std::vector<Value>(parts.begin(), parts.end()))};
}

// The body for each element of the first sequence; others give their elements along, tensors stay as they are.
std::vector<Value> sequence_map(const Call& call) {
  const std::size_t count = call.sequence(0).size();
  std::vector<std::vector<Value>> results(call.outputs());
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
      const Value& value = call.value(i);
      if (value.is_sequence()) call.require(value.sequence().size() == count, "the sequences differ in length");
      inputs.push_back(value.is_sequence() ? value.sequence()[k] : value);
    }
    const std::vector<Value> outputs = call.run_graph("body", std::move(inputs));
    call.require(outputs.size() >= results.size(), "the body has too few outputs");
    for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back(outputs[i]);
  }
  std::vector<Value> values;
  for (std::vector<Value>& result : results) values.emplace_back(std::move(result));
  return values;
}

std::vector<Value> optional(const Call& call) {
  return {call.value(0)};
}
std::vector<Value> optional_has_element(const Call& call) {
  return {flag(!call.value(0).absent())};
}
std::vector<Value> optional_get_element(const Call& call) {
  call.require(!call.value(0).absent(), "the optional is empty");
  return {call.value(0)};
}

constexpr Operator kSequenceOperators[] = {
    {.name = "SequenceConstruct", .since = 11, .run_values = construct},
    {.name = "SequenceEmpty", .since = 11, .run_values = empty_sequence},
    {.name = "SequenceAt", .since = 11, .run_values = at},
    {.name = "SequenceInsert", .since = 11, .run_values = insert},
    {.name = "SequenceErase", .since = 11, .run_values = erase},
    {.name = "SequenceLength", .since = 11, .run_values = length},
    {.name = "ConcatFromSequence", .since = 11, .run_values = concat_from_sequence},
    {.name = "SplitToSequence", .since = 11, .run_values = split_to_sequence},
    {.name = "SequenceMap", .since = 17, .run_values = sequence_map},
    {.name = "Optional", .since = 15, .run_values = optional},
    {.name = "OptionalHasElement", .since = 15, .run_values = optional_has_element},
    {.name = "OptionalGetElement", .since = 15, .run_values = optional_get_element},
};

}  // namespace

std::span<const Operator> sequence_operators() {
  return kSequenceOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
