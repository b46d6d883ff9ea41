// The form of a team's kernel: which phases there are and what each computes, how many threads a row has, how many
// neighbours each computes at once, and what waits in registers or in shared memory.
#include <algorithm>
#include <bit>

#include "backends/gpu/renderer/rows_team.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
void TeamKernel::find_phases() {
  for (int i = 0; i < size(); ++i) {
    int phase = 0;
    for (const int operand : {code(i).a, code(i).b, code(i).c}) {
      if (operand < 0) continue;
      const bool reduced = code(operand).kind == Kind::reduce;
      phase = std::max(phase, phases_[static_cast<std::size_t>(operand)] + (reduced ? 1 : 0));
    }
    phases_.push_back(phase);
    last_phase_ = std::max(last_phase_, phase + (code(i).kind == Kind::reduce ? 1 : 0));
  }
  // What each phase computes, and what it takes from earlier ones if values are held.
  std::vector<int> first(program_.code.size(), -1);
  for (int phase = 0; phase <= last_phase_; ++phase) {
    std::set<int> computed;
    std::vector<int> work = roots(phase);
    while (!work.empty()) {
      const int i = work.back();
      work.pop_back();
      int& at = first[static_cast<std::size_t>(i)];
      if (is_row(i) || computed.contains(i)) continue;
      if (at >= 0 && at < phase && code(i).kind != Kind::iota && !is_of_columns(i)) {
        held_.insert(i);
        continue;
      }
      if (at < 0) at = phase;
      computed.insert(i);
      for (const int operand : {code(i).a, code(i).b, code(i).c}) {
        if (operand >= 0) work.push_back(operand);
      }
    }
    computed_.push_back(std::move(computed));
  }
}

bool TeamKernel::is_of_columns(int i) const {
  return space_.row_count > 1 && loads_input(i) &&
         is_same_for_rows(space_.inputs[static_cast<std::size_t>(code(i).index)]);
}

bool TeamKernel::is_same_for_rows(const View& view) const {
  for (int d = 0; d < space_.rows; ++d) {
    if (view.strides[d] != 0) return false;
    for (const Bound& bound : view.bounds) {
      if (bound.m[d] != 0) return false;
    }
  }
  return true;
}

std::vector<int> TeamKernel::roots(int phase) const {
  std::vector<int> result;
  for (int i = 0; i < size(); ++i) {
    if (code(i).kind != Kind::reduce || phases_[static_cast<std::size_t>(i)] != phase) continue;
    for (const int operand : {code(i).a, code(i).b}) {
      if (operand >= 0) result.push_back(operand);
    }
  }
  for (const int o : outputs_of(phase)) result.push_back(program_.outputs[static_cast<std::size_t>(o)].value);
  return result;
}

std::vector<int> TeamKernel::outputs_of(int phase) const {
  std::vector<int> result;
  for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
    const int value = program_.outputs[o].value;
    if (!is_row(value) && phases_[static_cast<std::size_t>(value)] == phase) result.push_back(static_cast<int>(o));
  }
  return result;
}

void TeamKernel::choose_form() {
  choose_team();
  const std::int64_t length = space_.length;
  const int at_once = team_ * width_;
  const std::int64_t steps = std::max<std::int64_t>((length + at_once - 1) / at_once, 1);
  steps_ =
      static_cast<int>(handed_ ? steps : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(steps))));
  full_ = length == static_cast<std::int64_t>(steps_) * at_once;
  find_staged();
  holds_ = held_words() <= kMostHeldWords;
  if (holds_) return;
  held_.clear();
  staged_at_.clear();
  // Without registers each phase computes all that it needs.
  for (int phase = 0; phase <= last_phase_; ++phase) {
    std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
    computed.clear();
    std::vector<int> work = roots(phase);
    while (!work.empty()) {
      const int i = work.back();
      work.pop_back();
      if (is_row(i) || !computed.insert(i).second) continue;
      for (const int operand : {code(i).a, code(i).b, code(i).c}) {
        if (operand >= 0) work.push_back(operand);
      }
    }
  }
}

std::set<int> TeamKernel::taken_by(int phase) const {
  const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
  std::set<int> taken;
  const auto take = [&](int i) {
    if (i >= 0 && !is_row(i) && !computed.contains(i)) taken.insert(i);
  };
  for (const int i : computed) {
    for (const int operand : {code(i).a, code(i).b, code(i).c}) take(operand);
  }
  for (const int i : roots(phase)) take(i);
  return taken;
}

void TeamKernel::find_staged() {
  if (!staged_ || by_steps_ || width_ != 4) return;  // rows of 16-bit elements are faster in registers
  std::vector<std::size_t> used;                     // of the stages, by each phase
  for (int phase = 0; phase <= last_phase_; ++phase) {
    std::vector<int> values;
    for (const Reduction& reduction : reductions_of(phase)) {
      if (!reduction.is_ordered()) continue;
      const Instruction& step = code(reduction.number());
      values.push_back(step.a);
      if (step.b >= 0 && step.b != step.a) values.push_back(step.b);
    }
    for (std::size_t at = 0; at < values.size(); ++at) {
      const int i = values[at];
      const bool is_ours = held_.contains(i) && computed_[static_cast<std::size_t>(phase)].contains(i);
      if (is_ours && code(i).type == ComputeType::f32) staged_at_.emplace(i, static_cast<int>(at));
    }
    used.push_back(values.size());
  }
  // find_zeros looks for those of extrema in registers.
  for (const Instruction& step : program_.code) {
    if (step.kind == Kind::reduce && !Reduction(step, 0, step.type, space_.wide).is_ordered()) staged_at_.erase(step.a);
  }
  std::erase_if(staged_at_, [&](const auto& entry) {
    const auto [i, at] = entry;
    int phase = 0;
    while (!computed_[static_cast<std::size_t>(phase)].contains(i)) ++phase;
    // The phase that stages something else there may still take it, those behind it may not.
    bool is_there = true;
    for (++phase; phase <= last_phase_; ++phase) {
      if (!is_there && taken_by(phase).contains(i)) return true;
      is_there = is_there && used[static_cast<std::size_t>(phase)] <= static_cast<std::size_t>(at);
    }
    return false;
  });
}

void TeamKernel::take_staged(int phase) {
  for (const int i : taken_by(phase)) {
    if (!is_in_stage(i)) continue;
    lines_.add("float back{}[{}];", i, width_);
    for (int q = 0; q < width_; q += 4) {
      lines_.add("READ4(stage{}, team * {} + group * {} + {}, back{}, {})", staged_at_.at(i), stage_size(team_), width_,
                 q, i, q);
    }
  }
}

int TeamKernel::held_words() const {
  int halves = 0;
  for (const int i : held_) {
    if (is_in_stage(i)) continue;
    const bool is_long = code(i).type != ComputeType::f32 && code(i).type != ComputeType::i32;
    halves += is_held_in_pairs(i) ? 1 : is_long ? 4 : 2;
  }
  return halves * steps_ * width_ / 2;
}

std::string TeamKernel::held_value(int i, const std::string& at, const std::string& q) const {
  if (is_in_stage(i)) return fmt::format("back{}[{}]", i, q);
  if (!is_held_in_pairs(i)) return fmt::format("held{}[{}]", i, at);
  const std::string word = fmt::format("held{}[({}) / 2]", i, at);
  return fmt::format("FROM_BITS(SELECT(({0}) % 2 == 0, {1} << 16, {1} & 0xffff0000u))", q, word);
}

void TeamKernel::hold(int i, const std::string& at, const std::string& q) {
  if (is_in_stage(i)) return;
  const std::string value = ProgramWriter::name(i);
  if (!is_held_in_pairs(i)) return lines_.add("held{}[{}] = {};", i, at, value);
  const std::string word = fmt::format("held{}[({}) / 2]", i, at);
  lines_.add("{0} = SELECT(({1}) % 2 == 0, BITS({2}) >> 16, {0} | BITS({2}));", word, q, value);
}

std::optional<int> TeamKernel::guard_of_low(int exponential) const {
  const auto is = [&](int i, Op op) { return code(i).kind == Kind::elementwise && code(i).op == op; };
  if (!is(exponential, Op::exp) || code(exponential).type != ComputeType::f32) return {};
  const int difference = code(exponential).a;
  if (!is(difference, Op::sub) || code(difference).type != ComputeType::f32) return {};
  // The largest, or something else where that is not finite.
  const int taken = code(difference).b;
  if (code(taken).kind != Kind::from_bits || !is(code(taken).a, Op::where)) return {};
  const Instruction& choice = code(code(taken).a);
  if (!is(choice.a, Op::isfinite) || code(choice.b).kind != Kind::to_bits) return {};
  const int largest = code(choice.b).a;
  const bool is_largest = code(largest).kind == Kind::reduce && code(largest).reduce == ReduceOp::max &&
                          code(largest).type == ComputeType::f32 && code(choice.a).a == largest;
  if (!is_largest || behind_casts(code(largest).a) != behind_casts(code(difference).a)) return {};
  return choice.a;
}

bool TeamKernel::has_low(int largest) const {
  for (int i = 0; i < size(); ++i) {
    const std::optional<int> guard = guard_of_low(i);
    if (guard && (largest < 0 || code(*guard).a == largest)) return true;
  }
  return false;
}

std::optional<std::string> TeamKernel::condition_of_mild(int exponential) const {
  const std::optional<int> guard = guard_of_low(exponential);
  if (!guard || !lowest_.contains(code(*guard).a)) return {};
  return fmt::format("{} != 0 && lowest{} - {} >= FROM_BITS(0xc2000000u)", ProgramWriter::name(*guard), code(*guard).a,
                     ProgramWriter::name(code(code(exponential).a).b));
}

// Lemma: with the row's largest finite one of at most 4096 exponentials is 1 and none is above, so that the sum is from
// 1 to 4096, and the quotients of those that are at least e^-32 are above 2^-59.
std::optional<int> TeamKernel::exponential_of_share(int i) const {
  constexpr std::int64_t kMost = 4096;
  if (!limits_.arithmetic.fused_fma || space_.length > kMost || code(i).kind != Kind::elementwise ||
      code(i).op != Op::div || code(i).type != ComputeType::f32 || is_row(code(i).a)) {
    return {};
  }
  const Instruction& sum = code(code(i).b);
  const bool is_sum = sum.kind == Kind::reduce && sum.reduce == ReduceOp::sum && sum.b < 0 && sum.a == code(i).a &&
                      sum.type == ComputeType::f32;
  if (!is_sum || !guard_of_low(code(i).a)) return {};
  return code(i).a;
}

bool TeamKernel::is_by_words(const Reduction& reduction) const {
  const Instruction& reduce = code(reduction.number());
  return staged_ && is_quick(reduction) && reduction.takes_any_zero() && reduce.reduce == ReduceOp::max &&
         held_.contains(reduce.a) && !is_in_stage(reduce.a) && !is_best_of_pairs(reduction);
}

std::size_t TeamKernel::bytes_under_way() const {
  std::size_t bytes = 0;
  for (const int i : writer_.vector_inputs_by_row(computed_[0])) {
    bytes += static_cast<std::size_t>(steps_) * writer_.bytes_at_once(i);
  }
  return bytes;
}

void TeamKernel::choose_copies() {
  if (!limits_.copies_to_shared || !staged_ || handed_ || !holds_ || width_ == 1) return;
  const std::set<int> inputs = writer_.vector_inputs_by_row(computed_[0]);
  const auto bytes_of = [&](int input) { return static_cast<std::size_t>(steps_) * writer_.bytes_at_once(input); };
  const std::size_t bytes = bytes_under_way();
  if (bytes <= kMostBytesUnderWay) return;
  if (kLeastGroups * (staged_bytes(team_) + bytes * static_cast<std::size_t>(limits_.threads)) > limits_.shared_bytes)
    return;
  // What is summed may stand where what it is computed from stood, if both lie there element by element.
  const bool in_order = !shared_.empty() && steps_ * width_ * team_ == stage_size(team_);
  const std::size_t floats = static_cast<std::size_t>(width_) * sizeof(float);
  for (const int i : inputs) {
    const bool replaced = in_order && copied_.empty() && writer_.bytes_at_once(i) == floats;
    const std::string array = replaced ? "stage0" : fmt::format("copy{}", i);
    copied_.emplace(i, array);
    if (replaced) continue;
    shared_.push_back({ComputeType::f32, array, static_cast<int>(bytes_of(i) / sizeof(float)) * limits_.threads});
  }
}

bool TeamKernel::is_difference_of_row(int i) const {
  return code(i).kind == Kind::elementwise && code(i).op == Op::sub && code(i).type == ComputeType::f32 && !is_row(i) &&
         is_row(code(i).b) && code(code(i).b).type == ComputeType::f32;
}

TeamKernel::Shortcuts TeamKernel::shortcuts_of(int phase) const {
  constexpr std::size_t kLongCode = 12;  // is not written twice
  Shortcuts result;
  const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
  if (!staged_ || computed.size() > kLongCode) return result;
  std::set<std::string> conditions;
  const auto is_at_least = [&](int row, const char* word) {
    conditions.insert(fmt::format("(BITS({}) & 0x7fffffffu) >= {}", ProgramWriter::name(row), word));
  };
  for (const int i : computed) {
    if (const std::optional<std::string> mild = condition_of_mild(i)) {
      conditions.insert(*mild);
      result.of.mild.insert(i);
    } else if (const std::optional<int> guard = guard_of_low(i)) {
      conditions.insert(fmt::format("{} != 0", ProgramWriter::name(*guard)));
      result.of.low.insert(i);
    }
    if (const std::optional<int> exponential = exponential_of_share(i)) {
      if (const std::optional<std::string> mild = condition_of_mild(*exponential)) {
        conditions.insert(*mild);
        result.of.shares.insert(i);
      }
    }
    if (code(i).type != ComputeType::f32 || writer_.rounding_of(i) != Rounding::flushed) continue;
    // Lemma: x - w, |w| >= 2^-39, is zero or at least 2^-63, whatever x is: both are multiples of that, or x is below
    // half of w. So its product with what is at least 2^-60 is zero or at least 2^-123, and its square 2^-126.
    const bool is_product = code(i).kind == Kind::elementwise && code(i).op == Op::mul;
    const int difference = is_product ? code(i).a : i;
    if (!is_difference_of_row(difference)) continue;
    if (is_product) {
      if (!is_row(code(i).b) || code(code(i).b).type != ComputeType::f32) continue;
      is_at_least(code(i).b, "0x21800000u");
    }
    is_at_least(code(difference).b, "0x2c000000u");
    result.of.not_tiny.insert(i);
  }
  for (const Reduction& reduction : reductions_of(phase)) {
    const Instruction& step = code(reduction.number());
    const bool squares = step.reduce == ReduceOp::dot && step.a == step.b && result.of.not_tiny.contains(step.a);
    if (squares && is_difference_of_row(step.a)) result.sure.insert(reduction.number());
  }
  for (const std::string& condition : conditions) {
    result.condition += (result.condition.empty() ? "" : " && ") + condition;
  }
  return result;
}

void TeamKernel::choose_team() {
  const std::int64_t length = space_.length;
  const auto team_for = [&](std::int64_t items, int most) {
    return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(items, 1, most))));
  };
  // What waits for a sum takes shared memory, by which Vulkan decides how many workgroups run at once; more neighbours
  // at once pay where an element takes long.
  constexpr std::size_t kCostly = 24;  // instructions
  const bool by_fours = !limits_.copies_to_shared && !held_.empty() && program_.code.size() <= kCostly;
  if (space_.rows < space_.shape.rank() && limits_.threads == 4 * kLanes) {
    const std::int64_t short_row = kLongestPerLane * kLanes / 4;
    if (length <= short_row) {
      const int most = !by_fours && (length <= short_row / 2 || length % 8 != 0) ? 8 : 4;
      if (combining_bytes(most) <= limits_.shared_bytes && writer_.choose_vectors(most)) {
        width_ = writer_.width();
        const int groups = team_for(length / width_, kLanes / width_);
        while (groups / sets_ > 1 && 2 * sets_ * length <= std::int64_t{kLongestPerLane} * groups) sets_ *= 2;
        team_ = groups / sets_;
        return;
      }
    } else {
      if (hands_on()) return;
      const int team = team_for((length + kLongestPerLane - 1) / kLongestPerLane, limits_.threads);
      if (fits_staged(std::max(team, kLanes)) &&
          writer_.choose_vectors(by_fours && !is_for_few_threads() ? 4 : 8, false, 32)) {
        width_ = writer_.width();
        if (width_ == 8 && is_for_few_threads()) {
          limits_.threads = kThreadsOfWords16;
          stage(std::max(team_for(length / kLongestOfWords16, limits_.threads), kLanes));
        } else {
          stage(std::max(team, kLanes));
        }
        return;
      }
    }
    if (length > kLongestPerLane * kLanes && fits_staged(limits_.threads)) return stage(limits_.threads);
  }
  team_ = std::max(team_for(length, kLanes), 4);
}

bool TeamKernel::hands_on() {
  const std::int64_t length = space_.length;
  const bool is_long =
      length >= kLongestPerLane * kThreadsOfHanded && length % (kLanes * kThreadsOfHanded / kNear) == 0;
  if (!limits_.bf16_pairs || !is_long || space_.row_count <= limits_.units) return false;
  bool sums = false;
  for (const Instruction& step : program_.code) {
    if (step.kind != Kind::reduce) continue;
    const Reduction reduction(step, 0, step.type, space_.wide);
    if (reduction.operand_type() != ComputeType::f32) return false;
    if (!reduction.is_ordered() && !reduction.is_float_extremum()) return false;
    sums = sums || reduction.is_ordered();
  }
  constexpr int kWidth = kLanes / kNear;
  width_ = kWidth;
  steps_ = static_cast<int>(length / (kWidth * kThreadsOfHanded));
  if (sums && held_words() <= kMostHeldWords && writer_.choose_twos()) {
    limits_.threads = team_ = kThreadsOfHanded;
    staged_ = handed_ = true;
    return true;
  }
  width_ = 1;
  return false;
}

std::size_t TeamKernel::combining_bytes(int width) const {
  std::vector<Reduction> all;
  for (int phase = 0; phase <= last_phase_; ++phase) {
    for (const Reduction& reduction : reductions_of(phase)) all.push_back(reduction);
  }
  return shared_bytes_of(all, limits_.threads, width);
}

bool TeamKernel::fits_staged(int team) const {
  std::set<ComputeType> types;
  for (const Instruction& step : program_.code) {
    if (step.kind != Kind::reduce) continue;
    const Reduction reduction(step, 0, step.type, space_.wide);
    if (reduction.is_ordered()) types.insert(reduction.operand_type());
  }
  if (types.size() > 1 || types.contains(ComputeType::f64) || types.contains(ComputeType::i64)) return false;
  return staged_bytes(team) <= limits_.shared_bytes;
}

std::vector<SharedArray> TeamKernel::staged_arrays(int team) const {
  std::vector<SharedArray> most;
  for (int phase = 0; phase <= last_phase_; ++phase) {
    std::vector<SharedArray> arrays;
    for (const Reduction& reduction : reductions_of(phase)) {
      if (!reduction.is_ordered()) continue;
      const int size = stage_size(team) * limits_.threads / team;
      for (SharedArray& array : reduction.stages(static_cast<int>(arrays.size()), size)) {
        arrays.push_back(std::move(array));
      }
    }
    if (arrays.size() > most.size()) most = std::move(arrays);
  }
  return most;
}

void TeamKernel::stage(int team) {
  staged_ = true;
  team_ = team;
  // Vulkan does not tell how much shared memory a unit gives to all its workgroups; NVIDIA's gives so little that of
  // those with 16 KB hardly any ran together.
  by_steps_ = width_ > 1 && !limits_.copies_to_shared;
  shared_ = staged_arrays(team);
}

std::vector<Reduction> TeamKernel::reductions_of(int phase) const {
  std::vector<Reduction> result;
  for (int i = 0; i < size(); ++i) {
    if (code(i).kind == Kind::reduce && phases_[static_cast<std::size_t>(i)] == phase) {
      result.emplace_back(code(i), i, writer_.type_of(code(i).a), space_.wide);
      if (writer_.is_any_zero(i)) result.back().take_any_zero();
    }
  }
  return result;
}

std::set<int> TeamKernel::row_instructions() const {
  std::set<int> result;
  for (int i = 0; i < size(); ++i) {
    if (is_row(i)) result.insert(i);
  }
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
