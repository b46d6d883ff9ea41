// Contractions in blocked numerics (docs/numerics.md section 12). One kernel per operand reads it through its view and
// writes its integers to scratch memory, packed in pairs along k: [block][pair][row], and the scales [block][row]. A
// last one multiplies tiles of them and runs the epilogue. What scratch memory cannot hold is done part by part.
//
// The sum S of a block's products does not fit 32 bits. But S mod 2^32 does, and so does the sum H of the products of
// the upper digits; S - 2^14 H fits too, so that its value mod 2^32 is its value:
// floor((S + 64) / 128) = 128 H + ((S - 2^14 H + 64) >> 7).
#include <algorithm>
#include <array>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::size_t kMostDigits = std::size_t{256} << 20;  ///< bytes of scratch memory
constexpr int kPairs = order::kSharedBlock / 2;
constexpr int kEach = 4;  ///< rows, and columns, of a thread
constexpr int kStep = 8;  ///< pairs of k in shared memory

struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

/// What is computed at once.
struct Part {
  Range batches, rows, columns;
};

class BlockedContraction {
 public:
  BlockedContraction(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits)
      : kernel_(kernel),
        geometry_(geometry),
        limits_(limits),
        blocks_(over(geometry.length, order::kSharedBlock)),
        index_(geometry.wide ? "LONG" : "int"),
        a_("a", kernel.a, geometry.a, geometry, true),
        b_("b", kernel.b_operand, geometry.b, geometry, false) {
    // 8 threads in a line of each direction, or 16.
    for (threads_m_ = 8; threads_m_ * threads_m_ * 2 <= limits.threads && threads_m_ < 16;) threads_m_ *= 2;
    threads_n_ = std::min(limits.threads, kTileThreads) / threads_m_;
  }

  Rendered render() {
    const std::int64_t all = words_of(geometry_.batches * geometry_.rows, geometry_.batches * geometry_.columns);
    const auto most = static_cast<std::int64_t>(kMostDigits / 4);
    std::int64_t batches = geometry_.batches;
    std::int64_t rows = geometry_.rows;
    std::int64_t columns = geometry_.columns;
    if (all > most) batches = std::clamp<std::int64_t>(most / words_of(rows, columns), 1, batches);
    while (words_of(batches * rows, batches * columns) > most && std::max(rows, columns) > 1) {
      std::int64_t& longer = rows > columns ? rows : columns;
      longer = over(longer, 2);
    }
    for (std::int64_t b = 0; b < geometry_.batches; b += batches) {
      for (std::int64_t m = 0; m < geometry_.rows; m += rows) {
        for (std::int64_t n = 0; n < geometry_.columns; n += columns) {
          add({.batches = {b, std::min(batches, geometry_.batches - b)},
               .rows = {m, std::min(rows, geometry_.rows - m)},
               .columns = {n, std::min(columns, geometry_.columns - n)}});
        }
      }
    }
    rendered_.scratch_bytes = static_cast<std::size_t>(4 * words_of(batches * rows, batches * columns));
    return std::move(rendered_);
  }

 private:
  /// Words of scratch memory of so many rows of either operand.
  std::int64_t words_of(std::int64_t rows, std::int64_t columns) const {
    return std::max<std::int64_t>((rows + columns) * blocks_ * (kPairs + 1), 1);
  }

  void add(const Part& part) {
    const std::int64_t b_first = part.batches.count * part.rows.count * blocks_ * (kPairs + 1);
    if (blocks_ > 0) {
      if (part.batches != last_.batches || part.rows != last_.rows) {
        rendered_.launches.push_back(digits(a_, part.batches, part.rows, 0));
      }
      rendered_.launches.push_back(digits(b_, part.batches, part.columns, b_first));
    }
    last_ = part;
    rendered_.launches.push_back(multiply(part, b_first));
  }

  // Each thread makes a block of a row; neighbouring threads have neighbouring rows.
  Launch digits(const Side& side, Range batches, Range own, std::int64_t to) {
    const bool wide = geometry_.wide;
    const std::int64_t rows = batches.count * own.count;
    const std::string& name = side.name;
    const int rank = geometry_.shape.rank();
    Words words;
    Lines lines;
    lines.add("MEMORY {}_at = {};", name, words.memory(Patch::Kind::address, side.input->slot));
    lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
    lines.add("int rows = {};", words.int32(rows));
    lines.add("int blocks = {};", words.int32(blocks_));
    lines.add("int to = {};", words.int32(to));
    lines.add("{} size_k = {};", index_, words.index(geometry_.length, wide));
    lines.open("for (int e = int(GROUP) * {0} + int(THREAD); e < rows * blocks; e += int(GROUPS) * {0}) {{",
               limits_.threads);
    lines.add("int block = {};", quotient(words, "e", rows, false));
    lines.add("int row = e - block * rows;");
    lines.add("int local = {};", quotient(words, "row", own.count, false));
    lines.add("{0} batch = {0}(local) + {1};", index_, words.index(batches.first, wide));
    lines.add("{0} own = {0}(row - local * {1}) + {2};", index_, words.int32(own.count), words.index(own.first, wide));
    decompose(lines, words, geometry_.shape, 0, geometry_.m, "batch", "i", wide);
    decompose(lines, words, geometry_.shape, side.first, side.last, "own", "i", wide);
    side.access.declare(lines, words, "b", "", 0, geometry_.m, "i");
    side.access.declare(lines, words, "r", "b", side.first, side.last, "i");
    lines.add("{0} begin_k = {0}(block) * {0}({1});", index_, order::kSharedBlock);
    // One text reads elements, in two loops: for the largest magnitude, whose bits order as it does, and for the
    // integers.
    const auto read = [&] {
      lines.add("FLOAT value = 0.0f;");
      lines.open("if (at < size_k) {{");
      decompose(lines, words, geometry_.shape, geometry_.k, rank, "at", "i", wide);
      side.access.declare(lines, words, "e", "r", geometry_.k, rank, "i");
      side.access.check_bounds(lines, words, "e");
      const DType dtype = side.input->dtype;
      const std::string load = fmt::format("{0}({1}_at, {1}_e)", load_of(side.input->encoding, dtype), name);
      if (side.bounded()) {
        lines.add("{} word = {};", word_type_of(dtype), words.uint32(side.view.fill));
        lines.add("if ({}) word = {};", side.access.inside("e"), load);
      } else {
        lines.add("{} word = {};", word_type_of(dtype), load);
      }
      lines.add("value = {};", decoded(dtype, "word", side.input->canonical));
      lines.close();
    };
    lines.add("UINT largest = 0u;");
    lines.open("for (int k = 0; k < {}; k++) {{", order::kSharedBlock);
    lines.add("{0} at = begin_k + {0}(k);", index_);
    read();
    lines.add("UINT magnitude = BITS(value) & 0x7fffffffu;");
    lines.add("largest = SELECT(magnitude > largest, magnitude, largest);");
    lines.close();
    lines.add("int exponent = int(largest >> 23) - 126;");
    lines.add("exponent = SELECT(exponent < {0}, {0}, exponent);", order::kLeastExponent);
    lines.add("UINT scale = UINT(exponent + {}) << 23;", 127 - (side.left ? 20 : 1));
    lines.add("scale = SELECT(largest >= {}u, 0x7fc00000u, scale);", (127u + order::kMostExponent) << 23);
    lines.add("STORE_U32(scratch, to + rows * blocks * {} + e, scale);", kPairs);
    lines.add("FLOAT up = FROM_BITS(UINT(141 - exponent) << 23);");
    lines.open("for (int pair = 0; pair < {}; pair++) {{", kPairs);
    lines.add("UINT both = 0u;");
    lines.open("for (int k = 0; k < 2; k++) {{");
    lines.add("{0} at = begin_k + {0}(2 * pair + k);", index_);
    read();
    // Adding 1.5 * 2^23 leaves the nearest integer in the low bits, of two the even one. What is no number may become
    // any integer: its scale is NaN.
    lines.add("FLOAT scaled = value * up;");
    lines.add("FLOAT shifted = scaled + FROM_BITS(0x4b400000u);");
    lines.add("int q = int(BITS(shifted) - 0x4b400000u);");
    lines.add("q = SELECT(q > 16383, 16383, q);");
    lines.add("both = both | ((UINT(q) & 0xffffu) << (16 * k));");
    lines.close();
    lines.add("STORE_U32(scratch, to + (block * {} + pair) * rows + row, both);", kPairs);
    lines.close();
    lines.close();
    Launch result;
    result.text.body = lines.take();
    result.text.threads = limits_.threads;
    result.groups = limits_.groups_for(over(rows * blocks_, limits_.threads));
    words.move_to(result);
    return result;
  }

  Launch multiply(const Part& part, std::int64_t b_first) {
    const bool wide = geometry_.wide;
    const int tile_m = threads_m_ * kEach;
    const int tile_n = threads_n_ * kEach;
    const int threads = threads_m_ * threads_n_;
    const std::int64_t tiles_m = over(part.rows.count, tile_m);
    const std::int64_t tiles_n = over(part.columns.count, tile_n);
    const std::int64_t tiles = tiles_m * tiles_n * part.batches.count;
    Words words;
    Lines lines;
    ProgramWriter writer(kernel_.epilogue, geometry_.epilogue, words);
    lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
    writer.declare_buffers(lines);
    declare_zero(lines, words, ComputeType::f32);
    lines.add("int thread_id = int(THREAD);");
    lines.add("int thread_m = thread_id / {};", threads_n_);
    lines.add("int thread_n = thread_id & {};", threads_n_ - 1);
    lines.add("int blocks = {};", words.int32(blocks_));
    const std::pair<const char*, Range> sides[] = {{"m", part.rows}, {"n", part.columns}};
    for (const auto& [name, range] : sides) {
      lines.add("int size_{} = {};", name, words.int32(range.count));
      lines.add("int all_{} = {};", name, words.int32(range.count * part.batches.count));
      lines.add("{} begin_{} = {};", index_, name, words.index(range.first, wide));
    }
    lines.add("{} begin_batch = {};", index_, words.index(part.batches.first, wide));
    lines.add("int b_first = {};", words.int32(b_first));
    lines.add("int tiles = {};", words.int32(tiles));
    lines.open("for (int tile = int(GROUP); tile < tiles; tile += int(GROUPS)) {{");
    lines.add("int tile_row = {};", quotient(words, "tile", tiles_n, false));
    lines.add("int local = {};", quotient(words, "tile_row", tiles_m, false));
    lines.add("int first_n = (tile - tile_row * {}) * {};", words.int32(tiles_n), tile_n);
    lines.add("int first_m = (tile_row - local * {}) * {};", words.int32(tiles_m), tile_m);
    lines.add("float total[{}];", kEach * kEach);
    lines.add("UNROLL");
    lines.add("for (int x = 0; x < {}; x++) total[x] = zero;", kEach * kEach);
    lines.open("for (int block = 0; block < blocks; block++) {{");
    lines.add("UINT sum[{}];", kEach * kEach);
    lines.add("int high[{}];", kEach * kEach);
    lines.add("UNROLL");
    lines.open("for (int x = 0; x < {}; x++) {{", kEach * kEach);
    lines.add("sum[x] = 64u;");
    lines.add("high[x] = 0;");
    lines.close();
    lines.open("for (int step = 0; step < {}; step += {}) {{", kPairs, kStep);
    lines.add("BARRIER();");
    fill(lines, "a", "m", tile_m, threads, "0");
    fill(lines, "b", "n", tile_n, threads, "b_first");
    lines.add("BARRIER();");
    multiply_step(lines, tile_m, tile_n);
    lines.close();
    scale_block(lines);
    lines.close();
    write(lines, words, writer);
    lines.close();
    Launch result;
    result.text.body = lines.take();
    result.text.functions = writer.functions();
    result.text.threads = threads;
    result.text.shared.push_back({ComputeType::i32, "tile_a", kStep * tile_m});
    result.text.shared.push_back({ComputeType::i32, "tile_b", kStep * tile_n});
    result.groups = limits_.groups_for(tiles);
    words.move_to(result);
    return result;
  }

  // The pairs [step, step + kStep) of a tile's rows; beyond the end the last row is read again.
  static void fill(Lines& lines, const char* name, const char* own, int width, int threads, const char* from) {
    lines.open("for (int e = thread_id; e < {}; e += {}) {{", kStep * width, threads);
    lines.add("int pair = e / {};", width);
    lines.add("int row = first_{} + (e & {});", own, width - 1);
    lines.add("row = local * size_{0} + SELECT(row < size_{0}, row, size_{0} - 1);", own);
    lines.add("tile_{}[e] = int(LOAD_U32(scratch, {} + (block * {} + step + pair) * all_{} + row));", name, from,
              kPairs, own);
    lines.close();
  }

  void multiply_step(Lines& lines, int tile_m, int tile_n) const {
    lines.open("for (int pair = 0; pair < {}; pair++) {{", kStep);
    const auto take = [&](const char* name, int width, const char* thread, int threads) {
      lines.add("int {}_q[{}];", name, 2 * kEach);
      lines.add("UNROLL");
      lines.open("for (int i = 0; i < {}; i++) {{", kEach);
      lines.add("int both = tile_{}[pair * {} + {} + i * {}];", name, width, thread, threads);
      lines.add("{}_q[2 * i] = int(UINT(both) << 16) >> 16;", name);
      lines.add("{}_q[2 * i + 1] = both >> 16;", name);
      lines.close();
    };
    take("a", tile_m, "thread_m", threads_m_);
    take("b", tile_n, "thread_n", threads_n_);
    lines.add("UNROLL");
    lines.open("for (int i = 0; i < {}; i++) {{", kEach);
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", kEach);
    lines.add("int x = i * {} + j;", kEach);
    lines.add("sum[x] = sum[x] + UINT(a_q[2 * i]) * UINT(b_q[2 * j]) + UINT(a_q[2 * i + 1]) * UINT(b_q[2 * j + 1]);");
    lines.add(
        "high[x] = high[x] + (a_q[2 * i] >> 7) * (b_q[2 * j] >> 7) + (a_q[2 * i + 1] >> 7) * (b_q[2 * j + 1] >> 7);");
    lines.close();
    lines.close();
    lines.close();
  }

  void scale_block(Lines& lines) const {
    const std::array<std::pair<const char*, const char*>, 2> sides = {{{"a", "m"}, {"b", "n"}}};
    for (const auto& [name, own] : sides) {
      lines.add("float scale_{}[{}];", name, kEach);
      lines.add("UNROLL");
      lines.open("for (int i = 0; i < {}; i++) {{", kEach);
      lines.add("int row = first_{0} + thread_{0} + i * {1};", own, *own == 'm' ? threads_m_ : threads_n_);
      lines.add("row = local * size_{0} + SELECT(row < size_{0}, row, size_{0} - 1);", own);
      lines.add("scale_{0}[i] = FROM_BITS(LOAD_U32(scratch, {1} + (blocks * {2} + block) * all_{3} + row));", name,
                *own == 'm' ? "0" : "b_first", kPairs, own);
      lines.close();
    }
    lines.add("UNROLL");
    lines.open("for (int x = 0; x < {}; x++) {{", kEach * kEach);
    lines.add("int rounded = high[x] * 128 + (int(sum[x] - (UINT(high[x]) << 14)) >> 7);");
    lines.add("FLOAT scaled = float(rounded) * scale_a[x / {}];", kEach);
    lines.add("total[x] = {};",
              fused(ComputeType::f32, "scaled", fmt::format("scale_b[x & {}]", kEach - 1), "total[x]"));
    lines.close();
  }

  void write(Lines& lines, Words& words, ProgramWriter& writer) const {
    lines.open("for (int x = 0; x < {}; x++) {{", kEach * kEach);
    lines.add("int row = first_m + thread_m + (x / {}) * {};", kEach, threads_m_);
    lines.add("int column = first_n + thread_n + (x & {}) * {};", kEach - 1, threads_n_);
    lines.open("if (row < size_m && column < size_n) {{");
    lines.add("{0} batch = begin_batch + {0}(local);", index_);
    lines.add("{0} m = begin_m + {0}(row);", index_);
    lines.add("{0} n = begin_n + {0}(column);", index_);
    write_result(lines, words, writer, kernel_, geometry_, geometry_.wide, "total[x]");
    lines.close();
    lines.close();
  }

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const RenderLimits& limits_;
  const std::int64_t blocks_;
  const char* index_;
  const Side a_, b_;
  int threads_m_ = 8, threads_n_ = 8;
  Part last_;
  Rendered rendered_;
};

}  // namespace

Rendered render_blocked(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  return BlockedContraction(kernel, geometry, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
