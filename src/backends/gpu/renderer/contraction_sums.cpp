// Contractions whose blocks of k are computed in parallel: block results go to scratch memory, and this second kernel
// adds them in ascending order and runs the epilogue.
#include <algorithm>
#include <bit>

#include "backends/gpu/renderer/contraction.h"
#include "backends/gpu/renderer/rows.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kSumThreads = 256;
constexpr int kMostAtOnce = 32;  ///< block results that are loaded at once

}  // namespace

void write_result(Lines& lines, Words& words, ProgramWriter& writer, const ContractionKernel& kernel,
                  const Geometry& geometry, bool wide, const std::string& total) {
  lines.add("{} accumulator = {}({});", type_name(kernel.type), canonical_of(kernel.type), total);
  decompose(lines, words, geometry.shape, 0, geometry.m, "batch", "i", wide);
  decompose(lines, words, geometry.shape, geometry.m, geometry.n, "m", "i", wide);
  decompose(lines, words, geometry.shape, geometry.n, geometry.k, "n", "i", wide);
  const std::set<int> instructions = all_of(kernel.epilogue.code.size());
  const std::set<int> outputs = all_of(kernel.epilogue.outputs.size());
  writer.declare_places(lines, "e", "", 0, geometry.k, instructions, outputs, true);
  for (const int i : instructions) writer.emit(lines, i, "e");
  for (const int o : outputs) writer.store(lines, o, "e");
}

Launch render_sums(const ContractionKernel& kernel, const Geometry& geometry, int tile_rows, int tile_columns,
                   const RenderLimits& limits) {
  const std::int64_t tiles_m = (geometry.rows + tile_rows - 1) / tile_rows;
  const std::int64_t tiles_n = (geometry.columns + tile_columns - 1) / tile_columns;
  const std::int64_t elements = geometry.batches * tiles_m * tiles_n * tile_rows * tile_columns;
  const bool wide = geometry.wide || elements >= (std::int64_t{1} << 31) - kSumThreads;
  const char* index = wide ? "LONG" : "int";
  const char* type = type_name(kernel.type);
  const DType stored = dtype_of(kernel.type);
  Words words;
  Lines lines;
  Space space = geometry.epilogue;
  space.wide = wide;
  ProgramWriter writer(kernel.epilogue, space, words);
  lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
  writer.declare_buffers(lines);
  lines.add("{} elements = {};", index, words.index(elements, wide));
  lines.add("{} size_m = {};", index, words.index(geometry.rows, wide));
  lines.add("{} size_n = {};", index, words.index(geometry.columns, wide));
  const std::int64_t blocks = (geometry.length + kBlock - 1) / kBlock;
  const auto at_once =
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(blocks, kMostAtOnce))));
  lines.add("int blocks = {};", words.int32(blocks));
  lines.open("for ({0} e = {0}(GROUP) * {0}({1}) + {0}(THREAD); e < elements; e += {0}(GROUPS) * {0}({1})) {{", index,
             kSumThreads);
  lines.add("{0} tile = e / {0}({1});", index, tile_rows * tile_columns);
  lines.add("int place = int(e - tile * {}({}));", index, tile_rows * tile_columns);
  lines.add("{} tile_row = {};", index, quotient(words, "tile", tiles_n, wide));
  lines.add("{} batch = {};", index, quotient(words, "tile_row", tiles_m, wide));
  lines.add("{0} n = (tile - tile_row * {1}) * {0}({2}) + {0}(place % {2});", index, words.index(tiles_n, wide),
            tile_columns);
  lines.add("{0} m = (tile_row - batch * {1}) * {0}({2}) + {0}(place / {3});", index, words.index(tiles_m, wide),
            tile_rows, tile_columns);
  lines.open("if (m < size_m && n < size_n) {{");
  // Beyond the last block stands -0, which changes no sum.
  const char* none = is_integer(kernel.type) ? "0" : size_of(stored) == 8 ? "(ULONG(1) << 63)" : "0x80000000u";
  const char* word = word_type_of(stored);
  lines.add("{} total = {};", type, decoded(stored, fmt::format("{}({})", word, none), true));
  lines.open("for (int block = 0; block < blocks; block += {}) {{", at_once);
  lines.add("{} parts[{}];", word, at_once);
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < {}; i++) {{", at_once);
  lines.add("parts[i] = {}({});", word, none);
  lines.add("if (block + i < blocks) parts[i] = {}(scratch, LONG(e) + LONG(block + i) * LONG(elements));",
            load_of(stored));
  lines.close();
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < {}; i++) total = {};", at_once,
            added(kernel.type, "total", decoded(stored, "parts[i]", true)));
  lines.close();
  write_result(lines, words, writer, kernel, geometry, wide, "total");
  lines.close();
  lines.close();
  Launch result;
  result.text.body = lines.take();
  result.text.functions = writer.functions();
  result.text.threads = kSumThreads;
  result.groups = limits.groups_for((elements + kSumThreads - 1) / kSumThreads);
  words.move_to(result);
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
