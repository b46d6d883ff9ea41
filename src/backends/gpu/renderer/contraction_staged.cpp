// Few rows and few outputs with a short k, as attention of one token has them: threads that walk along memory by
// themselves would wait for it at every step. A workgroup brings all of k of its rows and of 32 columns to shared
// memory at once; then each thread follows the chain of one output.
#include <algorithm>
#include <optional>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kStagedColumns = 32;
constexpr int kStagedStride = kStagedColumns + 1;  ///< of k in shared memory
constexpr std::int64_t kStagedRows = 8;
constexpr std::int64_t kSharingRows = 4;  ///< so many share what is loaded, which pays however many outputs there are
constexpr std::int64_t kShortest = 64;
constexpr std::int64_t kLongestStaged = 512;

// Brings k of `count` of a side's own elements, from `first` on, to shared memory.
void fill_stage(Lines& lines, Words& words, const Geometry& geometry, const Side& side, int count, const char* first,
                const char* own_stride, const char* k_stride) {
  const int rank = geometry.shape.rank();
  const DType dtype = side.input->dtype;
  const bool by_four = size_of(dtype) == 4;
  const bool along_k = side.left || side.has_k_vectors(geometry) || side.prefers_k(geometry);
  const bool vectors = by_four && (along_k ? side.has_k_vectors(geometry) : side.has_own_vectors(geometry));
  const int each = vectors ? 4 : 1;
  const std::int64_t length = geometry.length / (along_k ? each : 1);
  lines.add("UNROLL_BY(8)");
  lines.open("for (int e = thread_id; e < {}; e += {}) {{",
             words.int32(along_k ? count * length : count / each * length), kTileThreads);
  if (along_k) {
    lines.add("int local = {};", quotient(words, "e", length, false));
    lines.add("int at = (e - local * {}) * {};", words.int32(length), each);
  } else {
    lines.add("int at = e / {};", count / each);
    lines.add("int local = (e - at * {}) * {};", count / each, each);
  }
  lines.add("int own = {} + local;", first);
  lines.open("if (own < {}) {{", words.int32(side.size));
  decompose(lines, words, geometry.shape, side.first, side.last, "own", "i", false);
  decompose(lines, words, geometry.shape, geometry.k, rank, "at", "i", false);
  side.access.declare(lines, words, "r", "b", side.first, side.last, "i");
  side.access.declare(lines, words, "e", "r", geometry.k, rank, "i");
  const std::string& name = side.name;
  if (vectors) {
    lines.add("UINT four[4];");
    lines.add("LOAD4_U32({0}_at, {0}_e, four)", name);
    lines.add("UNROLL");
    lines.add("for (int v = 0; v < 4; v++) tile_{}[(local + {}) * {} + (at + {}) * {}] = {};", name,
              along_k ? "0" : "v", own_stride, along_k ? "v" : "0", k_stride,
              decoded(dtype, "four[v]", side.input->canonical));
  } else {
    lines.add("{} word = {}({}_at, {}_e);", word_type_of(dtype), load_of(dtype), name, name);
    lines.add("tile_{}[local * {} + at * {}] = {};", name, own_stride, k_stride,
              decoded(dtype, "word", side.input->canonical));
  }
  lines.close();
  lines.close();
}

}  // namespace

std::optional<Launch> render_staged(const ContractionKernel& kernel, const Geometry& geometry,
                                    const RenderLimits& limits) {
  const Side a("a", kernel.a, geometry.a, geometry, true);
  const Side b("b", kernel.b_operand, geometry.b, geometry, false);
  const std::int64_t outputs = geometry.batches * geometry.rows * geometry.columns;
  const std::int64_t floats = geometry.length * (kStagedStride + geometry.rows);
  const bool is_few = outputs <= std::int64_t{2} * limits.units * limits.threads;
  // Measured on an H100.
  const bool is_for_this = limits.copies_to_shared && kernel.numerics == Numerics::exact &&
                           kernel.type == ComputeType::f32 && kernel.b_operand.encoding == Encoding::dense;
  const bool is_small = geometry.rows <= kStagedRows && geometry.columns >= kStagedColumns &&
                        geometry.length >= kShortest && geometry.length <= kLongestStaged &&
                        (geometry.rows >= kSharingRows || is_few) && !geometry.far && !geometry.wide;
  const bool fits = limits.threads >= kTileThreads && 4 * floats + 64 <= static_cast<std::int64_t>(limits.shared_bytes);
  if (!is_for_this || !is_small || !fits || a.bounded() || b.bounded() || is_guarded(kernel.type, limits)) {
    return std::nullopt;
  }
  const auto rows = static_cast<int>(geometry.rows);
  const auto length = static_cast<int>(geometry.length);
  const std::int64_t tiles_n = over(geometry.columns, kStagedColumns);
  const std::int64_t tiles = geometry.batches * tiles_n;
  Words words;
  Lines lines;
  ProgramWriter writer(kernel.epilogue, geometry.epilogue, words);
  lines.add("MEMORY a_at = {};", words.memory(Patch::Kind::address, kernel.a.slot));
  lines.add("MEMORY b_at = {};", words.memory(Patch::Kind::address, kernel.b_operand.slot));
  writer.declare_buffers(lines);
  declare_zero(lines, words, kernel.type);
  lines.add("int thread_id = int(THREAD);");
  lines.add("int lane = thread_id & {};", kStagedColumns - 1);
  lines.add("int tiles = {};", words.int32(tiles));
  lines.add("int size_n = {};", words.int32(geometry.columns));
  lines.open("for (int tile = int(GROUP); tile < tiles; tile += int(GROUPS)) {{");
  lines.add("int batch = {};", quotient(words, "tile", tiles_n, false));
  lines.add("int first_n = (tile - batch * {}) * {};", words.int32(tiles_n), kStagedColumns);
  lines.add("BARRIER();");
  lines.open("{{");
  decompose(lines, words, geometry.shape, 0, geometry.m, "batch", "i", false);
  a.access.declare(lines, words, "b", "", 0, geometry.m, "i");
  b.access.declare(lines, words, "b", "", 0, geometry.m, "i");
  fill_stage(lines, words, geometry, a, rows, "0", std::to_string(length).c_str(), "1");
  fill_stage(lines, words, geometry, b, kStagedColumns, "first_n", "1", std::to_string(kStagedStride).c_str());
  lines.close();
  lines.add("BARRIER();");
  lines.add("int m = thread_id / {};", kStagedColumns);
  lines.add("int n = first_n + lane;");
  lines.open("if (m < {} && n < size_n) {{", rows);
  lines.add("float total = zero;");
  lines.open("for (int begin = 0; begin < {}; begin += {}) {{", length, kBlock);
  lines.add("float partial = zero;");
  lines.add("int end = SELECT(begin + {0} < {1}, begin + {0}, {1});", kBlock, length);
  lines.add("UNROLL_BY(16)");
  lines.add("for (int k = begin; k < end; k++) partial = {};",
            fused(kernel.type, fmt::format("tile_a[m * {} + k]", length),
                  fmt::format("tile_b[k * {} + lane]", kStagedStride), "partial"));
  lines.add("total = SELECT(begin == 0, partial, {});", added(kernel.type, "total", "partial"));
  lines.close();
  write_result(lines, words, writer, kernel, geometry, false, "total");
  lines.close();
  lines.close();
  Launch result;
  result.text.body = lines.take();
  result.text.functions = writer.functions();
  result.text.threads = kTileThreads;
  result.text.shared.push_back({ComputeType::f32, "tile_a", rows * length});
  result.text.shared.push_back({ComputeType::f32, "tile_b", length * kStagedStride});
  result.groups = limits.groups_for(tiles);
  words.move_to(result);
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
