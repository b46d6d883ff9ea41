// Exact attention of a prompt (docs/numerics.md section 6) as one launch, where there are tiles of 128 rows enough: a
// workgroup has the rows of one and all keys that they see. Its scores pass through scratch memory, [key][row], so that
// rows are neighbours wherever they are read: a thread has a row of softmax, or half of its lanes, and tiles for the
// second product are copied as they lie. Softmax of one workgroup and products of another one share a unit.
#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/gpu/renderer/attention_rows.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

class CausalTiles {
 public:
  CausalTiles(const AttentionKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        sizes_(kernel.sizes),
        limits_(limits),
        parts_(limits),
        width_(static_cast<int>(sizes_.width)),
        tiles_(over(sizes_.rows, kRows)),
        units_(tiles_ * sizes_.batches * sizes_.heads),
        groups_(std::min<std::int64_t>(units_, std::int64_t{kGroupsPerUnit} * limits.units)),
        bytes_(aligned(sizes_.keys, kKeys) * kRows * 4) {}

  bool has_form() const {
    KernelText text;
    text.shared = shared();
    return limits_.copies_to_shared && !is_guarded(ComputeType::f32, limits_) && limits_.threads >= kThreads &&
           (width_ == 64 || width_ == 128) && units_ >= limits_.units && groups_ <= limits_.groups &&
           groups_ * bytes_ <= kMostScratch && units_ < std::int64_t{1} << 30 &&
           kGroupsPerUnit * (shared_bytes_of(text) + kOwn) <= limits_.shared_bytes + kOwn;
  }

  Rendered render() {
    const std::int64_t scores = parts_.reserve(groups_ * bytes_ / 4, DType::f32);
    const AttentionRows queries = attention_rows(kernel_.query, parts_);
    const AttentionRows keys = attention_rows(kernel_.key, parts_);
    const AttentionRows values = attention_rows(kernel_.value, parts_);
    Launch all = attend(scores, queries, keys, values);
    Rendered rendered = parts_.take();
    rendered.launches.push_back(std::move(all));
    return rendered;
  }

 private:
  static constexpr int kRows = kAttentionTileRows;
  static constexpr int kKeys = 128;  ///< of a tile of scores
  static constexpr int kStep = 16;   ///< of the summed dimension in shared memory
  static constexpr int kStride = kRows + 4;
  static constexpr int kThreads = 256;
  static constexpr int kEach = 8;  ///< rows of a thread, in both products, and its keys
  static constexpr int kHalf = order::kLanes / 2;
  static constexpr int kColumnThreads = 16;  ///< threads that have the same rows
  static constexpr int kGroupsPerUnit = 2;
  static constexpr std::size_t kOwn = 1024;  ///< bytes of shared memory that a workgroup has beside
  static constexpr std::int64_t kMostScratch = std::int64_t{1} << 30;

  int columns() const { return width_ / kColumnThreads; }  ///< of the values, of a thread
  std::vector<SharedArray> shared() const {
    return {{ComputeType::f32, "held", width_ * kStride},  // queries, lanes of sums, totals of blocks
            {ComputeType::f32, "tile_a", 2 * kStep * kStride},
            {ComputeType::f32, "tile_b", 2 * kStep * kStride},
            {ComputeType::f32, "totals", kRows},
            {ComputeType::f32, "inverses", kRows}};
  }

  // Vectors of 4 along the summed dimension, which are turned: of a row thread_id / 2, every 8th number on.
  static void load_turned(Lines& lines, const Input& input, const char* name, const std::string& at, int count) {
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", count);
    lines.add("UINT words[4];");
    lines.add("{0}({1}_at, {2} + LONG(8 * j), words)", load4_of(input.dtype), name, at);
    lines.add("UNROLL");
    lines.add("for (int i = 0; i < 4; i++) next[4 * j + i] = {};", decoded(input.dtype, "words[i]", input.canonical));
    lines.close();
  }
  static void put_turned(Lines& lines, const char* array, const std::string& first, int count) {
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", count);
    lines.add("int to = ({} + (thread_id & 1) * 4 + 8 * j) * {} + thread_id / 2;", first, kStride);
    lines.add("UNROLL");
    lines.add("for (int i = 0; i < 4; i++) {}[to + i * {}] = next[4 * j + i];", array, kStride);
    lines.close();
  }
  // A step of k: rows of `a` from its row `first` on times columns of tile_b's half `front`.
  static void multiply(Lines& lines, const char* a, const char* first, const char* column, int columns, int b_stride) {
    lines.add("UNROLL");
    lines.open("for (int at_k = 0; at_k < {}; at_k++) {{", kStep);
    lines.add("float x[{}];", kEach);
    lines.add("float y[{}];", columns);
    for (int s = 0; s < kEach / 4; ++s)
      lines.add("READ4({}, ({} + at_k) * {} + thread_m + {}, x, {})", a, first, kStride, 32 * s, 4 * s);
    for (int s = 0; s < columns / 4; ++s)
      lines.add("READ4(tile_b, (front * {} + at_k) * {} + {} + {}, y, {})", kStep, b_stride, column, 16 * s, 4 * s);
    lines.add("UNROLL");
    lines.open("for (int i = 0; i < {}; i++) {{", kEach);
    lines.add("UNROLL");
    // To and fro: what the last multiplication of a row read stays at hand for the next row.
    lines.open("for (int s = 0; s < {}; s++) {{", columns);
    lines.add("int j = (i & 1) == 0 ? s : {} - s;", columns - 1);
    lines.add("sums[i * {0} + j] = FMA_EXACT(x[i], y[j], sums[i * {0} + j]);", columns);
    for (int i = 0; i < 3; ++i) lines.close();
  }
  static void clear_sums(Lines& lines, int count) {
    lines.add("UNROLL");
    lines.add("for (int i = 0; i < {}; i++) sums[i] = zero;", count);
  }

  void open_units(Lines& lines, Words& words, const AttentionRows& queries, const AttentionRows& keys,
                  const AttentionRows& values) const;
  void score(Lines& lines, Words& words, const AttentionRows& queries, const AttentionRows& keys) const;
  void keep_scores(Lines& lines, Words& words) const;
  void sum_exponentials(Lines& lines) const;
  void load_weights(Lines& lines, Words& words, const AttentionRows& values, const char* first) const;
  void put_weights(Lines& lines, const char* half) const;
  void add_values(Lines& lines, Words& words, const AttentionRows& values) const;
  void write_results(Lines& lines, Words& words) const;
  Launch attend(std::int64_t scores, const AttentionRows& queries, const AttentionRows& keys,
                const AttentionRows& values) const;

  const AttentionKernel& kernel_;
  const AttentionSizes& sizes_;
  const RenderLimits& limits_;
  FastParts parts_;
  int width_;
  std::int64_t tiles_, units_, groups_;
  std::int64_t bytes_;  ///< of a workgroup's scores
};

// Tiles that see most keys first, to and fro over the workgroups, so that each has about as much to do.
void CausalTiles::open_units(Lines& lines, Words& words, const AttentionRows& queries, const AttentionRows& keys,
                             const AttentionRows& values) const {
  const std::int64_t heads = sizes_.batches * sizes_.heads;
  lines.open("for (int begin = 0; begin < {}; begin += int(GROUPS)) {{", words.int32(units_));
  lines.add("int unit = begin + SELECT((begin / int(GROUPS) & 1) == 0, int(GROUP), int(GROUPS) - 1 - int(GROUP));");
  lines.add("if (unit >= {}) continue;", words.int32(units_));
  lines.add("int from_last = {};", quotient(words, "unit", heads, false));
  lines.add("int head = unit - from_last * {};", words.int32(heads));
  lines.add("int batch = {};", quotient(words, "head", sizes_.heads, false));
  lines.add("head = head - batch * {};", words.int32(sizes_.heads));
  lines.add("int key_head = {};", quotient(words, "head", sizes_.heads / sizes_.key_heads, false));
  lines.add("int first_m = ({} - from_last) * {};", words.int32(tiles_ - 1), kRows);
  lines.add("int stop = SELECT(first_m + {0} < rows, first_m + {0}, rows) + behind;", kRows);
  lines.add("stop = SELECT(stop < keys, stop, keys);");
  for (const auto& [name, of, head] :
       {std::tuple{"query", &queries, "head"}, {"key", &keys, "key_head"}, {"value", &values, "key_head"}}) {
    lines.add("LONG {}_base = {} + LONG(batch) * {} + LONG({}) * {};", name, words.int64(of->offset),
              words.int64(of->strides[0]), head, words.int64(of->strides[1]));
  }
}

// Writes the scores of keys up to `stop`, and from there to the end of a tile -inf, and leaves the largest ones of 16
// parts of each row in tile_a.
void CausalTiles::score(Lines& lines, Words& words, const AttentionRows& queries, const AttentionRows& keys) const {
  lines.add("float sums[{}];", kEach * kEach);
  lines.open("{{");
  lines.add("int row = first_m + thread_id / 2;");
  lines.add("row = SELECT(row < rows, row, rows - 1);");
  lines.add("LONG at = query_base + LONG(row * {} + (thread_id & 1) * 4);", words.int32(queries.strides[2]));
  lines.add("UNROLL_BY(2)");
  lines.open("for (int k = 0; k < {}; k += 32) {{", width_);
  lines.add("float next[16];");
  load_turned(lines, *queries.input, "query", "at + LONG(k)", 4);
  put_turned(lines, "held", "k", 4);
  lines.close();
  lines.add("UNROLL");
  lines.add(
      "for (int i = 0; i < {0}; i++) tile_a[(thread_n / 32 * 4 + (thread_id & 3)) * {1} + thread_m + i / 4 * 32 + "
      "i % 4] = FROM_BITS(0xff800000u);",
      kEach, kRows);
  lines.close();
  lines.add("float next[{}];", kEach);
  const auto find_key = [&](const char* of) {
    lines.add("int key = {} + thread_id / 2;", of);
    lines.add("key = SELECT(key < keys, key, keys - 1);");
    lines.add("LONG {}key_e = key_base + LONG(key * {} + (thread_id & 1) * 4);", *of == '0' ? "" : "next_",
              words.int32(keys.strides[2]));
  };
  find_key("0");
  load_turned(lines, *keys.input, "key", "key_e", 2);
  put_turned(lines, "tile_b", "0", 2);
  lines.add("BARRIER();");
  lines.add("int front = 0;");
  lines.open("for (int first_n = 0; first_n < stop; first_n += {}) {{", kKeys);
  clear_sums(lines, kEach * kEach);
  {
    const std::string of = fmt::format("first_n + {}", kKeys);
    find_key(of.c_str());
  }
  lines.add("UNROLL_BY(1)");
  lines.open("for (int k = 0; k < {}; k += {}) {{", width_, kStep);
  lines.add("LONG at = SELECT(k + {0} < {1}, key_e + LONG(k + {0}), next_key_e);", kStep, width_);
  load_turned(lines, *keys.input, "key", "at", 2);
  multiply(lines, "held", "k", "thread_n", kEach, kStride);
  lines.add("front = 1 - front;");
  put_turned(lines, "tile_b", fmt::format("front * {}", kStep), 2);
  lines.add("BARRIER();");
  lines.close();
  lines.add("key_e = next_key_e;");
  keep_scores(lines, words);
  lines.close();
}

// Nothing is made canonical up to the sum: a score up to 2^-126, or a difference, moves no exponential beside what zero
// gives (differences up to 2^-98 give 1, others are not moved themselves), and which NaN there is nobody sees.
void CausalTiles::keep_scores(Lines& lines, Words& words) const {
  lines.add("FLOAT scale = FROM_BITS(UINT({}));", words.scalar(kernel_.scale));
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < {}; i++) sums[i] = sums[i] * scale;", kEach * kEach);
  lines.open("if (first_n + {} > SELECT(first_m + behind + 1 < keys, first_m + behind + 1, keys)) {{", kKeys);
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < {}; i++) {{", kEach * kEach);
  lines.add("int key = first_n + thread_n + i % {0} / 4 * 16 + i % 4;", kEach);
  lines.add("int seen = first_m + thread_m + i / {0} / 4 * 32 + i / {0} % 4 + behind;", kEach);
  lines.add("sums[i] = SELECT(key <= seen && key < keys, sums[i], FROM_BITS(0xff800000u));");
  lines.close();
  lines.close();
  lines.add("UNROLL");
  lines.open("for (int s = 0; s < {}; s++) {{", kEach / 4);
  lines.add("int place = (thread_n / 32 * 4 + (thread_id & 3)) * {} + thread_m + 32 * s;", kRows);
  lines.add("float largest[4];");
  lines.add("READ4(tile_a, place, largest, 0)");
  lines.add("UNROLL");
  lines.open("for (int j = 0; j < {}; j++) {{", kEach);
  lines.add("UINT words[4];");
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < 4; i++) {{");
  lines.add("largest[i] = LARGER(largest[i], sums[(4 * s + i) * {} + j]);", kEach);
  lines.add("words[i] = BITS(sums[(4 * s + i) * {} + j]);", kEach);
  lines.close();
  lines.add("STORE4_U32(scores_at, (first_n + thread_n + j / 4 * 16 + j % 4) * {} + thread_m + 32 * s, words)", kRows);
  lines.close();
  lines.add("WRITE4(tile_a, place, largest, 0)");
  lines.close();
}

// Scores become exponentials, in place. Those of 32 lanes of a row are added by a thread: hidden ones are zeros.
void CausalTiles::sum_exponentials(Lines& lines) const {
  lines.add("BARRIER();");
  lines.open("{{");
  lines.add("int row = thread_id & {};", kRows - 1);
  lines.add("int half = thread_id / {};", kRows);
  lines.add("float largest = tile_a[row];");
  lines.add("UNROLL");
  lines.add("for (int i = 1; i < {}; i++) largest = LARGER(largest, tile_a[i * {} + row]);", kColumnThreads, kRows);
  lines.add("if ((BITS(largest) & 0x7f800000u) == 0x7f800000u) largest = zero;");
  lines.add("float lanes[{}];", kHalf);
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < {}; i++) lanes[i] = zero;", kHalf);
  lines.open("for (int key = half * {}; key < stop; key += {}) {{", kHalf, order::kLanes);
  lines.add("float some[{}];", kHalf);
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < {}; i++) some[i] = FROM_BITS(LOAD_U32_AGAIN(scores_at, (key + i) * {} + row));", kHalf,
            kRows);
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < {}; i++) {{", kHalf);
  lines.add("FLOAT distance = some[i] - largest;");
  lines.add("FLOAT exponential = ls_exp(distance);");
  lines.add("lanes[i] = ADD_EXACT(lanes[i], exponential);");
  lines.add("STORE_U32(scores_at, (key + i) * {} + row, BITS(exponential));", kRows);
  lines.close();
  lines.close();
  lines.open("if (half == 1) {{");
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < {}; i++) held[i * {} + row] = lanes[i];", kHalf, kRows);
  lines.close();
  lines.add("BARRIER();");
  lines.open("if (half == 0) {{");
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < {}; i++) lanes[i] = ADD_EXACT(lanes[i], held[i * {} + row]);", kHalf, kRows);
  for (int apart = kHalf / 2; apart > 0; apart /= 2) {
    lines.add("UNROLL");
    lines.add("for (int i = 0; i < {0}; i++) lanes[i] = ADD_EXACT(lanes[i], lanes[i + {0}]);", apart);
  }
  lines.add("float total = CANONICAL_F32(lanes[0]);");
  lines.add("if (total == 0.0f) total = 1.0f;");
  // The sum of exponentials of which one is 1 is in the range of quick_quotient, unless no score is finite.
  lines.add("bool is_plain = total >= 1.0f && total <= 1048576.0f;");
  lines.add("FLOAT inverse = DIV(1.0f, total);");
  lines.add("totals[row] = total;");
  lines.add("inverses[row] = SELECT(is_plain, inverse, FROM_BITS(0x7fc00000u));");
  lines.close();
  lines.add("BARRIER();");
  lines.close();
}

// Of the step from key `first` on. Behind `stop` exponentials are zeros, and values are -0, which change nothing.
void CausalTiles::load_weights(Lines& lines, Words& words, const AttentionRows& values, const char* first) const {
  const int vectors = width_ / 4;
  lines.add("UNROLL");
  lines.open("for (int j = 0; j < 2; j++) {{");
  lines.add("int key = {} + thread_id / 32 + 8 * j;", first);
  lines.add("UINT words[4] = {{0u, 0u, 0u, 0u}};");
  lines.open("if (key < stop) {{");
  lines.add("LOAD4_U32_AGAIN(scores_at, key * {} + (thread_id & 31) * 4, words)", kRows);
  lines.close();
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < 4; i++) next[4 * j + i] = FROM_BITS(words[i]);");
  lines.close();
  lines.add("UNROLL");
  lines.open("for (int j = 0; j < {}; j++) {{", kStep * vectors / kThreads);
  lines.add("int key = {} + thread_id / {} + {} * j;", first, vectors, kThreads / vectors);
  lines.add("UINT words[4] = {{{0}, {0}, {0}, {0}}};", size_of(values.input->dtype) == 2 ? "0x8000u" : "0x80000000u");
  lines.open("if (key < stop) {{");
  lines.add("{}(value_at, value_base + LONG(key * {} + (thread_id & {}) * 4), words)", load4_of(values.input->dtype),
            words.int32(values.strides[2]), vectors - 1);
  lines.close();
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < 4; i++) next_value[4 * j + i] = {};",
            decoded(values.input->dtype, "words[i]", values.input->canonical));
  lines.close();
}
void CausalTiles::put_weights(Lines& lines, const char* half) const {
  const int vectors = width_ / 4;
  lines.open("{{");
  lines.add("float total[4];");
  lines.add("float inverse[4];");
  lines.add("READ4(totals, (thread_id & 31) * 4, total, 0)");
  lines.add("READ4(inverses, (thread_id & 31) * 4, inverse, 0)");
  lines.add("int to = ({} * {} + thread_id / 32) * {} + (thread_id & 31) * 4;", half, kStep, kStride);
  lines.add("bool holds = true;");
  lines.add("UNROLL");
  lines.open("for (int j = 0; j < 2; j++) {{");
  lines.add("float weight[4];");
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < 4; i++) {{");
  lines.add("bool one = quick_quotient(next[4 * j + i], total[i], inverse[i], weight[i]);");
  lines.add("holds = holds && one;");
  lines.close();
  lines.add("WRITE4(tile_a, to + {} * j, weight, 0)", 8 * kStride);
  lines.close();
  lines.open("if (!holds) {{");
  for (int j = 0; j < 2; ++j) lines.add("WRITE4(tile_a, to + {}, next, {})", 8 * kStride * j, 4 * j);
  lines.add("UNROLL_BY(1)");
  lines.open("for (int i = 0; i < 8; i++) {{");
  lines.add("int at = to + i / 4 * {} + i % 4;", 8 * kStride);
  lines.add("FLOAT quotient = DIV(tile_a[at], totals[(thread_id & 31) * 4 + i % 4]);");
  lines.add("tile_a[at] = CANONICAL_F32(quotient);");
  lines.close();
  lines.close();
  lines.close();
  lines.add("UNROLL");
  lines.open("for (int j = 0; j < {}; j++) {{", kStep * vectors / kThreads);
  lines.add("WRITE4(tile_b, ({} * {} + thread_id / {} + {} * j) * {} + (thread_id & {}) * 4, next_value, 4 * j)", half,
            kStep, vectors, kThreads / vectors, width_ + 4, vectors - 1);
  lines.close();
}

void CausalTiles::add_values(Lines& lines, Words& words, const AttentionRows& values) const {
  const int count = kEach * columns();
  lines.add("float next[8];");
  lines.add("float next_value[{}];", kStep * width_ / kThreads);
  lines.add("int value_n = (thread_id / 32 & 3) * {} + (thread_id & 3) * 4;", width_ / 4);
  load_weights(lines, words, values, "0");
  put_weights(lines, "0");
  lines.add("BARRIER();");
  lines.add("int front = 0;");
  lines.open("for (int block = 0; block < stop; block += {}) {{", kBlock);
  lines.add("float sums[{}];", count);
  clear_sums(lines, count);
  lines.add("int block_stop = SELECT(stop - block < {0}, stop, block + {0});", kBlock);
  lines.add("UNROLL_BY(1)");
  lines.open("for (int k = block; k < block_stop; k += {}) {{", kStep);
  lines.add("int first = k + {};", kStep);
  load_weights(lines, words, values, "first");
  {
    const std::string first = fmt::format("front * {}", kStep);
    multiply(lines, "tile_a", first.c_str(), "value_n", columns(), width_ + 4);
  }
  lines.add("front = 1 - front;");
  put_weights(lines, "front");
  lines.add("BARRIER();");
  lines.close();
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < {}; i += 4) {{", count);
  lines.open("if (block > 0) {{");
  lines.add("float before[4];");
  lines.add("READ4(held, (i / 4 * {} + thread_id) * 4, before, 0)", kThreads);
  lines.add("UNROLL");
  lines.add("for (int j = 0; j < 4; j++) sums[i + j] = ADD_EXACT(before[j], sums[i + j]);");
  lines.close();
  lines.add("WRITE4(held, (i / 4 * {} + thread_id) * 4, sums, i)", kThreads);
  lines.close();
  // Here, and not behind the loop, where sums would have to outlive it: NVIDIA's compiler then runs out of registers.
  lines.open("if (block + {} >= stop) {{", kBlock);
  write_results(lines, words);
  lines.close();
  lines.close();
}

void CausalTiles::write_results(Lines& lines, Words& words) const {
  const DType dtype = kernel_.query.dtype;
  lines.add("LONG out_base = (LONG(batch) * {} + LONG(first_m + thread_m)) * {} + LONG(head * {} + value_n);",
            words.int64(sizes_.rows), words.int64(sizes_.heads * width_), width_);
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < {}; i++) {{", kEach);
  lines.add("int row = i / 4 * 32 + i % 4;");
  lines.open("if (first_m + thread_m + row < rows) {{");
  lines.add("UNROLL");
  lines.open("for (int s = 0; s < {}; s++) {{", columns() / 4);
  lines.add("UINT words[4];");
  lines.add("UNROLL");
  lines.open("for (int j = 0; j < 4; j++) {{");
  lines.add("FLOAT stored = CANONICAL_F32(sums[i * {} + 4 * s + j]);", columns());
  lines.add("stored = stored + zero;");  // what hidden blocks add
  lines.add("stored = CANONICAL_F32(stored);");
  lines.add("words[j] = {};", encoded(dtype, "stored", ComputeType::f32));
  lines.close();
  lines.add("STORE4_{}(out_at, out_base + LONG(row) * {} + LONG(16 * s), words)", size_of(dtype) == 2 ? "U16" : "U32",
            words.int64(sizes_.heads * width_));
  for (int i = 0; i < 3; ++i) lines.close();
}

Launch CausalTiles::attend(std::int64_t scores, const AttentionRows& queries, const AttentionRows& keys,
                           const AttentionRows& values) const {
  Words words;
  Lines lines;
  lines.add("MEMORY query_at = {};", queries.memory(words));
  lines.add("MEMORY key_at = {};", keys.memory(words));
  lines.add("MEMORY value_at = {};", values.memory(words));
  lines.add("MEMORY out_at = {};", words.memory(Patch::Kind::address, kernel_.out));
  lines.add("MEMORY scores_at = {} + ULONG(GROUP) * ULONG({});", words.memory(Patch::Kind::scratch, 0, scores),
            words.int64(bytes_));
  declare_zero(lines, words, ComputeType::f32);
  lines.add("int rows = {};", words.int32(sizes_.rows));
  lines.add("int keys = {};", words.int32(sizes_.keys));
  lines.add("int behind = {};", words.int32(kernel_.behind));
  lines.add("int thread_id = int(THREAD);");
  lines.add("int thread_m = (thread_id / 128 * 16 + (thread_id & 31) / 4) * 4;");
  lines.add("int thread_n = ((thread_id / 32 & 3) * 8 + (thread_id & 3)) * 4;");
  open_units(lines, words, queries, keys, values);
  lines.open("{{");
  score(lines, words, queries, keys);
  lines.close();
  sum_exponentials(lines);
  add_values(lines, words, values);
  lines.add("BARRIER();");  // before queries take the place of totals
  lines.close();
  Launch launch;
  launch.text.body = lines.take();
  launch.text.threads = kThreads;
  launch.text.copies = true;  // for LOAD4_U32_AGAIN
  launch.text.groups_per_unit = kGroupsPerUnit;
  launch.text.shared = shared();
  launch.groups = static_cast<std::uint32_t>(groups_);
  words.move_to(launch);
  return launch;
}

}  // namespace

std::optional<Rendered> render_causal_tiles(const AttentionKernel& kernel, const RenderLimits& limits) {
  CausalTiles tiles(kernel, limits);
  if (!tiles.has_form()) return std::nullopt;
  return tiles.render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
