// Row programs. Without reductions: a thread per element. With them: a team of lanes per row, 64 as the canonical
// reduction has them, or as few as a short row needs; several teams make a workgroup.
//
// A program runs in phases: phase p computes what needs the reductions of phases before it, and keeps the values that
// later phases need in registers, if they are few. Rows of more than 4096 elements: rows_split.cpp.
#include <algorithm>
#include <bit>

#include "backends/gpu/renderer/kinds.h"
#include "backends/gpu/renderer/reduction.h"
#include "backends/gpu/renderer/rows.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

constexpr int kLanes = 64;
constexpr std::int64_t kChunk = 4096;
constexpr int kGroupsPerUnit = 32;   ///< of elementwise kernels: starting more costs more than it brings
constexpr int kLongestPerLane = 16;  ///< elements: more make texts that compile for seconds
constexpr int kMostHeldWords = 64;   ///< per thread, across phases

std::set<int> all_of(std::size_t n) {
  std::set<int> all;
  for (std::size_t i = 0; i < n; ++i) all.insert(static_cast<int>(i));
  return all;
}

std::uint32_t groups_for(std::int64_t items, std::int64_t per_group, const RenderLimits& limits) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((items + per_group - 1) / per_group, 1, limits.groups));
}

Launch launch(Lines& body, const ProgramWriter& writer, const Words& words, std::uint32_t groups,
              const RenderLimits& limits) {
  Launch result;
  result.text.body = body.take();
  result.text.functions = writer.functions();
  result.text.threads = limits.threads;
  result.groups = groups;
  words.move_to(result);
  return result;
}

// --- a thread per element
// ---------------------------------------------------------------------------------------------

Launch elementwise(const Program& program, const RenderLimits& limits) {
  const Space space = Space::of(program, false);
  const std::int64_t total = space.row_count * space.length;
  Words words;
  Lines lines;
  ProgramWriter writer(program, space, words);
  const char* index = space.wide ? "LONG" : "int";
  const int rank = space.shape.rank();
  writer.declare_buffers(lines);
  if (writer.choose_vectors()) {
    const int width = writer.width();
    const int last = rank - 1;
    const std::set<int> code = all_of(program.code.size());
    const std::set<int> outputs = all_of(program.outputs.size());
    Shape groups = space.shape;
    groups[last] /= width;
    lines.add("{} total = {};", index, words.index(total / width, space.wide));
    lines.add("{0} stride = {0}(GROUPS) * {0}({1});", index, limits.threads);
    lines.open("for ({0} e = {0}(GROUP) * {0}({1}) + {0}(THREAD); e < total; e += stride) {{", index, limits.threads);
    decompose(lines, words, groups, 0, rank, "e", "g", space.wide);
    for (int d = 0; d < last; ++d) lines.add("{} i{} = g{};", index, d, d);
    lines.add("{0} first = g{1} * {0}({2});", index, last, width);
    writer.declare_places(lines, "v", "", 0, last, code, outputs, false);
    writer.load_vectors(lines, "v", "first");
    lines.add("UNROLL");
    lines.open("for (int q = 0; q < {}; q++) {{", width);
    lines.add("{0} i{1} = first + {0}(q);", index, last);
    writer.declare_places(lines, "e", "v", last, rank, code, outputs, true);
    for (const int i : code) writer.emit(lines, i, "e");
    for (const int o : outputs) writer.store(lines, o, "e");
    lines.close();
    writer.store_vectors(lines, "v", "first");
    lines.close();
    const std::uint32_t most = std::min(limits.groups, static_cast<std::uint32_t>(kGroupsPerUnit * limits.units));
    return launch(lines, writer, words, std::min(groups_for(total / width, limits.threads, limits), most), limits);
  }
  lines.add("{} total = {};", index, words.index(total, space.wide));
  lines.add("{0} stride = {0}(GROUPS) * {1};", index, limits.threads);
  lines.open("for ({0} e = {0}(GROUP) * {1} + {0}(THREAD); e < total; e += stride) {{", index, limits.threads);
  decompose(lines, words, space.shape, 0, rank, "e", "i", space.wide);
  writer.declare_places(lines, "e", "", 0, rank, all_of(program.code.size()), all_of(program.outputs.size()), true);
  for (std::size_t i = 0; i < program.code.size(); ++i) writer.emit(lines, static_cast<int>(i), "e");
  for (std::size_t o = 0; o < program.outputs.size(); ++o) writer.store(lines, static_cast<int>(o), "e");
  lines.close();
  return launch(lines, writer, words, groups_for(total, limits.threads, limits), limits);
}

// --- a team per row
// ---------------------------------------------------------------------------------------------------

class TeamKernel {
 public:
  TeamKernel(const Program& program, const RenderLimits& limits)
      : program_(program), limits_(limits), space_(Space::of(program, true)), writer_(program_, space_, words_) {
    find_phases();
    choose_form();
  }

  Launch render() {
    writer_.declare_buffers(lines_);
    const char* index = space_.wide ? "LONG" : "int";
    const int teams = limits_.threads / width_;
    lines_.add("int lane = int(THREAD) & {};", width_ - 1);
    lines_.add("int team = int(THREAD) / {};", width_);
    lines_.add("{} length = {};", index, words_.index(space_.length, space_.wide));
    lines_.add("{} rows = {};", index, words_.index(space_.row_count, space_.wide));
    lines_.open("for ({0} first_row = {0}(GROUP) * {1}; first_row < rows; first_row += {0}(GROUPS) * {1}) {{", index,
                teams);
    // A team without a row computes the last one once more, and stores nothing.
    lines_.add("bool live = first_row + {}(team) < rows;", index);
    lines_.add("{} row = SELECT(live, first_row + {}(team), rows - {}(1));", index, index, index);
    decompose(lines_, words_, space_.shape, 0, space_.rows, "row", "i", space_.wide);
    const std::set<int> outputs = all_of(program_.outputs.size());
    writer_.declare_places(lines_, "row", "", 0, space_.rows, all_of(program_.code.size()), outputs, false);
    writer_.declare_places(lines_, "r", "row", 0, 0, row_instructions(), {}, true);
    for (int phase = 0; phase <= last_phase_; ++phase) write_phase(phase);
    write_row_outputs();
    lines_.close();
    Launch result = launch(lines_, writer_, words_, groups_for(space_.row_count, teams, limits_), limits_);
    result.text.shared = shared_;
    return result;
  }

 private:
  const Instruction& code(int i) const { return program_.code[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(program_.code.size()); }
  bool is_row(int i) const { return code(i).extent == Extent::row; }

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
    const std::int64_t length = space_.length;
    width_ = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(length, 4, kLanes))));
    choose_stages();
    const std::int64_t steps = std::max<std::int64_t>((length + width_ - 1) / width_, 1);
    steps_ = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(steps)));
    full_ = length == static_cast<std::int64_t>(steps_) * width_;
    int words = 0;
    for (const int i : held_) words += code(i).type == ComputeType::f32 || code(i).type == ComputeType::i32 ? 1 : 2;
    holds_ = words * steps_ <= kMostHeldWords;
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

  // Rows of more than 1024 elements: the whole workgroup computes them, and what is reduced passes through shared
  // memory to the 64 lanes, if there is room.
  void choose_stages() {
    if (space_.length <= kLongestPerLane * kLanes || limits_.threads != 4 * kLanes) return;
    const int size = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(space_.length)));
    std::vector<SharedArray> most;
    bool narrow = true;
    for (int phase = 0; phase <= last_phase_; ++phase) {
      std::vector<SharedArray> arrays;
      for (const Reduction& reduction : reductions_of(phase)) {
        if (!reduction.is_ordered()) continue;
        narrow =
            narrow && (reduction.operand_type() == ComputeType::f32 || reduction.operand_type() == ComputeType::i32);
        for (SharedArray& array : reduction.stages(static_cast<int>(arrays.size()), size)) {
          arrays.push_back(std::move(array));
        }
      }
      if (arrays.size() > most.size()) most = std::move(arrays);
    }
    constexpr std::size_t kOther = 8 << 10;  // what combining takes
    const bool same =
        std::all_of(most.begin(), most.end(), [&](const SharedArray& a) { return a.type == most[0].type; });
    if (!narrow || !same || most.size() * 4 * static_cast<std::size_t>(size) + kOther > limits_.shared_bytes) return;
    staged_ = true;
    width_ = limits_.threads;
    shared_ = std::move(most);
  }

  std::vector<Reduction> reductions_of(int phase) const {
    std::vector<Reduction> result;
    for (int i = 0; i < size(); ++i) {
      if (code(i).kind == Kind::reduce && phases_[static_cast<std::size_t>(i)] == phase) {
        result.emplace_back(code(i), i, writer_.type_of(code(i).a), space_.wide);
      }
    }
    return result;
  }

  // The instructions of a phase for one element, whose number `element` is declared.
  void write_element(int phase, const std::vector<Reduction>& reductions, const std::vector<int>& numbers,
                     const std::string& step) {
    decompose(lines_, words_, space_.shape, space_.rows, space_.shape.rank(), "element", "i", space_.wide);
    const std::set<int>& computed = computed_[static_cast<std::size_t>(phase)];
    const std::vector<int> stored = outputs_of(phase);
    writer_.declare_places(lines_, "e", "row", space_.rows, space_.shape.rank(), computed,
                           {stored.begin(), stored.end()}, true);
    std::set<int> needed;  // held by an earlier phase
    const auto need = [&](int operand) {
      if (operand >= 0 && !is_row(operand) && !computed.contains(operand)) needed.insert(operand);
    };
    for (const int i : computed) {
      for (const int operand : {code(i).a, code(i).b, code(i).c}) need(operand);
    }
    for (const int i : roots(phase)) need(i);
    for (const int i : needed) {
      lines_.add("{} {} = held{}[{}];", type_name(code(i).type), ProgramWriter::name(i), i, step);
    }
    for (const int i : computed) {
      writer_.emit(lines_, i, "e");
      if (held_.contains(i) && !needed.contains(i)) lines_.add("held{}[{}] = {};", i, step, ProgramWriter::name(i));
    }
    int index = 0;
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      const Instruction& reduce = code(numbers[r]);
      const ComputeType type = reductions[r].operand_type();
      if (staged_ && reductions[r].is_ordered()) {
        reductions[r].stage(lines_, index, writer_.value(reduce.a, type),
                            reduce.b < 0 ? "" : writer_.value(reduce.b, type), "element");
        index += static_cast<int>(reductions[r].stages(index, 0).size());
        continue;
      }
      reductions[r].accumulate(lines_, "", writer_.value(reduce.a, type),
                               reduce.b < 0 ? "" : writer_.value(reduce.b, type), "element");
    }
    if (stored.empty()) return;
    lines_.open("if (live) {{");
    for (const int o : stored) writer_.store(lines_, o, "e");
    lines_.close();
  }

  void write_phase(int phase) {
    for (int i = 0; i < size(); ++i) {
      if (is_row(i) && code(i).kind != Kind::reduce && phases_[static_cast<std::size_t>(i)] == phase) {
        writer_.emit(lines_, i, "r");
      }
    }
    const std::vector<Reduction> reductions = reductions_of(phase);
    std::vector<int> numbers;
    for (int i = 0; i < size(); ++i) {
      if (code(i).kind == Kind::reduce && phases_[static_cast<std::size_t>(i)] == phase) numbers.push_back(i);
    }
    for (const int i : computed_[static_cast<std::size_t>(phase)]) {
      if (held_.contains(i) && declared_.insert(i).second) {
        lines_.add("{} held{}[{}];", type_name(code(i).type), i, steps_);
      }
    }
    if (computed_[static_cast<std::size_t>(phase)].empty() && reductions.empty() && outputs_of(phase).empty()) return;
    for (const Reduction& reduction : reductions) {
      reduction.start(lines_, "");
      for (SharedArray& array : reduction.shared(limits_.threads)) shared_.push_back(std::move(array));
    }
    lines_.add("{}", steps_ * static_cast<int>(computed_[static_cast<std::size_t>(phase)].size()) <= 256 || holds_
                         ? "UNROLL"
                         : "UNROLL_BY(4)");
    lines_.open("for (int s = 0; s < {}; s++) {{", steps_);
    lines_.add("int element = lane + s * {};", width_);
    if (!full_) lines_.open("if (element < length) {{");
    write_element(phase, reductions, numbers, "s");
    if (!full_) lines_.close();
    lines_.close();
    if (staged_) {
      std::vector<Reduction> ordered;
      std::vector<Reduction> extrema;
      for (const Reduction& reduction : reductions) (reduction.is_ordered() ? ordered : extrema).push_back(reduction);
      if (!ordered.empty()) {
        lines_.add("BARRIER();");
        lines_.open("if (lane < {}) {{", kLanes);
        int index = 0;
        for (const Reduction& reduction : ordered) {
          reduction.chain(lines_, index, full_ ? steps_ * width_ : 0);
          index += static_cast<int>(reduction.stages(index, 0).size());
        }
        lines_.close();
      }
      combine_lanes(lines_, ordered, "", kLanes, width_);
      combine_lanes(lines_, extrema, "", width_, width_);
    } else {
      combine_lanes(lines_, reductions, "", width_, width_);
    }
    for (const Reduction& reduction : reductions) reduction.finish(lines_, "", "length == 0");
  }

  void write_row_outputs() {
    std::set<int> outputs;
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      if (is_row(program_.outputs[o].value)) outputs.insert(static_cast<int>(o));
    }
    if (outputs.empty()) return;
    lines_.open("if (live && lane == 0) {{");
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
  int width_ = kLanes;   ///< lanes of a team
  int steps_ = 0;        ///< elements per lane
  bool full_ = false;    ///< rows have steps_ * width_ elements, so that none has to be checked
  bool staged_ = false;  ///< all of the workgroup on one row
  bool holds_ = false;
};

}  // namespace

Rendered render_kernel(const RowKernel& kernel, const RenderLimits& limits) {
  const Program& program = kernel.program;
  if (program.rows.numel() == 0) return {};
  const bool plain = std::none_of(program.code.begin(), program.code.end(),
                                  [](const Instruction& step) { return step.kind == Kind::reduce; }) &&
                     std::none_of(program.outputs.begin(), program.outputs.end(), [&](const Output& output) {
                       return program.code[static_cast<std::size_t>(output.value)].extent == Extent::row;
                     });
  if (!plain && (program.inner.numel() > kChunk || prefers_columns(program))) return render_long_rows(program, limits);
  Rendered rendered;
  if (!plain) {
    rendered.launches.push_back(TeamKernel(program, limits).render());
  } else if (program.inner.numel() > 0) {
    rendered.launches.push_back(elementwise(program, limits));
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
