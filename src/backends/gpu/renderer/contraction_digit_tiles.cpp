// Contractions in blocked numerics as products of bytes that the threads of a workgroup wait for: tensor cores
// (KernelText::byte_fragments) or dot products of four bytes (DOT4). After digits of both operands were made
// (contraction_digits.h) a workgroup multiplies a tile of 128 x 64 outputs, 64 of k at a time: a thread keeps the sums
// of three kinds of digit products of its 32 outputs, and adds them as docs/numerics.md section 12 says after each
// block. The two forms differ in which outputs are whose, and in the instruction.
//
// Few tiles of a long k leave most of the device idle: then workgroups take parts of k, the products of each block go
// to scratch memory, and one more launch adds blocks in their order.
#include <algorithm>

#include "backends/gpu/renderer/contraction_digits.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kByteThreads = 256;
constexpr int kTileColumns = 64;    ///< of a tile, of kDigitRows rows
constexpr int kThreadOutputs = 32;  ///< of a thread
constexpr int kRowChunks = 4;       ///< of 16 bytes: 64 of k in a row
constexpr int kBlockChunks = 8;     ///< of a row in memory, a whole block
constexpr int kPlaneChunks = kDigitRows * kBlockChunks;
constexpr int kColumnsAt = 2 * kDigitRows * kRowChunks;  ///< chunks: digits of columns lie behind those of rows
constexpr int kStageChunks = kColumnsAt + 2 * kTileColumns * kRowChunks;
constexpr int kPassedRows = 64;  ///< results on their way out
constexpr int kPassedStride = kTileColumns + 4;
constexpr int kProductWords = kDigitRows * kTileColumns;         ///< of a block and tile
constexpr std::int64_t kMostDigitBytes = std::int64_t{1} << 30;  ///< of scratch memory

class DigitTiles {
 public:
  DigitTiles(const ContractionKernel& kernel, const Geometry& geometry, const DigitLayout& layout,
             const RenderLimits& limits, std::int64_t split)
      : kernel_(kernel),
        geometry_(geometry),
        layout_(layout),
        limits_(limits),
        split_(split),
        fragments_(limits.byte_fragments),
        guarded_(split == 1 && is_guarded(kernel, limits)),
        ahead_(limits.copies_to_shared && limits.shared_bytes >= 2 * 16 * kStageChunks),
        index_(geometry.wide ? "LONG" : "int"),
        writer_(kernel.epilogue, geometry.epilogue, words_) {}

  Launch render();
  /// Adds what `render` left in scratch memory where k was split.
  Launch render_sums();

  static std::int64_t tiles_of(const Geometry& geometry, const DigitLayout& layout) {
    return geometry.batches * layout.a_tiles * over(geometry.columns, kTileColumns);
  }

 private:
  // A thread's outputs are all pairs of its rows and columns.
  int rows() const { return fragments_ ? 4 : 8; }
  int columns() const { return kThreadOutputs / rows(); }
  std::string row_of(const char* x) const {
    return fragments_ ? fmt::format("(({0} >> 4) * 2 + (({0} >> 1) & 1))", x) : fmt::format("({} >> 2)", x);
  }
  std::string column_of(const char* x) const {
    return fragments_ ? fmt::format("((({0} >> 2) & 3) * 2 + ({0} & 1))", x) : fmt::format("({} & 3)", x);
  }
  /// Where they are in the tile.
  std::string row_place(const std::string& row) const {
    return fragments_ ? fmt::format("(team_m * 32 + ({0} >> 1) * 16 + (lane >> 2) + ({0} & 1) * 8)", row)
                      : fmt::format("(thread_m + {} * 16)", row);
  }
  std::string column_place(const std::string& column) const {
    return fragments_ ? fmt::format("(team_n * 32 + ({0} >> 1) * 8 + (lane & 3) * 2 + ({0} & 1))", column)
                      : fmt::format("(thread_n + {} * 16)", column);
  }

  void declare_places();
  void find_tile();
  void copy(const char* block, const char* half, const char* stage);
  void multiply_fragments(const char* stage);
  void multiply_dots(const char* stage);
  void sum_blocks();
  void end_block();
  void add_block(const char* fma);
  void write_outputs();
  void write_output(const char* result);
  void each_output() {
    lines_.add("UNROLL");
    lines_.open("for (int x = 0; x < {}; x++) {{", kThreadOutputs);
  }

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const DigitLayout& layout_;
  const RenderLimits& limits_;
  const std::int64_t split_;
  const bool fragments_;  ///< else dot products
  const bool guarded_;    ///< FMA_EXACT is slow here, and seldom needed
  const bool ahead_;      ///< the next 64 of k are copied while these are multiplied
  const char* index_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
};

void DigitTiles::declare_places() {
  const bool wide = geometry_.wide;
  lines_.add("int thread_id = int(THREAD);");
  if (fragments_) {  // teams of 32 threads: 4 x 2, each with 32 x 32 outputs
    lines_.add("int lane = thread_id & 31;");
    lines_.add("int team_m = thread_id / 64;");
    lines_.add("int team_n = (thread_id / 32) & 1;");
  } else {
    lines_.add("int thread_m = thread_id / 16;");
    lines_.add("int thread_n = thread_id & 15;");
  }
  lines_.add("MEMORY b_scales = {};", words_.memory(Patch::Kind::form, 1, layout_.b_scales));
  lines_.add("{} size_m = {};", index_, words_.index(geometry_.rows, wide));
  lines_.add("{} size_n = {};", index_, words_.index(geometry_.columns, wide));
  lines_.add("{} tiles = {};", index_, words_.index(tiles_of(geometry_, layout_), wide));
  lines_.add("int blocks = {};", words_.int32(layout_.blocks));
}

// And `left` and `right`, the numbers of the operands' first tiles of digits.
void DigitTiles::find_tile() {
  const bool wide = geometry_.wide;
  find_digit_tile(lines_, words_, layout_.a_tiles, over(geometry_.columns, kTileColumns), wide);
  lines_.add("LONG left = (LONG(batch) * LONG({}) + LONG(tile_m)) * LONG(blocks);",
             words_.index(layout_.a_tiles, wide));
  lines_.add("LONG right = (LONG(batch) * LONG({}) + LONG(tile_n >> 1)) * LONG(blocks);",
             words_.index(layout_.b_tiles, wide));
  lines_.add("int right_row = int(tile_n & {}(1)) * {};", index_, kTileColumns);
}

Launch DigitTiles::render() {
  declare_places();
  lines_.add("MEMORY a_digits = {};", words_.memory(Patch::Kind::form, 0, layout_.a_digits));
  lines_.add("MEMORY a_scales = {};", words_.memory(Patch::Kind::form, 0, layout_.a_scales));
  lines_.add("MEMORY b_digits = {};", words_.memory(Patch::Kind::form, 1, layout_.b_digits));
  if (split_ == 1) {
    writer_.declare_buffers(lines_);
    declare_zero(lines_, words_, ComputeType::f32);
    lines_.open("for ({0} tile = {0}(GROUP); tile < tiles; tile += {0}(GROUPS)) {{", index_);
    lines_.add("int first_block = 0;");
    lines_.add("int end_block = blocks;");
  } else {
    lines_.add("MEMORY products = {};", words_.memory(Patch::Kind::scratch, 0, layout_.bytes()));
    lines_.open("for (LONG unit = LONG(GROUP); unit < LONG(tiles) * LONG({}); unit += LONG(GROUPS)) {{",
                words_.index(split_, geometry_.wide));
    lines_.add("LONG k_part = unit / LONG(tiles);");
    lines_.add("{0} tile = {0}(unit - k_part * LONG(tiles));", index_);
    const std::string each = words_.int32(over(layout_.blocks, split_));
    lines_.add("int first_block = int(k_part) * {};", each);
    lines_.add("int end_block = first_block + {};", each);
    lines_.add("end_block = SELECT(end_block < blocks, end_block, blocks);");
  }
  find_tile();
  sum_blocks();
  if (split_ == 1) write_outputs();
  lines_.close();
  Launch result;
  result.text.body = lines_.take();
  result.text.functions = writer_.functions();
  result.text.threads = kByteThreads;
  result.text.groups_per_unit = 1;
  result.text.copies = ahead_;
  result.text.byte_fragments = fragments_;
  result.text.shared.push_back({ComputeType::i32, "tile_digits", (ahead_ ? 2 : 1) * kStageChunks * 4});
  result.groups = limits_.groups_for(tiles_of(geometry_, layout_) * split_);
  words_.move_to(result);
  return result;
}

// Half a block of the tile's rows and columns, both planes. Each row's chunks are exchanged so that eight rows' are in
// different banks.
void DigitTiles::copy(const char* block, const char* half, const char* stage) {
  lines_.open("{{");
  lines_.add("int row = thread_id >> 2;");
  lines_.add("int near = (({} * 4 + (thread_id & 3)) ^ (row & 7));", half);
  lines_.add("int to = {} * {} + row * {} + ((thread_id & 3) ^ ((row >> 1) & 3));", stage, kStageChunks, kRowChunks);
  lines_.add("LONG of_a = (left + LONG({})) * LONG({}) + LONG(row * {} + near);", block, 2 * kPlaneChunks,
             kBlockChunks);
  lines_.add("LONG of_b = (right + LONG({})) * LONG({}) + LONG((right_row + row) * {} + near);", block,
             2 * kPlaneChunks, kBlockChunks);
  constexpr int kRowsAtOnce = kByteThreads / kRowChunks;
  constexpr int kOfRows = 2 * kDigitRows / kRowsAtOnce;
  constexpr int kAll = kOfRows + 2 * kTileColumns / kRowsAtOnce;
  static_assert(kTileColumns == kRowsAtOnce);
  const auto source = [&](int i) {
    return i < kOfRows ? fmt::format("of_a + LONG({})", i * kRowsAtOnce * kBlockChunks)
                       : fmt::format("of_b + LONG({})", (i - kOfRows) * kPlaneChunks);
  };
  const auto target = [&](int i) { return fmt::format("to + {}", i * kRowsAtOnce * kRowChunks); };
  const auto memory = [&](int i) { return i < kOfRows ? "a_digits" : "b_digits"; };
  for (int i = 0; i < kAll; ++i) {
    if (ahead_) {
      lines_.add("COPY_TO_SHARED(tile_digits, {}, 16, {} + ULONG({}) * 16u)", target(i), memory(i), source(i));
    } else {
      lines_.add("UINT moved_{}[4];", i);
      lines_.add("LOAD4_U32({}, ({}) * LONG(4), moved_{})", memory(i), source(i), i);
    }
  }
  for (int i = 0; i < kAll && !ahead_; ++i) lines_.add("PUT4_U32(tile_digits, {}, moved_{})", target(i), i);
  lines_.close();
}

void DigitTiles::sum_blocks() {
  if (split_ == 1) {
    lines_.add("float sums[{}];", kThreadOutputs);
    each_output();
    lines_.add("sums[x] = zero;");
    lines_.close();
  }
  if (guarded_) lines_.add("bool plain = true;");
  if (ahead_) {
    lines_.add("BARRIER();");
    copy("first_block", "0", "0");
  }
  lines_.open("for (int block = first_block; block < end_block; block++) {{");
  const auto load_scales = [&](const char* name, int count, const std::string& from, const std::string& place) {
    lines_.add("float {}[{}];", name, count);
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < {}; i++) {}[i] = FROM_BITS(LOAD_U32({}, {}));", count, name, from, place);
  };
  load_scales("row_scales", rows(), "a_scales",
              fmt::format("(left + LONG(block)) * LONG({}) + LONG({})", kDigitRows, row_place("i")));
  if (split_ == 1) {
    load_scales("column_scales", columns(), "b_scales",
                fmt::format("(right + LONG(block)) * LONG({}) + LONG(right_row + {})", kDigitRows, column_place("i")));
  }
  lines_.add("int high[{0}], mixed[{0}], low[{0}];", kThreadOutputs);
  each_output();
  lines_.add("high[x] = 0;");
  lines_.add("mixed[x] = 0;");
  lines_.add("low[x] = 64;");
  lines_.close();
  lines_.open("for (int half_block = 0; half_block < 2; half_block++) {{");
  if (ahead_) {
    lines_.add("COPIES_ARRIVED();");
    lines_.add("BARRIER();");
    lines_.add("int later = block + half_block;");
    lines_.open("if (later < end_block) {{");
    copy("later", "(1 - half_block)", "(1 - half_block)");
    lines_.close();
  } else {
    lines_.add("BARRIER();");
    copy("block", "half_block", "0");
    lines_.add("BARRIER();");
  }
  const char* stage = ahead_ ? "half_block" : "0";
  fragments_ ? multiply_fragments(stage) : multiply_dots(stage);
  lines_.close();
  end_block();
  lines_.close();
}

void DigitTiles::multiply_fragments(const char* stage) {
  // Which 16 bytes a thread names of four matrices of 8 rows: those of rows are (rows, k), of columns (k, columns).
  lines_.add("int exchanged = (lane >> 1) & 3;");
  lines_.add("int of_rows = {} * {} + (team_m * 32 + (lane & 15)) * {};", stage, kStageChunks, kRowChunks);
  lines_.add("int of_columns = {} * {} + {} + (team_n * 32 + (lane & 7) + (lane >> 4) * 8) * {};", stage, kStageChunks,
             kColumnsAt, kRowChunks);
  lines_.add("UNROLL");
  lines_.open("for (int part = 0; part < 2; part++) {{");
  lines_.add("UINT a[16];");
  lines_.add("UINT b[16];");
  lines_.add("UNROLL");
  lines_.open("for (int f = 0; f < 4; f++) {{");  // plane f / 2, and there the first or second 16
  lines_.add("int of_a = of_rows + ((f >> 1) * {} + (f & 1) * 16) * {};", kDigitRows, kRowChunks);
  lines_.add("TAKE_FRAGMENT(a, 4 * f, tile_digits, of_a + ((part * 2 + (lane >> 4)) ^ exchanged))");
  lines_.add("int of_b = of_columns + ((f >> 1) * {} + (f & 1) * 16) * {};", kTileColumns, kRowChunks);
  lines_.add("TAKE_FRAGMENT(b, 4 * f, tile_digits, of_b + ((part * 2 + ((lane >> 3) & 1)) ^ exchanged))");
  lines_.close();
  lines_.add("UNROLL");
  lines_.open("for (int i = 0; i < 2; i++) {{");
  lines_.add("UNROLL");
  lines_.open("for (int j = 0; j < 4; j++) {{");
  lines_.add("int x = (i * 4 + j) * 4;");
  lines_.add("MULTIPLY_32_BYTES((high + x), a, 4 * i, (b + 2 * j))");
  lines_.add("MULTIPLY_32_BYTES((mixed + x), a, 4 * i, (b + 8 + 2 * j))");
  lines_.add("MULTIPLY_32_BYTES((mixed + x), a, 8 + 4 * i, (b + 2 * j))");
  lines_.add("MULTIPLY_32_BYTES((low + x), a, 8 + 4 * i, (b + 8 + 2 * j))");
  lines_.close();
  lines_.close();
  lines_.close();
}

void DigitTiles::multiply_dots(const char* stage) {
  lines_.add("int of_rows = {} * {} + thread_m * {};", stage, kStageChunks, kRowChunks);
  lines_.add("int of_columns = {} * {} + {} + thread_n * {};", stage, kStageChunks, kColumnsAt, kRowChunks);
  lines_.open("for (int part = 0; part < {}; part++) {{", kRowChunks);
  lines_.add("UINT b[32];");
  lines_.add("UNROLL");
  lines_.open("for (int f = 0; f < 8; f++) {{");  // plane f / 4, and there a column
  lines_.add("UINT four[4];");
  lines_.add(
      "TAKE4_U32(tile_digits, of_columns + ((f >> 2) * {} + (f & 3) * 16) * {} + (part ^ ((thread_n >> 1) & 3)), four)",
      kTileColumns, kRowChunks);
  lines_.add("UNROLL");
  lines_.add("for (int w = 0; w < 4; w++) b[4 * f + w] = four[w];");
  lines_.close();
  lines_.add("UNROLL");
  lines_.open("for (int i = 0; i < 8; i++) {{");
  for (const auto& [name, plane] : {std::pair{"a_high", 0}, {"a_low", 1}}) {
    lines_.add("UINT {}[4];", name);
    lines_.add("TAKE4_U32(tile_digits, of_rows + ({} + i * 16) * {} + (part ^ ((thread_m >> 1) & 3)), {})",
               plane * kDigitRows, kRowChunks, name);
  }
  lines_.add("UNROLL");
  lines_.open("for (int j = 0; j < 16; j++) {{");  // column j / 4, and there a word
  lines_.add("int x = i * 4 + (j >> 2);");
  lines_.add("high[x] = DOT4(a_high[j & 3], b[j], high[x]);");
  lines_.add("mixed[x] = DOT4(a_high[j & 3], b[16 + j], mixed[x]);");
  lines_.add("mixed[x] = DOT4(a_low[j & 3], b[j], mixed[x]);");
  lines_.add("low[x] = DOT4(a_low[j & 3], b[16 + j], low[x]);");
  lines_.close();
  lines_.close();
  lines_.close();
}

// Products are multiples of what the scales of their row and column are together: where that was never below 2^-126, no
// sum is subnormal, and the device's own fma will do.
void DigitTiles::end_block() {
  if (!guarded_) return add_block("FMA_EXACT");
  for (const auto& [name, count] : {std::pair{"row", rows()}, {"column", columns()}}) {
    lines_.add("float least_{0} = {0}_scales[0];", name);
    lines_.add("UNROLL");
    lines_.add("for (int i = 1; i < {1}; i++) least_{0} = SELECT({0}_scales[i] < least_{0}, {0}_scales[i], least_{0});",
               name, count);
  }
  lines_.add("plain = plain && least_row * least_column >= FROM_BITS(0x00800000u);");
  lines_.open("if (plain) {{");
  add_block("FMA");
  lines_.close();
  lines_.open("else {{");
  add_block("FMA_EXACT");
  lines_.close();
}

void DigitTiles::add_block(const char* fma) {
  lines_.add("UNROLL");
  lines_.open("for (int group = 0; group < {}; group++) {{", kThreadOutputs / 4);
  lines_.add("UINT words[4];");
  lines_.add("UNROLL");
  lines_.open("for (int q = 0; q < 4; q++) {{");
  lines_.add("int x = 4 * group + q;");
  lines_.add("int whole = high[x] * 128 + mixed[x] + (low[x] >> 7);");
  lines_.add("FLOAT scaled = float(whole) * row_scales[{}];", row_of("x"));
  if (split_ == 1) {
    lines_.add("sums[x] = {}(scaled, column_scales[{}], sums[x]);", fma, column_of("x"));
  } else {
    lines_.add("words[q] = BITS(scaled);");
  }
  lines_.close();
  if (split_ > 1) {
    lines_.add("LONG to = (LONG(block) * LONG(tiles) + LONG(tile)) * LONG({}) + LONG((group * {} + thread_id) * 4);",
               kProductWords, kByteThreads);
    lines_.add("STORE4_U32(products, to, words)");
  }
  lines_.close();
}

// By way of shared memory, so that neighbouring threads write neighbours: 64 rows, then the others.
void DigitTiles::write_outputs() {
  lines_.open("for (int piece = 0; piece < {}; piece++) {{", kDigitRows / kPassedRows);
  lines_.add("BARRIER();");
  for (int piece = 0; piece < kDigitRows / kPassedRows; ++piece) {
    lines_.open("if (piece == {}) {{", piece);
    lines_.add("UNROLL");
    lines_.open("for (int x = 0; x < {}; x++) {{", kThreadOutputs / 2);
    lines_.add("int row = {};",
               fragments_ ? "team_m * 16 + (lane >> 2) + ((x >> 1) & 1) * 8" : "thread_m + (x >> 2) * 16");
    lines_.add("int column = {};", column_place(column_of("x")));
    lines_.add("tile_digits[row * {} + column] = int(BITS(sums[{} + x]));", kPassedStride, piece * kThreadOutputs / 2);
    lines_.close();
    lines_.close();
  }
  lines_.add("BARRIER();");
  lines_.open("for (int e = thread_id; e < {}; e += {}) {{", kPassedRows * kTileColumns, kByteThreads);
  lines_.add("int staged_row = e / {};", kTileColumns);
  lines_.add("int column = e & {};", kTileColumns - 1);
  lines_.add("int row = {};",
             fragments_ ? "(staged_row >> 4) * 32 + piece * 16 + (staged_row & 15)" : "piece * 64 + staged_row");
  write_output(fmt::format("FROM_BITS(UINT(tile_digits[staged_row * {} + column]))", kPassedStride).c_str());
  lines_.close();
  lines_.close();
}

// Of `row` and `column` in the tile.
void DigitTiles::write_output(const char* result) {
  lines_.add("{0} m = tile_m * {0}({1}) + {0}(row);", index_, kDigitRows);
  lines_.add("{0} n = tile_n * {0}({1}) + {0}(column);", index_, kTileColumns);
  lines_.open("if (m < size_m && n < size_n) {{");
  write_result(lines_, words_, writer_, kernel_, geometry_, geometry_.wide, result);
  lines_.close();
}

// A workgroup has four outputs of each thread of a tile.
Launch DigitTiles::render_sums() {
  constexpr int kParts = kThreadOutputs / 4;
  declare_places();
  lines_.add("MEMORY products = {};", words_.memory(Patch::Kind::scratch, 0, layout_.bytes()));
  writer_.declare_buffers(lines_);
  declare_zero(lines_, words_, ComputeType::f32);
  lines_.open("for (LONG item = LONG(GROUP); item < LONG(tiles) * LONG({}); item += LONG(GROUPS)) {{", kParts);
  lines_.add("{0} tile = {0}(item / LONG({1}));", index_, kParts);
  lines_.add("int group = int(item & LONG({}));", kParts - 1);
  find_tile();
  lines_.add("float sums[4];");
  lines_.add("UNROLL");
  lines_.add("for (int q = 0; q < 4; q++) sums[q] = zero;");
  lines_.add("UNROLL_BY(4)");
  lines_.open("for (int block = 0; block < blocks; block++) {{");
  lines_.add("UINT words[4];");
  lines_.add(
      "LOAD4_U32(products, (LONG(block) * LONG(tiles) + LONG(tile)) * LONG({}) + LONG((group * {} + thread_id) * 4), "
      "words)",
      kProductWords, kByteThreads);
  lines_.add("UNROLL");
  lines_.open("for (int q = 0; q < 4; q++) {{");
  lines_.add("int x = group * 4 + q;");
  lines_.add("LONG of_column = (right + LONG(block)) * LONG({}) + LONG(right_row + {});", kDigitRows,
             column_place(column_of("x")));
  lines_.add("sums[q] = FMA_EXACT(FROM_BITS(words[q]), FROM_BITS(LOAD_U32(b_scales, of_column)), sums[q]);");
  lines_.close();
  lines_.close();
  lines_.add("UNROLL");
  lines_.open("for (int q = 0; q < 4; q++) {{");
  lines_.add("int x = group * 4 + q;");
  lines_.add("int row = {};", row_place(row_of("x")));
  lines_.add("int column = {};", column_place(column_of("x")));
  write_output("sums[q]");
  lines_.close();
  lines_.close();
  Launch result;
  result.text.body = lines_.take();
  result.text.functions = writer_.functions();
  result.text.threads = kByteThreads;
  result.groups = limits_.groups_for(kParts * tiles_of(geometry_, layout_));
  words_.move_to(result);
  return result;
}

/// Into how many parts k is cut.
std::int64_t split_of_k(const Geometry& geometry, const DigitLayout& layout, const RenderLimits& limits) {
  constexpr std::int64_t kLeastBlocks = 8;
  const std::int64_t tiles = DigitTiles::tiles_of(geometry, layout);
  if (layout.blocks * tiles * kProductWords * 4 > kMostDigitBytes) return 1;
  const std::int64_t split = std::min<std::int64_t>(layout.blocks / kLeastBlocks, limits.units / tiles);
  return split <= 1 ? 1 : over(layout.blocks, over(layout.blocks, split));  // no part without a block
}

}  // namespace

bool is_for_digit_tiles(const Geometry& geometry, const RenderLimits& limits) {
  return (limits.byte_fragments || limits.arithmetic.byte_dots) && limits.threads >= kByteThreads &&
         geometry.length > 0 && limits.shared_bytes >= 16 * kStageChunks && digits_fit(geometry, limits) &&
         DigitLayout(geometry).bytes() <= kMostDigitBytes;
}

Rendered render_digit_tiles(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  const DigitLayout layout(geometry);
  Rendered rendered = render_digits(kernel, geometry, layout, limits);
  const std::int64_t split = split_of_k(geometry, layout, limits);
  rendered.launches.push_back(DigitTiles(kernel, geometry, layout, limits, split).render());
  if (split > 1) {
    rendered.scratch_bytes +=
        static_cast<std::size_t>(layout.blocks * DigitTiles::tiles_of(geometry, layout) * kProductWords * 4);
    rendered.launches.push_back(DigitTiles(kernel, geometry, layout, limits, split).render_sums());
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
