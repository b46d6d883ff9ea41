#include "graph/pairs.h"

#include <algorithm>
#include <optional>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

using PairKind = Instruction::Kind;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

bool is_same(const View& a, const View& b) {
  return a.shape == b.shape && a.strides == b.strides && a.offset == b.offset && a.bounds.empty() && b.bounds.empty();
}

// Whether what is stored reads back as the value that it was.
bool stays_as_it_is(const Program& program) {
  if (program.outputs.size() != 1 || program.outputs[0].bits || program.outputs[0].dtype != DType::f32) return false;
  const Instruction& value = program.code[at(program.outputs[0].value)];
  const bool computed = value.kind == PairKind::elementwise && info_of(value.op).kind == OpKind::arithmetic;
  return value.type == ComputeType::f32 && value.extent == Extent::vector &&
         (computed || value.kind == PairKind::accumulator);
}

bool is_plain(const Program& program) {
  return program.tables.empty() && program.positions.empty() &&
         std::none_of(program.code.begin(), program.code.end(), [](const Instruction& step) {
           return step.kind == PairKind::random || step.kind == PairKind::reduce;
         });
}

bool have_one_shape(const ContractionKernel& a, const ContractionKernel& b) {
  const Input& of_a = a.b_operand;
  const Input& of_b = b.b_operand;
  return a.b == b.b && a.m == b.m && a.n == b.n && a.k == b.k && a.type == b.type && a.numerics == b.numerics &&
         a.a.dtype == b.a.dtype && is_same(a.a.view, b.a.view) && is_same(of_a.view, of_b.view) &&
         of_a.dtype == of_b.dtype && of_a.encoding == of_b.encoding && of_a.canonical == of_b.canonical &&
         a.epilogue.rows == b.epilogue.rows && a.epilogue.inner == b.epilogue.inner;
}

// Both kernels as one: the first one's epilogue, and then the second one's, which has its result at hand.
class Joining {
 public:
  Joining(const std::vector<Entry>& entries, const Step& first, const Step& second)
      : entries_(entries),
        first_(first),
        second_(second),
        a_(std::get<ContractionKernel>(first.kernel)),
        b_(std::get<ContractionKernel>(second.kernel)) {}

  std::optional<Step> run() {
    if (!fit()) return std::nullopt;
    ContractionKernel kernel = b_;
    kernel.a = moved(second_, b_.a);
    kernel.b_operand = moved(second_, b_.b_operand);
    kernel.paired = true;
    kernel.second = moved(first_, a_.b_operand);
    const Program& last = b_.epilogue;
    program_.rows = last.rows;
    program_.inner = last.inner;
    append(first_, a_.epilogue, -1, 1);
    append(second_, last, values_[at(a_.epilogue.outputs[0].value)], 0);
    for (Output output : last.outputs) {
      output.slot = slot_of(step_, second_.slots[at(output.slot)]);
      output.value = values_[at(output.value)];
      program_.outputs.push_back(std::move(output));
    }
    program_.parameters = static_cast<int>(step_.parameters.size());
    kernel.epilogue = std::move(program_);
    step_.kernel = std::move(kernel);
    step_.writes = second_.writes;
    return std::move(step_);
  }

 private:
  int between() const { return first_.writes[0]; }

  bool fit() const {
    if (!first_.checks.empty() || !second_.checks.empty() || a_.paired || b_.paired) return false;
    if (!have_one_shape(a_, b_) || !is_plain(a_.epilogue) || !is_plain(b_.epilogue)) return false;
    if (!stays_as_it_is(a_.epilogue) || first_.slots[at(a_.a.slot)] != second_.slots[at(b_.a.slot)]) return false;
    if (second_.slots[at(b_.a.slot)] == between() || second_.slots[at(b_.b_operand.slot)] == between()) return false;
    // Weights, which nobody overwrites in between.
    if (!entries_[at(first_.slots[at(a_.b_operand.slot)])].given) return false;
    const Output& made = a_.epilogue.outputs[0];
    Shape space = a_.epilogue.rows;
    for (const std::int64_t size : a_.epilogue.inner) space.push_back(size);
    const View where{.shape = space, .strides = made.strides, .offset = made.offset};
    const std::vector<Instruction>& code = b_.epilogue.code;
    return std::all_of(code.begin(), code.end(), [&](const Instruction& step) {
      if (step.kind != PairKind::load && step.kind != PairKind::load_bits) return true;
      const Input& input = b_.epilogue.inputs[at(step.index)];
      return second_.slots[at(input.slot)] != between() ||
             (step.kind == PairKind::load && step.dtype == DType::f32 && is_same(input.view, where));
    });
  }

  Input moved(const Step& from, Input input) {
    input.slot = slot_of(step_, from.slots[at(input.slot)]);
    return input;
  }

  // A kernel's instructions, whose new numbers are in values_. `given`: the value of what the first one stores.
  void append(const Step& from, const Program& program, int given, int accumulator) {
    values_.clear();
    for (Instruction step : program.code) {
      if (step.kind == PairKind::load || step.kind == PairKind::load_bits) {
        const Input& input = program.inputs[at(step.index)];
        if (given >= 0 && from.slots[at(input.slot)] == between()) {
          values_.push_back(given);
          continue;
        }
        const Input own = moved(from, input);
        const auto known = std::find(program_.inputs.begin(), program_.inputs.end(), own);
        step.index = static_cast<int>(known - program_.inputs.begin());
        if (known == program_.inputs.end()) program_.inputs.push_back(own);
      } else if (step.kind == PairKind::constant) {
        step_.parameters.push_back(from.parameters[at(step.index)]);
        step.index = static_cast<int>(step_.parameters.size()) - 1;
      } else if (step.kind == PairKind::accumulator) {
        step.index = accumulator;
      }
      for (int* const operand : {&step.a, &step.b, &step.c}) {
        if (*operand >= 0) *operand = values_[at(*operand)];
      }
      program_.code.push_back(step);
      values_.push_back(static_cast<int>(program_.code.size()) - 1);
    }
  }

  const std::vector<Entry>& entries_;
  const Step& first_;
  const Step& second_;
  const ContractionKernel& a_;
  const ContractionKernel& b_;
  Step step_;
  Program program_;
  std::vector<int> values_;
};

}  // namespace

std::vector<StepPair> find_pairs(const std::vector<Entry>& entries, const std::vector<Step>& steps) {
  std::vector<StepPair> pairs;
  std::vector<int> readers(entries.size(), 0);
  std::vector<int> makers(entries.size(), -1);
  std::vector<bool> replaced(entries.size(), false);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const int entry : steps[s].slots) ++readers[at(entry)];
    for (const int entry : steps[s].writes) makers[at(entry)] = static_cast<int>(s);
    if (steps[s].replaces >= 0) replaced[at(steps[s].replaces)] = true;
  }
  std::vector<bool> taken(steps.size(), false);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (!std::holds_alternative<ContractionKernel>(steps[s].kernel)) continue;
    for (const int entry : steps[s].slots) {
      const int maker = makers[at(entry)];
      // A slot of the step that makes it, and one of the step that reads it.
      if (maker < 0 || at(maker) >= s || taken[at(maker)] || readers[at(entry)] != 2 || entries[at(entry)].wanted) {
        continue;
      }
      const Step& first = steps[at(maker)];
      if (first.writes.size() != 1 || !std::holds_alternative<ContractionKernel>(first.kernel)) continue;
      if (std::any_of(first.slots.begin(), first.slots.end(), [&](int read) { return replaced[at(read)]; })) continue;
      std::optional<Step> together = Joining(entries, first, steps[s]).run();
      if (!together) continue;
      taken[at(maker)] = taken[s] = true;
      pairs.push_back({at(maker), s, std::move(*together)});
      break;
    }
  }
  return pairs;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
