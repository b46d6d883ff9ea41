// Activations of q8 products by integer tensor cores, rounded: codes lie in the order in which a team's threads hold a
// left operand of 16 rows and 32 k (cuda/byte_products.h), or row by row.
#include "backends/gpu/renderer/contraction_q8_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

Launch round_rows(const Geometry& geometry, const Side& a, std::int64_t first, const RowLayout& layout, int sums,
                  const RenderLimits& limits) {
  const std::int64_t rows = layout.fragments * kFragmentRows;
  // Few rows are spread over all units.
  const int threads =
      rows * layout.blocks < std::int64_t{limits.units} * limits.threads * 2 ? kLeastThreads : limits.threads;
  Words words;
  Lines lines;
  lines.add("MEMORY a_at = {};", words.memory(Patch::Kind::address, a.input->slot));
  lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
  lines.add("int count = {};", words.int32(layout.count));
  lines.add("int row_tiles = {};", words.int32(layout.fragments));
  lines.add("int rows = row_tiles * {};", kFragmentRows);
  lines.add("int blocks = {};", words.int32(layout.blocks));
  lines.add("int floats_begin = blocks * rows * {};", kWordsOfBlock);
  open_rounding(lines, words, geometry, a, rows, first, threads);
  if (layout.in_order) {
    for (int half = 0; half < 2; ++half) {
      lines.open("{{");
      lines.add("UINT four[4];");
      lines.add("UNROLL");
      lines.add("for (int w = 0; w < 4; w++) four[w] = code[{} + w];", half * 4);
      lines.add("STORE4_U32(scratch, (block * rows + row) * {} + {}, four)", kWordsOfBlock, half * 4);
      lines.close();
    }
  } else {
    lines.add("int tile = row / {};", kFragmentRows);
    lines.add("int side = row / 8 & 1;");
    lines.add("UNROLL");
    lines.open("for (int w = 0; w < {}; w++) {{", kWordsOfBlock);
    lines.add("int lane = (row & 7) * 4 + (w & 3);");
    lines.add("STORE_U32(scratch, ((block * row_tiles + tile) * {} + lane) * 4 + side + 2 * (w / 4), code[w]);", kTeam);
    lines.close();
  }
  const std::string of_row = layout.in_order ? "row" : fmt::format("tile * {} + (row & 7) * 2 + side", kFragmentRows);
  const auto store_float = [&](int which, const std::string& value) {
    lines.add("STORE_U32(scratch, floats_begin + ({} * blocks + block) * rows + {}, {});", which, of_row, value);
  };
  store_float(0, "BITS(scale)");
  if (sums == 1) store_float(1, "BITS(float(half_sum[0] + half_sum[1]))");
  for (int s = 0; s < 2 && sums == 2; ++s) store_float(1 + s, fmt::format("BITS(float(half_sum[{}]))", s));
  lines.close();
  Launch result;
  result.text.body = lines.take();
  result.text.threads = threads;
  result.groups = limits.groups_for(over(rows * layout.blocks, threads));
  words.move_to(result);
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
