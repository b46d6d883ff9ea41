// Contractions in blocked numerics as products of bytes that the threads of a workgroup wait for: tensor cores
// (KernelText::byte_fragments) or dot products of four bytes (DOT4). After digits of both operands were made
// (contraction_digits.h) a workgroup multiplies a tile of 128 x 64 outputs, 64 of k at a time: a thread keeps the sums
// of three kinds of digit products of its 32 outputs, and adds them as docs/numerics.md section 12 says after each
// block. The two forms differ in which outputs are whose, and in the instruction.
//
// Few tiles of a long k leave most of the device idle: then workgroups take parts of k, the products of each block go
// to scratch memory, and one more launch adds blocks in their order.
#include "backends/gpu/renderer/contraction_byte_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kRowChunks = 4;                            ///< of 16 bytes: 64 of k in a row
constexpr int kColumnsAt = 2 * kDigitRows * kRowChunks;  ///< chunks: digits of columns lie behind those of rows
constexpr int kStageChunks = kColumnsAt + 2 * kTileColumns * kRowChunks;
constexpr int kProductWords = kDigitRows * kTileColumns;  ///< of a block and tile

class DigitTiles : ByteTiles {
 public:
  DigitTiles(const ContractionKernel& kernel, const Geometry& geometry, const DigitLayout& layout,
             const RenderLimits& limits, std::int64_t split)
      : ByteTiles(kernel, geometry, layout, limits, split == 1),
        split_(split),
        fragments_(limits.byte_fragments),
        ahead_(limits.copies_to_shared && limits.shared_bytes >= 2 * 16 * kStageChunks) {}

  Launch render();
  /// Adds what `render` left in scratch memory where k was split.
  Launch render_sums();

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
  void copy(const char* block, const char* half, const char* stage);
  void multiply_fragments(const char* stage);
  void multiply_dots(const char* stage);
  void sum_blocks();
  void add_block(const char* fma);

  const std::int64_t split_;
  const bool fragments_;  ///< else dot products
  const bool ahead_;      ///< the next 64 of k are copied while these are multiplied
};

void DigitTiles::declare_places() {
  declare_tiles();
  if (fragments_) {  // teams of 32 threads: 4 x 2, each with 32 x 32 outputs
    lines_.add("int lane = thread_id & 31;");
    lines_.add("int team_m = thread_id / 64;");
    lines_.add("int team_n = (thread_id / 32) & 1;");
  } else {
    lines_.add("int thread_m = thread_id / 16;");
    lines_.add("int thread_n = thread_id & 15;");
  }
}

Launch DigitTiles::render() {
  declare_places();
  declare_digits();
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
  if (split_ == 1) {
    const Places places{
        .row = fragments_ ? "team_m * 16 + (lane >> 2) + ((x >> 1) & 1) * 8" : "thread_m + (x >> 2) * 16",
        .column = column_place(column_of("x")),
        .in_tile = fragments_ ? "(staged_row >> 4) * 32 + piece * 16 + (staged_row & 15)" : "piece * 64 + staged_row"};
    write_outputs(places, [](const std::string& number) { return fmt::format("tile_digits[{}]", number); });
  }
  lines_.close();
  Launch result = finish();
  result.text.groups_per_unit = 1;
  result.text.copies = ahead_;
  result.text.byte_fragments = fragments_;
  result.text.shared.push_back({ComputeType::i32, "tile_digits", (ahead_ ? 2 : 1) * kStageChunks * 4});
  result.groups = limits_.groups_for(byte_tiles(geometry_, layout_) * split_);
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
  begin_care();
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
  add_with_care(rows(), columns(), [&](const char* fma) { add_block(fma); });
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
  Launch result = finish();
  result.groups = limits_.groups_for(kParts * byte_tiles(geometry_, layout_));
  return result;
}

}  // namespace

bool is_for_digit_tiles(const Geometry& geometry, const RenderLimits& limits) {
  return (limits.byte_fragments || limits.arithmetic.byte_dots) && limits.threads >= kByteThreads &&
         limits.shared_bytes >= 16 * kStageChunks && digits_fit(geometry, limits);
}

Rendered render_digit_tiles(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  const DigitLayout layout(geometry);
  Rendered rendered = render_digits(kernel, geometry, layout, limits);
  const std::int64_t split = split_of_digits(geometry, layout, limits);
  rendered.launches.push_back(DigitTiles(kernel, geometry, layout, limits, split).render());
  if (split > 1) {
    rendered.scratch_bytes +=
        static_cast<std::size_t>(layout.blocks * byte_tiles(geometry, layout) * kProductWords * 4);
    rendered.launches.push_back(DigitTiles(kernel, geometry, layout, limits, split).render_sums());
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
