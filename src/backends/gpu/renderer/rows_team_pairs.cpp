// Values of bf16 that a team's threads compute two at a time, as one word: what is rounded to bf16, and sums of such
// values (RenderLimits::bf16_pairs); and the largest of what is held so.
#include "backends/gpu/renderer/rows_team.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

int TeamKernel::behind_casts(int i) const {
  while (code(i).kind == Kind::cast && code(i).dtype == DType::f32 && code(code(i).a).type == ComputeType::f32) {
    i = code(i).a;
  }
  return i;
}

// The word of elements 2p and 2p + 1; empty where there is none.
std::string TeamKernel::pair_of(int phase, int i, const std::set<int>& pairs) const {
  i = behind_casts(i);
  if (pairs.contains(i)) return fmt::format("pair{}", i);
  const bool is_here = code(i).kind == Kind::load && computed_[static_cast<std::size_t>(phase)].contains(i);
  if (!is_here || !writer_.moves_canonical(DType::bf16, i)) return "";
  return fmt::format("(in{0}_words[2 * p] | in{0}_words[2 * p + 1] << 16)", code(i).index);
}

void TeamKernel::declare_element(int phase) {
  const char* index = space_.wide ? "LONG" : "int";
  const int rank = space_.shape.rank();
  lines_.add("int q = 2 * p + h;");
  lines_.add("{0} i{1} = first + {0}(q);", index, rank - 1);
  writer_.declare_places(lines_, "e", "v", rank - 1, rank, computed_[static_cast<std::size_t>(phase)], {}, true);
}

std::set<int> TeamKernel::write_pairs(int phase) {
  std::set<int> pairs;
  for (const int i : computed_[static_cast<std::size_t>(phase)]) {
    const Rounding rounding = writer_.rounding_of(i);
    if (code(i).kind != Kind::cast || code(i).dtype != DType::bf16 || !writer_.is_bf16(i)) continue;
    const int rounded = code(i).a;
    const Instruction& step = code(rounded);
    const bool is_sum = step.kind == Kind::elementwise && step.op == Op::add && step.type == ComputeType::f32;
    const std::string a = is_sum ? pair_of(phase, step.a, pairs) : "";
    const std::string b = is_sum ? pair_of(phase, step.b, pairs) : "";
    // Lemma: the sum of two values of bf16, rounded to f32 and then to bf16, is the sum rounded to bf16.
    if (!a.empty() && !b.empty()) {
      lines_.add("UINT pair{} = ADD_BF16_PAIR({}, {});", i, a, b);
    } else {
      lines_.add("float both{}[2];", i);
      lines_.add("UNROLL");
      lines_.open("for (int h = 0; h < 2; h++) {{");
      declare_element(phase);
      write_needed(phase, {rounded}, fmt::format("s * {} + q", width_), pairs);
      lines_.add("both{}[h] = {};", i, ProgramWriter::name(rounded));
      lines_.close();
      lines_.add("UINT pair{0} = NEAREST_BF16_PAIR(both{0}[0], both{0}[1]);", i);
    }
    if (rounding != Rounding::to_16_bits) {
      lines_.add("pair{0} = {1}_BF16_PAIR(pair{0});", i, rounding == Rounding::flushed ? "FLUSHED" : "CANONICAL");
    }
    pairs.insert(i);
  }
  return pairs;
}

void TeamKernel::write_needed(int phase, const std::vector<int>& wanted, const std::string& held,
                              const std::set<int>& pairs) {
  const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
  std::set<int> needed;
  std::vector<int> work = wanted;
  while (!work.empty()) {
    const int i = work.back();
    work.pop_back();
    if (i < 0 || is_row(i) || !needed.insert(i).second || pairs.contains(i) || !computed.contains(i)) continue;
    for (const int operand : {code(i).a, code(i).b, code(i).c}) work.push_back(operand);
  }
  for (const int i : needed) {
    if (pairs.contains(i)) {
      lines_.add("float {0} = FROM_BITS(SELECT(h == 0, pair{1} << 16, pair{1} & 0xffff0000u));", ProgramWriter::name(i),
                 i);
    } else if (!computed.contains(i)) {
      lines_.add("{} {} = {};", type_name(code(i).type), ProgramWriter::name(i), held_value(i, held, "q"));
    } else {
      writer_.emit(lines_, i, "e");
    }
  }
}

bool TeamKernel::is_best_of_pairs(const Reduction& reduction) const {
  const int a = code(reduction.number()).a;
  return limits_.bf16_pairs && full_ && is_quick(reduction) && reduction.takes_any_zero() && held_.contains(a) &&
         is_held_in_pairs(a);
}

void TeamKernel::write_best_of_pairs(const Reduction& reduction) {
  const int n = reduction.number();
  const int held = code(n).a;
  const char* better = code(n).reduce == ReduceOp::max ? "LARGER_BF16_PAIR" : "SMALLER_BF16_PAIR";
  if (staged_ && has_low(n)) {
    lines_.add("UINT worst{} = held{}[0];", n, held);
    lines_.add("UNROLL");
    lines_.add("for (int x = 1; x < {0}; x++) worst{1} = SMALLER_BF16_PAIR(worst{1}, held{2}[x]);", steps_ * width_ / 2,
               n, held);
    lines_.add("float lowest{0} = SMALLER(FROM_BITS(worst{0} << 16), FROM_BITS(worst{0} & 0xffff0000u));", n);
    lowest_.insert(n);
  }
  lines_.add("UINT best{} = held{}[0];", n, held);
  lines_.add("UNROLL");
  lines_.add("for (int x = 1; x < {0}; x++) best{1} = {2}(best{1}, held{3}[x]);", steps_ * width_ / 2, n, better, held);
  lines_.add(
      "r{0} = {1};", n,
      reduction.better(fmt::format("FROM_BITS(best{} << 16)", n), fmt::format("FROM_BITS(best{} & 0xffff0000u)", n)));
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
