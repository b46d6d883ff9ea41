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

// Lemma: of what is infinite or no number, sums, products and gelu in haste are, too. So is what that is rounded to, by
// a cast or at the store, which is watched or passes it on in its turn.
bool ProgramWriter::is_watched(int i) const {
  const int user = users_[static_cast<std::size_t>(i)];
  if (user < 0 || !group_.contains(user)) return true;
  const Instruction& step = program_.code[static_cast<std::size_t>(user)];
  const bool passes = step.kind == HasteKind::elementwise && step.type == ComputeType::f32 &&
                      (step.op == Op::add || step.op == Op::sub || step.op == Op::mul ||
                       (step.op == Op::gelu_erf && roundings_.only_to_bf16[static_cast<std::size_t>(user)]));
  if (!passes) return true;
  const int next = users_[static_cast<std::size_t>(user)];
  const bool is_rounded = next >= 0 && group_.contains(next) && rounds_in_haste(next);
  const bool is_stored = std::any_of(rounded_.begin(), rounded_.end(), [&](int o) {
    const int value = program_.outputs[static_cast<std::size_t>(o)].value;
    return behind_roundings(value) == user && !is_share_of_row(value);
  });
  return !is_rounded && !is_stored;
}

// Lemma: t = a + c, a at most 2^-126 in magnitude, is c where |c| >= 2^-91, and so where |t| >= 2^-90. And with a and c
// of bf16, |c| >= 2^-90, t is 0 or at least 2^-99: both are multiples of that, or a is below half of c. So a need not
// be flushed, nor t before it is rounded, where the least |c|, or the least |t| rounded, is watched. (Sums of bf16 are
// often 0, those of f32 seldom.)
void ProgramWriter::find_sure(const std::set<int>& instructions, const std::set<int>& outputs) {
  sure_.clear();
  loose_.clear();
  const auto code = [&](int at) -> const Instruction& { return program_.code[static_cast<std::size_t>(at)]; };
  for (const int i : instructions) {
    const Instruction& sum = code(i);
    if (sum.kind != HasteKind::elementwise || sum.op != Op::add || late_.contains(sum.a) == late_.contains(sum.b))
      continue;
    const int late = late_.contains(sum.a) ? sum.a : sum.b;
    const int other = late == sum.a ? sum.b : sum.a;
    if (!instructions.contains(late)) continue;
    const int user = users_[static_cast<std::size_t>(i)];
    if (user >= 0 && instructions.contains(user) && rounds_in_haste(user) && is_bf16(late) && is_bf16(other)) {
      sure_.emplace(i, other);
      loose_.insert(user);
    }
    for (const int o : outputs) {
      if (rounded_.contains(o) && behind_roundings(program_.outputs[static_cast<std::size_t>(o)].value) == i)
        sure_.emplace(i, -1);
    }
    // Lemma: of a small number of either sign gelu is small.
    for (int at = late; sure_.contains(i) && code(at).kind == HasteKind::cast && rounds_in_haste(at);) {
      loose_.insert(at);
      const int from = code(at).a;
      const bool is_gelu = instructions.contains(from) && code(from).kind == HasteKind::elementwise &&
                           code(from).op == Op::gelu_erf && users_[static_cast<std::size_t>(from)] == at;
      if (!is_gelu || users_[static_cast<std::size_t>(code(from).a)] != from || !instructions.contains(code(from).a))
        break;
      at = code(from).a;
    }
  }
}

bool ProgramWriter::is_sure_output(int output) const {
  if (haste_ != Haste::hasty) return false;
  const auto found = sure_.find(behind_roundings(program_.outputs[static_cast<std::size_t>(output)].value));
  return found != sure_.end() && found->second < 0;
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
  for (const int o : outputs) {
    if (program_.outputs[static_cast<std::size_t>(o)].dtype == DType::bf16 && rounds_at_store(o)) rounded_.insert(o);
  }
  find_sure(instructions, outputs);
  watched_left_ = static_cast<int>(std::count_if(instructions.begin(), instructions.end(),
                                                 [&](int i) { return rounds_in_haste(i) && is_watched(i); }));
  for (const int o : outputs) {
    const Output& out = program_.outputs[static_cast<std::size_t>(o)];
    if (rounded_.contains(o) && !is_share_of_row(out.value)) ++watched_left_;
  }
}

std::string ProgramWriter::hasty_output(int output) const {
  const int value = program_.outputs[static_cast<std::size_t>(output)].value;
  const char* macro = is_share(output) || is_sure_output(output) ? "HASTY_LOOSE_BF16"
                      : haste_ != Haste::hasty                   ? "ROUND_BF16"
                                                                 : "HASTY_BF16";
  return fmt::format("{}({})", macro, name(value));
}

// Products of two of them, of this or of this and the next element, which are no number, or infinite, where one is not.
void ProgramWriter::watch(Lines& lines, const std::string& rounded) {
  --watched_left_;
  if (!watched_.empty()) {
    lines.add("doubt = FMA({}, {}, doubt);", watched_, rounded);
    watched_.clear();
  } else if (watched_left_ > 0) {
    watched_ = rounded;
  } else {
    lines.add("if (q % 2 == 1) doubt = FMA(doubted, {}, doubt);", rounded);
    lines.add("doubted = {};", rounded);
  }
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
