#include "backends/gpu/renderer/rows_few.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using FewKind = Instruction::Kind;

constexpr std::int64_t kFewElements = 16;  ///< of a row; a pool's windows have 4 or 9

// Whether `maximum`, which makes its results canonical, gives back its operands, as a reduction does until its end:
// they are canonical themselves, results of arithmetic or known to be.
bool stays_the_same(const Program& program, const Instruction& step) {
  switch (step.kind) {
    case FewKind::load: {
      const bool tiny = step.dtype == DType::f32 || step.dtype == DType::bf16;
      return !tiny || program.inputs[static_cast<std::size_t>(step.index)].canonical;
    }
    case FewKind::elementwise: return info_of(step.op).kind != OpKind::move;
    case FewKind::cast: return step.from == step.dtype || step.from != DType::f64;
    default: return false;
  }
}

bool is_position(const Instruction& step) {
  return step.reduce == ReduceOp::argmax || step.reduce == ReduceOp::argmin;
}

bool has_few_extrema(const Program& program) {
  const std::int64_t elements = program.inner.numel();
  if (elements < 2 || elements > kFewElements || !program.positions.empty() || !program.tables.empty()) return false;
  bool any = false;
  for (const Instruction& step : program.code) {
    switch (step.kind) {
      case FewKind::reduce:
        if (step.reduce != ReduceOp::max && step.reduce != ReduceOp::min && !is_position(step)) return false;
        if (is_position(step) && is_integer(program.code[static_cast<std::size_t>(step.a)].type)) return false;
        if (!stays_the_same(program, program.code[static_cast<std::size_t>(step.a)])) return false;
        any = true;
        break;
      case FewKind::load:
      case FewKind::load_bits:
      case FewKind::constant:
      case FewKind::elementwise:
      case FewKind::cast:
      case FewKind::to_bits:
      case FewKind::from_bits: break;
      case FewKind::iota:
      case FewKind::random:
      case FewKind::gather:
      case FewKind::gather_bits:
      case FewKind::accumulator: return false;
    }
  }
  return any && std::all_of(program.outputs.begin(), program.outputs.end(), [&](const Output& output) {
           return program.code[static_cast<std::size_t>(output.value)].extent == Extent::row;
         });
}

// The part of a view over (rows, inner) that element `index` of every row reads.
View element_of(const View& view, int rows, const Shape& index) {
  View result = view;
  for (int d = 0; d < index.rank(); ++d) {
    result.offset += view.strides[rows + d] * index[d];
    for (Bound& bound : result.bounds) bound.offset += bound.m[rows + d] * index[d];
  }
  result.shape = view.shape.slice(0, rows);
  result.strides = view.strides.slice(0, rows);
  for (Bound& bound : result.bounds) bound.m = bound.m.slice(0, rows);
  return result;
}

}  // namespace

std::optional<Program> unrolled_extrema(const Program& program) {
  if (!has_few_extrema(program)) return std::nullopt;
  const auto elements = static_cast<std::size_t>(program.inner.numel());
  const int rows = program.rows.rank();
  std::vector<Shape> indices;
  for (std::size_t e = 0; e < elements; ++e) {
    Shape index = program.inner;
    auto rest = static_cast<std::int64_t>(e);
    for (int d = index.rank() - 1; d >= 0; --d) {
      index[d] = rest % program.inner[d];
      rest /= program.inner[d];
    }
    indices.push_back(std::move(index));
  }
  Program result;
  result.rows = program.rows;
  result.parameters = program.parameters;
  // By instruction: what it is for each element of a row; values of rows are the same for all.
  std::vector<std::vector<int>> made(program.code.size());
  const auto add = [&](Instruction step) {
    step.extent = Extent::vector;
    result.code.push_back(step);
    return static_cast<int>(result.code.size()) - 1;
  };
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    if (step.kind == FewKind::reduce) {
      const std::vector<int>& values = made[static_cast<std::size_t>(step.a)];
      const bool largest = step.reduce == ReduceOp::max || step.reduce == ReduceOp::argmax;
      const Instruction of = result.code[static_cast<std::size_t>(values[0])];
      const auto compare = [&](Op op, DType dtype, int a, int b) {
        return add({.kind = FewKind::elementwise,
                    .type = ComputeType::i32,
                    .dtype = DType::boolean,
                    .from = dtype,
                    .op = op,
                    .a = a,
                    .b = b});
      };
      const auto number = [&](std::size_t e) {
        result.positions.push_back({static_cast<std::int64_t>(e), Shape::filled(rows, 0)});
        return add({.kind = FewKind::iota,
                    .type = ComputeType::i64,
                    .dtype = DType::i64,
                    .index = static_cast<int>(result.positions.size()) - 1});
      };
      int winner = values[0];
      int place = is_position(step) ? number(0) : -1;
      for (std::size_t e = 1; e < elements; ++e) {
        if (place >= 0) {
          // A later element wins that is better or a NaN, but not over a NaN.
          const int no_better = compare(largest ? Op::le : Op::ge, of.dtype, values[e], winner);
          const int is_number = compare(Op::eq, of.dtype, winner, winner);
          const int wins = compare(Op::gt, DType::boolean, is_number, no_better);
          place = add({.kind = FewKind::elementwise,
                       .type = ComputeType::i64,
                       .dtype = DType::i64,
                       .op = Op::where,
                       .a = wins,
                       .b = number(e),
                       .c = place});
        }
        if (place >= 0 && e + 1 == elements) break;
        winner = add({.kind = FewKind::elementwise,
                      .type = of.type,
                      .dtype = of.dtype,
                      .from = of.dtype,
                      .op = largest ? Op::maximum : Op::minimum,
                      .a = winner,
                      .b = values[e]});
      }
      made[i].assign(elements, place >= 0 ? place : winner);
      continue;
    }
    const std::size_t count = step.extent == Extent::row ? 1 : elements;
    for (std::size_t e = 0; e < count; ++e) {
      Instruction one = step;
      for (int* const operand : {&one.a, &one.b, &one.c}) {
        if (*operand >= 0) *operand = made[static_cast<std::size_t>(*operand)][e];
      }
      if (step.kind == FewKind::load || step.kind == FewKind::load_bits) {
        Input input = program.inputs[static_cast<std::size_t>(step.index)];
        input.view = element_of(input.view, rows, indices[e]);
        one.index = static_cast<int>(result.inputs.size());
        result.inputs.push_back(std::move(input));
      }
      made[i].push_back(add(one));
    }
    if (count == 1) made[i].assign(elements, made[i][0]);
  }
  for (Output output : program.outputs) {
    output.value = made[static_cast<std::size_t>(output.value)][0];
    output.strides = output.strides.slice(0, rows);
    result.outputs.push_back(std::move(output));
  }
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
