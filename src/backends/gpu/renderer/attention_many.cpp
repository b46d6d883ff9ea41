// Exact attention of one row with a mask, of many texts or heads at once (docs/numerics.md section 6): a workgroup does
// all of the heads that share keys, so that scores stay with it. It reads no keys behind the last one that a row sees,
// and no values there if those are known to be finite: the memory of texts has room for more tokens than there are.
#include <algorithm>

#include "backends/gpu/renderer/attention_lanes.h"
#include "backends/gpu/renderer/attention_rows.h"
#include "backends/gpu/renderer/kinds.h"
#include "backends/gpu/renderer/rounded_rows.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kStageKeys = 64;                ///< that are in shared memory
constexpr std::int64_t kMostShared = 100000;  ///< bytes of a workgroup: two of them have to fit a unit

class ManyAttention {
 public:
  ManyAttention(const AttentionKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        sizes_(kernel.sizes),
        limits_(limits),
        parts_(limits),
        repeats_(static_cast<int>(sizes_.heads / sizes_.key_heads)),
        width_(static_cast<int>(sizes_.width)),
        stride_(width_ + 4),
        scores_stride_(static_cast<int>(sizes_.keys)),
        passes_(static_cast<int>(over(repeats_, kLaneTeams))),
        results_(static_cast<int>(over(repeats_ * width_, kLaneThreads))) {}

  bool has_form() const {
    KernelText text;
    text.shared = shared();
    add_lanes(text, passes_);
    const std::int64_t bytes = static_cast<std::int64_t>(shared_bytes_of(text));
    return units() >= std::int64_t{2} * limits_.units && bytes <= kMostShared &&
           bytes <= static_cast<std::int64_t>(limits_.shared_bytes);
  }
  Rendered render() {
    const AttentionRows keys = attention_rows(kernel_.key, parts_);
    const AttentionRows values = attention_rows(kernel_.value, parts_);
    Launch all = attend(keys, values);
    Rendered rendered = parts_.take();
    rendered.launches.push_back(std::move(all));
    return rendered;
  }

 private:
  std::int64_t units() const { return sizes_.batches * sizes_.key_heads; }
  std::vector<SharedArray> shared() const {
    return {{ComputeType::f32, "held", kStageKeys * stride_},
            {ComputeType::f32, "queries", repeats_ * width_},
            {ComputeType::f32, "scores", repeats_ * scores_stride_}};
  }
  int vectors() const { return width_ / 4; }
  /// Whether results are made as RoundedRows: those of a workgroup are whole pieces.
  bool rounds() const {
    const RoundedRows& rows = limits_.makes;
    return rows.tile_rows != 0 && kernel_.query.dtype == DType::f32 && rows.rows == sizes_.batches &&
           rows.length == sizes_.heads * width_ && repeats_ * width_ % kBlock == 0;
  }
  int loads() const { return kStageKeys * vectors() / kLaneThreads; }  ///< vectors of a thread

  void find_seen(Lines& lines, Words& words) const;
  void read_queries(Lines& lines, Words& words) const;
  void load_stage(Lines& lines, Words& words, const AttentionRows& rows, const char* which,
                  const std::string& first) const;
  void keep_stage(Lines& lines, const Input& rows) const;
  void score(Lines& lines, Words& words, const AttentionRows& keys, const AttentionRows& values) const;
  void weigh(Lines& lines) const;
  void add_values(Lines& lines, Words& words, const AttentionRows& values) const;
  Launch attend(const AttentionRows& keys, const AttentionRows& values) const;

  template <typename Body> void each_head(Lines& lines, const Body& body) const {
    lines.add("UNROLL");
    lines.open("for (int t = 0; t < {}; t++) {{", passes_);
    lines.add("int h = t * {} + thread_id / {};", kLaneTeams, order::kLanes);
    if (repeats_ % kLaneTeams != 0) lines.add("h = SELECT(h < {0}, h, {0} - 1);", repeats_);
    body();
    lines.close();
  }

  const AttentionKernel& kernel_;
  const AttentionSizes& sizes_;
  const RenderLimits& limits_;
  FastParts parts_;
  int repeats_, width_, stride_, scores_stride_;
  int passes_;   ///< over the heads, a team each
  int results_;  ///< of a thread
};

// seen_end: behind the last key that one of the heads sees; read_end: behind the last whose value is read.
void ManyAttention::find_seen(Lines& lines, Words& words) const {
  const View& mask = kernel_.mask.view;
  const bool is_shared = mask.strides[1] == 0;
  lines.add("LONG of_mask = {} + LONG(batch) * {} + LONG(head * {}) * {};", words.int64(mask.offset),
            words.int64(mask.strides[0]), repeats_, words.int64(mask.strides[1]));
  lines.add("float last[1];");
  lines.add("last[0] = zero;");
  lines.add("UNROLL_BY(4)");
  lines.open("for (int key = thread_id & {}; key < keys; key += {}) {{", order::kLanes - 1, order::kLanes);
  lines.add("UINT seen = 0u;");
  lines.add("UNROLL");
  lines.add("for (int h = 0; h < {}; h++) seen |= LOAD_U8(mask_at, of_mask + LONG(h) * {} + LONG(key) * {});",
            is_shared ? 1 : repeats_, words.int64(mask.strides[1]), words.int64(mask.strides[3]));
  lines.add("last[0] = SELECT(seen != 0u, float(key + 1), last[0]);");
  lines.close();
  join_lanes(lines, 1, "last", "LARGER");
  lines.add("int seen_end = int(last[0]);");
  if (kernel_.finite_padding) {
    lines.add("int read_end = seen_end + 3 & -4;");
  } else {
    lines.add("int read_end = keys;");
  }
}

void ManyAttention::read_queries(Lines& lines, Words& words) const {
  const View& query = kernel_.query.view;
  lines.add("LONG of_query = {} + LONG(batch) * {} + LONG(head) * {};", words.int64(query.offset),
            words.int64(query.strides[0]), words.int64(query.strides[1] * repeats_));
  lines.add("UNROLL_BY(4)");
  lines.open("for (int e = thread_id; e < {}; e += {}) {{", repeats_ * width_, kLaneThreads);
  lines.add("UINT word = {3}(query_at, of_query + LONG(e / {0}) * {1} + LONG(e % {0}) * {2});", width_,
            words.int64(query.strides[1]), words.int64(query.strides[3]), load_of(kernel_.query.dtype));
  lines.add("queries[e] = {};", decoded(kernel_.query.dtype, "word", kernel_.query.canonical));
  lines.close();
}

// Rows that nobody needs are read as the first one.
void ManyAttention::load_stage(Lines& lines, Words& words, const AttentionRows& rows, const char* which,
                               const std::string& first) const {
  lines.add("UNROLL");
  lines.open("for (int j = 0; j < {}; j++) {{", loads());
  lines.add("int e = thread_id + j * {};", kLaneThreads);
  lines.add("int row = {} + e / {};", first, vectors());
  lines.add("row = SELECT(row < {}_end, row, 0);", which[0] == 'k' ? "seen" : "read");
  lines.add("UINT four[4];");
  lines.add("{}({}_at, {}_base + LONG(row * {}) + LONG(e % {} * 4), four)", load4_of(rows.input->dtype), which, which,
            words.int32(rows.strides[2]), vectors());
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < 4; i++) loaded[j * 4 + i] = four[i];");
  lines.close();
}
void ManyAttention::keep_stage(Lines& lines, const Input& rows) const {
  lines.add("UNROLL");
  lines.open("for (int j = 0; j < {}; j++) {{", loads());
  lines.add("int e = thread_id + j * {};", kLaneThreads);
  lines.add("float four[4];");
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < 4; i++) four[i] = {};", decoded(rows.dtype, "loaded[j * 4 + i]", rows.canonical));
  lines.add("WRITE4(held, e / {0} * {1} + e % {0} * 4, four, 0)", vectors(), stride_);
  lines.close();
}

// A thread follows the chain of one score. The first values are on their way while the last keys are multiplied.
void ManyAttention::score(Lines& lines, Words& words, const AttentionRows& keys, const AttentionRows& values) const {
  const View& mask = kernel_.mask.view;
  load_stage(lines, words, keys, "key", "0");
  lines.open("for (int at = 0; at < seen_end; at += {}) {{", kStageKeys);
  keep_stage(lines, *keys.input);
  lines.add("BARRIER();");
  lines.open("if (at + {} < seen_end) {{", kStageKeys);
  load_stage(lines, words, keys, "key", fmt::format("at + {}", kStageKeys));
  lines.close();
  lines.open("else {{");
  load_stage(lines, words, values, "value", "0");
  lines.close();
  lines.open("for (int p = thread_id; p < {}; p += {}) {{", repeats_ * kStageKeys, kLaneThreads);
  lines.add("int h = p / {};", kStageKeys);
  lines.add("int key = p & {};", kStageKeys - 1);
  lines.add("UINT seen = LOAD_U8(mask_at, of_mask + LONG(h) * {} + LONG(at + key) * {});", words.int64(mask.strides[1]),
            words.int64(mask.strides[3]));
  lines.add("float sum = zero;");
  lines.add("UNROLL_BY(8)");
  lines.open("for (int k = 0; k < {}; k += 4) {{", width_);
  lines.add("float a[4];");
  lines.add("float b[4];");
  lines.add("READ4(queries, h * {} + k, a, 0)", width_);
  lines.add("READ4(held, key * {} + k, b, 0)", stride_);
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < 4; i++) sum = FMA_EXACT(a[i], b[i], sum);");
  lines.close();
  lines.add("FLOAT product = CANONICAL_F32(sum);");
  lines.add("FLOAT scaled = product * FROM_BITS(UINT({}));", words.scalar(kernel_.scale));
  lines.add("scores[h * {} + at + key] = SELECT(seen != 0u, CANONICAL_F32(scaled), FROM_BITS(0xff800000u));",
            scores_stride_);
  lines.close();
  lines.add("BARRIER();");
  lines.close();
  lines.add("int scored_end = seen_end + {} & {};", kStageKeys - 1, -kStageKeys);
  if (!kernel_.finite_padding) {
    // Behind, weights are zeros, which meet values that may be anything.
    lines.open("if (seen_end == 0) {{");
    load_stage(lines, words, values, "value", "0");
    lines.close();
    lines.open("for (int key = scored_end + thread_id; key < keys; key += {}) {{", kLaneThreads);
    lines.add("UNROLL");
    lines.add("for (int h = 0; h < {}; h++) scores[h * {} + key] = FROM_BITS(0xff800000u);", repeats_, scores_stride_);
    lines.close();
    lines.add("scored_end = keys;");
    lines.add("BARRIER();");
  }
}

// Scores become weights, in place. A thread has the elements of a lane of a head's sums.
void ManyAttention::weigh(Lines& lines) const {
  lines.add("int lane = thread_id & {};", order::kLanes - 1);
  lines.add("float largest[{}];", passes_);
  lines.add("float total[{}];", passes_);
  const auto each_key = [&](const char* body) {
    lines.add("for (int k = lane; k < scored_end; k += {}) {}", order::kLanes, body);
  };
  each_head(lines, [&] {
    lines.add("largest[t] = FROM_BITS(0xff800000u);");
    each_key(fmt::format("largest[t] = LARGER(largest[t], scores[h * {} + k]);", scores_stride_).c_str());
  });
  join_lanes(lines, passes_, "largest", "LARGER");
  each_head(lines, [&] {
    lines.add("if ((BITS(largest[t]) & 0x7f800000u) == 0x7f800000u) largest[t] = zero;");
    lines.add("total[t] = zero;");
    lines.open("for (int k = lane; k < scored_end; k += {}) {{", order::kLanes);
    lines.add("total[t] = ADD_EXACT(total[t], exponential_of(scores[h * {} + k], largest[t]));", scores_stride_);
    lines.close();
  });
  join_lanes(lines, passes_, "total", "ADD_EXACT");
  each_head(lines, [&] {
    lines.add("total[t] = CANONICAL_F32(total[t]);");
    lines.add("if (total[t] == 0.0f) total[t] = 1.0f;");
    if (repeats_ % kLaneTeams != 0)
      lines.open("if (t * {} + thread_id / {} < {}) {{", kLaneTeams, order::kLanes, repeats_);
    lines.open("for (int k = lane; k < scored_end; k += {}) {{", order::kLanes);
    lines.add("FLOAT weight = DIV(exponential_of(scores[h * {} + k], largest[t]), total[t]);", scores_stride_);
    lines.add("scores[h * {} + k] = CANONICAL_F32(weight);", scores_stride_);
    lines.close();
    if (repeats_ % kLaneTeams != 0) lines.close();
  });
}

// A thread follows the chains of some results.
void ManyAttention::add_values(Lines& lines, Words& words, const AttentionRows& values) const {
  lines.add("float result[{}];", results_);
  lines.add("float sum[{}];", results_);
  lines.add("UNROLL");
  lines.add("for (int r = 0; r < {0}; r++) {{ result[r] = zero; sum[r] = zero; }}", results_);
  const auto each_result = [&] {
    lines.add("UNROLL");
    lines.open("for (int r = 0; r < {}; r++) {{", results_);
    lines.add("int of = thread_id + r * {};", kLaneThreads);
    if (repeats_ * width_ % kLaneThreads != 0) lines.add("of = SELECT(of < {0}, of, {0} - 1);", repeats_ * width_);
    lines.add("int h = of / {};", width_);
    lines.add("int column = of % {};", width_);
  };
  lines.open("for (int at = 0; at < read_end; at += {}) {{", kStageKeys);
  keep_stage(lines, *values.input);
  lines.add("BARRIER();");
  lines.open("if (at + {} < read_end) {{", kStageKeys);
  load_stage(lines, words, values, "value", fmt::format("at + {}", kStageKeys));
  lines.close();
  lines.add("int stop = SELECT(read_end - at < {0}, read_end - at, {0});", kStageKeys);
  lines.add("UNROLL_BY(4)");
  lines.open("for (int k = 0; k < stop; k += 4) {{");
  each_result();
  lines.add("float a[4];");
  lines.add("READ4(scores, h * {} + at + k, a, 0)", scores_stride_);
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < 4; i++) sum[r] = FMA_EXACT(a[i], held[(k + i) * {} + column], sum[r]);", stride_);
  lines.close();
  lines.close();
  lines.open("if ((at + {0} & {1}) == 0 || at + {0} >= read_end) {{", kStageKeys, kBlock - 1);
  lines.add("UNROLL");
  lines.open("for (int r = 0; r < {}; r++) {{", results_);
  lines.add("result[r] = SELECT(at < {}, sum[r], ADD_EXACT(result[r], sum[r]));", kBlock);
  lines.add("sum[r] = zero;");
  lines.close();
  lines.close();
  lines.add("BARRIER();");
  lines.close();
  each_result();
  lines.add("FLOAT stored = CANONICAL_F32(result[r]);");
  lines.add("stored = stored + zero;");
  lines.add("stored = CANONICAL_F32(stored);");
  if (rounds()) {
    lines.add("if (thread_id + r * {} < {}) queries[of] = stored;", kLaneThreads, repeats_ * width_);
    lines.close();
    constexpr int kNeighbours = 8;
    lines.add("BARRIER();");
    lines.open("for (int e = thread_id; e < {}; e += {}) {{", repeats_ * width_ / kNeighbours, kLaneThreads);
    lines.add("float x[8];");
    lines.add("READ4(queries, e * 8, x, 0)");
    lines.add("READ4(queries, e * 8 + 4, x, 4)");
    lines.add("round_neighbours(rounded, row_tiles, batch, head * {} + e / 4, x);",
              repeats_ * width_ / order::kQ8Block);
    lines.close();
    return;
  }
  const bool is_short = size_of(kernel_.query.dtype) == 2;
  lines.add("if (thread_id + r * {} < {}) {{ STORE_{}(out_at, (unit * {} + h) * {} + column, {}); }}", kLaneThreads,
            repeats_ * width_, is_short ? "U16" : "U32", repeats_, width_,
            encoded(kernel_.query.dtype, "stored", ComputeType::f32));
  lines.close();
}

Launch ManyAttention::attend(const AttentionRows& keys, const AttentionRows& values) const {
  Words words;
  Lines lines;
  lines.add("MEMORY query_at = {};", words.memory(Patch::Kind::address, kernel_.query.slot));
  lines.add("MEMORY mask_at = {};", words.memory(Patch::Kind::address, kernel_.mask.slot));
  lines.add("MEMORY key_at = {};", keys.memory(words));
  lines.add("MEMORY value_at = {};", values.memory(words));
  lines.add("MEMORY out_at = {};", words.memory(Patch::Kind::address, kernel_.out));
  lines.add("int thread_id = int(THREAD);");
  lines.add("int keys = {};", words.int32(sizes_.keys));
  if (rounds()) start_rounding(lines, words, limits_.makes, 1, kLaneThreads);
  declare_zero(lines, words, ComputeType::f32);
  lines.open("for (int unit = int(GROUP); unit < {}; unit += int(GROUPS)) {{", words.int32(units()));
  lines.add("int batch = {};", quotient(words, "unit", sizes_.key_heads, false));
  lines.add("int head = unit - batch * {};", words.int32(sizes_.key_heads));
  for (const auto& [name, rows] : {std::pair{"key", &keys}, std::pair{"value", &values}}) {
    lines.add("LONG {}_base = {} + LONG(batch) * {} + LONG(head) * {};", name, words.int64(rows->offset),
              words.int64(rows->strides[0]), words.int64(rows->strides[1]));
  }
  lines.add("UINT loaded[{}];", 4 * loads());
  find_seen(lines, words);
  read_queries(lines, words);
  score(lines, words, keys, values);
  weigh(lines);
  lines.add("BARRIER();");
  add_values(lines, words, values);
  lines.close();
  Launch launch;
  launch.text.body = lines.take();
  launch.text.functions = kExponentialText;
  if (rounds()) {
    launch.text.functions += rounding_text(limits_.makes, 8);
    launch.text.copies = true;
    launch.rounds = true;
  }
  launch.text.threads = kLaneThreads;
  launch.text.shared = shared();
  add_lanes(launch.text, passes_);
  // Registers of so wide rows do for one workgroup of a unit, without a bound; those of narrower ones do for three.
  constexpr int kNarrow = 64;
  if (width_ > kNarrow && passes_ == 1) launch.text.groups_per_unit = 2;
  launch.groups = limits_.groups_for(units());
  words.move_to(launch);
  return launch;
}

}  // namespace

std::optional<Rendered> render_many_attention(const AttentionKernel& kernel, const RenderLimits& limits) {
  LOCKSTEP_ASSERT(kernel.masked && kernel.sizes.rows == 1 && kernel.sizes.keys % kBlock == 0);
  if (limits.threads < kLaneThreads) return std::nullopt;
  ManyAttention many(kernel, limits);
  if (!many.has_form()) return std::nullopt;
  return many.render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
