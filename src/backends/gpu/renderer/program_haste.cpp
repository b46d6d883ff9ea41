// Roundings to bf16 in haste: in fewer instructions, of numbers below 2^112; of all others no number comes out. What
// was rounded is summed up (`doubt`), and where the sum is no number, a group of neighbours is computed once more with
// care.
#include <algorithm>

#include "backends/gpu/renderer/program.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using HasteKind = Instruction::Kind;

}  // namespace

bool ProgramWriter::rounds_in_haste(int i) const {
  return roundings_.bf16[static_cast<std::size_t>(i)] &&
         roundings_.results[static_cast<std::size_t>(i)] != Rounding::none;
}

int ProgramWriter::behind_roundings(int i) const {
  const auto code = [&](int at) -> const Instruction& { return program_.code[static_cast<std::size_t>(at)]; };
  while (code(i).kind == HasteKind::cast && roundings_.results[static_cast<std::size_t>(i)] == Rounding::none) {
    i = code(i).a;
  }
  return i;
}

bool ProgramWriter::is_share(int output) const {
  return vector_outputs_.contains(output) && rounds_at_store(output) &&
         shortcuts_.shares.contains(behind_roundings(program_.outputs[static_cast<std::size_t>(output)].value));
}

// Lemma: the quotient of an exponential and the sum of a row's exponentials, by an inverse that is a number, is from 0
// to 2: none of them is negative, and if one were no number or infinite, so would be the sum.
bool ProgramWriter::is_share_of_row(int i) const {
  const auto code = [&](int at) -> const Instruction& { return program_.code[static_cast<std::size_t>(at)]; };
  i = behind_roundings(i);
  if (!divides_by_inverse(i) || quotients_ != Quotients::quick) return false;
  const Instruction& exponential = code(code(i).a);
  const Instruction& sum = code(code(i).b);
  return exponential.kind == HasteKind::elementwise && exponential.op == Op::exp && sum.kind == HasteKind::reduce &&
         sum.reduce == ReduceOp::sum && sum.b < 0 && sum.a == code(i).a;
}

// Lemma: |gelu(x)| <= |x|, so its rounding is right where that of x, which is watched, was.
bool ProgramWriter::is_watched(int i) const {
  const Instruction& from = program_.code[static_cast<std::size_t>(program_.code[static_cast<std::size_t>(i)].a)];
  return from.kind != HasteKind::elementwise || from.op != Op::gelu_erf || !group_.contains(from.a) ||
         !rounds_in_haste(from.a);
}

bool ProgramWriter::is_hasty(const std::set<int>& instructions, const std::set<int>& outputs) const {
  constexpr int kFewSteps = 3;  // of arithmetic, which wait for memory anyway
  if (!has_haste_ || width_ == 1) return false;
  int steps = 0;
  bool rounds = false;
  bool divides = false;
  for (const int i : instructions) {
    const Instruction& step = program_.code[static_cast<std::size_t>(i)];
    if (step.kind == HasteKind::elementwise) ++steps;
    rounds = rounds || rounds_in_haste(i);
    divides = divides || divides_by_inverse(i);
  }
  for (const int o : outputs) {
    const Output& out = program_.outputs[static_cast<std::size_t>(o)];
    rounds = rounds || (out.dtype == DType::bf16 && vector_outputs_.contains(o) && rounds_at_store(o));
  }
  return rounds && (steps >= kFewSteps || divides);
}

void ProgramWriter::begin_haste(const std::set<int>& instructions, const std::set<int>& outputs) {
  haste_ = Haste::hasty;
  group_ = instructions;
  watched_.clear();
  watched_left_ = static_cast<int>(std::count_if(instructions.begin(), instructions.end(),
                                                 [&](int i) { return rounds_in_haste(i) && is_watched(i); }));
  for (const int o : outputs) {
    const Output& out = program_.outputs[static_cast<std::size_t>(o)];
    if (out.dtype != DType::bf16 || !rounds_at_store(o)) continue;
    rounded_.insert(o);
    if (!is_share_of_row(out.value)) ++watched_left_;
  }
}

std::string ProgramWriter::hasty_output(int output) const {
  const int value = program_.outputs[static_cast<std::size_t>(output)].value;
  const char* macro = is_share(output) ? "HASTY_NEAREST_BF16" : haste_ != Haste::hasty ? "ROUND_BF16" : "HASTY_BF16";
  return fmt::format("{}({})", macro, name(value));
}

// Products of two of them, which are no number where one is not.
void ProgramWriter::watch(Lines& lines, const std::string& rounded) {
  --watched_left_;
  if (!watched_.empty()) {
    lines.add("doubt = FMA({}, {}, doubt);", watched_, rounded);
    watched_.clear();
  } else if (watched_left_ > 0) {
    watched_ = rounded;
  } else {
    lines.add("doubt = doubt + {};", rounded);
  }
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
