#include "backends/gpu/renderer/needed_roundings.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

bool is_arithmetic(const Instruction& step) {
  return step.kind == Kind::elementwise && info_of(step.op).kind == OpKind::arithmetic;
}

/// What all that take a value allow it to be. Rounding to 16 bits makes canonical.
struct Freedom {
  bool taken = false;
  bool to_bf16 = true;  ///< only roundings to bf16 take it
  bool to_f16 = true;
  bool any_nan = true;
  bool small = true;

  bool rounded(DType dtype) const { return taken && (dtype == DType::bf16 ? to_bf16 : dtype == DType::f16 && to_f16); }
  bool rounded() const { return rounded(DType::bf16) || rounded(DType::f16); }
};

std::vector<Freedom> freedoms_of(const Program& program) {
  std::vector<Freedom> freedoms(program.code.size());
  const auto take = [&](int value, const Freedom& by) {
    if (value < 0) return;
    Freedom& freedom = freedoms[static_cast<std::size_t>(value)];
    freedom.taken = true;
    freedom.to_bf16 = freedom.to_bf16 && by.to_bf16;
    freedom.to_f16 = freedom.to_f16 && by.to_f16;
    freedom.any_nan = freedom.any_nan && by.any_nan;
    freedom.small = freedom.small && by.small;
  };
  for (const Instruction& step : program.code) {
    Freedom by;
    by.to_bf16 = step.kind == Kind::cast && step.dtype == DType::bf16;
    by.to_f16 = step.kind == Kind::cast && step.dtype == DType::f16;
    by.any_nan = takes_any_nan(step);
    by.small = takes_small(step);
    for (const int operand : {step.a, step.b, step.c}) take(operand, by);
  }
  for (const Output& output : program.outputs) {
    Freedom by;
    by.to_bf16 = output.dtype == DType::bf16 && !output.bits;
    by.to_f16 = output.dtype == DType::f16 && !output.bits;
    // What a cast has rounded to bf16 for others, too, is stored as it is.
    const Instruction& value = program.code[static_cast<std::size_t>(output.value)];
    const bool as_it_is = by.to_bf16 && value.kind == Kind::cast && value.dtype == DType::bf16;
    by.any_nan = (by.to_bf16 && !as_it_is) || by.to_f16;
    by.small = false;
    take(output.value, by);
  }
  return freedoms;
}

std::vector<bool> any_zero_of(const Program& program) {
  std::vector<bool> any_zero(program.code.size(), true);
  for (const Output& output : program.outputs) any_zero[static_cast<std::size_t>(output.value)] = false;
  for (std::size_t i = program.code.size(); i-- > 0;) {  // what takes a value comes after it
    const Instruction& step = program.code[i];
    for (const int operand : {step.a, step.b, step.c}) {
      if (operand < 0) continue;
      const auto value = static_cast<std::size_t>(operand);
      if (!is_integer(program.code[value].type) && takes_any_zero(step)) continue;
      any_zero[value] = any_zero[value] && any_zero[i] && passes_zero(step, operand);
    }
  }
  return any_zero;
}

}  // namespace

bool takes_any_nan(const Instruction& step) {
  if (step.kind == Kind::cast || step.kind == Kind::reduce) return true;
  if (step.op == Op::signbit || step.op == Op::copysign || step.op == Op::nextafter) return false;
  return step.kind == Kind::elementwise && info_of(step.op).kind != OpKind::move;
}

bool takes_small(const Instruction& step) {
  return step.kind == Kind::elementwise && (step.op == Op::exp || step.op == Op::gelu_erf);
}

bool takes_any_zero(const Instruction& step) {
  return step.kind == Kind::elementwise &&
         (step.op == Op::exp || (info_of(step.op).kind == OpKind::comparison && step.op != Op::signbit));
}

bool passes_zero(const Instruction& step, int operand) {
  if (step.kind == Kind::to_bits || step.kind == Kind::from_bits) return true;
  if (step.kind != Kind::elementwise) return false;
  if (step.op == Op::where) return operand != step.a;
  return !is_integer(step.type) &&
         (step.op == Op::add || step.op == Op::sub || step.op == Op::mul || step.op == Op::neg);
}

bool gives_operands(const Instruction& step) {
  if (step.kind == Kind::cast) return step.dtype == DType::f32;
  return step.op == Op::neg || step.op == Op::abs || step.op == Op::relu || step.op == Op::maximum ||
         step.op == Op::minimum;
}

bool gives_clean(const Instruction& step) {
  return step.kind == Kind::elementwise && step.op == Op::exp;
}

NeededRoundings::NeededRoundings(const Program& program)
    : results(program.code.size(), Rounding::canonical),
      bf16(program.code.size(), false),
      any_zero(any_zero_of(program)) {
  const std::vector<Freedom> freedoms = freedoms_of(program);
  for (const Freedom& freedom : freedoms) {
    only_to_bf16.push_back(freedom.rounded(DType::bf16));
    only_to_f16.push_back(freedom.rounded(DType::f16));
  }
  std::vector<bool> clean(program.code.size(), true);  // never a number up to the smallest normal, but zeros
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    const Freedom& freedom = freedoms[i];
    const bool any_nan = freedom.taken && freedom.any_nan;
    const auto is_clean = [&](int operand) { return operand < 0 || clean[static_cast<std::size_t>(operand)]; };
    if (step.type != ComputeType::f32) continue;
    switch (step.kind) {
      case Kind::load:
      case Kind::gather: {
        const auto index = static_cast<std::size_t>(step.index);
        const bool canonical =
            step.kind == Kind::load ? program.inputs[index].canonical : program.tables[index].canonical;
        clean[i] = canonical || step.dtype == DType::f16;
        if (any_nan) results[i] = Rounding::flushed;
        continue;
      }
      case Kind::constant:
      case Kind::load_bits:
      case Kind::gather_bits:
      case Kind::from_bits: clean[i] = step.kind == Kind::from_bits && step.dtype == DType::f16; continue;
      case Kind::cast: {
        const bool of_f32 = compute_type(step.from) == ComputeType::f32 &&
                            program.code[static_cast<std::size_t>(step.a)].type == ComputeType::f32;
        if (of_f32 && freedom.rounded(step.dtype)) {
          results[i] = Rounding::none;  // stored, or cast once more
          clean[i] = false;
          continue;
        }
        bf16[i] = of_f32 && step.dtype == DType::bf16;
        if (of_f32 && step.dtype == DType::f32) break;
        if (of_f32 && any_nan) results[i] = freedom.small ? Rounding::to_16_bits : Rounding::flushed;
        clean[i] = results[i] != Rounding::to_16_bits;
        continue;
      }
      case Kind::elementwise:
        if (!is_arithmetic(step)) {
          clean[i] = false;
          continue;
        }
        break;
      default: continue;
    }
    const bool stays_clean = gives_clean(step) || (gives_operands(step) && is_clean(step.a) && is_clean(step.b));
    Rounding& rounding = results[i];
    if (freedom.rounded() || (any_nan && (freedom.small || stays_clean))) {
      rounding = Rounding::none;
    } else if (any_nan) {
      rounding = Rounding::flushed;
    }
    clean[i] = rounding != Rounding::none || stays_clean;
  }
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
