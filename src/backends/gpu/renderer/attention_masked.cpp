// Exact attention of one row with a mask, a step of a language model (docs/numerics.md section 6): a launch for the
// scores, which is split over keys, and one for all that follows, which is split over the columns of the values. Heads
// that share keys are computed together, so that memory is read once. What little of softmax every workgroup of the
// second launch repeats takes less time than a launch of its own, and the first of its values are on their way then.
#include <algorithm>

#include <lockstep/error.h>

#include "backends/gpu/renderer/attention_lanes.h"
#include "backends/gpu/renderer/attention_rows.h"
#include "backends/gpu/renderer/fast_parts.h"
#include "backends/gpu/renderer/kinds.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kStepThreads = kLaneThreads;
constexpr int kStepKeys = 32;        ///< of a workgroup that computes scores
constexpr int kStepColumns = 16;     ///< of one that computes results, at least
constexpr int kValuesAtOnce = 4096;  ///< elements in shared memory: 4 vectors of 4 for each thread
constexpr int kHeadsAtOnce = kLaneTeams;

class MaskedAttention {
 public:
  MaskedAttention(const AttentionKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        sizes_(kernel.sizes),
        limits_(limits),
        parts_(limits),
        repeats_(static_cast<int>(sizes_.heads / sizes_.key_heads)),
        width_(static_cast<int>(sizes_.width)),
        passes_(static_cast<int>(over(repeats_, kHeadsAtOnce))) {}

  Rendered render() {
    scores_ = parts_.reserve(sizes_.batches * sizes_.heads * sizes_.keys, DType::f32);
    const AttentionRows keys = attention_rows(kernel_.key, parts_);
    const AttentionRows values = attention_rows(kernel_.value, parts_);
    launches_.push_back(scores(keys));
    launches_.push_back(results(values));
    Rendered rendered = parts_.take();
    for (Launch& launch : launches_) rendered.launches.push_back(std::move(launch));
    return rendered;
  }

 private:
  /// What a unit reads of the rows: its part's first `count`, `bytes` of each; parts are `step` elements apart.
  struct Near {
    int count, bytes;
    std::int64_t step;
  };
  // The cache is far away, and but for one row nobody has written to it: it comes nearer while the launch before runs.
  void ask_for(Lines& lines, Words& words, const AttentionRows& rows, const Near& near) const {
    constexpr int kLine = 128;
    const auto of_row = static_cast<int>(over(near.bytes, kLine));
    lines.open("for (int e = thread_id; e < {}; e += {}) {{", near.count * of_row, kStepThreads);
    lines.add("LONG row = base + LONG(part) * {} + LONG(e / {} * key_stride);", words.int64(near.step), of_row);
    lines.add("ASK_FOR({} + ULONG(row * {}) + ULONG(e % {} * {}))",
              words.asked_memory(Patch::Kind::address, rows.input->slot), size_of(rows.input->dtype), of_row, kLine);
    lines.close();
  }

  /// Opens the loop over units, `parts` for each head of the keys. Declares `heads`, which counts these over all
  /// batches, `batch`, `head` and `part`, and what of the rows is the same for all of a unit: `base`.
  void open_units(Lines& lines, Words& words, std::int64_t parts, const AttentionRows& rows, const Near& near) const {
    const std::int64_t units = this->units(parts);
    lines.add("int thread_id = int(THREAD);");
    lines.open("for (int unit = int(GROUP); unit < {}; unit += int(GROUPS)) {{", words.int32(units));
    lines.add("int heads = {};", quotient(words, "unit", parts, false));
    lines.add("int part = unit - heads * {};", words.int32(parts));
    lines.add("int batch = {};", quotient(words, "heads", sizes_.key_heads, false));
    lines.add("int head = heads - batch * {};", words.int32(sizes_.key_heads));
    lines.add("LONG base = {} + LONG(batch) * {} + LONG(head) * {};", words.int64(rows.offset),
              words.int64(rows.strides[0]), words.int64(rows.strides[1]));
    lines.add("int key_stride = {};", words.int32(rows.strides[2]));
    lines.add("int keys = {};", words.int32(sizes_.keys));
    const bool is_early = units <= std::int64_t{2} * limits_.units;
    if (limits_.copies_to_shared && rows.copy < 0 && is_early) ask_for(lines, words, rows, near);
    lines.add("AFTER_EARLIER()");
    declare_zero(lines, words, ComputeType::f32);
  }
  std::int64_t units(std::int64_t parts) const { return sizes_.batches * sizes_.key_heads * parts; }

  /// Reads `count` vectors of each thread into `loaded`, of rows of `vectors` of them, the first at `first`.
  static void load_rows(Lines& lines, int count, int vectors, DType dtype, const char* memory,
                        const std::string& first) {
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", count);
    lines.add("int e = thread_id + j * {};", kStepThreads);
    lines.add("UINT four[4];");
    lines.add("{3}({0}, base + LONG(({1} + e / {2}) * key_stride + e % {2} * 4), four)", memory, first, vectors,
              load4_of(dtype));
    lines.add("UNROLL");
    lines.add("for (int i = 0; i < 4; i++) loaded[j * 4 + i] = four[i];");
    lines.close();
  }
  /// And stores them to `shared`, rows `stride` apart.
  static void keep_rows(Lines& lines, int count, int vectors, const char* shared, int stride, const Input& rows) {
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", count);
    lines.add("int e = thread_id + j * {};", kStepThreads);
    lines.add("float four[4];");
    lines.add("UNROLL");
    lines.add("for (int i = 0; i < 4; i++) four[i] = {};", decoded(rows.dtype, "loaded[j * 4 + i]", rows.canonical));
    lines.add("WRITE4({0}, e / {1} * {2} + e % {1} * 4, four, 0)", shared, vectors, stride);
    lines.close();
  }

  // Where the scores of head h of a unit begin.
  std::string scores_of(const std::string& h) const { return fmt::format("(heads * {} + {}) * keys", repeats_, h); }

  Launch scores(const AttentionRows& keys) const;
  Launch results(const AttentionRows& values) const;
  void weigh(Lines& lines, int stage) const;
  int columns() const;
  Launch finished(Lines& lines, const Words& words, std::int64_t units) const {
    Launch launch;
    launch.text.body = lines.take();
    launch.text.threads = kStepThreads;
    launch.groups = limits_.groups_for(units);
    words.move_to(launch);
    return launch;
  }

  const AttentionKernel& kernel_;
  const AttentionSizes& sizes_;
  const RenderLimits& limits_;
  FastParts parts_;
  int repeats_, width_;
  int passes_;  ///< over the heads of a unit, kHeadsAtOnce at a time
  std::int64_t scores_ = 0;
  std::vector<Launch> launches_;
};

// A thread follows the chain of one score; keys have come to shared memory by then.
Launch MaskedAttention::scores(const AttentionRows& keys) const {
  const int vectors = width_ / 4;
  const int count = kStepKeys * vectors / kStepThreads;
  const int stride = width_ + 4;  // neighbours' vectors are in different banks
  const std::int64_t parts = sizes_.keys / kStepKeys;
  Words words;
  Lines lines;
  open_units(lines, words, parts, keys,
             {kStepKeys, width_ * static_cast<int>(size_of(keys.input->dtype)), kStepKeys * keys.strides[2]});
  lines.add("MEMORY query_at = {};", words.memory(Patch::Kind::address, kernel_.query.slot));
  lines.add("MEMORY key_at = {};", keys.memory(words));
  lines.add("MEMORY mask_at = {};", words.memory(Patch::Kind::address, kernel_.mask.slot));
  lines.add("MEMORY scores_at = {};", words.memory(Patch::Kind::scratch, 0, scores_));
  lines.add("int first = part * {};", kStepKeys);
  lines.add("UINT loaded[{}];", 4 * count);
  load_rows(lines, count, vectors, keys.input->dtype, "key_at", "first");
  const View& query = kernel_.query.view;
  const View& mask = kernel_.mask.view;
  lines.add("LONG of_query = {} + LONG(batch) * {} + LONG(head) * {};", words.int64(query.offset),
            words.int64(query.strides[0]), words.int64(query.strides[1] * repeats_));
  lines.add("int h = thread_id / {};", kStepKeys);
  lines.add("int key = first + (thread_id & {});", kStepKeys - 1);
  lines.add("UINT seen = 0u;");
  lines.open("if (h < {}) {{", repeats_);
  lines.add("seen = LOAD_U8(mask_at, {} + LONG(batch) * {} + LONG(head * {} + h) * {} + LONG(key) * {});",
            words.int64(mask.offset), words.int64(mask.strides[0]), repeats_, words.int64(mask.strides[1]),
            words.int64(mask.strides[3]));
  lines.close();
  lines.add("BARRIER();");
  lines.add("UNROLL_BY(4)");
  lines.open("for (int e = thread_id; e < {}; e += {}) {{", repeats_ * width_, kStepThreads);
  lines.add("UINT word = {3}(query_at, of_query + LONG(e / {0}) * {1} + LONG(e % {0}) * {2});", width_,
            words.int64(query.strides[1]), words.int64(query.strides[3]), load_of(kernel_.query.dtype));
  lines.add("queries[e] = {};", decoded(kernel_.query.dtype, "word", kernel_.query.canonical));
  lines.close();
  keep_rows(lines, count, vectors, "held_keys", stride, *keys.input);
  lines.add("BARRIER();");
  lines.open("if (h < {}) {{", repeats_);
  lines.add("float sum = zero;");
  lines.add("UNROLL_BY(8)");
  lines.open("for (int k = 0; k < {}; k += 4) {{", width_);
  lines.add("float a[4];");
  lines.add("float b[4];");
  lines.add("READ4(queries, h * {} + k, a, 0)", width_);
  lines.add("READ4(held_keys, (thread_id & {}) * {} + k, b, 0)", kStepKeys - 1, stride);
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < 4; i++) sum = FMA_EXACT(a[i], b[i], sum);");
  lines.close();
  lines.add("FLOAT product = CANONICAL_F32(sum);");
  lines.add("FLOAT scaled = product * FROM_BITS(UINT({}));", words.scalar(kernel_.scale));
  lines.add("UINT word = BITS(CANONICAL_F32(scaled));");
  lines.add("STORE_U32(scores_at, {} + key, SELECT(seen != 0u, word, 0xff800000u));", scores_of("h"));
  lines.close();
  lines.close();
  Launch launch = finished(lines, words, units(parts));
  launch.text.shared = {{ComputeType::f32, "held_keys", kStepKeys * stride},
                        {ComputeType::f32, "queries", repeats_ * width_}};
  return launch;
}

// The weights of the keys from `at` on, to shared memory. Those of the first block are in registers but for the
// division.
void MaskedAttention::weigh(Lines& lines, int stage) const {
  lines.add("UNROLL");
  lines.open("for (int t = 0; t < {}; t++) {{", passes_);
  lines.add("int h = t * {} + thread_id / {};", kHeadsAtOnce, order::kLanes);
  if (repeats_ % kHeadsAtOnce != 0) lines.open("if (h < {}) {{", repeats_);
  lines.add("UNROLL");
  lines.open("for (int j = 0; j < {}; j++) {{", stage / order::kLanes);
  lines.add("int k = j * {} + lane;", order::kLanes);
  lines.add("float exponential = exponentials[t * {} + j];", kBlock / order::kLanes);
  lines.add("if (at != 0) exponential = exponential_of(FROM_BITS(LOAD_U32(scores_at, {} + at + k)), largest[t]);",
            scores_of("h"));
  lines.add("FLOAT weight = DIV(exponential, total[t]);");
  lines.add("weights[h * {} + k] = CANONICAL_F32(weight);", stage + 4);
  lines.close();
  if (repeats_ % kHeadsAtOnce != 0) lines.close();
  lines.close();
}

// Few where workgroups are few. A thread follows the chain of one result.
int MaskedAttention::columns() const {
  int columns = kStepColumns;
  const auto fits = [&](int more) { return width_ % more == 0 && repeats_ * more <= kStepThreads; };
  while (fits(2 * columns) && columns < order::kLanes && units(width_ / columns) > std::int64_t{2} * limits_.units) {
    columns *= 2;
  }
  return columns;
}

Launch MaskedAttention::results(const AttentionRows& values) const {
  const int columns = this->columns();
  const int stage = kValuesAtOnce / columns;  // keys whose values are in shared memory
  const int vectors = columns / 4;
  const int count = kValuesAtOnce / 4 / kStepThreads;
  constexpr int kFirst = kBlock / order::kLanes;  // of a block's scores a lane has
  static_assert(kValuesAtOnce / kStepColumns <= kBlock);
  Words words;
  Lines lines;
  open_units(lines, words, width_ / columns, values,
             {stage, columns * static_cast<int>(size_of(values.input->dtype)), columns});
  lines.add("MEMORY value_at = {};", values.memory(words));
  lines.add("MEMORY scores_at = {};", words.memory(Patch::Kind::scratch, 0, scores_));
  lines.add("MEMORY out_at = {};", words.memory(Patch::Kind::address, kernel_.out));
  lines.add("base += LONG(part * {});", columns);
  lines.add("UINT loaded[{}];", 4 * count);
  load_rows(lines, count, vectors, values.input->dtype, "value_at", "0");
  lines.add("int lane = thread_id & {};", order::kLanes - 1);
  // The largest score of each head, 0 where that is not finite.
  lines.add("float exponentials[{}];", passes_ * kFirst);
  lines.add("float largest[{}];", passes_);
  lines.add("float total[{}];", passes_);
  lines.add("UNROLL");
  lines.open("for (int t = 0; t < {}; t++) {{", passes_);
  lines.add("int h = t * {} + thread_id / {};", kHeadsAtOnce, order::kLanes);
  if (repeats_ % kHeadsAtOnce != 0) lines.add("h = SELECT(h < {0}, h, {0} - 1);", repeats_);
  lines.add("int from = {} + lane;", scores_of("h"));
  lines.add("UNROLL");
  lines.add("for (int j = 0; j < {0}; j++) exponentials[t * {0} + j] = FROM_BITS(LOAD_U32(scores_at, from + j * {1}));",
            kFirst, order::kLanes);
  lines.add("largest[t] = exponentials[t * {}];", kFirst);
  lines.add("UNROLL");
  lines.add("for (int j = 1; j < {0}; j++) largest[t] = LARGER(largest[t], exponentials[t * {0} + j]);", kFirst);
  lines.add("UNROLL_BY(4)");
  lines.add(
      "for (int k = {}; k < keys; k += {}) largest[t] = LARGER(largest[t], FROM_BITS(LOAD_U32(scores_at, from + "
      "k)));",
      kBlock, order::kLanes);
  lines.close();
  join_lanes(lines, passes_, "largest", "LARGER");
  // The sums of exponentials.
  lines.add("UNROLL");
  lines.open("for (int t = 0; t < {}; t++) {{", passes_);
  lines.add("if ((BITS(largest[t]) & 0x7f800000u) == 0x7f800000u) largest[t] = zero;");
  lines.add("UNROLL");
  lines.add(
      "for (int j = 0; j < {0}; j++) exponentials[t * {0} + j] = exponential_of(exponentials[t * {0} + j], "
      "largest[t]);",
      kFirst);
  lines.add("total[t] = exponentials[t * {}];", kFirst);
  lines.add("UNROLL");
  lines.add("for (int j = 1; j < {0}; j++) total[t] = ADD_EXACT(total[t], exponentials[t * {0} + j]);", kFirst);
  lines.add("int h = t * {} + thread_id / {};", kHeadsAtOnce, order::kLanes);
  if (repeats_ % kHeadsAtOnce != 0) lines.add("h = SELECT(h < {0}, h, {0} - 1);", repeats_);
  lines.add("UNROLL_BY(4)");
  lines.open("for (int k = {}; k < keys; k += {}) {{", kBlock, order::kLanes);
  lines.add("float score = FROM_BITS(LOAD_U32(scores_at, {} + lane + k));", scores_of("h"));
  lines.add("total[t] = ADD_EXACT(total[t], exponential_of(score, largest[t]));");
  lines.close();
  lines.close();
  join_lanes(lines, passes_, "total", "ADD_EXACT");
  lines.add("UNROLL");
  lines.open("for (int t = 0; t < {}; t++) {{", passes_);
  lines.add("total[t] = CANONICAL_F32(total[t]);");
  lines.add("if (total[t] == 0.0f) total[t] = 1.0f;");
  lines.close();
  // The product with the values.
  lines.add("int own = thread_id / {};", columns);
  lines.add("int column = thread_id & {};", columns - 1);
  lines.add("float result = zero;");
  lines.add("float sum = zero;");
  lines.open("for (int at = 0; at < keys; at += {}) {{", stage);
  weigh(lines, stage);
  keep_rows(lines, count, vectors, "held_values", columns, *values.input);
  lines.add("BARRIER();");
  lines.open("if (at + {} < keys) {{", stage);
  load_rows(lines, count, vectors, values.input->dtype, "value_at", fmt::format("at + {}", stage));
  lines.close();
  lines.open("if (own < {}) {{", repeats_);
  lines.add("UNROLL_BY(16)");
  lines.open("for (int k = 0; k < {}; k += 4) {{", stage);
  lines.add("float a[4];");
  lines.add("READ4(weights, own * {} + k, a, 0)", stage + 4);
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < 4; i++) sum = FMA_EXACT(a[i], held_values[(k + i) * {} + column], sum);", columns);
  lines.close();
  lines.close();
  lines.open("if (((at + {}) & {}) == 0) {{", stage, kBlock - 1);
  lines.add("result = SELECT(at < {}, sum, ADD_EXACT(result, sum));", kBlock);
  lines.add("sum = zero;");
  lines.close();
  lines.add("BARRIER();");
  lines.close();
  lines.open("if (own < {}) {{", repeats_);
  lines.add("FLOAT stored = CANONICAL_F32(result);");
  lines.add("stored = stored + zero;");
  lines.add("stored = CANONICAL_F32(stored);");
  lines.add("STORE_{}(out_at, (heads * {} + own) * {} + part * {} + column, {});",
            size_of(kernel_.query.dtype) == 2 ? "U16" : "U32", repeats_, width_, columns,
            encoded(kernel_.query.dtype, "stored", ComputeType::f32));
  lines.close();
  lines.close();
  Launch launch = finished(lines, words, units(width_ / columns));
  launch.text.functions = kExponentialText;
  launch.text.shared = {{ComputeType::f32, "held_values", kValuesAtOnce},
                        {ComputeType::f32, "weights", repeats_ * (stage + 4)}};
  add_lanes(launch.text, passes_);
  return launch;
}

}  // namespace

AttentionRows attention_rows(const Input& input, FastParts& parts) {
  const View& view = input.view;
  AttentionRows rows{&input, -1, view.offset, view.strides};
  bool lies = view.bounds.empty() && view.strides[3] == 1 && view.offset % 4 == 0;
  for (int d = 0; d < 3; ++d) lies = lies && view.strides[d] % 4 == 0;
  const std::int64_t farthest = view.shape[2] * std::abs(view.strides[2]);  // within a head, places are int
  if (lies && farthest < std::int64_t{1} << 31) return rows;
  rows.strides = View::contiguous(view.shape).strides;
  rows.offset = 0;
  rows.copy = parts.reserve(view.shape.numel(), input.dtype);
  const auto size = static_cast<std::int64_t>(size_of(input.dtype));
  parts.append_copy(input, view, rows.strides, rows.copy / size, input.dtype);
  return rows;
}

Rendered render_masked_attention(const AttentionKernel& kernel, const RenderLimits& limits) {
  const AttentionSizes& sizes = kernel.sizes;
  LOCKSTEP_ASSERT(kernel.masked && sizes.rows == 1 && sizes.keys % kBlock == 0 && sizes.keys <= order::kChunk);
  LOCKSTEP_ASSERT(sizes.width % kStepKeys == 0 && sizes.width <= 128 && sizes.heads / sizes.key_heads <= 8);
  if (limits.threads < kStepThreads) throw BackendError("attention of a step needs workgroups of 256 threads");
  if (std::optional<Rendered> many = render_many_attention(kernel, limits)) return std::move(*many);
  return MaskedAttention(kernel, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
