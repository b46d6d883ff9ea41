// Chunks of rows that lie side by side themselves: columns of a matrix.
#include <algorithm>
#include <functional>

#include "backends/gpu/renderer/contraction.h"
#include "backends/gpu/renderer/rows_split.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

namespace {

using Kind = Instruction::Kind;

constexpr std::initializer_list<const char*> kFirst = {"x"};  ///< names of operands
constexpr std::initializer_list<const char*> kBoth = {"x", "y"};

}  // namespace

Launch SplitKernel::columns(int phase) {
  const std::vector<int> numbers = plan_.reductions(phase);
  const std::vector<int> stored = plan_.outputs(phase);
  const std::vector<Reduction> reductions = reductions_of(numbers);
  const std::set<int> computed = needed_by(numbers, stored);
  // A workgroup for each of the device's units at least.
  const int slices = plan_.slices;
  const bool enough = plan_.space.row_count * plan_.chunks * slices >= std::int64_t{2} * kColumns * plan_.limits.units;
  const bool pairs = enough && stored.empty() && !reads_row_values(numbers, computed) &&
                     writer_.choose_pairs(plan_.space.rows - 1, computed);
  const int width = pairs ? writer_.width() : 1;
  const int columns = kColumns * width;
  const std::int64_t blocks = (plan_.space.row_count + columns - 1) / columns;
  const std::int64_t items = blocks * plan_.chunks * slices;
  const int lanes = kColumnLanes / slices;  // of a thread
  teams_ = columns;
  writer_.declare_buffers(lines_);
  lines_.add("int part = int(THREAD) / {};", kColumns);
  lines_.add("int lane = int(THREAD) / {};", columns);
  lines_.add("{} length = {};", index_, words_.index(plan_.space.length, wide_));
  lines_.add("{} rows = {};", index_, words_.index(plan_.space.row_count, wide_));
  lines_.add("{} items = {};", index_, words_.index(items, wide_));
  lines_.open("for ({0} item = {0}(GROUP); item < items; item += {0}(GROUPS)) {{", index_);
  lines_.add("{} slices = {};", index_, quotient(words_, "item", blocks, wide_));
  lines_.add("{0} first_row = (item - slices * {1}) * {0}({2});", index_, words_.index(blocks, wide_), columns);
  lines_.add("{0} chunk = slices / {0}({1});", index_, slices);
  lines_.add("{0} slice = slices & {0}({1});", index_, slices - 1);
  for (const Reduction& reduction : reductions) {
    for (SharedArray& array : reduction.shared(plan_.limits.threads * width)) shared_.push_back(std::move(array));
    reduction.start_lanes(lines_, lanes * width);
  }
  const std::set<int> outputs = stored_in(phase, stored);
  if (pairs) lines_.open("{{");
  write_row_of(fmt::format("(int(THREAD) & {}) * {}", kColumns - 1, width), width, phase, computed,
               pairs ? std::set<int>() : outputs);
  lines_.add("{0} first = chunk * {0}({1});", index_, static_cast<int>(kChunk));
  lines_.add("{0} end = SELECT(length - first < {0}({1}), length, first + {0}({1}));", index_,
             static_cast<int>(kChunk));
  lines_.add("{0} s = first + slice + {0}(part * {1});", index_, slices);
  const int loads = column_loads(computed, width);
  lines_.add("UNROLL_BY(1)");
  const int step = kColumnLanes * slices;
  lines_.open("for (; s + {0}({1}) < end; s += {0}({2})) {{", index_, (loads - 1) * step, loads * step);
  write_column(numbers, reductions, computed, stored, loads, false);
  lines_.close();
  if (plan_.space.length % kChunk != 0) {
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (; s < end; s += {}({})) {{", index_, kLanes);
    write_column(numbers, reductions, computed, stored, lanes, true);
    lines_.close();
  }
  if (pairs) lines_.close();
  // Without slices lanes 32, 16 and 8 apart are in one thread, those less apart in others; with 8, lanes 32, 16 and 8
  // apart are in other threads, and those less apart in other workgroups.
  for (const Reduction& reduction : reductions) reduction.halve(lines_, lanes * width, width);
  if (!reductions.empty()) {
    lines_.add("BARRIER();");
    for (int q = 0; q < width; ++q) {
      for (const Reduction& reduction : reductions) {
        reduction.share(lines_, fmt::format("[{}]", q), fmt::format("int(THREAD) * {} + {}", width, q));
      }
    }
    lines_.add("BARRIER();");
    lines_.open("for (int h = {}; h > 0; h >>= 1) {{", kColumnLanes / 2);
    lines_.open("if (lane < h) {{");
    for (const Reduction& reduction : reductions) {
      reduction.combine(lines_, fmt::format("int(THREAD) + {} * h", columns));
    }
    lines_.close();
    lines_.add("BARRIER();");
    lines_.close();
    for (const Reduction& reduction : reductions) {
      reduction.fetch(lines_, "[0]", fmt::format("int(THREAD) & {}", columns - 1));
    }
  }
  if (pairs) write_row_of(fmt::format("int(THREAD) & {}", columns - 1), 1, phase, {}, outputs);
  lines_.add("{0} unit = (row * {1} + chunk) * {0}({2}) + slice;", index_, words_.index(plan_.chunks, wide_), slices);
  write_results(phase, numbers, reductions, "[0]");
  Launch result = end(items);
  result.groups = plan_.limits.groups_for(items);
  if (computed.size() <= kShortCode) result.text.groups_per_unit = kGroupsPerUnit / width;
  return result;
}

int SplitKernel::column_loads(const std::set<int>& computed, int width) const {
  std::size_t smallest = 4;
  for (const int i : computed) {
    const Instruction& step = plan_.code(i);
    if (step.kind != Kind::load && step.kind != Kind::load_bits) continue;
    smallest = std::min(smallest, size_of(plan_.program.inputs[static_cast<std::size_t>(step.index)].dtype));
  }
  return computed.size() <= kShortCode ? kColumnLanes * width * 4 / static_cast<int>(smallest) : kColumnLanes;
}

void SplitKernel::write_row_of(const std::string& number, int count, int phase, const std::set<int>& computed,
                               const std::set<int>& outputs) {
  lines_.add("{0} row = first_row + {0}({1});", index_, number);
  lines_.add("bool live = row < rows;");
  lines_.add("row = SELECT(live, row, rows - {}({}));", index_, count);
  write_row_values(phase, computed, outputs);
}

void SplitKernel::write_column(const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                               const std::set<int>& computed, const std::vector<int>& stored, int count, bool checked) {
  const int width = writer_.width();
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    for (const char* operand : plan_.code(numbers[r]).b < 0 ? kFirst : kBoth) {
      lines_.add("{} {}{}[{}];", type_name(reductions[r].operand_type()), operand, r, count * width);
    }
  }
  lines_.add("UNROLL");
  lines_.open("for (int b = 0; b < {}; b++) {{", count);
  lines_.add("{0} element = s + {0}(b * {1});", index_, kColumnLanes * plan_.slices);
  if (checked) lines_.open("if (element < end) {{");
  decompose(lines_, words_, plan_.space.shape, plan_.space.rows, plan_.space.shape.rank(), "element", "i", wide_);
  writer_.declare_places(lines_, "e", "row", plan_.space.rows, plan_.space.shape.rank(), computed,
                         {stored.begin(), stored.end()}, true);
  writer_.load_vectors(lines_, "e", "0", computed, {});
  lines_.add("UNROLL");
  lines_.open("for (int q = 0; q < {}; q++) {{", width);
  for (const int i : computed) writer_.emit(lines_, i, "e");
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    const Instruction& reduce = plan_.code(numbers[r]);
    const ComputeType type = reductions[r].operand_type();
    lines_.add("x{}[b * {} + q] = {};", r, width, writer_.value(reduce.a, type));
    if (reduce.b >= 0) lines_.add("y{}[b * {} + q] = {};", r, width, writer_.value(reduce.b, type));
  }
  if (!stored.empty()) {
    lines_.open("if (live) {{");
    for (const int o : stored) writer_.store(lines_, o, "e");
    lines_.close();
  }
  lines_.close();
  if (checked) lines_.close();
  lines_.close();
  const bool guarded = std::any_of(reductions.begin(), reductions.end(), [&](const Reduction& reduction) {
    return plan_.code(reduction.number()).reduce == ReduceOp::dot && is_guarded(reduction.operand_type(), plan_.limits);
  });
  const auto each = [&](const std::function<void(std::size_t, const std::string&)>& write) {
    lines_.add("UNROLL");
    lines_.open("for (int b = 0; b < {}; b++) {{", count);
    if (checked) lines_.open("if (s + {}(b * {}) < end) {{", index_, kColumnLanes * plan_.slices);
    lines_.add("UNROLL");
    lines_.open("for (int q = 0; q < {}; q++) {{", width);
    for (std::size_t r = 0; r < reductions.size(); ++r) write(r, fmt::format("[b * {} + q]", width));
    lines_.close();
    if (checked) lines_.close();
    lines_.close();
  };
  const auto accumulate = [&](const char* fma) {
    each([&](std::size_t r, const std::string& at) {
      reductions[r].accumulate(lines_, fmt::format("[(b & {}) * {} + q]", kColumnLanes / plan_.slices - 1, width),
                               fmt::format("x{}{}", r, at), fmt::format("y{}{}", r, at), "", fma);
    });
  };
  if (!guarded) return accumulate("FMA_EXACT");
  lines_.add("UINT least = 0xffffffffu;");
  each([&](std::size_t r, const std::string& at) {
    if (plan_.code(numbers[r]).reduce != ReduceOp::dot) return;
    for (const char* operand : kBoth) {
      lines_.open("{{");
      lines_.add("UINT word = (BITS({}{}{}) & 0x7fffffffu) - 1u;", operand, r, at);
      lines_.add("least = SELECT(word < least, word, least);");
      lines_.close();
    }
  });
  lines_.open("if (least < {}) {{", kSmallWords);
  accumulate("FMA_EXACT");
  lines_.close();
  lines_.open("else {{");
  accumulate("FMA");
  lines_.close();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
