// What the kernels of rows_split.cpp share: the loop over chunks or rows, an element, row values, results.
#include "backends/gpu/renderer/rows_split.h"

#include <algorithm>

namespace lockstep {
inline namespace v0 {
namespace gpu {

namespace {

using Kind = Instruction::Kind;

}  // namespace

std::string to_word(ComputeType type, const std::string& value) {
  switch (type) {
    case ComputeType::f32: return fmt::format("ULONG(BITS({}))", value);
    case ComputeType::f64: return fmt::format("BITS64({})", value);
    case ComputeType::i32:
    case ComputeType::i64: break;
  }
  return fmt::format("ULONG(LONG({}))", value);
}
std::string from_word(ComputeType type, const std::string& word) {
  switch (type) {
    case ComputeType::f32: return fmt::format("FROM_BITS(UINT({}))", word);
    case ComputeType::f64: return fmt::format("FROM_BITS64({})", word);
    case ComputeType::i32: return fmt::format("int(UINT({}))", word);
    case ComputeType::i64: return fmt::format("LONG({})", word);
  }
  return "";
}

std::vector<Reduction> SplitKernel::reductions_of(const std::vector<int>& numbers) const {
  std::vector<Reduction> result;
  for (const int i : numbers) result.emplace_back(plan_.code(i), i, writer_.type_of(plan_.code(i).a), wide_);
  return result;
}

bool SplitKernel::reads_row_values(const std::vector<int>& reductions, const std::set<int>& computed) const {
  const auto reads = [&](int i) {
    const auto is_row = [&](int operand) { return operand >= 0 && plan_.is_row(operand); };
    return is_row(plan_.code(i).a) || is_row(plan_.code(i).b) || is_row(plan_.code(i).c);
  };
  return std::any_of(reductions.begin(), reductions.end(), reads) ||
         std::any_of(computed.begin(), computed.end(), reads);
}

std::set<int> SplitKernel::needed_by(const std::vector<int>& reductions, const std::vector<int>& outputs) const {
  std::set<int> computed;
  std::vector<int> work;
  for (const int i : reductions) {
    for (const int operand : {plan_.code(i).a, plan_.code(i).b}) {
      if (operand >= 0) work.push_back(operand);
    }
  }
  for (const int o : outputs) work.push_back(plan_.program.outputs[static_cast<std::size_t>(o)].value);
  while (!work.empty()) {
    const int i = work.back();
    work.pop_back();
    if (plan_.is_row(i) || !computed.insert(i).second) continue;
    for (const int operand : {plan_.code(i).a, plan_.code(i).b, plan_.code(i).c}) {
      if (operand >= 0) work.push_back(operand);
    }
  }
  return computed;
}

void SplitKernel::begin(std::int64_t units) {
  writer_.declare_buffers(lines_);
  lines_.add("int lane = int(THREAD) & {};", team_ - 1);
  lines_.add("int team = int(THREAD) / {};", team_);
  lines_.add("{} length = {};", index_, words_.index(plan_.space.length, wide_));
  lines_.add("{} units = {};", index_, words_.index(units, wide_));
  if (teams_ == 0) teams_ = plan_.limits.threads / team_;
  lines_.open(
      "for ({0} first_unit = {0}(GROUP) * {0}({1}); first_unit < units; first_unit += {0}(GROUPS) * {0}({1})) {{",
      index_, teams_);
  if (teams_ == 1) {
    lines_.add("bool live = team == 0;");
    lines_.add("{} unit = first_unit;", index_);
    return;
  }
  lines_.add("bool live = first_unit + {}(team) < units;", index_);
  lines_.add("{0} unit = SELECT(live, first_unit + {0}(team), units - {0}(1));", index_);
}

Launch SplitKernel::end(std::int64_t units) {
  lines_.close();
  Launch result;
  result.text.body = lines_.take();
  result.text.functions = writer_.functions();
  result.text.threads = plan_.limits.threads;
  result.text.shared = shared_;
  result.groups =
      plan_.limits.groups_for((units + teams_ - 1) / teams_);
  words_.move_to(result);
  return result;
}

void SplitKernel::write_element(const std::vector<Reduction>& reductions, const std::set<int>& computed,
                                const std::vector<int>& stored, const std::string& from, int first_dim,
                                const std::string& suffix) {
  writer_.declare_places(lines_, "e", from, first_dim, plan_.space.shape.rank(), computed,
                         {stored.begin(), stored.end()}, true);
  for (const int i : computed) writer_.emit(lines_, i, "e");
  for (const Reduction& reduction : reductions) {
    const Instruction& reduce = plan_.code(reduction.number());
    const ComputeType type = reduction.operand_type();
    reduction.accumulate(lines_, suffix, writer_.value(reduce.a, type),
                         reduce.b < 0 ? "" : writer_.value(reduce.b, type), "element");
  }
  if (stored.empty()) return;
  lines_.open("if (live) {{");
  for (const int o : stored) writer_.store(lines_, o, "e");
  lines_.close();
}

std::set<int> SplitKernel::stored_in(int phase, const std::vector<int>& stored) const {
  std::set<int> outputs = plan_.has_parts() ? std::set<int>() : plan_.row_outputs(phase);
  outputs.insert(stored.begin(), stored.end());
  return outputs;
}

void SplitKernel::write_results(int phase, const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                                const std::string& suffix) {
  if (plan_.has_parts()) return write_parts(numbers, reductions, suffix);
  for (const Reduction& reduction : reductions) {
    reduction.finish(lines_, reduction.is_ordered() ? suffix : "", "length == 0");
  }
  write_row_results(phase, numbers, plan_.row_outputs(phase));
}

void SplitKernel::write_row_results(int phase, const std::vector<int>& numbers, const std::set<int>& outputs) {
  if (phase < plan_.last_phase) {
    lines_.open("if (live && lane == 0) {{");
    for (const int r : numbers) {
      lines_.add("MEMORY values{} = {};", r,
                 words_.memory(Patch::Kind::scratch, 0, plan_.values[static_cast<std::size_t>(r)]));
      lines_.add("STORE_U64(values{}, LONG(row), {});", r, to_word(writer_.type_of(r), ProgramWriter::name(r)));
    }
    lines_.close();
  }
  if (outputs.empty()) return;
  write_row_code(phase, phase + 1);
  lines_.open("if (live && lane == 0) {{");
  for (const int o : outputs) writer_.store(lines_, o, "row");
  lines_.close();
}

void SplitKernel::write_parts(const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                              const std::string& suffix) {
  if (reductions.empty()) return;
  lines_.open("if (live && lane == 0) {{");
  const std::string count = words_.int64(plan_.space.row_count * plan_.chunks * plan_.slices);
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    const std::string at = words_.memory(Patch::Kind::scratch, 0, plan_.parts[static_cast<std::size_t>(numbers[r])]);
    lines_.add("MEMORY parts{} = {};", numbers[r], at);
    int field = 0;
    for (const auto& [name, type] : reductions[r].state()) {
      lines_.add("STORE_U64(parts{}, LONG(unit) + LONG({}) * {}, {});", numbers[r], field++, count,
                 to_word(type, name + suffix));
    }
  }
  lines_.close();
}

void SplitKernel::write_row_values(int phase, const std::set<int>& computed, const std::set<int>& outputs) {
  std::set<int> instructions = computed;
  std::set<int> rows;
  for (int i = 0; i < plan_.size(); ++i) {
    if (plan_.is_row(i)) rows.insert(i);
  }
  instructions.insert(rows.begin(), rows.end());
  decompose(lines_, words_, plan_.space.shape, 0, plan_.space.rows, "row", "i", wide_);
  writer_.declare_places(lines_, "row", "", 0, plan_.space.rows, instructions, outputs, false);
  writer_.declare_places(lines_, "r", "row", 0, 0, rows, {}, true);
  write_row_code(-1, phase);
  if (plan_.limits.arithmetic.fused_fma) writer_.declare_inverses(lines_, computed);
}

void SplitKernel::write_row_code(int after, int last) {
  for (int i = 0; i < plan_.size(); ++i) {
    if (!plan_.is_row(i)) continue;
    if (plan_.code(i).kind != Kind::reduce) {
      if (plan_.phase(i) > after && plan_.phase(i) <= last) writer_.emit(lines_, i, "r");
    } else if (after < 0 && plan_.phase(i) < last) {
      lines_.add("MEMORY values{} = {};", i,
                 words_.memory(Patch::Kind::scratch, 0, plan_.values[static_cast<std::size_t>(i)]));
      const ComputeType type = writer_.type_of(i);
      lines_.add("{} {} = {};", type_name(type), ProgramWriter::name(i),
                 from_word(type, fmt::format("LOAD_U64(values{}, LONG(row))", i)));
    }
  }
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
