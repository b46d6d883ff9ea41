#include "backends/gpu/renderer/finish.h"

#include <array>

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

bool is_arithmetic(const Instruction& step) {
  return step.kind == Kind::elementwise && info_of(step.op).kind == OpKind::arithmetic;
}

/// Whether `step` tells no NaN from another.
bool takes_any_nan(const Instruction& step) {
  if (step.kind == Kind::cast || step.kind == Kind::reduce) return true;
  if (step.op == Op::signbit || step.op == Op::copysign || step.op == Op::nextafter) return false;
  return step.kind == Kind::elementwise && info_of(step.op).kind != OpKind::move;
}

/// Whether an operand may be as small as the smallest normal or smaller: the result is canonically the same (exp: 1,
/// gelu: half of it) as for its zero.
bool takes_small(const Instruction& step) {
  return step.kind == Kind::elementwise && (step.op == Op::exp || step.op == Op::gelu_erf);
}

/// Whether results are operands, but for their sign.
bool gives_operands(const Instruction& step) {
  if (step.kind == Kind::cast) return step.dtype == DType::f32;
  return step.op == Op::neg || step.op == Op::abs || step.op == Op::relu || step.op == Op::maximum ||
         step.op == Op::minimum;
}

/// What all that take a value allow it to be.
struct Freedom {
  bool rounded_to_bf16 = true;  ///< which makes it canonical
  bool any_nan = true;
  bool small = true;
};

std::vector<Freedom> freedoms_of(const Program& program) {
  std::vector<Freedom> freedoms(program.code.size());
  for (const Instruction& step : program.code) {
    const bool to_bf16 = step.kind == Kind::cast && step.dtype == DType::bf16;
    for (const int operand : {step.a, step.b, step.c}) {
      if (operand < 0) continue;
      Freedom& freedom = freedoms[static_cast<std::size_t>(operand)];
      freedom.rounded_to_bf16 = freedom.rounded_to_bf16 && to_bf16;
      freedom.any_nan = freedom.any_nan && takes_any_nan(step);
      freedom.small = freedom.small && takes_small(step);
    }
  }
  for (const Output& output : program.outputs) {
    // What was cast to bf16 is stored as it is.
    const auto value = static_cast<std::size_t>(output.value);
    if (output.dtype == DType::bf16 && !output.bits && program.code[value].kind != Kind::cast) continue;
    freedoms[value] = {false, false, false};
  }
  return freedoms;
}

}  // namespace

Finishes::Finishes(const Program& program)
    : results(program.code.size(), Finish::canonical), bf16(program.code.size(), false) {
  const std::vector<Freedom> freedoms = freedoms_of(program);
  for (const Freedom& freedom : freedoms) only_to_bf16.push_back(freedom.rounded_to_bf16);
  std::vector<bool> clean(program.code.size(), true);  // never a number up to the smallest normal, but zeros
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    const auto is_clean = [&](int operand) { return operand < 0 || clean[static_cast<std::size_t>(operand)]; };
    if (step.type != ComputeType::f32) continue;
    switch (step.kind) {
      case Kind::load:
        clean[i] = program.inputs[static_cast<std::size_t>(step.index)].canonical || step.dtype == DType::f16;
        continue;
      case Kind::gather:
        clean[i] = program.tables[static_cast<std::size_t>(step.index)].canonical || step.dtype == DType::f16;
        continue;
      case Kind::constant:
      case Kind::load_bits:
      case Kind::gather_bits:
      case Kind::from_bits: clean[i] = step.kind == Kind::from_bits && step.dtype == DType::f16; continue;
      case Kind::cast: {
        const bool of_f32 = compute_type(step.from) == ComputeType::f32 &&
                            program.code[static_cast<std::size_t>(step.a)].type == ComputeType::f32;
        bf16[i] = of_f32 && step.dtype == DType::bf16;
        if (bf16[i] && freedoms[i].any_nan) results[i] = Finish::flushed;
        if (!of_f32 || step.dtype != DType::f32) continue;
        break;
      }
      case Kind::elementwise:
        if (!is_arithmetic(step)) {
          clean[i] = false;
          continue;
        }
        break;
      default: continue;
    }
    const Freedom& freedom = freedoms[i];
    const bool stays_clean = gives_operands(step) && is_clean(step.a) && is_clean(step.b);
    Finish& finish = results[i];
    if (freedom.rounded_to_bf16 || (freedom.any_nan && (freedom.small || stays_clean))) {
      finish = Finish::none;
    } else if (freedom.any_nan) {
      finish = Finish::flushed;
    }
    clean[i] = finish != Finish::none || stays_clean;
  }
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
