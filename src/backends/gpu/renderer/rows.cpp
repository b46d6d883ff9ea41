// Row programs. Without reductions: here, a thread per element. With them: rows_team.cpp, rows_split.cpp for rows of
// more than 4096 elements, and rows_few.cpp for extrema of a few.
#include <algorithm>
#include <optional>

#include "backends/gpu/renderer/kinds.h"
#include "backends/gpu/renderer/rows.h"
#include "backends/gpu/renderer/rows_few.h"
#include "backends/gpu/renderer/rows_split_plan.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

constexpr int kMostVector = 8;
constexpr int kRowGroupsPerUnit = 32;  ///< of elementwise kernels: starting more costs more than it brings

}  // namespace

std::set<int> all_of(std::size_t n) {
  std::set<int> all;
  for (std::size_t i = 0; i < n; ++i) all.insert(static_cast<int>(i));
  return all;
}

std::uint32_t groups_for(std::int64_t items, std::int64_t per_group, const RenderLimits& limits) {
  return limits.groups_for((items + per_group - 1) / per_group);
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

namespace {

Launch elementwise(const Program& program, const RenderLimits& limits) {
  const Space space = Space::of(program, false);
  const std::int64_t total = space.row_count * space.length;
  Words words;
  Lines lines;
  ProgramWriter writer(program, space, words);
  writer.take_hasty_bf16(limits.arithmetic.hasty_bf16);
  const char* index = space.wide ? "LONG" : "int";
  const int rank = space.shape.rank();
  writer.declare_buffers(lines);
  std::set<int> code;
  for (const int i : all_of(program.code.size())) {
    if (program.code[static_cast<std::size_t>(i)].kind == Kind::constant) {
      writer.emit(lines, i, "");
    } else {
      code.insert(i);
    }
  }
  std::set<int> by_constants;
  for (const int i : code) {
    const int divisor = program.code[static_cast<std::size_t>(i)].b;
    if (divisor >= 0 && !code.contains(divisor)) by_constants.insert(i);
  }
  if (limits.arithmetic.fused_fma) {
    writer.declare_inverses(lines, by_constants);
    writer.flush_in_sums({});
  }
  if (writer.choose_vectors(kMostVector, true)) {
    const int width = writer.width();
    const int last = rank - 1;
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
    writer.load_vectors(lines, "v", "first", code, outputs);
    writer.write_group(lines, code, outputs, [&] {
      lines.add("UNROLL");
      lines.open("for (int q = 0; q < {}; q++) {{", width);
      lines.add("{0} i{1} = first + {0}(q);", index, last);
      writer.declare_places(lines, "e", "v", last, rank, code, outputs, true);
      for (const int i : code) writer.emit(lines, i, "e");
      for (const int o : outputs) writer.store(lines, o, "e");
      lines.close();
    });
    writer.store_vectors(lines, "v", "first", outputs);
    lines.close();
    const std::uint32_t most = std::min(limits.groups, static_cast<std::uint32_t>(kRowGroupsPerUnit * limits.units));
    return launch(lines, writer, words, std::min(groups_for(total / width, limits.threads, limits), most), limits);
  }
  lines.add("{} total = {};", index, words.index(total, space.wide));
  lines.add("{0} stride = {0}(GROUPS) * {1};", index, limits.threads);
  lines.open("for ({0} e = {0}(GROUP) * {1} + {0}(THREAD); e < total; e += stride) {{", index, limits.threads);
  decompose(lines, words, space.shape, 0, rank, "e", "i", space.wide);
  writer.declare_places(lines, "e", "", 0, rank, code, all_of(program.outputs.size()), true);
  for (const int i : code) writer.emit(lines, i, "e");
  for (std::size_t o = 0; o < program.outputs.size(); ++o) writer.store(lines, static_cast<int>(o), "e");
  lines.close();
  return launch(lines, writer, words, groups_for(total, limits.threads, limits), limits);
}

}  // namespace

Rendered render_kernel(const RowKernel& kernel, const RenderLimits& limits) {
  const std::optional<Program> few = unrolled_extrema(kernel.program);
  const Program& program = few ? *few : kernel.program;
  if (program.rows.numel() == 0) return {};
  const bool plain = std::none_of(program.code.begin(), program.code.end(),
                                  [](const Instruction& step) { return step.kind == Kind::reduce; }) &&
                     std::none_of(program.outputs.begin(), program.outputs.end(), [&](const Output& output) {
                       return program.code[static_cast<std::size_t>(output.value)].extent == Extent::row;
                     });
  if (!plain &&
      (program.inner.numel() > kChunk || prefers_columns(program, limits) || prefers_streams(program, limits))) {
    return render_long_rows(program, limits);
  }
  Rendered rendered;
  if (!plain) {
    rendered.launches.push_back(render_team(program, limits));
  } else if (program.inner.numel() > 0) {
    rendered.launches.push_back(elementwise(program, limits));
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
