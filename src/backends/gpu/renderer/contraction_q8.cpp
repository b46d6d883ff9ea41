// Contractions in q8 numerics (docs/numerics.md section 14). Few rows have a form of their own
// (contraction_packed_few.cpp), and many ones where the device multiplies bytes by tensor cores
// (contraction_q8_tiles.cpp) or cooperative matrices (contraction_q8_matrices.cpp). Else one kernel rounds the
// activations and writes them to scratch memory, per row and block of 32: eight words of four codes [block][word][row],
// the scale and the sums of codes of either half [block][row]. Then workgroups multiply tiles, whose weights they take
// apart into shared memory.
#include <algorithm>
#include <utility>

#include "backends/gpu/renderer/contraction_q8.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::size_t kMostQ8Scratch = std::size_t{256} << 20;
constexpr int kParts = kWordsOfBlock + 3;  ///< words of a block of activations
constexpr int kQ8Each = 4;                 ///< rows, and columns, of a thread in tiles

class Q8Contraction {
 public:
  Q8Contraction(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits)
      : kernel_(kernel),
        geometry_(geometry),
        limits_(limits),
        encoding_(kernel.b_operand.encoding),
        name_(info_of(encoding_).name),
        groups_(order::kQ8Block / group_size(encoding_)),
        blocks_(geometry.length / order::kQ8Block),
        rows_(geometry.batches * geometry.rows),
        index_(geometry.wide ? "LONG" : "int"),
        a_("a", kernel.a, geometry.a, geometry, true),
        b_("b", kernel.b_operand, geometry.b, geometry, false) {
    for (threads_m_ = 8; threads_m_ * threads_m_ * 2 <= limits.threads && threads_m_ < 16;) threads_m_ *= 2;
    threads_n_ = std::min(limits.threads, kTileThreads) / threads_m_;
  }

  Rendered render() {
    const std::int64_t row_bytes = 4 * kParts * blocks_;
    const std::int64_t most = std::max<std::int64_t>(static_cast<std::int64_t>(kMostQ8Scratch) / row_bytes, 1);
    const std::int64_t part = std::min(rows_, most);
    rendered_.scratch_bytes = static_cast<std::size_t>(part * row_bytes);
    for (std::int64_t first = 0; first < rows_; first += part) {
      const std::int64_t count = std::min(part, rows_ - first);
      rendered_.launches.push_back(activations(first, count));
      // Tiles do not reach into another batch.
      for (std::int64_t row = first; row < first + count;) {
        const std::int64_t batch = row / geometry_.rows;
        const bool whole = row % geometry_.rows == 0 && row + geometry_.rows <= first + count;
        const std::int64_t batches = whole ? (first + count - row) / geometry_.rows : 1;
        const std::int64_t end =
            whole ? row + batches * geometry_.rows : std::min(first + count, (batch + 1) * geometry_.rows);
        rendered_.launches.push_back(multiply_tiles({.batch = batch,
                                                     .batches = batches,
                                                     .row = row % geometry_.rows,
                                                     .rows = whole ? geometry_.rows : end - row,
                                                     .place = row - first,
                                                     .count = count}));
        row = end;
      }
    }
    return std::move(rendered_);
  }

 private:
  /// Rows [row, row + rows) of some batches; their activations begin at `place` of `count`.
  struct Part {
    std::int64_t batch, batches, row, rows, place, count;
  };

  // A thread rounds a block of a row; neighbouring threads have neighbouring rows.
  Launch activations(std::int64_t first, std::int64_t count) {
    Words words;
    Lines lines;
    lines.add("MEMORY a_at = {};", words.memory(Patch::Kind::address, a_.input->slot));
    lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
    lines.add("int rows = {};", words.int32(count));
    lines.add("int blocks = {};", words.int32(blocks_));
    lines.open("for (int e = int(GROUP) * {0} + int(THREAD); e < rows * blocks; e += int(GROUPS) * {0}) {{",
               limits_.threads);
    lines.add("int block = {};", quotient(words, "e", count, false));
    lines.add("int row = e - block * rows;");
    lines.add("{0} all = {0}(row) + {1};", index_, words.index(first, geometry_.wide));
    round_block(lines, words, geometry_, a_, "all", "block");
    lines.add("UNROLL");
    lines.add("for (int w = 0; w < {0}; w++) STORE_U32(scratch, (block * {0} + w) * rows + row, code[w]);",
              kWordsOfBlock);
    lines.add("int place = blocks * rows * {} + e;", kWordsOfBlock);
    lines.add("STORE_U32(scratch, place, BITS(scale));");
    lines.add("STORE_U32(scratch, place + blocks * rows, UINT(half_sum[0]));");
    lines.add("STORE_U32(scratch, place + 2 * blocks * rows, UINT(half_sum[1]));");
    lines.close();
    Launch result;
    result.text.body = lines.take();
    result.text.threads = limits_.threads;
    result.groups = limits_.groups_for(over(count * blocks_, limits_.threads));
    words.move_to(result);
    return result;
  }

  // What the group of `element`, a place in the weights, has in common.
  void declare_group(Lines& lines, int number) const {
    lines.add("int factor_{}, share_{};", number, number);
    lines.add("group_{0}(b_at, element + LONG({1}), scale, factor_{2}, offset, share_{2});", name_,
              number * group_size(encoding_), number);
  }
  // Word `word` of the codes behind `element`.
  void declare_codes(Lines& lines, const char* word) const {
    lines.add("UINT four = 0u;");
    lines.add("UNROLL");
    lines.open("for (int c = 0; c < 4; c++) {{");
    lines.add("four = four | (UINT(code_{}(b_at, element + LONG(4 * ({}) + c))) & 255u) << UINT(8 * c);", name_, word);
    lines.close();
  }

  Launch multiply_tiles(const Part& part) {
    const bool wide = geometry_.wide;
    const int tile_m = threads_m_ * kQ8Each;
    const int tile_n = threads_n_ * kQ8Each;
    const int threads = threads_m_ * threads_n_;
    const std::int64_t tiles_m = over(part.rows, tile_m);
    const std::int64_t tiles_n = over(geometry_.columns, tile_n);
    const std::int64_t tiles = tiles_m * tiles_n * part.batches;
    const bool offsets = has_offsets(encoding_);
    Words words;
    Lines lines;
    ProgramWriter writer(kernel_.epilogue, geometry_.epilogue, words);
    lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
    lines.add("MEMORY b_at = {};", words.memory(Patch::Kind::address, b_.input->slot));
    writer.declare_buffers(lines);
    declare_zero(lines, words, ComputeType::f32);
    lines.add("int thread_id = int(THREAD);");
    lines.add("int thread_m = thread_id / {};", threads_n_);
    lines.add("int thread_n = thread_id & {};", threads_n_ - 1);
    lines.add("int blocks = {};", words.int32(blocks_));
    lines.add("int rows = {};", words.int32(part.count));
    lines.add("int size_m = {};", words.int32(part.rows));
    lines.add("{} begin_m = {};", index_, words.index(part.row, wide));
    lines.add("{} begin_batch = {};", index_, words.index(part.batch, wide));
    lines.add("int begin_row = {};", words.int32(part.place));
    lines.add("{} size_n = {};", index_, words.index(geometry_.columns, wide));
    lines.add("int tiles = {};", words.int32(tiles));
    lines.open("for (int tile = int(GROUP); tile < tiles; tile += int(GROUPS)) {{");
    lines.add("int tile_row = {};", quotient(words, "tile", tiles_n, false));
    lines.add("int local = {};", quotient(words, "tile_row", tiles_m, false));
    lines.add("{0} first_n = {0}(tile - tile_row * {1}) * {0}({2});", index_, words.int32(tiles_n), tile_n);
    lines.add("int first_m = (tile_row - local * {}) * {};", words.int32(tiles_m), tile_m);
    lines.add("int first_row = begin_row + local * size_m;");
    lines.add("{0} batch = begin_batch + {0}(local);", index_);
    // Each thread takes some words of one column apart, and in some threads what its groups have in common.
    lines.add("int fill_n = thread_id & {};", tile_n - 1);
    lines.add("{0} own = first_n + {0}(fill_n);", index_);
    lines.add("own = SELECT(own < size_n, own, size_n - {}(1));", index_);
    decompose(lines, words, geometry_.shape, 0, geometry_.m, "batch", "i", wide);
    decompose(lines, words, geometry_.shape, b_.first, b_.last, "own", "i", wide);
    b_.access.declare(lines, words, "b", "", 0, geometry_.m, "i");
    b_.access.declare(lines, words, "r", "b", b_.first, b_.last, "i");
    const auto each_output = [&] {
      lines.add("UNROLL");
      lines.open("for (int x = 0; x < {}; x++) {{", kQ8Each * kQ8Each);
    };
    lines.add("float total[{}];", kQ8Each * kQ8Each);
    lines.add("float partial[{}];", kQ8Each * kQ8Each);
    each_output();
    lines.add("total[x] = zero;");
    lines.add("partial[x] = zero;");
    lines.close();
    lines.open("for (int block = 0; block < blocks; block++) {{");
    lines.add("BARRIER();");
    lines.open("for (int e = thread_id; e < {}; e += {}) {{", kWordsOfBlock * tile_m, threads);
    lines.add("int w = e / {};", tile_m);
    lines.add("int row = first_m + (e & {});", tile_m - 1);
    lines.add("row = first_row + SELECT(row < size_m, row, size_m - 1);");
    lines.add("tile_a[e] = int(LOAD_U32(scratch, (block * {} + w) * rows + row));", kWordsOfBlock);
    lines.close();
    lines.add("LONG element = LONG(b_r) + LONG(block) * LONG({});", order::kQ8Block);
    lines.open("for (int w = thread_id / {0}; w < {1}; w += {2}) {{", tile_n, kWordsOfBlock,
               std::max(threads / tile_n, 1));
    declare_codes(lines, "w");
    lines.add("tile_b[w * {} + fill_n] = int(four);", tile_n);
    lines.close();
    lines.open("if (thread_id < {}) {{", tile_n);
    lines.add("FLOAT scale, offset;");
    for (int g = 0; g < groups_; ++g) {
      declare_group(lines, g);
      lines.add("groups[{} + fill_n] = factor_{};", 2 * g * tile_n, g);
      if (offsets) lines.add("groups[{} + fill_n] = share_{};", (2 * g + 1) * tile_n, g);
    }
    lines.add("scales[fill_n] = scale;");
    if (offsets) lines.add("scales[{} + fill_n] = offset;", tile_n);
    lines.close();
    lines.add("BARRIER();");
    lines.add("int sum[{}];", kQ8Each * kQ8Each);
    each_output();
    lines.add("sum[x] = 0;");
    lines.close();
    for (int g = 0; g < groups_; ++g) {
      lines.open("{{");
      lines.add("int dots[{}];", kQ8Each * kQ8Each);
      each_output();
      lines.add("dots[x] = 0;");
      lines.close();
      lines.open("for (int w = {}; w < {}; w++) {{", g * kWordsOfBlock / groups_, (g + 1) * kWordsOfBlock / groups_);
      lines.add("int a_word[{}];", kQ8Each);
      lines.add("int b_word[{}];", kQ8Each);
      lines.add("UNROLL");
      lines.open("for (int i = 0; i < {}; i++) {{", kQ8Each);
      lines.add("a_word[i] = tile_a[w * {} + thread_m + i * {}];", tile_m, threads_m_);
      lines.add("b_word[i] = tile_b[w * {} + thread_n + i * {}];", tile_n, threads_n_);
      lines.close();
      each_output();
      lines.add("dots[x] = DOT4(UINT(a_word[x / {0}]), UINT(b_word[x & {1}]), dots[x]);", kQ8Each, kQ8Each - 1);
      lines.close();
      lines.close();
      each_output();
      lines.add("sum[x] += groups[{} + thread_n + (x & {}) * {}] * dots[x];", 2 * g * tile_n, kQ8Each - 1, threads_n_);
      lines.close();
      lines.close();
    }
    lines.add("UNROLL");
    lines.open("for (int i = 0; i < {}; i++) {{", kQ8Each);
    lines.add("int row = first_m + thread_m + i * {};", threads_m_);
    lines.add("row = first_row + SELECT(row < size_m, row, size_m - 1);");
    lines.add("int place = blocks * rows * {} + block * rows + row;", kWordsOfBlock);
    lines.add("FLOAT own_scale = FROM_BITS(LOAD_U32(scratch, place));");
    if (offsets) {
      lines.add("int sum_0 = int(LOAD_U32(scratch, place + blocks * rows));");
      lines.add("int sum_1 = int(LOAD_U32(scratch, place + 2 * blocks * rows));");
    }
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", kQ8Each);
    lines.add("int x = i * {} + j;", kQ8Each);
    lines.add("int column = thread_n + j * {};", threads_n_);
    lines.add("FLOAT product = CANONICAL_F32(scales[column] * own_scale);");
    lines.add("partial[x] = {};", fused(ComputeType::f32, "float(sum[x])", "product", "partial[x]"));
    if (offsets) {
      lines.add("int shared_sum = groups[{} + column] * sum_0 + groups[{} + column] * sum_1;", tile_n,
                (groups_ == 2 ? 3 : 1) * tile_n);
      lines.add("FLOAT below = CANONICAL_F32(scales[{} + column] * own_scale);", tile_n);
      lines.add("partial[x] = {};", fused(ComputeType::f32, "float(shared_sum)", "below", "partial[x]"));
    }
    lines.close();
    lines.close();
    lines.open("if ((block & {0}) == {0} || block + 1 == blocks) {{", kQ8BlocksOfSum - 1);
    each_output();
    lines.add("if (block < {0}) total[x] = partial[x]; else total[x] = {1};", kQ8BlocksOfSum,
              added(ComputeType::f32, "total[x]", "partial[x]"));
    lines.add("partial[x] = zero;");
    lines.close();
    lines.close();
    lines.close();
    lines.open("for (int x = 0; x < {}; x++) {{", kQ8Each * kQ8Each);
    lines.add("int row = first_m + thread_m + (x / {}) * {};", kQ8Each, threads_m_);
    lines.add("{0} n = first_n + {0}(thread_n + (x & {1}) * {2});", index_, kQ8Each - 1, threads_n_);
    lines.open("if (row < size_m && n < size_n) {{");
    lines.add("{0} m = begin_m + {0}(row);", index_);
    write_result(lines, words, writer, kernel_, geometry_, wide, "total[x]");
    lines.close();
    lines.close();
    lines.close();
    Launch result;
    result.text.body = lines.take();
    result.text.functions = writer.functions();
    result.text.threads = threads;
    result.text.shared.push_back({ComputeType::i32, "tile_a", kWordsOfBlock * tile_m});
    result.text.shared.push_back({ComputeType::i32, "tile_b", kWordsOfBlock * tile_n});
    result.text.shared.push_back({ComputeType::i32, "groups", 4 * tile_n});
    result.text.shared.push_back({ComputeType::f32, "scales", 2 * tile_n});
    result.groups = limits_.groups_for(tiles);
    words.move_to(result);
    return result;
  }

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const RenderLimits& limits_;
  const Encoding encoding_;
  const std::string name_;
  const int groups_;           ///< of a block of 32 weights
  const std::int64_t blocks_;  ///< of 32 k
  const std::int64_t rows_;    ///< of all batches
  const char* index_;
  const Side a_, b_;
  int threads_m_ = 8, threads_n_ = 8;
  Rendered rendered_;
};

}  // namespace

void load_neighbours(Lines& lines, Words& words, const Geometry& geometry, const Side& a, const std::string& row,
                     const std::string& first, int count) {
  const bool wide = geometry.wide;
  const char* index = wide ? "LONG" : "int";
  const int rank = geometry.shape.rank();
  const DType dtype = a.input->dtype;
  const bool vectors = a.has_k_vectors(geometry);
  lines.add("{0} own = {0}({1});", index, row);
  lines.add("{} batch_of_row = {};", index, quotient(words, "own", geometry.rows, wide));
  lines.add("own = own - batch_of_row * {};", words.index(geometry.rows, wide));
  decompose(lines, words, geometry.shape, 0, geometry.m, "batch_of_row", "i", wide);
  decompose(lines, words, geometry.shape, a.first, a.last, "own", "i", wide);
  a.access.declare(lines, words, "b", "", 0, geometry.m, "i");
  a.access.declare(lines, words, "r", "b", a.first, a.last, "i");
  lines.add("float x[{}];", count);
  lines.add("UNROLL");
  lines.open("for (int k = 0; k < {}; k += {}) {{", count, vectors ? 4 : 1);
  lines.add("{0} at = {0}({1}) + {0}(k);", index, first);
  decompose(lines, words, geometry.shape, geometry.k, rank, "at", "i", wide);
  a.access.declare(lines, words, "e", "r", geometry.k, rank, "i");
  if (vectors) {
    lines.add("UINT four[4];");
    lines.add("{}(a_at, a_e, four)", load4_of(dtype));
    lines.add("UNROLL");
    lines.add("for (int i = 0; i < 4; i++) x[k + i] = {};", decoded(dtype, "four[i]", a.input->canonical));
  } else {
    a.access.check_bounds(lines, words, "e");
    const std::string load = fmt::format("{}(a_at, a_e)", load_of(dtype));
    if (a.bounded()) {
      lines.add("{} word = {};", word_type_of(dtype), words.uint32(a.view.fill));
      lines.add("if ({}) word = {};", a.access.inside("e"), load);
    } else {
      lines.add("{} word = {};", word_type_of(dtype), load);
    }
    lines.add("x[k] = {};", decoded(dtype, "word", a.input->canonical));
  }
  lines.close();
}

void load_block(Lines& lines, Words& words, const Geometry& geometry, const Side& a, const std::string& row,
                const std::string& block) {
  const char* index = geometry.wide ? "LONG" : "int";
  const std::string first = fmt::format("{0}({1}) * {0}({2})", index, block, order::kQ8Block);
  load_neighbours(lines, words, geometry, a, row, first, order::kQ8Block);
}

void round_block(Lines& lines, Words& words, const Geometry& geometry, const Side& a, const std::string& row,
                 const std::string& block) {
  load_block(lines, words, geometry, a, row, block);
  lines.add("UINT largest = 0u;");
  lines.add("UNROLL");
  lines.open("for (int k = 0; k < {}; k++) {{", order::kQ8Block);
  lines.add("UINT magnitude = BITS(x[k]) & 0x7fffffffu;");
  lines.add("largest = SELECT(magnitude > largest, magnitude, largest);");
  lines.close();
  lines.add("FLOAT scale = q8_scale(largest);");
  lines.add("FLOAT inverse = FROM_BITS(0u);");
  lines.add("if (scale > FROM_BITS(0u)) inverse = DIV(1.0f, scale);");
  lines.add("UINT code[{}];", kWordsOfBlock);
  lines.add("int half_sum[2];");
  lines.add("half_sum[0] = 0;");
  lines.add("half_sum[1] = 0;");
  lines.add("UNROLL");
  lines.open("for (int w = 0; w < {}; w++) {{", kWordsOfBlock);
  lines.add("code[w] = 0u;");
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < 4; i++) {{");
  lines.add("int one = q8_code(x[4 * w + i], inverse);");
  lines.add("half_sum[w / {}] += one;", kWordsOfBlock / 2);
  lines.add("code[w] = code[w] | (UINT(one) & 255u) << UINT(8 * i);");
  lines.close();
  lines.close();
}

void open_rounding(Lines& lines, Words& words, const Geometry& geometry, const Side& a, std::int64_t rows,
                   std::int64_t first, int threads) {
  const char* index = geometry.wide ? "LONG" : "int";
  lines.open("for (int e = int(GROUP) * {0} + int(THREAD); e < rows * blocks; e += int(GROUPS) * {0}) {{", threads);
  lines.add("int block = {};", quotient(words, "e", rows, false));
  lines.add("int row = e - block * rows;");
  lines.add("int read = SELECT(row < count, row, count - 1);");
  lines.add("{0} all = {0}(read) + {1};", index, words.index(first, geometry.wide));
  round_block(lines, words, geometry, a, "all", "block");
  lines.open("if (row >= count) {{");
  lines.add("UNROLL");
  lines.add("for (int w = 0; w < {}; w++) code[w] = 0u;", kWordsOfBlock);
  lines.add("scale = FROM_BITS(0u);");
  lines.add("half_sum[0] = 0;");
  lines.add("half_sum[1] = 0;");
  lines.close();
}

Rendered render_q8(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  if (std::optional<Rendered> few = render_packed_few(kernel, geometry, limits)) return std::move(*few);
  if (std::optional<Rendered> wide = render_q8_warpgroups(kernel, geometry, limits)) return std::move(*wide);
  if (std::optional<Rendered> tiles = render_q8_tiles(kernel, geometry, limits)) return std::move(*tiles);
  if (std::optional<Rendered> matrices = render_q8_matrices(kernel, geometry, limits)) return std::move(*matrices);
  return Q8Contraction(kernel, geometry, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
