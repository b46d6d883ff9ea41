// Contractions in blocked numerics on integer tensor cores: after digits of both operands were made, a workgroup walks
// over tiles of 128 x 128 outputs. How a tile is summed is the dialect's (KernelText::integer_tiles); here stand the
// order of tiles and what becomes of the sums. Each warp passes its 16 rows on in pieces of 32 columns.
#include <algorithm>

#include "backends/gpu/renderer/contraction_digits.h"
#include "backends/gpu/renderer/rows.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kIntegerThreads = 384;  ///< a warpgroup that copies, two that multiply
constexpr int kThreadSums = 64;       ///< of a thread
constexpr int kPieceColumns = 32;     ///< columns of a warp that pass on together
constexpr int kWarpRows = 16;
constexpr int kTilesTogether = 8;  ///< tiles along rows whose columns are walked over together: they meet in the cache
constexpr int kTileStages = 3;
constexpr int kTileMemory =
    kTileStages * (2 * kDigitTileBytes + 2 * 4 * kDigitRows) + 1024 + 64 + 8 * kWarpRows * 36 * 4;
constexpr std::int64_t kMostTileDigits = std::int64_t{4} << 30;  ///< bytes of scratch memory

class IntegerTileKernel {
 public:
  IntegerTileKernel(const ContractionKernel& kernel, const Geometry& geometry, const DigitLayout& layout)
      : kernel_(kernel),
        geometry_(geometry),
        layout_(layout),
        writer_(kernel.epilogue, geometry.epilogue, words_),
        index_(geometry.wide ? "LONG" : "int") {}

  Launch render(const RenderLimits& limits);

 private:
  std::int64_t tiles() const { return geometry_.batches * layout_.a_tiles * layout_.b_tiles; }
  void open_tiles();
  void feed();
  void write_outputs();

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const DigitLayout& layout_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  const char* index_;
};

Launch IntegerTileKernel::render(const RenderLimits& limits) {
  const bool wide = geometry_.wide;
  lines_.add("MEMORY scratch = {};", words_.memory(Patch::Kind::scratch, 0));
  writer_.declare_buffers(lines_);
  lines_.add("{} size_m = {};", index_, words_.index(geometry_.rows, wide));
  lines_.add("{} size_n = {};", index_, words_.index(geometry_.columns, wide));
  lines_.add("{} tiles_m = {};", index_, words_.index(layout_.a_tiles, wide));
  lines_.add("{} tiles_n = {};", index_, words_.index(layout_.b_tiles, wide));
  lines_.add("{} tiles = {};", index_, words_.index(tiles(), wide));
  lines_.add("int blocks = {};", words_.int32(layout_.blocks));
  lines_.add("Tiles machine;");
  lines_.add("machine.start(tile_memory);");
  lines_.open("if (THREAD < 128u) {{");
  lines_.add("machine.begin_feeding();");
  lines_.open("if (THREAD == 0u) {{");
  feed();
  lines_.close();
  lines_.close();
  lines_.open("else {{");
  lines_.add("machine.begin_summing();");
  open_tiles();
  lines_.add("float sums[{}];", kThreadSums);
  lines_.add("machine.sum(sums, blocks);");
  write_outputs();
  lines_.close();
  lines_.close();
  Launch result;
  result.text.body = lines_.take();
  result.text.functions = writer_.functions();
  result.text.threads = kIntegerThreads;
  result.text.groups_per_unit = 1;
  result.text.integer_tiles = true;
  result.text.shared.push_back({ComputeType::i32, "tile_memory", kTileMemory / 4});
  result.groups = static_cast<std::uint32_t>(std::clamp<std::int64_t>(tiles(), 1, limits.units));
  words_.move_to(result);
  return result;
}

// The loop over tiles: `batch`, `tile_m` and `tile_n`.
void IntegerTileKernel::open_tiles() {
  const bool wide = geometry_.wide;
  const std::int64_t each = layout_.a_tiles * layout_.b_tiles;
  lines_.open("for ({0} tile = {0}(GROUP); tile < tiles; tile += {0}(GROUPS)) {{", index_);
  lines_.add("{} batch = {};", index_, quotient(words_, "tile", each, wide));
  lines_.add("{} of_batch = tile - batch * {};", index_, words_.index(each, wide));
  lines_.add("{} band = {};", index_, quotient(words_, "of_batch", kTilesTogether * layout_.b_tiles, wide));
  lines_.add("{0} of_band = of_batch - band * {1};", index_, words_.index(kTilesTogether * layout_.b_tiles, wide));
  lines_.add("{0} together = tiles_m - band * {0}({1});", index_, kTilesTogether);
  lines_.add("together = SELECT(together < {0}({1}), together, {0}({1}));", index_, kTilesTogether);
  lines_.add("{} tile_n = of_band / together;", index_);
  lines_.add("{0} tile_m = band * {0}({1}) + of_band - tile_n * together;", index_, kTilesTogether);
}

void IntegerTileKernel::feed() {
  open_tiles();
  lines_.add("LONG left = (LONG(batch) * LONG(tiles_m) + LONG(tile_m)) * LONG(blocks);");
  lines_.add("LONG right = (LONG(batch) * LONG(tiles_n) + LONG(tile_n)) * LONG(blocks);");
  const auto place = [&](std::int64_t from, const char* block, int bytes) {
    return fmt::format("scratch + {} + ULONG({}) * {}u", words_.uint64(static_cast<std::uint64_t>(from)), block, bytes);
  };
  lines_.add("machine.feed({}, {}, {}, {}, blocks);", place(layout_.a_digits, "left", kDigitTileBytes),
             place(layout_.a_scales, "left", 4 * kDigitRows), place(layout_.b_digits, "right", kDigitTileBytes),
             place(layout_.b_scales, "right", 4 * kDigitRows));
  lines_.close();
}

void IntegerTileKernel::write_outputs() {
  const std::set<int> instructions = all_of(kernel_.epilogue.code.size());
  const std::set<int> outputs = all_of(kernel_.epilogue.outputs.size());
  const bool vectors = geometry_.k > geometry_.n && writer_.choose_vectors_for(instructions, outputs);
  const int width = vectors ? 4 : 1;
  const int lanes = kPieceColumns / width;  // threads of a row
  lines_.add("int lane = int(THREAD & 31u);");
  lines_.add("{0} first_m = tile_m * {0}({1}) + {0}((int(THREAD) - 128) / 32 * {2});", index_, kDigitRows, kWarpRows);
  decompose(lines_, words_, geometry_.shape, 0, geometry_.m, "batch", "i", geometry_.wide);
  writer_.declare_places(lines_, "b", "", 0, geometry_.m, instructions, outputs, false);
  lines_.add("#pragma unroll 1");
  lines_.open("for (int piece = 0; piece < {}; piece++) {{", kDigitRows / kPieceColumns);
  lines_.add("machine.put(sums, piece);");
  lines_.add("int column = (lane & {}) * {};", lanes - 1, width);
  lines_.add("{0} n = tile_n * {0}({1}) + {0}(piece * {2} + column);", index_, kDigitRows, kPieceColumns);
  lines_.open("if (n < size_n) {{");
  decompose(lines_, words_, geometry_.shape, geometry_.n, geometry_.k, "n", "i", geometry_.wide);
  writer_.declare_places(lines_, "n", "b", geometry_.n, geometry_.k, instructions, outputs, false);
  lines_.add("UNROLL_BY(2)");
  lines_.open("for (int row = lane / {}; row < {}; row += {}) {{", lanes, kWarpRows, 32 / lanes);
  lines_.add("{0} m = first_m + {0}(row);", index_);
  lines_.open("if (m < size_m) {{");
  decompose(lines_, words_, geometry_.shape, geometry_.m, geometry_.n, "m", "i", geometry_.wide);
  writer_.declare_places(lines_, "e", "n", geometry_.m, geometry_.n, instructions, outputs, true);
  if (vectors) {
    lines_.add("float results[4];");
    lines_.add("READ4(machine.staged, row * 36 + column, results, 0)");
    writer_.load_vectors(lines_, "e", "0", instructions, outputs);
    lines_.add("UNROLL");
    lines_.open("for (int q = 0; q < 4; q++) {{");
  }
  lines_.add("float accumulator = CANONICAL_F32({});", vectors ? "results[q]" : "machine.staged[row * 36 + column]");
  for (const int i : instructions) writer_.emit(lines_, i, "e");
  for (const int o : outputs) writer_.store(lines_, o, "e");
  if (vectors) {
    lines_.close();
    writer_.store_vectors(lines_, "e", "0", outputs);
  }
  lines_.close();
  lines_.close();
  lines_.close();
  lines_.close();
}

}  // namespace

bool is_for_integer_tiles(const Geometry& geometry, const RenderLimits& limits) {
  return limits.integer_tiles && limits.shared_bytes >= kTileMemory && geometry.length > 0 &&
         DigitLayout(geometry).bytes <= kMostTileDigits;
}

Rendered render_integer_tiles(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  const DigitLayout layout(geometry);
  const Side a("a", kernel.a, geometry.a, geometry, true);
  const Side b("b", kernel.b_operand, geometry.b, geometry, false);
  Rendered rendered;
  rendered.scratch_bytes = static_cast<std::size_t>(layout.bytes);
  rendered.launches.push_back(render_digits(a, geometry, layout, limits));
  rendered.launches.push_back(render_digits(b, geometry, layout, limits));
  rendered.launches.push_back(IntegerTileKernel(kernel, geometry, layout).render(limits));
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
