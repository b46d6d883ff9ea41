#include "backends/gpu/renderer/fast_floats.h"

#include "backends/gpu/renderer/contraction_q8.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using FloatScales = LibraryProduct::Scales;

constexpr int kFloatWords = kFloatsOfBlock / 4;
constexpr int kFloatTeam = 32;               ///< threads, each with a word of a block
constexpr std::int64_t kScalesTogether = 4;  ///< of a row of squares, a multiple

// CUDA's, from Ada on: the library that this is for is NVIDIA's.
constexpr const char* kFloatFunctions =
    R"(FUNCTION UINT e4m3_pair(float low, float high) {
  unsigned short both;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  return UINT(both);
}
FUNCTION UINT largest_of_team(UINT x) { return __reduce_max_sync(0xffffffffu, x); }
FUNCTION UINT larger(UINT x, UINT y) { return SELECT(x > y, x, y); }
/// A 448th of the largest magnitude; NaN if that is no finite number.
FUNCTION float scale_of_floats(UINT largest) {
  FLOAT part = FROM_BITS(largest) * FROM_BITS(0x3b124925u);
  return FROM_BITS(SELECT(largest < 0x7f800000u, BITS(canonical_f32(part)), 0x7fc00000u));
}
FUNCTION float inverse_of_scale(float scale) {
  FLOAT inverse = FROM_BITS(0u);
  if (scale > FROM_BITS(0u)) inverse = __frcp_rn(scale);
  return inverse;
}
)";

/// Activations as e4m3: the body of the kernel.
class FloatRows {
 public:
  FloatRows(const Geometry& geometry, const Side& a, std::int64_t rows, FloatsAt to, const RenderLimits& limits)
      : geometry_(geometry),
        a_(a),
        rows_(rows),
        blocks_(geometry.length / kFloatsOfBlock),
        limits_(limits),
        teams_(limits.threads / kFloatTeam),
        index_(geometry.wide ? "LONG" : "int") {
    lines_.add("MEMORY a_at = {};", words_.memory(Patch::Kind::address, a.input->slot));
    lines_.add("MEMORY scratch = {};", words_.memory(Patch::Kind::scratch, 0));
    lines_.add("MEMORY codes_at = scratch + {};", words_.uint64(static_cast<std::uint64_t>(to.codes)));
    lines_.add("MEMORY scales_at = scratch + {};", words_.uint64(static_cast<std::uint64_t>(to.scales)));
    lines_.add("int lane = int(THREAD) & {};", kFloatTeam - 1);
    lines_.add("{0} rows = {1};", index_, words_.index(rows, geometry.wide));
    lines_.add("{0} last = {1};", index_, words_.index(geometry.rows - 1, geometry.wide));
  }

  // A team of threads rounds a block of a row; neighbouring teams those that follow.
  Launch of_128() {
    lines_.add("{0} blocks = {1};", index_, words_.index(blocks_, geometry_.wide));
    lines_.open("for ({0} e = {0}(GROUP) * {1} + {0}(THREAD) / {2}; e < rows * blocks; e += {0}(GROUPS) * {1}) {{",
                index_, teams_, kFloatTeam);
    lines_.add("{} row = {};", index_, quotient(words_, "e", blocks_, geometry_.wide));
    lines_.add("{} block = e - row * blocks;", index_);
    lines_.add("{} read = SELECT(row < last, row, last);", index_);
    load(fmt::format("block * {} + {}(4 * lane)", kFloatsOfBlock, index_));
    lines_.add("UINT largest = 0u;");
    add_largest();
    lines_.add("FLOAT scale = scale_of_floats(largest_of_team(largest));");
    lines_.add("FLOAT inverse = inverse_of_scale(scale);");
    store_codes(fmt::format("e * {} + {}(lane)", kFloatWords, index_));
    lines_.add("if (lane == 0) STORE_U32(scales_at, block * rows + row, BITS(scale));");
    lines_.close();
    return take(over(rows_ * blocks_, teams_));
  }

  // A workgroup reads a row twice: for its largest element, and from a cache to round it.
  Launch of_rows() {
    lines_.add("int length = {};", words_.int32(geometry_.length));
    lines_.open("for ({0} row = {0}(GROUP); row < rows; row += {0}(GROUPS)) {{", index_);
    lines_.add("{} read = SELECT(row < last, row, last);", index_);
    lines_.add("UINT largest = 0u;");
    open_row();
    load("k_at");
    add_largest();
    lines_.close();
    lines_.add("largest = largest_of_team(largest);");
    lines_.add("BARRIER();");
    lines_.add("if (lane == 0) largest_of[THREAD / {}u] = int(largest);", kFloatTeam);
    lines_.add("BARRIER();");
    lines_.add("for (int t = 0; t < {}; t++) largest = larger(largest, UINT(largest_of[t]));", teams_);
    lines_.add("FLOAT scale = scale_of_floats(largest);");
    lines_.add("FLOAT inverse = inverse_of_scale(scale);");
    open_row();
    load("k_at");
    store_codes(fmt::format("row * {0}(length / 4) + {0}(k_at / 4)", index_));
    lines_.close();
    lines_.add("if (THREAD == 0u) STORE_U32(scales_at, row, BITS(scale));");
    lines_.close();
    Launch result = take(rows_);
    result.text.shared.push_back({ComputeType::i32, "largest_of", teams_});
    return result;
  }

 private:
  void open_row() {
    lines_.open("for (int k_at = 4 * int(THREAD); k_at < length; k_at += {}) {{", 4 * limits_.threads);
  }
  void load(const std::string& first) { load_neighbours(lines_, words_, geometry_, a_, "read", first, 4); }
  void add_largest() {
    lines_.add("UNROLL");
    lines_.add("for (int k = 0; k < 4; k++) largest = larger(largest, BITS(x[k]) & 0x7fffffffu);");
  }
  void store_codes(const std::string& at) {
    lines_.add("UINT code = e4m3_pair(x[0] * inverse, x[1] * inverse);");
    lines_.add("code = code | e4m3_pair(x[2] * inverse, x[3] * inverse) << 16;");
    lines_.add("STORE_U32(codes_at, {}, SELECT(inverse == FROM_BITS(0u), 0u, code));", at);
  }
  Launch take(std::int64_t groups) {
    Launch result;
    result.text.functions = kFloatFunctions;
    result.text.body = lines_.take();
    result.text.threads = limits_.threads;
    result.groups = limits_.groups_for(groups);
    words_.move_to(result);
    return result;
  }

  const Geometry& geometry_;
  const Side& a_;
  const std::int64_t rows_, blocks_;
  const RenderLimits& limits_;
  const int teams_;
  const char* index_;
  Words words_;
  Lines lines_;
};

}  // namespace

FloatScales scales_of_weights(const Geometry& geometry, const Side& b) {
  if (b.input->encoding == Encoding::e4m3_rows) return FloatScales::of_rows;
  // Squares begin with the tensor's first row, and with every 128th one.
  const bool is_whole = b.last - b.first == 1 && geometry.b.strides[b.first] == geometry.length &&
                        geometry.b.offset % (kFloatsOfBlock * geometry.length) == 0;
  return b.input->encoding == Encoding::e4m3_squares && is_whole ? FloatScales::of_squares : FloatScales::of_128;
}

std::int64_t count_of_scales(FloatScales scales, std::int64_t rows, std::int64_t length) {
  const std::int64_t blocks = length / kFloatsOfBlock;
  if (scales == FloatScales::of_rows) return rows;
  if (scales == FloatScales::of_128) return rows * blocks;
  return over(rows, kFloatsOfBlock) * over(blocks, kScalesTogether) * kScalesTogether;
}

Launch round_to_floats(const Geometry& geometry, const Side& a, std::int64_t rows, FloatsAt to, FloatScales scales,
                       const RenderLimits& limits) {
  FloatRows kernel(geometry, a, rows, to, limits);
  return scales == FloatScales::of_rows ? kernel.of_rows() : kernel.of_128();
}

// A thread moves a word of codes, neighbours those that follow.
Launch take_floats_apart(const Geometry& geometry, const Side& b, FloatsAt to, FloatScales scales,
                         const RenderLimits& limits) {
  const bool wide = geometry.wide || geometry.columns * geometry.length >= std::int64_t{1} << 31;
  const char* index = wide ? "LONG" : "int";
  const std::int64_t blocks = geometry.length / kFloatsOfBlock;
  Words words;
  Lines lines;
  lines.add("MEMORY b_at = {};", words.memory(Patch::Kind::address, b.input->slot));
  lines.add("MEMORY form = {};", words.memory(Patch::Kind::form, 0));
  lines.add("MEMORY codes_at = form + {};", words.uint64(static_cast<std::uint64_t>(to.codes)));
  lines.add("MEMORY scales_at = form + {};", words.uint64(static_cast<std::uint64_t>(to.scales)));
  lines.add("{0} columns = {1};", index, words.index(geometry.columns, wide));
  lines.add("{0} blocks = {1};", index, words.index(blocks, wide));
  lines.open("for ({0} e = {0}(GROUP) * {1} + {0}(THREAD); e < columns * blocks * {2}; e += {0}(GROUPS) * {1}) {{",
             index, limits.threads, kFloatWords);
  lines.add("{0} all = e / {1};", index, kFloatWords);
  lines.add("{0} word = e - all * {1};", index, kFloatWords);
  lines.add("{} own = {};", index, quotient(words, "all", blocks, wide));
  lines.add("{} block = all - own * blocks;", index);
  decompose(lines, words, geometry.shape, b.first, b.last, "own", "i", wide);
  lines.add("LONG from = LONG(({}) / {} + block) * LONG({});", b.access.sum(words, -1, b.first, b.last, "i", true),
            kFloatsOfBlock, kFloatWords + 1);
  lines.add("STORE_U32(codes_at, e, LOAD_U32(b_at, from + LONG(1) + LONG(word)));");
  const auto store_scale = [&](const std::string& where, const std::string& at) {
    lines.add("if ({}) STORE_U32(scales_at, {}, BITS(operand_f32(FROM_BITS(LOAD_U32(b_at, from)))));", where, at);
  };
  if (scales == FloatScales::of_rows) {
    store_scale("word == 0 && block == 0", "own");
  } else if (scales == FloatScales::of_128) {
    store_scale("word == 0", "block * columns + own");
  } else {
    store_scale(fmt::format("word == 0 && own % {} == 0", kFloatsOfBlock),
                fmt::format("own / {} * {} + block", kFloatsOfBlock,
                            words.index(over(blocks, kScalesTogether) * kScalesTogether, wide)));
  }
  lines.close();
  Launch result;
  result.text.body = lines.take();
  result.text.threads = limits.threads;
  result.groups = limits.groups_for(over(geometry.columns * blocks * kFloatWords, limits.threads));
  words.move_to(result);
  result.makes = 0;
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
