// Row programs with reductions whose rows have up to 4096 elements: a team of threads per row, several teams in a
// workgroup. A program runs in phases: phase p computes what needs the reductions of phases before it, and keeps the
// values that later phases need in registers, if they are few, so that memory is read once.
//
// Which thread computes which element is free; only the order of sums is not (docs/numerics.md section 4: 64 lanes).
//
//   lanes    each thread follows the chains of its own lanes: one lane, or the 4 or 8 neighbours that it loads at once,
//            and of short rows several such groups
//   staged   longer rows: elements are computed by as many threads as there are, 16 or so each, and what is summed
//            passes through shared memory to the 64 threads that follow the lanes: a whole row, or what was computed
//            in one step
//   handed   the same without that memory: each 32 threads have a part of the row, with two lanes to a thread, and hand
//            the sums so far on to the next 32
#include <algorithm>
#include <functional>
#include <iterator>

#include "backends/gpu/renderer/contraction.h"
#include "backends/gpu/renderer/rounded_rows.h"
#include "backends/gpu/renderer/rows.h"
#include "backends/gpu/renderer/rows_team.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
// What all rows read, such as their weights, comes from far away, so it is asked for while the launch before still
// runs, as is all that one row reads of dense memory: nobody knows here which of it that launch writes.
void TeamKernel::ask_for_inputs() {
  constexpr std::int64_t kLine = 128;
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const Input& input = program_.inputs[i];
    const View& view = space_.inputs[i];
    const auto size = static_cast<std::int64_t>(size_of(input.dtype));
    const int last = view.shape.rank() - 1;
    if (!is_same_for_rows(view) || last < 0 || !view.bounds.empty() || view.strides[last] != 1) continue;
    if (view.shape[last] != space_.length) continue;
    lines_.add("UNROLL_BY(1)");  // which is one, but for f64
    lines_.add("for (int at = int(THREAD) * {0}; at < {1}; at += {2}) ASK_FOR({3} + {4} + ULONG(at))", kLine,
               words_.int32(space_.length * size), limits_.threads * kLine,
               words_.asked_memory(Patch::Kind::address, input.slot),
               words_.uint64(static_cast<std::uint64_t>(view.offset * size)));
  }
  lines_.add("AFTER_EARLIER()");
}

// Workgroups that begin while most units are still busy with the launch before would all go to the few that are not,
// and share these: so each asks for more than half of a unit's shared memory.
void TeamKernel::keep_apart() {
  KernelText text;
  text.shared = shared_;
  const std::size_t bytes = shared_bytes_of(text);
  const std::size_t half = limits_.shared_bytes / 2;
  if (bytes < half) shared_.push_back({ComputeType::i32, "apart", static_cast<int>((half - bytes) / sizeof(int))});
}

Launch TeamKernel::render() {
  if (has_few_rows()) ask_for_inputs();
  writer_.declare_buffers(lines_);
  if (rounds()) start_rounding(lines_, words_, limits_.makes, 1, limits_.threads);
  const char* index = space_.wide ? "LONG" : "int";
  const int teams = limits_.threads / team_;
  lines_.add("int lane = int(THREAD){};", teams > 1 ? fmt::format(" & {}", team_ - 1) : "");
  lines_.add("int team = {};", teams > 1 ? fmt::format("int(THREAD) / {}", team_) : "0");
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
  if (has_few_rows()) load_ahead_of_sums();
  for (int phase = 0; phase <= last_phase_; ++phase) write_phase(phase);
  write_row_outputs();
  lines_.close();
  const std::uint32_t groups = groups_for(space_.row_count, teams, limits_);
  constexpr std::uint32_t kManyGroups = 32;  // 64 gain; a few begin earlier where they need little
  if (has_few_rows() && groups >= kManyGroups) keep_apart();
  Launch result = launch(lines_, writer_, words_, groups, limits_);
  result.text.shared = shared_;
  result.text.copies = !copied_.empty() || rounds();
  if (rounds()) result.text.functions += rounding_text(limits_.makes, width_);
  result.rounds = rounds();
  const bool has_many_words = held_words() > kFewHeldWords || bytes_under_way() > kFewBytesUnderWay;
  if (staged_ && copied_.empty() && has_many_words && !has_few_rows()) {
    result.text.groups_per_unit = (staged_at_.empty() ? kThreadsOfManyWords : kThreadsOfStagedWords) / limits_.threads;
  }
  return result;
}

void TeamKernel::write_element(int phase, const std::vector<Reduction>& reductions, const std::string& held,
                               const std::string& from, int first_dim, const std::set<int>& pairs) {
  const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
  const std::vector<int> stored = outputs_of(phase);
  writer_.declare_places(lines_, "e", from, first_dim, space_.shape.rank(), computed, {stored.begin(), stored.end()},
                         true);
  const std::set<int> needed = taken_by(phase);
  if (pairs.empty()) {
    for (const int i : needed) {
      lines_.add("{} {} = {};", type_name(code(i).type), ProgramWriter::name(i), held_value(i, held, "q"));
    }
  } else {
    std::vector<int> wanted = roots(phase);
    std::copy_if(computed.begin(), computed.end(), std::back_inserter(wanted),
                 [&](int i) { return held_.contains(i); });
    write_needed(phase, wanted, held, pairs);
  }
  for (const int i : computed) {
    if (pairs.empty()) writer_.emit(lines_, i, "e");
    if (held_.contains(i) && !needed.contains(i)) hold(i, held, "q");
  }
  int index = 0;
  for (const Reduction& reduction : reductions) {
    const Instruction& reduce = code(reduction.number());
    const ComputeType type = reduction.operand_type();
    const std::string a = writer_.value(reduce.a, type);
    const std::string b = reduce.b < 0 ? "" : writer_.value(reduce.b, type);
    if (handed_ && reduction.is_ordered()) {
      reduction.stage(lines_, fmt::format("stage{}_", phase).c_str(), index, a, b, held);
      index += static_cast<int>(reduction.stages(index, 0).size());
    } else if (staged_ && reduction.is_ordered()) {
      reduction.stage(lines_, width_ > 1 ? "staged" : "stage", index, a, b, width_ > 1 ? "q" : "element");
      index += static_cast<int>(reduction.stages(index, 0).size());
    } else if (is_best_of_pairs(reduction)) {
      continue;
    } else if (is_quick(reduction)) {
      const std::string r = fmt::format("r{}", reduction.number());
      if (is_by_words(reduction)) {
        reduction.take_word(lines_, a);
        continue;
      }
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

bool TeamKernel::rounds() const {
  if (program_.outputs.size() != 1) return false;
  const Output& output = program_.outputs[0];
  const RoundedRows& rows = limits_.makes;
  const View& view = space_.outputs[0];
  const bool is_flat = space_.rows == 1 && space_.shape.rank() == 2 && view.offset == 0 &&
                       view.strides[0] == space_.length && view.strides[1] == 1;
  return rows.tile_rows != 0 && rows.rows == space_.row_count && rows.length == space_.length && is_flat &&
         !space_.wide && full_ && always_live() && (width_ == 4 || width_ == 8) && !output.bits &&
         output.dtype == DType::f32 && code(output.value).type == ComputeType::f32 && !is_row(output.value);
}

void TeamKernel::write_elements(int phase, const std::vector<Reduction>& reductions) {
  lines_.add("int element = lane + s * {};", team_);
  if (!full_) lines_.open("if (element < length) {{");
  decompose(lines_, words_, space_.shape, space_.rows, space_.shape.rank(), "element", "i", space_.wide);
  write_element(phase, reductions, "s", "row", space_.rows);
  if (!full_) lines_.close();
}

void TeamKernel::open_group(const std::set<int>& computed, const std::set<int>& stored) {
  const char* index = space_.wide ? "LONG" : "int";
  const int last = space_.shape.rank() - 1;
  Shape groups = space_.shape;
  groups[last] /= width_;
  lines_.add("int group = {};", group_of("s"));
  if (!full_) lines_.open("if (group * {} < length) {{", width_);
  decompose(lines_, words_, groups, space_.rows, last + 1, "group", "g", space_.wide);
  for (int d = space_.rows; d < last; ++d) lines_.add("{0} i{1} = g{1};", index, d);
  lines_.add("{0} first = g{1} * {0}({2});", index, last, width_);
  writer_.declare_places(lines_, "v", "row", space_.rows, last, computed, stored, false);
}

std::string TeamKernel::group_of(const std::string& s) const {
  if (!handed_) return fmt::format("lane + {} * {}", s, team_);
  return fmt::format("lane % {0} + lane / {0} * {1} + {2} * {0}", kNear, kNear * steps_, s);
}

// A sum of 64 bits whose last part is a constant once loops are unrolled, which a load then has room for.
std::string TeamKernel::first_of_group() const {
  if (space_.wide || space_.rows + 1 != space_.shape.rank()) return "first";
  if (!handed_) return fmt::format("LONG(lane * {}) + LONG(s * {})", width_, width_ * team_);
  return fmt::format("LONG(({}) * {}) + LONG(s * {})", group_of("0"), width_, width_ * kNear);
}

void TeamKernel::write_copies() {
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

void TeamKernel::write_vectors(int phase, const std::vector<Reduction>& reductions) {
  const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
  const std::vector<int> list = outputs_of(phase);
  const std::set<int> stored(list.begin(), list.end());
  const char* index = space_.wide ? "LONG" : "int";
  const int last = space_.shape.rank() - 1;
  open_group(computed, stored);
  ProgramWriter::Copies taken = phase == 0 ? copied_ : ProgramWriter::Copies();
  writer_.take_copies(lines_, copied_at(), taken);
  for (const int i : ahead_) {
    const bool is_read = std::any_of(computed.begin(), computed.end(),
                                     [&](int load) { return loads_input(load) && code(load).index == i; });
    if (!is_read) continue;
    lines_.add("UINT in{}_words[{}];", i, width_);
    lines_.add("UNROLL");
    lines_.add("for (int q = 0; q < {0}; q++) in{1}_words[q] = ahead{1}[s * {0} + q];", width_, i);
    taken.emplace(i, "");
  }
  writer_.load_vectors(lines_, "v", first_of_group(), computed, stored, taken);
  take_staged(phase);
  std::vector<SharedArray> stages;
  for (const Reduction& reduction : reductions) {
    if (!staged_ || handed_ || !reduction.is_ordered()) continue;
    for (SharedArray& array : reduction.stages(static_cast<int>(stages.size()), 0)) stages.push_back(std::move(array));
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    lines_.add("{} staged{}[{}];", type_name(stages[i].type), i, width_);
  }
  // Sums that pass through a stage are of what is there at the end.
  const bool again = std::all_of(reductions.begin(), reductions.end(),
                                 [&](const Reduction& reduction) { return staged_ && reduction.is_ordered(); });
  const bool by_pairs = limits_.bf16_pairs && !reductions.empty() && width_ % 2 == 0;
  const auto elements = [&] {
    std::set<int> pairs;
    lines_.add("UNROLL");
    if (by_pairs) {
      lines_.open("for (int p = 0; p < {}; p++) {{", width_ / 2);
      pairs = write_pairs(phase);
      lines_.add("UNROLL");
      lines_.open("for (int h = 0; h < 2; h++) {{");
      lines_.add("int q = 2 * p + h;");
    } else {
      lines_.open("for (int q = 0; q < {}; q++) {{", width_);
    }
    lines_.add("{0} i{1} = first + {0}(q);", index, last);
    lines_.add("int element = group * {} + q;", width_);
    write_element(phase, reductions, fmt::format("s * {} + q", width_), "v", last, pairs);
    lines_.close();
    if (by_pairs) lines_.close();
  };
  if (reductions.empty() || (again && writer_.is_hasty(computed, stored))) {
    writer_.write_group(lines_, computed, stored, elements);
  } else {
    elements();
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::string at = fmt::format("team * {} + {} * {}", stage_size(team_), by_steps_ ? "lane" : "group", width_);
    if (stages[i].type == ComputeType::f32) {
      for (int q = 0; q < width_; q += 4) lines_.add("WRITE4(stage{0}, {1} + {2}, staged{0}, {2})", i, at, q);
    } else {
      lines_.add("for (int q = 0; q < {0}; q++) stage{1}[{2} + q] = staged{1}[q];", width_, i, at);
    }
  }
  const bool guarded = !stored.empty() && !always_live();
  if (guarded) lines_.open("if (live) {{");
  if (rounds() && !stored.empty()) {
    lines_.add("float x[{}];", width_);
    lines_.add("UNROLL");
    lines_.add("for (int q = 0; q < {}; q++) x[q] = FROM_BITS(out0_words[q]);", width_);
    lines_.add("round_neighbours(rounded, row_tiles, int(row), group / {}, x);", order::kQ8Block / width_);
  } else {
    writer_.store_vectors(lines_, "v", first_of_group(), stored);
  }
  if (guarded) lines_.close();
  if (!full_) lines_.close();
}

void TeamKernel::write_phase(int phase) {
  for (int i = 0; i < size(); ++i) {
    if (is_row_of(i, phase) && !handed_out_.contains(i)) writer_.emit(lines_, i, "r");
  }
  const std::vector<Reduction> reductions = reductions_of(phase);
  const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
  for (const int i : computed) {
    if (held_.contains(i) && !is_in_stage(i) && declared_.insert(i).second) {
      const bool pairs = is_held_in_pairs(i);
      lines_.add("{} held{}[{}];", pairs ? "UINT" : type_name(code(i).type), i, steps_ * width_ / (pairs ? 2 : 1));
    }
  }
  if (computed.empty() && reductions.empty() && outputs_of(phase).empty()) return;
  std::vector<SharedArray> stages;  // in registers
  for (const Reduction& reduction : reductions) {
    const bool lanes = width_ > 1 && (!staged_ || handed_) && reduction.is_ordered();
    if (is_quick(reduction)) {
      reduction.start_quick(lines_);
      if (is_by_words(reduction)) reduction.start_words(lines_);
    } else if (lanes) {
      reduction.start_lanes(lines_, sets_ * width_);
    } else {
      reduction.start(lines_, "");
    }
    const bool chained = width_ > 1 && staged_ && reduction.is_ordered();  // by kLanes threads of each team
    if (handed_ && reduction.is_ordered()) {
      const int first = static_cast<int>(stages.size());
      for (SharedArray& array : reduction.stages(first, steps_ * width_)) stages.push_back(std::move(array));
    }
    const int places = chained ? kLanes * limits_.threads / team_ : limits_.threads * (lanes ? width_ : 1);
    for (SharedArray& array : reduction.shared(places, is_quick(reduction))) {
      shared_.push_back(std::move(array));
    }
  }
  for (const SharedArray& array : stages)
    lines_.add("{} stage{}_{}[{}];", type_name(array.type), phase, array.name.substr(5), array.size);
  if (limits_.arithmetic.fused_fma) writer_.declare_inverses(lines_, computed);
  if (phase == 0 && !copied_.empty()) write_copies();
  const bool sums_steps = by_steps_ && std::any_of(reductions.begin(), reductions.end(),
                                                   [](const Reduction& reduction) { return reduction.is_ordered(); });
  const Shortcuts shortcuts = shortcuts_of(phase);
  // Barriers are for all teams, which may differ in what they take.
  const auto by_shortcuts = [&](const std::function<void()>& write) {
    if (!shortcuts.condition.empty()) {
      lines_.open("if ({}) {{", shortcuts.condition);
      writer_.take_shortcuts(shortcuts.of);
      write();
      writer_.take_shortcuts({});
      lines_.close();
      lines_.open("else {{");
    }
    write();
    if (!shortcuts.condition.empty()) lines_.close();
  };
  if (sums_steps) {
    for (const Reduction& reduction : reductions) {
      if (reduction.is_ordered()) reduction.start_chain(lines_, is_guarded(reduction.operand_type(), limits_));
    }
  }
  if (!has_few_rows()) ahead_.clear();
  if (sums_steps || handed_) load_ahead(computed, writer_.vector_inputs_by_row(computed));
  const auto steps = [&] {
    lines_.add("{}", steps_ * width_ * static_cast<int>(computed.size()) <= 256 || holds_ ? "UNROLL" : "UNROLL_BY(4)");
    lines_.open("for (int s = 0; s < {}; s++) {{", steps_);
    if (sums_steps) {
      by_shortcuts([&] { write_vectors(phase, reductions); });
      chain_step(reductions, shortcuts);
    } else if (width_ > 1) {
      write_vectors(phase, reductions);
    } else {
      write_elements(phase, reductions);
    }
    lines_.close();
  };
  if (sums_steps) {
    steps();
  } else {
    by_shortcuts(steps);
  }
  for (const Reduction& reduction : reductions) {
    if (is_best_of_pairs(reduction)) write_best_of_pairs(reduction);
    if (is_by_words(reduction)) take_words(reduction);
  }
  find_zeros(reductions);
  const std::set<int> rows = rows_of_few(phase, reductions);
  combine(reductions, phase, !rows.empty());
  for (const Reduction& reduction : reductions) {
    reduction.finish(lines_, width_ > 1 && reduction.is_ordered() ? "_sum" : "", full_ ? "false" : "length == 0");
  }
  if (!rows.empty()) hand_out(reductions[0].number(), rows);
}

std::set<int> TeamKernel::rows_of_few(int phase, const std::vector<Reduction>& reductions) const {
  std::set<int> rows;
  if (!by_steps_ || team_ <= kNear || has_near_others() || reductions.size() != 1) return rows;
  if (!reductions[0].is_ordered() || reductions[0].operand_type() != ComputeType::f32) return rows;
  bool is_long = false;
  for (int i = 0; i < size(); ++i) {
    if (!is_row_of(i, phase + 1)) continue;
    if (code(i).type != ComputeType::f32) return {};
    rows.insert(i);
    is_long = is_long || (code(i).kind == Kind::elementwise &&
                          (code(i).op == Op::div || code(i).op == Op::sqrt || code(i).op == Op::rsqrt));
  }
  return is_long && rows.size() < kLanes - 4 ? rows : std::set<int>();
}

void TeamKernel::hand_out(int reduction, const std::set<int>& rows) {
  for (const int i : rows) writer_.emit(lines_, i, "r");
  std::set<int> taken;
  const auto take = [&](int value, bool elsewhere) {
    if (elsewhere && (value == reduction || rows.contains(value))) taken.insert(value);
  };
  for (int i = 0; i < size(); ++i) {
    for (const int operand : {code(i).a, code(i).b, code(i).c}) take(operand, !rows.contains(i));
  }
  for (const Output& output : program_.outputs) take(output.value, true);
  // The first four places are still read.
  const auto place = [&](std::size_t at) { return fmt::format("shared{}[team * {} + {}]", reduction, kLanes, 4 + at); };
  lines_.open("if (lane == 0) {{");
  std::size_t at = 0;
  for (const int i : taken) lines_.add("{} = {};", place(at++), ProgramWriter::name(i));
  lines_.close();
  lines_.close();
  lines_.add("BARRIER();");
  at = 0;
  for (const int i : taken) lines_.add("float {} = {};", ProgramWriter::name(i), place(at++));
  handed_out_.insert(rows.begin(), rows.end());
}

// What phases behind sums read, such as weights, is on its way with what is summed.
void TeamKernel::load_ahead_of_sums() {
  std::set<int> loads;
  for (int phase = 1; phase <= last_phase_; ++phase) {
    const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
    loads.insert(computed.begin(), computed.end());
  }
  std::set<int> inputs = writer_.vector_inputs_of(loads);
  for (const int i : writer_.vector_inputs_of(computed_[0])) inputs.erase(i);
  const int words = static_cast<int>(inputs.size()) * steps_ * width_;
  if (holds_ && held_words() + words <= kMostHeldWords) load_ahead(std::move(loads), inputs);
}

void TeamKernel::load_ahead(std::set<int> loads, const std::set<int>& inputs) {
  ahead_ = inputs;
  if (ahead_.empty()) return;
  std::erase_if(loads, [&](int i) { return !loads_input(i) || !ahead_.contains(code(i).index); });
  for (const int i : ahead_) {
    if (ever_ahead_.insert(i).second) lines_.add("UINT ahead{}[{}];", i, steps_ * width_);
  }
  lines_.add("UNROLL");
  lines_.open("for (int s = 0; s < {}; s++) {{", steps_);
  open_group(loads, {});
  writer_.load_vectors(lines_, "v", first_of_group(), loads, {}, {});
  for (const int i : ahead_) {
    lines_.add("UNROLL");
    lines_.add("for (int q = 0; q < {0}; q++) ahead{1}[s * {0} + q] = in{1}_words[q];", width_, i);
  }
  if (!full_) lines_.close();
  lines_.close();
}

void TeamKernel::chain_step(const std::vector<Reduction>& reductions, const Shortcuts& shortcuts) {
  lines_.add("BARRIER();");
  lines_.open("if (lane < {}) {{", kLanes);
  if (!full_) lines_.add("int left = int(length) - s * {};", stage_size(team_));
  int index = 0;
  for (const Reduction& reduction : reductions) {
    if (!reduction.is_ordered()) continue;
    reduction.chain_part(lines_, index, fmt::format("team * {}", stage_size(team_)), stage_size(team_), full_,
                         is_guarded(reduction.operand_type(), limits_),
                         shortcuts.sure.contains(reduction.number()) ? shortcuts.condition : "");
    index += static_cast<int>(reduction.stages(index, 0).size());
  }
  lines_.close();
  lines_.add("if (s + 1 < {}) BARRIER();", steps_);
}

void TeamKernel::hand_on(const std::vector<Reduction>& reductions, int phase) {
  const auto at = [](int q) { return fmt::format("lane % {} * {} + {}", kNear, kLanes / kNear, q); };
  const auto move = [&](bool back) {
    for (const Reduction& reduction : reductions) {
      for (int q = 0; q < width_; ++q) {
        const std::string place = fmt::format("shared{}[{}]", reduction.number(), at(q));
        const std::string sum = fmt::format("r{}[{}]", reduction.number(), q);
        lines_.add("{} = {};", back ? place : sum, back ? sum : place);
      }
    }
  };
  // Where nothing else does, this keeps the next row's sums from those that are still read.
  if (last_phase_ == 1) lines_.add("BARRIER();");
  lines_.open("for (int part = 0; part < {}; part++) {{", team_ / kNear);
  lines_.open("if (lane / {} == part) {{", kNear);
  lines_.open("if (part > 0) {{");
  move(false);
  lines_.close();
  int index = 0;
  for (const Reduction& reduction : reductions) {
    reduction.chain_held(lines_, fmt::format("stage{}_", phase), index, steps_, width_);
    index += static_cast<int>(reduction.stages(index, 0).size());
  }
  move(true);
  lines_.close();
  lines_.add("BARRIER();");
  lines_.close();
  move(false);
}

void TeamKernel::find_zeros(const std::vector<Reduction>& reductions) {
  for (const Reduction& reduction : reductions) {
    const int a = code(reduction.number()).a;
    if (!is_quick(reduction) || reduction.takes_any_zero() || !held_.contains(a)) continue;
    lines_.open("if ((BITS(r{}) << 1) == 0u) {{", reduction.number());
    write_held(a, [&](const std::string& value) { reduction.find_zero(lines_, value, "element"); });
    lines_.close();
  }
}

void TeamKernel::take_words(const Reduction& reduction) {
  const std::string r = fmt::format("r{}", reduction.number());
  lines_.open("if (!({})) {{", reduction.take_words(lines_));
  lines_.add("{} = FROM_BITS(0xff800000u);", r);
  write_held(code(reduction.number()).a,
             [&](const std::string& value) { lines_.add("{} = {};", r, reduction.better(r, value)); });
  lines_.close();
  lowest_.insert(reduction.number());
}

void TeamKernel::write_held(int i, const std::function<void(const std::string& value)>& write) {
  lines_.add("UNROLL");
  lines_.open("for (int x = 0; x < {}; x++) {{", steps_ * width_);
  lines_.add("int element = ({1}) * {0} + x % {0};", width_, group_of(fmt::format("(x / {})", width_)));
  if (!full_) lines_.open("if (element < length) {{");
  write(held_value(i, "x", "x"));
  if (!full_) lines_.close();
  lines_.close();
}

void TeamKernel::combine(const std::vector<Reduction>& reductions, int phase, bool for_few) {
  std::vector<Reduction> ordered;
  std::vector<Reduction> quick;
  std::vector<Reduction> others;
  for (const Reduction& reduction : reductions) {
    (reduction.is_ordered() ? ordered : is_quick(reduction) ? quick : others).push_back(reduction);
  }
  if (handed_ && !ordered.empty()) {
    hand_on(ordered, phase);
  } else if (staged_ && !by_steps_ && !ordered.empty()) {
    lines_.add("BARRIER();");
    lines_.open("if (lane < {}) {{", kLanes);
    int index = 0;
    for (const Reduction& reduction : ordered) {
      reduction.chain(lines_, index, fmt::format("team * {}", stage_size(team_)),
                      full_ ? static_cast<int>(space_.length) : 0, is_guarded(reduction.operand_type(), limits_));
      index += static_cast<int>(reduction.stages(index, 0).size());
    }
    lines_.close();
  }
  for (const Reduction& reduction : ordered) reduction.halve(lines_, sets_ * width_, width_);
  if (handed_) {
    combine_near_lanes(lines_, ordered);
  } else if (width_ > 1) {
    combine_sums(lines_, ordered, staged_ ? kLanes : team_ * width_, staged_ ? 1 : width_, team_, has_near_others(),
                 for_few);
  } else {
    combine_lanes(lines_, ordered, "", std::min(kLanes, team_), team_);
  }
  combine_quick(lines_, quick, team_, has_near_others());
  combine_lanes(lines_, others, "", team_, team_);
}

void TeamKernel::write_row_outputs() {
  std::set<int> outputs;
  for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
    if (is_row(program_.outputs[o].value)) outputs.insert(static_cast<int>(o));
  }
  if (outputs.empty()) return;
  lines_.open("if ({}lane == 0) {{", always_live() ? "" : "live && ");
  for (const int o : outputs) writer_.store(lines_, o, "row");
  lines_.close();
}

Launch render_team(const Program& program, const RenderLimits& limits) {
  return TeamKernel(program, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
