#include "backends/cpu/row/analysis.h"

#include <algorithm>

#include "core/assert.h"
#include "core/elements.h"

namespace lockstep {
inline namespace v0 {
namespace {

using Kind = Instruction::Kind;

/// Appends the program's instructions to `code`, each once (a square's gradient adds the same product twice), with a
/// cast wherever an i32 operand meets an i64 loop (the condition of `where` on 8-byte words, sums of small integers).
class Normaliser {
 public:
  Normaliser(const Program& program, Analysis& analysis) : analysis_(analysis) {
    for (const Instruction& original : program.code) {
      Instruction instruction = original;
      for (int* operand : {&instruction.a, &instruction.b, &instruction.c}) {
        if (*operand >= 0) *operand = renumbered_[static_cast<std::size_t>(*operand)];
      }
      if (keeps_its_operand(instruction)) {
        renumbered_.push_back(instruction.a);
        continue;
      }
      if (wants_i64(instruction)) {
        for (int* operand : {&instruction.a, &instruction.b, &instruction.c}) {
          if (*operand >= 0) *operand = widened(*operand);
        }
      }
      const auto found = std::find(analysis_.code.begin(), analysis_.code.end(), instruction);
      renumbered_.push_back(static_cast<int>(found - analysis_.code.begin()));
      if (found == analysis_.code.end()) analysis_.code.push_back(instruction);
    }
    for (const Output& output : program.outputs) {
      const int value = renumbered_[static_cast<std::size_t>(output.value)];
      const ComputeType stored = output.bits ? word_type(output.dtype) : compute_type(output.dtype);
      analysis_.outputs.push_back(stored == ComputeType::i64 ? widened(value) : value);
    }
  }

 private:
  ComputeType type_of(int value) const { return analysis_.code[static_cast<std::size_t>(value)].type; }

  /// Lemma: a cast of a contraction's canonical result to its own type keeps it.
  bool keeps_its_operand(const Instruction& instruction) const {
    if (instruction.kind != Kind::cast || instruction.from != instruction.dtype) return false;
    const Instruction& operand = analysis_.code[static_cast<std::size_t>(instruction.a)];
    const bool is_compute_type = instruction.dtype == DType::f32 || instruction.dtype == DType::f64 ||
                                 instruction.dtype == DType::i32 || instruction.dtype == DType::i64;
    return operand.kind == Kind::accumulator && operand.type == instruction.type && is_compute_type;
  }

  bool wants_i64(const Instruction& instruction) const {
    switch (instruction.kind) {
      case Kind::random:
      case Kind::gather:
      case Kind::gather_bits: return true;
      case Kind::elementwise:
        if (info_of(instruction.op).kind == OpKind::comparison) {
          return instruction.b >= 0 &&
                 (type_of(instruction.a) == ComputeType::i64 || type_of(instruction.b) == ComputeType::i64);
        }
        return instruction.type == ComputeType::i64;
      case Kind::reduce:
        return instruction.type == ComputeType::i64 && instruction.reduce != ReduceOp::argmax &&
               instruction.reduce != ReduceOp::argmin;
      default: return false;
    }
  }

  int widened(int value) {
    if (type_of(value) != ComputeType::i32) return value;
    Instruction cast;
    cast.kind = Kind::cast;
    cast.type = ComputeType::i64;
    cast.from = DType::i32;
    cast.dtype = DType::i64;
    cast.extent = analysis_.code[static_cast<std::size_t>(value)].extent;
    cast.a = value;
    analysis_.code.push_back(cast);
    return static_cast<int>(analysis_.code.size()) - 1;
  }

  Analysis& analysis_;
  std::vector<int> renumbered_;
};

void find_used(Analysis& analysis) {
  analysis.used.assign(analysis.code.size(), false);
  for (int value : analysis.outputs) analysis.used[static_cast<std::size_t>(value)] = true;
  for (std::size_t i = analysis.code.size(); i-- > 0;) {
    if (!analysis.used[i]) continue;
    for_each_operand(analysis.code[i], [&](int operand) { analysis.used[static_cast<std::size_t>(operand)] = true; });
  }
}

/// Whether something is computed per row, so that rows and inner dims have to be told apart.
bool has_row_values(const Analysis& analysis) {
  for (std::size_t i = 0; i < analysis.code.size(); ++i) {
    const Instruction& instruction = analysis.code[i];
    if (!analysis.used[i] || instruction.kind == Kind::load || instruction.kind == Kind::load_bits ||
        instruction.kind == Kind::constant) {
      continue;
    }
    if (instruction.kind == Kind::reduce || instruction.extent == Extent::row) return true;
  }
  return false;
}

Class class_of_access(const Analysis& analysis, const Access& access, Extent extent) {
  const bool columns = analysis.layout == Layout::columns;
  const bool same_in_row = columns ? access.is_constant_outer() : access.is_constant_along();
  const bool same_in_rows = columns ? access.is_constant_along() : access.is_constant_outer();
  const bool per_row = same_in_row || (extent == Extent::row && !analysis.merged);
  return !per_row ? Class::vector : same_in_row && same_in_rows ? Class::uniform : Class::row;
}

void classify(Analysis& analysis) {
  for (const Instruction& instruction : analysis.code) {
    Class result = Class::uniform;
    int when = 0;
    for_each_operand(instruction, [&](int operand) {
      result = std::max(result, analysis.classes[static_cast<std::size_t>(operand)]);
      when = std::max(when, analysis.when[static_cast<std::size_t>(operand)]);
    });
    switch (instruction.kind) {
      case Kind::load:
      case Kind::load_bits:
        result = class_of_access(analysis, analysis.mapping.inputs[static_cast<std::size_t>(instruction.index)],
                                 instruction.extent);
        break;
      case Kind::iota:
        result = class_of_access(analysis, analysis.mapping.positions[static_cast<std::size_t>(instruction.index)],
                                 instruction.extent);
        break;
      case Kind::accumulator: result = Class::vector; break;
      case Kind::reduce:
        result = Class::row;
        ++when;
        break;
      default: break;
    }
    analysis.classes.push_back(result);
    analysis.when.push_back(when);
  }
}

void estimate_costs(const Program& program, Analysis& analysis) {
  for (std::size_t i = 0; i < analysis.code.size(); ++i) {
    const Instruction& instruction = analysis.code[i];
    int cost = 0;
    if (analysis.classes[i] == Class::vector) {
      for_each_operand(instruction, [&](int operand) { cost += analysis.cost[static_cast<std::size_t>(operand)]; });
      switch (instruction.kind) {
        case Kind::load:
        case Kind::load_bits: {
          const Input& input = program.inputs[static_cast<std::size_t>(instruction.index)];
          const bool bits = instruction.kind == Kind::load_bits;
          cost = is_stored_as(input.dtype, instruction.type, bits, input.canonical) ? 0 : 1;
          break;
        }
        case Kind::random: cost += 8; break;
        case Kind::gather:
        case Kind::gather_bits: cost += 4; break;
        case Kind::elementwise: cost += info_of(instruction.op).arity == 1 ? 4 : 1; break;
        default: cost += 1;
      }
    }
    analysis.cost.push_back(std::min(cost, 1 << 20));
  }
}

}  // namespace

Analysis analyse(const Program& program, bool epilogue) {
  Analysis analysis;
  const Normaliser normalise(program, analysis);
  find_used(analysis);
  const bool row_values = has_row_values(analysis);
  analysis.merged = !epilogue && !row_values;
  analysis.layout = epilogue ? Layout::rows : choose_layout(program, row_values);
  const int transposed = analysis.merged ? transposed_dim(program) : -1;
  if (transposed >= 0) {
    analysis.transposes = true;
    analysis.layout = Layout::columns;
    analysis.mapping = map_space(with_inner_dim(program, transposed), analysis.layout, false);
  } else {
    analysis.mapping = map_space(program, analysis.layout, analysis.merged);
  }
  classify(analysis);
  estimate_costs(program, analysis);
  for (std::size_t i = 0; i < analysis.code.size(); ++i) {
    if (!analysis.used[i]) continue;
    LOCKSTEP_ASSERT(!epilogue || analysis.code[i].kind != Kind::reduce);
    if (analysis.code[i].kind == Kind::reduce) analysis.passes = std::max(analysis.passes, analysis.when[i]);
    if (analysis.classes[i] == Class::vector) analysis.passes = std::max(analysis.passes, analysis.when[i] + 1);
  }
  return analysis;
}

}  // namespace v0
}  // namespace lockstep
