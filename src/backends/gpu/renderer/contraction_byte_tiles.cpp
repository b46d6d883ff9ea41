#include "backends/gpu/renderer/contraction_byte_tiles.h"

#include <algorithm>

namespace lockstep {
inline namespace v0 {
namespace gpu {

std::int64_t byte_tiles(const Geometry& geometry, const DigitLayout& layout) {
  return geometry.batches * layout.a_tiles * over(geometry.columns, kTileColumns);
}

std::int64_t split_of_digits(const Geometry& geometry, const DigitLayout& layout, const RenderLimits& limits) {
  constexpr std::int64_t kLeastBlocks = 8;
  const std::int64_t tiles = byte_tiles(geometry, layout);
  if (layout.blocks * tiles * kDigitRows * kTileColumns * 4 > kMostDigitBytes) return 1;
  const std::int64_t split = std::min<std::int64_t>(layout.blocks / kLeastBlocks, limits.units / tiles);
  return split <= 1 ? 1 : over(layout.blocks, over(layout.blocks, split));  // no part without a block
}

void ByteTiles::declare_tiles() {
  const bool wide = geometry_.wide;
  lines_.add("int thread_id = int(THREAD);");
  lines_.add("MEMORY b_scales = {};", words_.memory(Patch::Kind::form, 1, layout_.b_scales));
  lines_.add("{} size_m = {};", index_, words_.index(geometry_.rows, wide));
  lines_.add("{} size_n = {};", index_, words_.index(geometry_.columns, wide));
  lines_.add("{} tiles = {};", index_, words_.index(byte_tiles(geometry_, layout_), wide));
  lines_.add("int blocks = {};", words_.int32(layout_.blocks));
}

void ByteTiles::declare_digits() {
  lines_.add("MEMORY a_digits = {};", words_.memory(Patch::Kind::form, 0, layout_.a_digits));
  lines_.add("MEMORY a_scales = {};", words_.memory(Patch::Kind::form, 0, layout_.a_scales));
  lines_.add("MEMORY b_digits = {};", words_.memory(Patch::Kind::form, 1, layout_.b_digits));
}

void ByteTiles::find_tile() {
  const bool wide = geometry_.wide;
  find_digit_tile(lines_, words_, layout_.a_tiles, over(geometry_.columns, kTileColumns), wide);
  lines_.add("LONG left = (LONG(batch) * LONG({}) + LONG(tile_m)) * LONG(blocks);",
             words_.index(layout_.a_tiles, wide));
  lines_.add("LONG right = (LONG(batch) * LONG({}) + LONG(tile_n >> 1)) * LONG(blocks);",
             words_.index(layout_.b_tiles, wide));
  lines_.add("int right_row = int(tile_n & {}(1)) * {};", index_, kTileColumns);
}

void ByteTiles::begin_care() {
  if (guarded_) lines_.add("bool plain = true;");
}

// Products are multiples of what the scales of their row and column are together: where that was never below 2^-126, no
// sum is subnormal, and the device's own fma will do.
void ByteTiles::add_with_care(int rows, int columns, const std::function<void(const char*)>& add) {
  if (!guarded_) return add("FMA_EXACT");
  for (const auto& [name, count] : {std::pair{"row", rows}, {"column", columns}}) {
    lines_.add("float least_{0} = {0}_scales[0];", name);
    lines_.add("UNROLL");
    lines_.add("for (int i = 1; i < {1}; i++) least_{0} = SELECT({0}_scales[i] < least_{0}, {0}_scales[i], least_{0});",
               name, count);
  }
  lines_.add("plain = plain && least_row * least_column >= FROM_BITS(0x00800000u);");
  lines_.open("if (plain) {{");
  add("FMA");
  lines_.close();
  lines_.open("else {{");
  add("FMA_EXACT");
  lines_.close();
}

void ByteTiles::write_outputs(const Places& places, const std::function<std::string(const std::string&)>& word) {
  lines_.open("for (int piece = 0; piece < {}; piece++) {{", kDigitRows / kPassedRows);
  lines_.add("BARRIER();");
  for (int piece = 0; piece < kDigitRows / kPassedRows; ++piece) {
    lines_.open("if (piece == {}) {{", piece);
    each_output(kThreadOutputs / 2);
    lines_.add("int row = {};", places.row);
    lines_.add("int column = {};", places.column);
    lines_.add("{} = int(BITS(sums[{} + x]));", word(fmt::format("row * {} + column", kPassedStride)),
               piece * kThreadOutputs / 2);
    lines_.close();
    lines_.close();
  }
  lines_.add("BARRIER();");
  lines_.open("for (int e = thread_id; e < {}; e += {}) {{", kPassedRows * kTileColumns, kByteThreads);
  lines_.add("int staged_row = e / {};", kTileColumns);
  lines_.add("int column = e & {};", kTileColumns - 1);
  lines_.add("int row = {};", places.in_tile);
  write_output(fmt::format("FROM_BITS(UINT({}))", word(fmt::format("staged_row * {} + column", kPassedStride))));
  lines_.close();
  lines_.close();
}

void ByteTiles::write_output(const std::string& result) {
  lines_.add("{0} m = tile_m * {0}({1}) + {0}(row);", index_, kDigitRows);
  lines_.add("{0} n = tile_n * {0}({1}) + {0}(column);", index_, kTileColumns);
  lines_.open("if (m < size_m && n < size_n) {{");
  write_result(lines_, words_, writer_, kernel_, geometry_, geometry_.wide, result);
  lines_.close();
}

void ByteTiles::each_output(int count) {
  lines_.add("UNROLL");
  lines_.open("for (int x = 0; x < {}; x++) {{", count);
}

Launch ByteTiles::finish() {
  Launch result;
  result.text.body = lines_.take();
  result.text.functions = writer_.functions();
  result.text.threads = kByteThreads;
  words_.move_to(result);
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
