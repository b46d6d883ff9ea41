// Row programs with reductions whose rows have up to 4096 elements: a team of threads per row, several teams in a
// workgroup. A program runs in phases: phase p computes what needs the reductions of phases before it, and keeps the
// values that later phases need in registers, if they are few, so that memory is read once.
//
// Which thread computes which element is free; only the order of sums is not (docs/numerics.md section 4: 64 lanes).
//
//   lanes    each thread follows the chains of its own lanes: one lane, or the 4 or 8 neighbours that it loads at once,
//   and
//            of short rows several such groups
//   staged   longer rows: elements are computed by as many threads as there are, 16 or so each, and what is summed
//            passes through shared memory to the 64 threads that follow the lanes
#include <algorithm>
#include <bit>

#include "backends/gpu/renderer/reduction.h"
#include "backends/gpu/renderer/rows.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

constexpr int kLanes = order::kLanes;
constexpr int kLongestPerLane = 16;    ///< elements: more make texts that compile for seconds
constexpr int kMostHeldWords = 64;     ///< per thread, across phases
constexpr int kFewHeldWords = 32;      ///< with more, compilers spend registers until too few workgroups run at once:
constexpr int kGroupsOfManyWords = 4;  ///< these should, on each unit
constexpr std::size_t kMostBytesUnderWay = 64;  ///< of a thread's loads into registers
constexpr int kLeastGroups = 3;                 ///< of a unit at once, whose rows have room in shared memory

class TeamKernel {
 public:
  TeamKernel(const Program& program, const RenderLimits& limits)
      : program_(program), limits_(limits), space_(Space::of(program, true)), writer_(program_, space_, words_) {
    find_phases();
    choose_form();
    choose_copies();
  }

  Launch render() {
    writer_.declare_buffers(lines_);
    const char* index = space_.wide ? "LONG" : "int";
    const int teams = limits_.threads / team_;
    lines_.add("int lane = int(THREAD) & {};", team_ - 1);
    lines_.add("int team = int(THREAD) / {};", team_);
    lines_.add("{} length = {};", index, words_.index(space_.length, space_.wide));
    lines_.add("{} rows = {};", index, words_.index(space_.row_count, space_.wide));
    lines_.open("for ({0} first_row = {0}(GROUP) * {1}; first_row < rows; first_row += {0}(GROUPS) * {1}) {{", index,
                teams);
    // A team without a row computes the last one once more, and stores nothing.
    if (teams > 1) {
      lines_.add("bool live = first_row + {}(team) < rows;", index);
      lines_.add("{} row = SELECT(live, first_row + {}(team), rows - {}(1));", index, index, index);
    } else {
      lines_.add("{} row = first_row;", index);
    }
    decompose(lines_, words_, space_.shape, 0, space_.rows, "row", "i", space_.wide);
    const std::set<int> outputs = all_of(program_.outputs.size());
    writer_.declare_places(lines_, "row", "", 0, space_.rows, all_of(program_.code.size()), outputs, false);
    writer_.declare_places(lines_, "r", "row", 0, 0, row_instructions(), {}, true);
    for (int phase = 0; phase <= last_phase_; ++phase) write_phase(phase);
    write_row_outputs();
    lines_.close();
    Launch result = launch(lines_, writer_, words_, groups_for(space_.row_count, teams, limits_), limits_);
    result.text.shared = shared_;
    result.text.copies = !copied_.empty();
    if (staged_ && copied_.empty() && held_words() > kFewHeldWords) result.text.groups_per_unit = kGroupsOfManyWords;
    return result;
  }

 private:
  const Instruction& code(int i) const { return program_.code[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(program_.code.size()); }
  bool is_row(int i) const { return code(i).extent == Extent::row; }
  bool loads_input(int i) const { return code(i).kind == Kind::load || code(i).kind == Kind::load_bits; }

  std::set<int> row_instructions() const {
    std::set<int> result;
    for (int i = 0; i < size(); ++i) {
      if (is_row(i)) result.insert(i);
    }
    return result;
  }

  void find_phases() {
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
        if (at >= 0 && at < phase && code(i).kind != Kind::iota) {
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

  // The vector values that are reduced or stored in `phase`.
  std::vector<int> roots(int phase) const {
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

  std::vector<int> outputs_of(int phase) const {
    std::vector<int> result;
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      const int value = program_.outputs[o].value;
      if (!is_row(value) && phases_[static_cast<std::size_t>(value)] == phase) result.push_back(static_cast<int>(o));
    }
    return result;
  }

  void choose_form() {
    choose_team();
    const std::int64_t length = space_.length;
    const int at_once = team_ * width_;
    const std::int64_t steps = std::max<std::int64_t>((length + at_once - 1) / at_once, 1);
    steps_ = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(steps)));
    full_ = length == static_cast<std::int64_t>(steps_) * at_once;
    holds_ = held_words() <= kMostHeldWords;
    if (holds_) return;
    held_.clear();
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

  int held_words() const {
    int words = 0;
    for (const int i : held_) words += code(i).type == ComputeType::f32 || code(i).type == ComputeType::i32 ? 1 : 2;
    return words * steps_ * width_;
  }

  // Where a thread would need many registers to have all that it reads of a row under way at once, shared memory does.
  void choose_copies() {
    if (!limits_.copies_to_shared || !staged_ || !holds_ || width_ == 1) return;
    const std::set<int> inputs = writer_.vector_inputs_by_row(computed_[0]);
    const auto bytes_of = [&](int input) { return static_cast<std::size_t>(steps_) * writer_.bytes_at_once(input); };
    std::size_t bytes = 0;
    for (const int i : inputs) bytes += bytes_of(i);
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

  // How many threads a row has, and how many neighbours they load at once.
  void choose_team() {
    const std::int64_t length = space_.length;
    const auto team_for = [&](std::int64_t items, int most) {
      return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(items, 1, most))));
    };
    if (space_.rows < space_.shape.rank() && limits_.threads == 4 * kLanes) {
      const std::int64_t short_row = kLongestPerLane * kLanes / 4;
      if (length <= short_row) {
        const int most = length <= short_row / 2 || length % 8 != 0 ? 8 : 4;
        if (combining_bytes(most) <= limits_.shared_bytes && writer_.choose_vectors(most)) {
          width_ = writer_.width();
          const int groups = team_for(length / width_, kLanes / width_);
          while (groups / sets_ > 1 && 2 * sets_ * length <= std::int64_t{kLongestPerLane} * groups) sets_ *= 2;
          team_ = groups / sets_;
          return;
        }
      } else {
        const int team = team_for((length + kLongestPerLane - 1) / kLongestPerLane, limits_.threads);
        if (fits_staged(std::max(team, kLanes)) && writer_.choose_vectors()) {
          width_ = writer_.width();
          stage(std::max(team, kLanes));
          return;
        }
      }
      if (length > kLongestPerLane * kLanes && fits_staged(limits_.threads)) return stage(limits_.threads);
    }
    team_ = std::max(team_for(length, kLanes), 4);
  }

  // Shared memory that combining takes, with `width` neighbours per thread. (Those of one: at least as much for
  // extrema.)
  std::size_t combining_bytes(int width) const {
    std::vector<Reduction> all;
    for (int phase = 0; phase <= last_phase_; ++phase) {
      for (const Reduction& reduction : reductions_of(phase)) all.push_back(reduction);
    }
    return shared_bytes_of(all, limits_.threads, width);
  }

  // Whether all sums of a phase have room in shared memory with teams of this size. All have words of one type.
  bool fits_staged(int team) const {
    std::set<ComputeType> types;
    for (const Instruction& step : program_.code) {
      if (step.kind != Kind::reduce) continue;
      const Reduction reduction(step, 0, step.type, space_.wide);
      if (reduction.is_ordered()) types.insert(reduction.operand_type());
    }
    if (types.size() > 1 || types.contains(ComputeType::f64) || types.contains(ComputeType::i64)) return false;
    return staged_bytes(team) <= limits_.shared_bytes;
  }
  std::size_t staged_bytes(int team) const {
    return staged_arrays(team).size() * 4 * static_cast<std::size_t>(stage_size(team) * limits_.threads / team) +
           combining_bytes(1);
  }

  // The shared arrays of the phase that needs most.
  std::vector<SharedArray> staged_arrays(int team) const {
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
  int stage_size(int team) const {
    const std::int64_t least = std::max<std::int64_t>(space_.length, team);
    return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(least)));
  }

  void stage(int team) {
    staged_ = true;
    team_ = team;
    shared_ = staged_arrays(team);
  }

  std::vector<Reduction> reductions_of(int phase) const {
    std::vector<Reduction> result;
    for (int i = 0; i < size(); ++i) {
      if (code(i).kind == Kind::reduce && phases_[static_cast<std::size_t>(i)] == phase) {
        result.emplace_back(code(i), i, writer_.type_of(code(i).a), space_.wide);
        if (writer_.is_any_zero(i)) result.back().take_any_zero();
      }
    }
    return result;
  }

  bool always_live() const { return limits_.threads == team_; }
  /// Extrema of floats need no positions but where zeros of both signs tie.
  bool is_quick(const Reduction& reduction) const { return width_ > 1 && reduction.is_float_extremum(); }

  // The instructions of a phase for the element of this thread whose number among them is `held`; `element`, its number
  // in the row, is declared, and `from` is where places are counted from.
  void write_element(int phase, const std::vector<Reduction>& reductions, const std::string& held,
                     const std::string& from, int first_dim) {
    const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
    const std::vector<int> stored = outputs_of(phase);
    writer_.declare_places(lines_, "e", from, first_dim, space_.shape.rank(), computed, {stored.begin(), stored.end()},
                           true);
    std::set<int> needed;  // held by an earlier phase
    const auto need = [&](int operand) {
      if (operand >= 0 && !is_row(operand) && !computed.contains(operand)) needed.insert(operand);
    };
    for (const int i : computed) {
      for (const int operand : {code(i).a, code(i).b, code(i).c}) need(operand);
    }
    for (const int i : roots(phase)) need(i);
    for (const int i : needed) {
      lines_.add("{} {} = held{}[{}];", type_name(code(i).type), ProgramWriter::name(i), i, held);
    }
    for (const int i : computed) {
      writer_.emit(lines_, i, "e");
      if (held_.contains(i) && !needed.contains(i)) lines_.add("held{}[{}] = {};", i, held, ProgramWriter::name(i));
    }
    int index = 0;
    for (const Reduction& reduction : reductions) {
      const Instruction& reduce = code(reduction.number());
      const ComputeType type = reduction.operand_type();
      const std::string a = writer_.value(reduce.a, type);
      const std::string b = reduce.b < 0 ? "" : writer_.value(reduce.b, type);
      if (staged_ && reduction.is_ordered()) {
        reduction.stage(lines_, width_ > 1 ? "staged" : "stage", index, a, b, width_ > 1 ? "q" : "element");
        index += static_cast<int>(reduction.stages(index, 0).size());
      } else if (is_quick(reduction)) {
        const std::string r = fmt::format("r{}", reduction.number());
        lines_.add("{} = {};", r, reduction.better(r, a));
        if (!held_.contains(reduce.a) && !reduction.takes_any_zero()) reduction.find_zero(lines_, a, "element");
      } else {
        const std::string lane = sets_ > 1 ? fmt::format("[s % {} * {} + q]", sets_, width_) : "[q]";
        reduction.accumulate(lines_, width_ > 1 && reduction.is_ordered() ? lane : "", a, b, "element");
      }
    }
    if (stored.empty()) return;
    const bool guarded = width_ == 1 && !always_live();
    if (guarded) lines_.open("if (live) {{");
    for (const int o : stored) writer_.store(lines_, o, "e");
    if (guarded) lines_.close();
  }

  // A phase's elements, one by one.
  void write_elements(int phase, const std::vector<Reduction>& reductions) {
    lines_.add("int element = lane + s * {};", team_);
    if (!full_) lines_.open("if (element < length) {{");
    decompose(lines_, words_, space_.shape, space_.rows, space_.shape.rank(), "element", "i", space_.wide);
    write_element(phase, reductions, "s", "row", space_.rows);
    if (!full_) lines_.close();
  }

  // Where group s of this thread's neighbours begins in the row; it is there in the block that is opened.
  void open_group(const std::set<int>& computed, const std::set<int>& stored) {
    const char* index = space_.wide ? "LONG" : "int";
    const int last = space_.shape.rank() - 1;
    Shape groups = space_.shape;
    groups[last] /= width_;
    lines_.add("int group = lane + s * {};", team_);
    if (!full_) lines_.open("if (group * {} < length) {{", width_);
    decompose(lines_, words_, groups, space_.rows, last + 1, "group", "g", space_.wide);
    for (int d = space_.rows; d < last; ++d) lines_.add("{0} i{1} = g{1};", index, d);
    lines_.add("{0} first = g{1} * {0}({2});", index, last, width_);
    writer_.declare_places(lines_, "v", "row", space_.rows, last, computed, stored, false);
  }

  void write_copies() {
    std::set<int> loads = computed_[0];
    std::erase_if(loads, [&](int i) { return !loads_input(i) || !copied_.contains(code(i).index); });
    lines_.add("UNROLL");
    lines_.open("for (int s = 0; s < {}; s++) {{", steps_);
    open_group(loads, {});
    writer_.start_copies(lines_, "v", "first", copied_at(), copied_);
    if (!full_) lines_.close();
    lines_.close();
    lines_.add("COPIES_ARRIVED();");
  }
  std::string copied_at() const { return fmt::format("team * {} + group", steps_ * team_); }

  // The same by groups of neighbours, which are loaded and stored at once.
  void write_vectors(int phase, const std::vector<Reduction>& reductions) {
    const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
    const std::vector<int> list = outputs_of(phase);
    const std::set<int> stored(list.begin(), list.end());
    const char* index = space_.wide ? "LONG" : "int";
    const int last = space_.shape.rank() - 1;
    open_group(computed, stored);
    const ProgramWriter::Copies taken = phase == 0 ? copied_ : ProgramWriter::Copies();
    writer_.take_copies(lines_, copied_at(), taken);
    writer_.load_vectors(lines_, "v", "first", computed, stored, taken);
    std::vector<SharedArray> stages;
    for (const Reduction& reduction : reductions) {
      if (!staged_ || !reduction.is_ordered()) continue;
      for (SharedArray& array : reduction.stages(static_cast<int>(stages.size()), 0))
        stages.push_back(std::move(array));
    }
    for (std::size_t i = 0; i < stages.size(); ++i) {
      lines_.add("{} staged{}[{}];", type_name(stages[i].type), i, width_);
    }
    const auto elements = [&] {
      lines_.add("UNROLL");
      lines_.open("for (int q = 0; q < {}; q++) {{", width_);
      lines_.add("{0} i{1} = first + {0}(q);", index, last);
      lines_.add("int element = group * {} + q;", width_);
      write_element(phase, reductions, fmt::format("s * {} + q", width_), "v", last);
      lines_.close();
    };
    if (reductions.empty()) {
      writer_.write_group(lines_, computed, stored, elements);
    } else {
      elements();
    }
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const std::string at = fmt::format("team * {} + group * {}", stage_size(team_), width_);
      if (stages[i].type == ComputeType::f32) {
        for (int q = 0; q < width_; q += 4) lines_.add("WRITE4(stage{0}, {1} + {2}, staged{0}, {2})", i, at, q);
      } else {
        lines_.add("for (int q = 0; q < {0}; q++) stage{1}[{2} + q] = staged{1}[q];", width_, i, at);
      }
    }
    const bool guarded = !stored.empty() && !always_live();
    if (guarded) lines_.open("if (live) {{");
    writer_.store_vectors(lines_, "v", "first", stored);
    if (guarded) lines_.close();
    if (!full_) lines_.close();
  }

  void write_phase(int phase) {
    for (int i = 0; i < size(); ++i) {
      if (is_row(i) && code(i).kind != Kind::reduce && phases_[static_cast<std::size_t>(i)] == phase) {
        writer_.emit(lines_, i, "r");
      }
    }
    const std::vector<Reduction> reductions = reductions_of(phase);
    const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
    for (const int i : computed) {
      if (held_.contains(i) && declared_.insert(i).second) {
        lines_.add("{} held{}[{}];", type_name(code(i).type), i, steps_ * width_);
      }
    }
    if (computed.empty() && reductions.empty() && outputs_of(phase).empty()) return;
    for (const Reduction& reduction : reductions) {
      const bool lanes = width_ > 1 && !staged_ && reduction.is_ordered();
      if (is_quick(reduction)) {
        reduction.start_quick(lines_);
      } else if (lanes) {
        reduction.start_lanes(lines_, sets_ * width_);
      } else {
        reduction.start(lines_, "");
      }
      for (SharedArray& array : reduction.shared(limits_.threads * (lanes ? width_ : 1), is_quick(reduction))) {
        shared_.push_back(std::move(array));
      }
    }
    if (limits_.arithmetic.fused_fma) writer_.declare_inverses(lines_, computed);
    if (phase == 0 && !copied_.empty()) write_copies();
    lines_.add("{}", steps_ * width_ * static_cast<int>(computed.size()) <= 256 || holds_ ? "UNROLL" : "UNROLL_BY(4)");
    lines_.open("for (int s = 0; s < {}; s++) {{", steps_);
    if (width_ > 1) {
      write_vectors(phase, reductions);
    } else {
      write_elements(phase, reductions);
    }
    lines_.close();
    find_zeros(reductions);
    combine(reductions);
    for (const Reduction& reduction : reductions) {
      reduction.finish(lines_, width_ > 1 && reduction.is_ordered() ? "_sum" : "", "length == 0");
    }
  }

  // Where this thread's first zero is, if its best value is one: looked for only then, among values that are held.
  void find_zeros(const std::vector<Reduction>& reductions) {
    for (const Reduction& reduction : reductions) {
      const int a = code(reduction.number()).a;
      if (!is_quick(reduction) || reduction.takes_any_zero() || !held_.contains(a)) continue;
      lines_.open("if ((BITS(r{}) << 1) == 0u) {{", reduction.number());
      lines_.add("UNROLL");
      lines_.open("for (int x = 0; x < {}; x++) {{", steps_ * width_);
      lines_.add("int element = (lane + x / {0} * {1}) * {0} + x % {0};", width_, team_);
      const std::string value = fmt::format("held{}[x]", a);
      if (!full_) lines_.open("if (element < length) {{");
      reduction.find_zero(lines_, value, "element");
      if (!full_) lines_.close();
      lines_.close();
      lines_.close();
    }
  }

  // Makes of every thread's part the row's result, which all threads get.
  void combine(const std::vector<Reduction>& reductions) {
    std::vector<Reduction> ordered;
    std::vector<Reduction> quick;
    std::vector<Reduction> others;
    for (const Reduction& reduction : reductions) {
      (reduction.is_ordered() ? ordered : is_quick(reduction) ? quick : others).push_back(reduction);
    }
    if (staged_ && !ordered.empty()) {
      lines_.add("BARRIER();");
      lines_.open("if (lane < {}) {{", kLanes);
      int index = 0;
      for (const Reduction& reduction : ordered) {
        reduction.chain(lines_, index, fmt::format("team * {}", stage_size(team_)),
                        full_ ? static_cast<int>(space_.length) : 0);
        index += static_cast<int>(reduction.stages(index, 0).size());
      }
      lines_.close();
    }
    for (const Reduction& reduction : ordered) reduction.halve(lines_, sets_ * width_, width_);
    if (width_ > 1) {
      combine_sums(lines_, ordered, staged_ ? kLanes : team_ * width_, staged_ ? 1 : width_, team_);
    } else {
      combine_lanes(lines_, ordered, "", std::min(kLanes, team_), team_);
    }
    combine_quick(lines_, quick, team_);
    combine_lanes(lines_, others, "", team_, team_);
  }

  void write_row_outputs() {
    std::set<int> outputs;
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      if (is_row(program_.outputs[o].value)) outputs.insert(static_cast<int>(o));
    }
    if (outputs.empty()) return;
    lines_.open("if ({}lane == 0) {{", always_live() ? "" : "live && ");
    for (const int o : outputs) writer_.store(lines_, o, "row");
    lines_.close();
  }

  const Program& program_;
  const RenderLimits& limits_;
  Space space_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  std::vector<SharedArray> shared_;

  std::vector<int> phases_;  ///< of each instruction
  int last_phase_ = 0;
  std::vector<std::set<int>> computed_;  ///< vector values, by phase
  std::set<int> held_;                   ///< of those, what later phases take from registers
  std::set<int> declared_;
  int team_ = kLanes;             ///< threads of a row
  int width_ = 1;                 ///< neighbours that a thread computes together
  int sets_ = 1;                  ///< such groups per thread that are lanes of their own
  int steps_ = 0;                 ///< such groups per thread
  ProgramWriter::Copies copied_;  ///< what the first phase takes from shared memory
  bool full_ = false;             ///< rows have steps_ * team_ * width_ elements, so that none has to be checked
  bool staged_ = false;
  bool holds_ = false;
};

}  // namespace

Launch render_team(const Program& program, const RenderLimits& limits) {
  return TeamKernel(program, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
