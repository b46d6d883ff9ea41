// Row programs whose rows are longer than a chunk of 4096 elements, in the order of docs/numerics.md section 4: chunks
// are reduced in parallel by teams that follow the 64 lanes, a second kernel reduces the chunks' results by R again,
// and later phases of the program read the row values that came of it. Results wait in scratch memory, one 64-bit word
// each. Shorter rows, too, where they are read but once and there are many of them: a chunk's result is its row's.
#include <algorithm>
#include <bit>
#include <functional>

#include "backends/gpu/renderer/reduction.h"
#include "backends/gpu/renderer/rows.h"
#include "backends/gpu/renderer/rows_split_plan.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

constexpr int kLanes = order::kLanes;
constexpr int kBatch = 8;              ///< loads of a thread that are under way together
constexpr int kGroupsPerUnit = 4;      ///< for fewer registers a compiler would rather load one after the other
constexpr std::size_t kShortCode = 8;  ///< more is not repeated for each of them
constexpr int kColumns = 32;           ///< rows side by side in a workgroup
constexpr int kColumnLanes = 8;        ///< of a row, per thread, and threads per row
constexpr std::initializer_list<const char*> kFirst = {"x"};  ///< names of operands
constexpr std::initializer_list<const char*> kBoth = {"x", "y"};

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

/// One launch of a plan.
class SplitKernel {
 public:
  explicit SplitKernel(const SplitPlan& plan)
      : plan_(plan),
        writer_(plan.program, plan.space, words_),
        wide_(plan.space.wide),
        index_(wide_ ? "LONG" : "int") {}

  // Reduces and stores the chunks of a phase.
  Launch chunks(int phase) {
    const std::vector<int> numbers = plan_.reductions(phase);
    const std::vector<int> stored = plan_.outputs(phase);
    const std::vector<Reduction> reductions = reductions_of(numbers);
    const std::set<int> computed = needed_by(numbers, stored);
    const std::int64_t units = plan_.space.row_count * plan_.chunks;
    const bool ordered = std::all_of(reductions.begin(), reductions.end(),
                                     [](const Reduction& reduction) { return reduction.is_ordered(); });
    const bool fits = shared_bytes_of(reductions, plan_.limits.threads, 8) <= plan_.limits.shared_bytes;
    const int width = ordered && fits && writer_.choose_vectors() ? writer_.width() : 1;
    team_ = kLanes / width;
    begin(units);
    lines_.add("{} row = {};", index_, quotient(words_, "unit", plan_.chunks, wide_));
    lines_.add("{0} chunk = unit - row * {1};", index_, words_.index(plan_.chunks, wide_));
    write_row_values(phase, computed, stored_in(phase, stored));
    for (const Reduction& reduction : reductions) {
      if (width > 1) {
        reduction.start_lanes(lines_, width);
      } else {
        reduction.start(lines_, "");
      }
      for (SharedArray& array : reduction.shared(plan_.limits.threads * width)) shared_.push_back(std::move(array));
    }
    if (width > 1) {
      write_vectors(reductions, computed, stored, width);
    } else {
      lines_.add("UNROLL_BY(8)");
      lines_.open("for (int s = 0; s < {}; s++) {{", static_cast<int>(kChunk) / kLanes);
      lines_.add("{0} element = chunk * {0}({1}) + {0}(lane + s * {2});", index_, static_cast<int>(kChunk), team_);
      lines_.open("if (element < length) {{");
      decompose(lines_, words_, plan_.space.shape, plan_.space.rows, plan_.space.shape.rank(), "element", "i", wide_);
      write_element(reductions, computed, stored, "row", plan_.space.rows, "");
      lines_.close();
      lines_.close();
    }
    if (width > 1) {
      combine_sums(lines_, reductions, kLanes, width, team_);
    } else {
      combine_lanes(lines_, reductions, "", kLanes, kLanes);
    }
    write_results(phase, numbers, reductions, width > 1 ? "_sum" : "");
    Launch result = end(units);
    if (computed.size() <= kShortCode) result.text.groups_per_unit = kGroupsPerUnit;
    return result;
  }

  // The same where neighbours in memory are of different rows: 32 rows side by side, or 32 pairs of rows whose elements
  // have 2 bytes, each by 8 threads with 8 lanes (l, l + 8, ...) in registers. For sums and products.
  Launch columns(int phase) {
    const std::vector<int> numbers = plan_.reductions(phase);
    const std::vector<int> stored = plan_.outputs(phase);
    const std::vector<Reduction> reductions = reductions_of(numbers);
    const std::set<int> computed = needed_by(numbers, stored);
    // A workgroup for each of the device's units at least.
    const bool enough = plan_.space.row_count * plan_.chunks >= std::int64_t{2} * kColumns * plan_.limits.units;
    const bool pairs = enough && stored.empty() && !reads_row_values(numbers, computed) &&
                       writer_.choose_pairs(plan_.space.rows - 1, computed);
    const int width = pairs ? writer_.width() : 1;
    const int columns = kColumns * width;
    const std::int64_t blocks = (plan_.space.row_count + columns - 1) / columns;
    const std::int64_t items = blocks * plan_.chunks;
    teams_ = columns;
    writer_.declare_buffers(lines_);
    lines_.add("int part = int(THREAD) / {};", kColumns);
    lines_.add("int lane = int(THREAD) / {};", columns);
    lines_.add("{} length = {};", index_, words_.index(plan_.space.length, wide_));
    lines_.add("{} rows = {};", index_, words_.index(plan_.space.row_count, wide_));
    lines_.add("{} items = {};", index_, words_.index(items, wide_));
    lines_.open("for ({0} item = {0}(GROUP); item < items; item += {0}(GROUPS)) {{", index_);
    lines_.add("{} chunk = {};", index_, quotient(words_, "item", blocks, wide_));
    lines_.add("{0} first_row = (item - chunk * {1}) * {0}({2});", index_, words_.index(blocks, wide_), columns);
    for (const Reduction& reduction : reductions) {
      for (SharedArray& array : reduction.shared(plan_.limits.threads * width)) shared_.push_back(std::move(array));
      reduction.start_lanes(lines_, kColumnLanes * width);
    }
    const std::set<int> outputs = stored_in(phase, stored);
    if (pairs) lines_.open("{{");
    write_row_of(fmt::format("(int(THREAD) & {}) * {}", kColumns - 1, width), width, phase, computed,
                 pairs ? std::set<int>() : outputs);
    lines_.add("{0} first = chunk * {0}({1});", index_, static_cast<int>(kChunk));
    lines_.add("{0} end = SELECT(length - first < {0}({1}), length, first + {0}({1}));", index_,
               static_cast<int>(kChunk));
    lines_.add("{0} s = first + {0}(part);", index_);
    const int loads = column_loads(computed, width);
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (; s + {0}({1}) < end; s += {0}({2})) {{", index_, (loads - 1) * kColumnLanes,
                loads * kColumnLanes);
    write_column(numbers, reductions, computed, stored, loads, false);
    lines_.close();
    if (plan_.space.length % kChunk != 0) {
      lines_.add("UNROLL_BY(1)");
      lines_.open("for (; s < end; s += {}({})) {{", index_, kLanes);
      write_column(numbers, reductions, computed, stored, kColumnLanes, true);
      lines_.close();
    }
    if (pairs) lines_.close();
    // Lanes 32, 16 and 8 apart are in one thread, those less apart in others.
    for (const Reduction& reduction : reductions) reduction.halve(lines_, kColumnLanes * width, width);
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
    lines_.add("{} unit = row * {} + chunk;", index_, words_.index(plan_.chunks, wide_));
    write_results(phase, numbers, reductions, "[0]");
    Launch result = end(items);
    result.groups = static_cast<std::uint32_t>(std::clamp<std::int64_t>(items, 1, plan_.limits.groups));
    if (computed.size() <= kShortCode) result.text.groups_per_unit = kGroupsPerUnit / width;
    return result;
  }

  // Reduces the chunks' results of a phase by R, and stores row values if nothing is to come after it.
  Launch sums(int phase) {
    const std::vector<int> numbers = plan_.reductions(phase);
    const std::vector<Reduction> reductions = reductions_of(numbers);
    const bool ordered_only = std::all_of(reductions.begin(), reductions.end(),
                                          [](const Reduction& reduction) { return reduction.is_ordered(); });
    // Else a team for each row.
    const bool whole_group = ordered_only && plan_.limits.threads > kLanes && plan_.chunks > kLanes &&
                             plan_.space.row_count < plan_.limits.units;
    if (whole_group) teams_ = 1;
    // Lanes that no chunk is for are left out.
    const auto lanes = std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(plan_.chunks, 4, kLanes)));
    team_ = static_cast<int>(lanes);
    begin(plan_.space.row_count);
    lines_.add("{} row = unit;", index_);
    const std::set<int> outputs = plan_.row_outputs(phase);
    write_row_values(phase, {}, outputs);
    lines_.add("int chunks = {};", words_.int32(plan_.chunks));
    const std::string count = words_.int64(plan_.space.row_count * plan_.chunks);
    std::vector<Reduction> ordered;
    std::vector<Reduction> extrema;
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      const Reduction& reduction = reductions[r];
      (reduction.is_ordered() ? ordered : extrema).push_back(reduction);
      lines_.add("MEMORY parts{} = {};", numbers[r],
                 words_.memory(Patch::Kind::scratch, 0, plan_.parts[static_cast<std::size_t>(numbers[r])]));
      start(reduction, "");
      if (reduction.is_ordered()) reduction.start(lines_, "_outer");
    }
    // Chunks of chunks: each team of the group has its own, or each row's team has all.
    const int teams = whole_group ? plan_.limits.threads / kLanes : 1;
    lines_.open("for (int start = 0; start < chunks; start += {}) {{", teams * static_cast<int>(kChunk));
    lines_.add("int first = start{};", whole_group ? fmt::format(" + team * {}", static_cast<int>(kChunk)) : "");
    lines_.add("int end = SELECT(chunks - first < {0}, chunks, first + {0});", static_cast<int>(kChunk));
    lines_.add("int c = first + lane;");
    // Batches of loads that are under way together, and what is left.
    const auto word = [&](std::size_t r, int field, const std::string& at) {
      return fmt::format("LOAD_U64(parts{}, LONG(row) * LONG(chunks) + LONG({}) + LONG({}) * {})", numbers[r], at,
                         field, count);
    };
    const auto take = [&](const std::function<std::string(std::size_t, int)>& word_of) {
      for (std::size_t r = 0; r < reductions.size(); ++r) {
        std::vector<std::string> fields;
        for (const auto& [name, type] : reductions[r].state()) {
          fields.push_back(from_word(type, word_of(r, static_cast<int>(fields.size()))));
        }
        if (reductions[r].is_ordered()) {
          reductions[r].add(lines_, "", fields[0]);
        } else {
          reductions[r].merge(lines_, fields);
        }
      }
    };
    if (plan_.chunks > kBatch * kLanes) {
      lines_.add("UNROLL_BY(1)");
      lines_.open("for (; c + {} < end; c += {}) {{", (2 * kBatch - 1) * team_, 2 * kBatch * team_);
      for (std::size_t r = 0; r < reductions.size(); ++r) {
        for (std::size_t field = 0; field < reductions[r].state().size(); ++field) {
          lines_.add("ULONG words{}_{}[{}];", r, field, 2 * kBatch);
          lines_.add("UNROLL");
          lines_.add("for (int b = 0; b < {}; b++) words{}_{}[b] = {};", 2 * kBatch, r, field,
                     word(r, static_cast<int>(field), fmt::format("c + b * {}", team_)));
        }
      }
      lines_.add("UNROLL");
      lines_.open("for (int b = 0; b < {}; b++) {{", 2 * kBatch);
      take([](std::size_t r, int field) { return fmt::format("words{}_{}[b]", r, field); });
      lines_.close();
      lines_.close();
    }
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (; c < end; c += {}) {{", team_);
    take([&](std::size_t r, int field) { return word(r, field, "c"); });
    lines_.close();
    if (!ordered.empty()) {
      combine_lanes(lines_, ordered, "", team_, team_);
      lines_.open("if (first < chunks && lane == ((first >> 12) & {})) {{", team_ - 1);
      for (const Reduction& reduction : ordered) {
        reduction.add(lines_, "_outer", fmt::format("r{}", reduction.number()));
      }
      lines_.close();
      for (const Reduction& reduction : ordered) reduction.restart(lines_, "");
    }
    lines_.close();
    if (whole_group) {
      // Lane l of the chunks of chunks is in team l mod 4.
      lines_.add("BARRIER();");
      lines_.open("if ((lane & {}) == team) {{", teams - 1);
      for (const Reduction& reduction : ordered) reduction.share(lines_, "_outer", "lane");
      lines_.close();
      lines_.add("BARRIER();");
      for (const Reduction& reduction : ordered) reduction.fetch(lines_, "_outer", "lane");
    }
    combine_lanes(lines_, ordered, "_outer", team_, team_);
    combine_lanes(lines_, extrema, "", team_, team_);
    for (const Reduction& reduction : reductions) {
      reduction.finish(lines_, reduction.is_ordered() ? "_outer" : "", "length == 0");
    }
    write_row_results(phase, numbers, outputs);
    Launch result = end(plan_.space.row_count);
    result.text.groups_per_unit = kGroupsPerUnit;
    return result;
  }

 private:
  // A chunk's elements by groups of `width` neighbours. Where there are enough of them, many loads come before what
  // takes them, so that they are under way together; none of these has to be checked.
  void write_vectors(const std::vector<Reduction>& reductions, const std::set<int>& computed,
                     const std::vector<int>& stored, int width) {
    const std::set<int> outputs(stored.begin(), stored.end());
    const bool full = plan_.space.length % kChunk == 0;
    const int steps = static_cast<int>(kChunk) / kLanes;
    const int batch = computed.size() <= kShortCode ? kBatch : 1;
    if (!full) {
      lines_.add("{0} rest = length - chunk * {0}({1});", index_, static_cast<int>(kChunk));
      lines_.add("int elements = SELECT(rest < {0}({1}), int(rest), {1});", index_, static_cast<int>(kChunk));
    }
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (int first_step = 0; first_step < {}; first_step += {}) {{",
                full ? std::to_string(steps) : fmt::format("elements / {} * {}", kLanes * batch, batch), batch);
    writer_.declare_batch(lines_, batch, computed);
    for (const bool loads : {true, false}) {
      lines_.add("UNROLL");
      lines_.open("for (int b = 0; b < {}; b++) {{", batch);
      lines_.add("int s = first_step + b;");
      write_places(computed, outputs, width);
      if (loads) {
        writer_.load_batch(lines_, "v", "first", computed);
      } else {
        writer_.load_vectors(lines_, "v", "first", {}, outputs);
        write_group(reductions, computed, stored, width);
      }
      lines_.close();
    }
    lines_.close();
    writer_.end_batch();
    if (full) return;
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (int s = elements / {} * {}; s * {} < elements; s++) {{", kLanes * batch, batch, kLanes);
    lines_.open("if ((lane + s * {}) * {} < elements) {{", team_, width);
    write_places(computed, outputs, width);
    writer_.load_vectors(lines_, "v", "first", computed, outputs);
    write_group(reductions, computed, stored, width);
    lines_.close();
    lines_.close();
  }

  // How many elements of a column, or of `width` columns, a thread loads before it adds them: their bytes are under way
  // together. Where columns are pairs, there are half as many threads.
  int column_loads(const std::set<int>& computed, int width) const {
    std::size_t smallest = 4;
    for (const int i : computed) {
      const Instruction& step = plan_.code(i);
      if (step.kind != Kind::load && step.kind != Kind::load_bits) continue;
      smallest = std::min(smallest, size_of(plan_.program.inputs[static_cast<std::size_t>(step.index)].dtype));
    }
    return computed.size() <= kShortCode ? kColumnLanes * width * 4 / static_cast<int>(smallest) : kColumnLanes;
  }

  // This thread's row of columns(), or the first of `count`, and its values.
  void write_row_of(const std::string& number, int count, int phase, const std::set<int>& computed,
                    const std::set<int>& outputs) {
    lines_.add("{0} row = first_row + {0}({1});", index_, number);
    lines_.add("bool live = row < rows;");
    lines_.add("row = SELECT(live, row, rows - {}({}));", index_, count);
    write_row_values(phase, computed, outputs);
  }

  // `count` elements of a column, or of a pair of columns: s, s + 8, ...
  void write_column(const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                    const std::set<int>& computed, const std::vector<int>& stored, int count, bool checked) {
    const int width = writer_.width();
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      for (const char* operand : plan_.code(numbers[r]).b < 0 ? kFirst : kBoth) {
        lines_.add("{} {}{}[{}];", type_name(reductions[r].operand_type()), operand, r, count * width);
      }
    }
    lines_.add("UNROLL");
    lines_.open("for (int b = 0; b < {}; b++) {{", count);
    lines_.add("{0} element = s + {0}(b * {1});", index_, kColumnLanes);
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
    lines_.add("UNROLL");
    lines_.open("for (int b = 0; b < {}; b++) {{", count);
    if (checked) lines_.open("if (s + {}(b * {}) < end) {{", index_, kColumnLanes);
    lines_.add("UNROLL");
    lines_.open("for (int q = 0; q < {}; q++) {{", width);
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      const std::string at = fmt::format("[b * {} + q]", width);
      reductions[r].accumulate(lines_, fmt::format("[(b & {}) * {} + q]", kColumnLanes - 1, width),
                               fmt::format("x{}{}", r, at), fmt::format("y{}{}", r, at), "");
    }
    lines_.close();
    if (checked) lines_.close();
    lines_.close();
  }

  // Where this thread's group of neighbours of step s is.
  void write_places(const std::set<int>& computed, const std::set<int>& outputs, int width) {
    const int last = plan_.space.shape.rank() - 1;
    lines_.add("{0} group = chunk * {0}({1}) + {0}(lane + s * {2});", index_, static_cast<int>(kChunk) / width, team_);
    Shape groups = plan_.space.shape;
    groups[last] /= width;
    decompose(lines_, words_, groups, plan_.space.rows, last + 1, "group", "g", wide_);
    for (int d = plan_.space.rows; d < last; ++d) lines_.add("{0} i{1} = g{1};", index_, d);
    lines_.add("{0} first = g{1} * {0}({2});", index_, last, width);
    writer_.declare_places(lines_, "v", "row", plan_.space.rows, last, computed, outputs, false);
  }

  // A group's elements, whose words are loaded.
  void write_group(const std::vector<Reduction>& reductions, const std::set<int>& computed,
                   const std::vector<int>& stored, int width) {
    const int last = plan_.space.shape.rank() - 1;
    lines_.add("UNROLL");
    lines_.open("for (int q = 0; q < {}; q++) {{", width);
    lines_.add("{0} i{1} = first + {0}(q);", index_, last);
    write_element(reductions, computed, stored, "v", last, "[q]");
    lines_.close();
    if (stored.empty()) return;
    lines_.open("if (live) {{");
    writer_.store_vectors(lines_, "v", "first", {stored.begin(), stored.end()});
    lines_.close();
  }

  // One element's instructions; its places are counted from part `from`.
  void write_element(const std::vector<Reduction>& reductions, const std::set<int>& computed,
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

  std::vector<Reduction> reductions_of(const std::vector<int>& numbers) const {
    std::vector<Reduction> result;
    for (const int i : numbers) result.emplace_back(plan_.code(i), i, writer_.type_of(plan_.code(i).a), wide_);
    return result;
  }

  // Whether `reductions`, or what is computed for them, take row values.
  bool reads_row_values(const std::vector<int>& reductions, const std::set<int>& computed) const {
    const auto reads = [&](int i) {
      const auto is_row = [&](int operand) { return operand >= 0 && plan_.is_row(operand); };
      return is_row(plan_.code(i).a) || is_row(plan_.code(i).b) || is_row(plan_.code(i).c);
    };
    return std::any_of(reductions.begin(), reductions.end(), reads) ||
           std::any_of(computed.begin(), computed.end(), reads);
  }

  // The vector instructions that reductions and outputs take.
  std::set<int> needed_by(const std::vector<int>& reductions, const std::vector<int>& outputs) const {
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

  // Opens the loop over units: chunks or rows. A team without one computes the last one again and stores nothing.
  void begin(std::int64_t units) {
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
  Launch end(std::int64_t units) {
    lines_.close();
    Launch result;
    result.text.body = lines_.take();
    result.text.functions = writer_.functions();
    result.text.threads = plan_.limits.threads;
    result.text.shared = shared_;
    result.groups =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>((units + teams_ - 1) / teams_, 1, plan_.limits.groups));
    words_.move_to(result);
    return result;
  }

  // What a kernel of chunks stores: a row's only chunk has the row's result.
  std::set<int> stored_in(int phase, const std::vector<int>& stored) const {
    std::set<int> outputs = plan_.chunks == 1 ? plan_.row_outputs(phase) : std::set<int>();
    outputs.insert(stored.begin(), stored.end());
    return outputs;
  }
  void write_results(int phase, const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                     const std::string& suffix) {
    if (plan_.chunks > 1) return write_parts(numbers, reductions, suffix);
    for (const Reduction& reduction : reductions) {
      reduction.finish(lines_, reduction.is_ordered() ? suffix : "", "length == 0");
    }
    write_row_results(phase, numbers, plan_.row_outputs(phase));
  }

  // Stores a row's results for later phases, and `outputs`; the first lane does.
  void write_row_results(int phase, const std::vector<int>& numbers, const std::set<int>& outputs) {
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

  // Stores the results of `unit`'s chunk; the first lane does.
  void write_parts(const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                   const std::string& suffix = "") {
    if (reductions.empty()) return;
    lines_.open("if (live && lane == 0) {{");
    const std::string count = words_.int64(plan_.space.row_count * plan_.chunks);
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

  // Row values that are known when `phase` begins.
  void write_row_values(int phase, const std::set<int>& computed, const std::set<int>& outputs) {
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

  // Row instructions of the phases (after, last]; reductions of earlier phases are read.
  void write_row_code(int after, int last) {
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

  void start(const Reduction& reduction, const std::string& suffix) {
    reduction.start(lines_, suffix);
    for (SharedArray& array : reduction.shared(plan_.limits.threads)) shared_.push_back(std::move(array));
  }

  const SplitPlan& plan_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  bool wide_;
  const char* index_;
  int team_ = kLanes;  ///< threads of a unit
  int teams_ = 0;      ///< units of a workgroup; if 1, all teams are of that one
  std::vector<SharedArray> shared_;
};

}  // namespace

bool prefers_streams(const Program& program, const RenderLimits& limits) {
  constexpr std::int64_t kShort = 256;  // elements: render_team has a thread or few for such rows
  const SplitPlan plan(program, limits);
  const Space& space = plan.space;
  if (space.rows == 0 || space.rows == space.shape.rank() || space.length <= kShort || plan.chunks > 1) return false;
  if (plan.last_reductions != 0 || plan.last_phase != 0) return false;
  for (const int r : plan.reductions(0)) {
    if (!Reduction(plan.code(r), r, plan.code(r).type, space.wide).is_ordered()) return false;
  }
  Words words;
  ProgramWriter writer(program, space, words);
  return writer.choose_vectors() &&
         space.row_count * (kLanes / writer.width()) >= std::int64_t{2} * limits.threads * limits.units;
}

bool prefers_columns(const Program& program, const RenderLimits& limits) {
  if (limits.threads != kColumns * kColumnLanes) return false;
  constexpr std::int64_t kFew = 1024;  // chunks: fewer would leave a GPU without work
  const Space space = Space::of(program, true);
  const std::int64_t chunks = (space.length + kChunk - 1) / kChunk;
  if (space.rows == 0 || space.rows == space.shape.rank() || space.length <= kLanes) return false;
  if (space.shape[space.rows - 1] < kColumns || space.row_count * chunks < kFew) return false;
  bool has_columns = false;
  for (const View& view : space.inputs) {
    if (!view.bounds.empty() || view.strides[space.shape.rank() - 1] == 1) return false;
    has_columns = has_columns || view.strides[space.rows - 1] == 1;
  }
  bool reduced = false;  // a value that is read once: what needs it again would be read twice
  for (const Instruction& step : program.code) {
    if (step.kind == Kind::reduce) {
      if (!Reduction(step, 0, step.type, space.wide).is_ordered()) return false;
      reduced = true;
    }
  }
  return has_columns && reduced;
}

Rendered render_long_rows(const Program& program, const RenderLimits& limits) {
  const SplitPlan plan(program, limits);
  const bool columns = prefers_columns(program, limits);
  Rendered rendered;
  rendered.scratch_bytes = plan.scratch_bytes;
  for (int phase = 0; phase <= plan.last_phase; ++phase) {
    const bool reduces = !plan.reductions(phase).empty();
    if (reduces || !plan.outputs(phase).empty()) {
      SplitKernel kernel(plan);
      rendered.launches.push_back(columns ? kernel.columns(phase) : kernel.chunks(phase));
    }
    if ((reduces && plan.chunks > 1) || (phase == 0 && plan.last_reductions < 0 && !plan.row_outputs().empty())) {
      rendered.launches.push_back(SplitKernel(plan).sums(reduces ? phase : -1));
    }
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
