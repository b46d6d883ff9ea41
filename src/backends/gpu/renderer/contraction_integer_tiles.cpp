// Contractions in blocked numerics on integer tensor cores: after digits of both operands were made, a workgroup walks
// over tiles of 128 x 128 outputs. How a tile is summed is the dialect's (KernelText::integer_tiles); here stand the
// order of tiles and what becomes of the sums. Each warp passes its 16 rows on in pieces of 32 columns.
//
// Few tiles of a long k (a convolution's weights' gradient) would leave most of the device idle: then workgroups take
// parts of k, the products of each block go to scratch memory, and one more launch adds blocks in their order.
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
constexpr int kTileStages = 3;
constexpr int kTileMemory =
    kTileStages * 2 * kDigitTileBytes + (kTileStages + 1) * 2 * 4 * kDigitRows + 1024 + 64 + 8 * kWarpRows * 36 * 4;
constexpr std::int64_t kMostTileDigits = std::int64_t{4} << 30;  ///< bytes of scratch memory
constexpr int kProductBytes = kDigitRows * kDigitRows * 4;       ///< of a block and tile

/// Into how many parts k is cut. A unit multiplies a block in about 25 times the time in which the device moves its
/// products to memory and back.
std::int64_t parts_of_k(const DigitLayout& layout, std::int64_t tiles, const RenderLimits& limits) {
  constexpr std::int64_t kMoved = 25;
  constexpr std::int64_t kLeastBlocks = 8;
  if (tiles * 2 > kMoved || layout.bytes() + layout.blocks * tiles * kProductBytes > kMostTileDigits) return 1;
  const std::int64_t split = std::min<std::int64_t>(layout.blocks / kLeastBlocks, limits.units / tiles);
  return split <= 1 ? 1 : over(layout.blocks, over(layout.blocks, split));  // no part without a block
}

class IntegerTileKernel {
 public:
  IntegerTileKernel(const ContractionKernel& kernel, const Geometry& geometry, const DigitLayout& layout,
                    std::int64_t split)
      : kernel_(kernel),
        geometry_(geometry),
        layout_(layout),
        split_(split),
        writer_(kernel.epilogue, geometry.epilogue, words_),
        index_(geometry.wide ? "LONG" : "int") {}

  Launch render(const RenderLimits& limits);
  /// Adds what `render` left in scratch memory where k was split.
  Launch render_sums(const RenderLimits& limits);

 private:
  std::int64_t tiles() const { return geometry_.batches * layout_.a_tiles * layout_.b_tiles; }
  void declare_sizes();
  void open_tiles();
  /// `batch`, `tile_m` and `tile_n` of `tile`.
  void find_tile();
  void feed();
  void write_outputs();

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const DigitLayout& layout_;
  std::int64_t split_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  const char* index_;
};

void IntegerTileKernel::declare_sizes() {
  const bool wide = geometry_.wide;
  lines_.add("{} size_m = {};", index_, words_.index(geometry_.rows, wide));
  lines_.add("{} size_n = {};", index_, words_.index(geometry_.columns, wide));
  lines_.add("{} tiles_m = {};", index_, words_.index(layout_.a_tiles, wide));
  lines_.add("{} tiles_n = {};", index_, words_.index(layout_.b_tiles, wide));
  lines_.add("{} tiles = {};", index_, words_.index(tiles(), wide));
  lines_.add("int blocks = {};", words_.int32(layout_.blocks));
}

Launch IntegerTileKernel::render(const RenderLimits& limits) {
  declare_sizes();
  if (split_ == 1) writer_.declare_buffers(lines_);
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
  if (split_ > 1) {
    lines_.add("MEMORY later = {} + (ULONG(first_block) * ULONG(tiles) + ULONG(tile)) * {}u;",
               words_.memory(Patch::Kind::scratch, 0, layout_.bytes()), kProductBytes);
    lines_.add("machine.sum<true>(sums, count, later, ULONG(tiles) * {}u);", kProductBytes);
  } else {
    lines_.add("machine.sum(sums, blocks);");
    write_outputs();
  }
  lines_.close();
  lines_.close();
  Launch result;
  result.text.body = lines_.take();
  result.text.functions = writer_.functions();
  result.text.threads = kIntegerThreads;
  result.text.groups_per_unit = 1;
  result.text.integer_tiles = true;
  result.text.shared.push_back({ComputeType::i32, "tile_memory", kTileMemory / 4});
  result.groups = static_cast<std::uint32_t>(std::clamp<std::int64_t>(tiles() * split_, 1, limits.units));
  words_.move_to(result);
  return result;
}

// The loop over tiles, and parts of k: `count` blocks from `first_block` on.
void IntegerTileKernel::open_tiles() {
  if (split_ == 1) {
    lines_.open("for ({0} tile = {0}(GROUP); tile < tiles; tile += {0}(GROUPS)) {{", index_);
  } else {
    lines_.open("for (LONG unit = LONG(GROUP); unit < LONG(tiles) * LONG({}); unit += LONG(GROUPS)) {{",
                words_.index(split_, geometry_.wide));
    lines_.add("LONG k_part = unit / LONG(tiles);");
    lines_.add("{0} tile = {0}(unit - k_part * LONG(tiles));", index_);
    lines_.add("int first_block = int(k_part) * {};", words_.int32(over(layout_.blocks, split_)));
    lines_.add("int count = {};", words_.int32(over(layout_.blocks, split_)));
    lines_.add("count = SELECT(blocks - first_block < count, blocks - first_block, count);");
  }
  find_tile();
}

void IntegerTileKernel::find_tile() {
  find_digit_tile(lines_, words_, layout_.a_tiles, layout_.b_tiles, geometry_.wide);
}

void IntegerTileKernel::feed() {
  open_tiles();
  const char* part = split_ == 1 ? "" : " + LONG(first_block)";
  lines_.add("LONG left = (LONG(batch) * LONG(tiles_m) + LONG(tile_m)) * LONG(blocks){};", part);
  lines_.add("LONG right = (LONG(batch) * LONG(tiles_n) + LONG(tile_n)) * LONG(blocks){};", part);
  const auto place = [&](int form, std::int64_t from, const char* block, int bytes) {
    const std::string at = words_.memory(Patch::Kind::form, form);
    return fmt::format("{} + {} + ULONG({}) * {}u", at, words_.uint64(static_cast<std::uint64_t>(from)), block, bytes);
  };
  lines_.add("machine.feed({}, {}, {}, {}, {});", place(0, layout_.a_digits, "left", kDigitTileBytes),
             place(0, layout_.a_scales, "left", 4 * kDigitRows), place(1, layout_.b_digits, "right", kDigitTileBytes),
             place(1, layout_.b_scales, "right", 4 * kDigitRows), split_ == 1 ? "blocks" : "count");
  lines_.close();
}

// A workgroup has 8 columns of a tile, each thread four outputs, as the tensor cores left them.
Launch IntegerTileKernel::render_sums(const RenderLimits& limits) {
  constexpr int kSixteenth = kProductBytes / 16 / 4;  // floats
  declare_sizes();
  writer_.declare_buffers(lines_);
  lines_.add("MEMORY products = {};", words_.memory(Patch::Kind::scratch, 0, layout_.bytes()));
  lines_.add("MEMORY scales = {};", words_.memory(Patch::Kind::form, 1, layout_.b_scales));
  lines_.add("int thread_id = int(THREAD);");
  lines_.open("for (LONG item = LONG(GROUP); item < LONG(tiles) * LONG(16); item += LONG(GROUPS)) {{");
  lines_.add("{0} tile = {0}(item / LONG(16));", index_);
  lines_.add("int sixteenth = int(item & LONG(15));");
  find_tile();
  lines_.add("int row = thread_id / 32 * {} + ((thread_id & 31) >> 2);", kWarpRows);
  lines_.add("int column = sixteenth * 8 + (thread_id & 3) * 2;");
  lines_.add("LONG right = (LONG(batch) * LONG(tiles_n) + LONG(tile_n)) * LONG(blocks) * LONG({}) + LONG(column);",
             kDigitRows);
  lines_.add("LONG from = (LONG(tile) * LONG(16) + LONG(sixteenth)) * LONG({}) + LONG(thread_id * 4);", kSixteenth);
  lines_.add("float sums[4];");
  lines_.add("UNROLL");
  lines_.add("for (int q = 0; q < 4; q++) sums[q] = 0.0f;");
  lines_.add("UNROLL_BY(8)");
  lines_.open("for (int block = 0; block < blocks; block++) {{");
  lines_.add("UINT words[4];");
  lines_.add("LOAD4_U32(products, from + LONG(block) * LONG(tiles) * LONG({}), words)", kProductBytes / 4);
  lines_.add("float first = FROM_BITS(LOAD_U32(scales, right + LONG(block * {})));", kDigitRows);
  lines_.add("float second = FROM_BITS(LOAD_U32(scales, right + LONG(block * {} + 1)));", kDigitRows);
  lines_.add("UNROLL");
  lines_.add(
      "for (int q = 0; q < 4; q++) sums[q] = FMA_EXACT(FROM_BITS(words[q]), SELECT((q & 1) == 0, first, second), "
      "sums[q]);");
  lines_.close();
  lines_.add("UNROLL");
  lines_.open("for (int q = 0; q < 4; q++) {{");
  lines_.add("{0} m = tile_m * {0}({1}) + {0}(row + (q >> 1) * 8);", index_, kDigitRows);
  lines_.add("{0} n = tile_n * {0}({1}) + {0}(column + (q & 1));", index_, kDigitRows);
  lines_.open("if (m < size_m && n < size_n) {{");
  write_result(lines_, words_, writer_, kernel_, geometry_, geometry_.wide, "sums[q]");
  lines_.close();
  lines_.close();
  lines_.close();
  Launch result;
  result.text.body = lines_.take();
  result.text.functions = writer_.functions();
  result.text.threads = 256;
  result.groups = limits.groups_for(16 * tiles());
  words_.move_to(result);
  return result;
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
         DigitLayout(geometry).bytes() <= kMostTileDigits;
}

Rendered render_integer_tiles(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  const DigitLayout layout(geometry);
  Rendered rendered = render_digits(kernel, geometry, layout, limits);
  const std::int64_t tiles = geometry.batches * layout.a_tiles * layout.b_tiles;
  const std::int64_t split = parts_of_k(layout, tiles, limits);
  rendered.launches.push_back(IntegerTileKernel(kernel, geometry, layout, split).render(limits));
  if (split > 1) {
    rendered.scratch_bytes += static_cast<std::size_t>(layout.blocks * tiles * kProductBytes);
    rendered.launches.push_back(IntegerTileKernel(kernel, geometry, layout, split).render_sums(limits));
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
