// Contractions whose blocks of k are computed in parallel: block results go to scratch memory, and a second kernel adds
// them in ascending order and runs the epilogue. Here are that kernel, and the block results of a matrix times a few
// vectors: each thread follows the chains of one row and one block, and the matrix is read once.
#include <algorithm>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kThreads = kTileThreads;
constexpr int kMostVectors = 8;
constexpr int kChainStride = 257;  ///< of chains in shared memory: transposed stores go to different banks

std::int64_t blocks_of(const Geometry& geometry) {
  return (geometry.length + kBlock - 1) / kBlock;
}

std::set<int> all_of(std::size_t n) {
  std::set<int> all;
  for (std::size_t i = 0; i < n; ++i) all.insert(static_cast<int>(i));
  return all;
}

DType stored_as(ComputeType type) {
  switch (type) {
    case ComputeType::f32: return DType::f32;
    case ComputeType::f64: return DType::f64;
    case ComputeType::i32: return DType::i32;
    case ComputeType::i64: return DType::i64;
  }
  return DType::f32;
}

Launch finished(Lines& lines, const Words& words, const std::string& functions, std::int64_t groups,
                const RenderLimits& limits) {
  Launch result;
  result.text.body = lines.take();
  result.text.functions = functions;
  result.text.threads = kThreads;
  result.groups = static_cast<std::uint32_t>(std::clamp<std::int64_t>(groups, 1, limits.groups));
  words.move_to(result);
  return result;
}

}  // namespace

Launch render_sums(const ContractionKernel& kernel, const Geometry& geometry, int tile_rows, int tile_columns,
                   const RenderLimits& limits) {
  const std::int64_t tiles_m = (geometry.rows + tile_rows - 1) / tile_rows;
  const std::int64_t tiles_n = (geometry.columns + tile_columns - 1) / tile_columns;
  const std::int64_t elements = geometry.batches * tiles_m * tiles_n * tile_rows * tile_columns;
  const bool wide = geometry.wide || elements >= (std::int64_t{1} << 31) - kThreads;
  const char* index = wide ? "LONG" : "int";
  const char* type = type_name(kernel.type);
  const DType stored = stored_as(kernel.type);
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
  lines.add("int blocks = {};", words.int32(blocks_of(geometry)));
  lines.open("for ({0} e = {0}(GROUP) * {0}({1}) + {0}(THREAD); e < elements; e += {0}(GROUPS) * {0}({1})) {{", index,
             kThreads);
  lines.add("{0} tile = e / {0}({1});", index, tile_rows * tile_columns);
  lines.add("int place = int(e - tile * {}({}));", index, tile_rows * tile_columns);
  lines.add("{} tile_row = {};", index, quotient(words, "tile", tiles_n, wide));
  lines.add("{} batch = {};", index, quotient(words, "tile_row", tiles_m, wide));
  lines.add("{0} n = (tile - tile_row * {1}) * {0}({2}) + {0}(place % {2});", index, words.index(tiles_n, wide),
            tile_columns);
  lines.add("{0} m = (tile_row - batch * {1}) * {0}({2}) + {0}(place / {3});", index, words.index(tiles_m, wide),
            tile_rows, tile_columns);
  lines.open("if (m < size_m && n < size_n) {{");
  const std::string load = fmt::format("{}(scratch, at)", load_of(stored));
  lines.add("LONG at = LONG(e);");
  lines.add("{} total = {};", type, decoded(stored, load, true));
  lines.add("UNROLL_BY(8)");
  lines.open("for (int block = 1; block < blocks; block++) {{");
  lines.add("at += LONG(elements);");
  lines.add("total = {};", added(kernel.type, "total", decoded(stored, load, true)));
  lines.close();
  lines.add("{} accumulator = canonical(total);", type);
  decompose(lines, words, geometry.shape, 0, geometry.m, "batch", "i", wide);
  decompose(lines, words, geometry.shape, geometry.m, geometry.n, "m", "i", wide);
  decompose(lines, words, geometry.shape, geometry.n, geometry.k, "n", "i", wide);
  const std::set<int> instructions = all_of(kernel.epilogue.code.size());
  const std::set<int> outputs = all_of(kernel.epilogue.outputs.size());
  writer.declare_places(lines, "e", "", 0, geometry.k, instructions, outputs, true);
  for (const int i : instructions) writer.emit(lines, i, "e");
  for (const int o : outputs) writer.store(lines, o, "e");
  lines.close();
  lines.close();
  return finished(lines, words, writer.functions(), (elements + kThreads - 1) / kThreads, limits);
}

bool is_skinny(const ContractionKernel& kernel, const Geometry& geometry) {
  if (geometry.length <= kBlock || kernel.type != ComputeType::f32) return false;
  if (geometry.shape.rank() - geometry.k != 1) return false;
  const bool left = geometry.rows >= geometry.columns;
  const std::int64_t vectors = left ? geometry.columns : geometry.rows;
  const std::int64_t rows = left ? geometry.rows : geometry.columns;
  if (vectors > kMostVectors || rows < 32) return false;
  const Side matrix(left ? "a" : "b", left ? kernel.a : kernel.b_operand, left ? geometry.a : geometry.b, geometry,
                    left);
  return matrix.has_k_vectors(geometry) || matrix.has_own_vectors(geometry);
}

Launch render_skinny(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  const bool left = geometry.rows >= geometry.columns;
  const Side a("a", kernel.a, geometry.a, geometry, true);
  const Side b("b", kernel.b_operand, geometry.b, geometry, false);
  const Side& matrix = left ? a : b;
  const Side& vector = left ? b : a;
  const std::int64_t rows = matrix.size;
  const int vectors = static_cast<int>(vector.size);
  const bool transposed = matrix.has_k_vectors(geometry);  // a thread's chain is contiguous in memory
  const bool wide = geometry.wide;
  const char* index = wide ? "LONG" : "int";
  const int each = transposed ? 1 : 4;  // rows of a thread
  // Threads along rows; the others have other blocks, as many as there is shared memory for.
  constexpr int kMostBlocks = 12;
  int lanes = rows >= 512 * each ? kThreads : 32;
  while (kThreads / lanes * vectors > kMostBlocks && lanes < kThreads) lanes *= 2;
  const int teams = kThreads / lanes;
  // Of k in shared memory at once, if it has the room: neighbouring threads read 128 bytes of a chain, as vectors of 4.
  const auto fits = [&](int k) {
    return sizeof(float) * static_cast<std::size_t>(teams * vectors * kBlock + k * kChainStride) <= limits.shared_bytes;
  };
  int step = size_of(matrix.input->dtype) == 4 ? 32 : 64;
  while (step > 16 && !fits(step)) step /= 2;
  const int per_chain = step / 4;  // threads
  const int loads = step / 4;      // vectors per thread and step
  const std::int64_t row_groups = (rows + lanes * each - 1) / (lanes * each);
  const std::int64_t block_groups = (blocks_of(geometry) + teams - 1) / teams;
  const std::int64_t units = row_groups * block_groups * geometry.batches;
  Words words;
  Lines lines;
  lines.add("MEMORY a_at = {};", words.memory(Patch::Kind::address, kernel.a.slot));
  lines.add("MEMORY b_at = {};", words.memory(Patch::Kind::address, kernel.b_operand.slot));
  lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
  declare_zero(lines, words, kernel.type);
  lines.add("int thread_id = int(THREAD);");
  lines.add("{} rows = {};", index, words.index(rows, wide));
  lines.add("{} size_k = {};", index, words.index(geometry.length, wide));
  lines.add("{} blocks = {};", index, words.index(blocks_of(geometry), wide));
  lines.add("{} units = {};", index, words.index(units, wide));
  lines.open("for ({0} unit = {0}(GROUP); unit < units; unit += {0}(GROUPS)) {{", index);
  lines.add("{} rest = {};", index, quotient(words, "unit", row_groups, wide));
  lines.add("{0} first_row = (unit - rest * {1}) * {0}({2});", index, words.index(row_groups, wide), lanes * each);
  lines.add("{} batch = {};", index, quotient(words, "rest", block_groups, wide));
  lines.add("{0} first_block = (rest - batch * {1}) * {0}({2});", index, words.index(block_groups, wide), teams);
  decompose(lines, words, geometry.shape, 0, geometry.m, "batch", "i", wide);
  matrix.access.declare(lines, words, "batch", "", 0, geometry.m, "i");
  vector.access.declare(lines, words, "batch", "", 0, geometry.m, "i");
  lines.add("{0} block = first_block + {0}(thread_id / {1});", index, lanes);
  lines.add("{0} row = first_row + {0}((thread_id & {1}) * {2});", index, lanes - 1, each);
  lines.add("float sum[{}];", vectors * each);
  lines.add("UNROLL");
  lines.add("for (int v = 0; v < {}; v++) sum[v] = zero;", vectors * each);
  const std::string dtype_load = load4_of(matrix.input->dtype);
  const auto value = [&](const Side& side, const std::string& word) {
    return decoded(side.input->dtype, word, side.input->canonical);
  };
  const int k_dim = geometry.k;
  // The vectors' elements of each team's block: x[team][v][k].
  const auto fill_vectors = [&] {
    lines.open("for (int t = thread_id; t < {}; t += {}) {{", teams * vectors * kBlock, kThreads);
    lines.add("int at = t % {};", kBlock);
    lines.add("int v = t / {} % {};", kBlock, vectors);
    lines.add("{0} i{1} = (first_block + {0}(t / {2})) * {0}({3}) + {0}(at);", index, k_dim, kBlock * vectors, kBlock);
    lines.add("{0} own = {0}(v);", index);
    decompose(lines, words, geometry.shape, vector.first, vector.last, "own", "i", wide);
    for (int bound = -1; bound < vector.access.bounds(); ++bound) {
      lines.add("{0} {1}_e{2} = {1}_batch{2} + {3} + {4};", index, vector.name, suffix_of(bound),
                vector.access.sum(words, bound, vector.first, vector.last, "i", false),
                vector.access.sum(words, bound, k_dim, geometry.shape.rank(), "i", false));
    }
    vector.access.check_bounds(lines, words, "e");
    lines.add("UINT word = {};", beyond_word(vector));
    lines.open("if (i{} < size_k) {{", k_dim);
    const std::string load = fmt::format("{0}({1}_at, {1}_e)", load_of(vector.input->dtype), vector.name);
    if (vector.bounded()) {
      lines.add("word = {};", words.uint32(vector.view.fill));
      lines.add("if ({}) word = {};", vector.access.inside("e"), load);
    } else {
      lines.add("word = {};", load);
    }
    lines.close();
    lines.add("x[t] = {};", value(vector, "word"));
    lines.close();
  };
  const auto product = [&](const std::string& m, const std::string& v, const std::string& sum) {
    return left ? fused(kernel.type, m, v, sum) : fused(kernel.type, v, m, sum);
  };
  lines.add("BARRIER();");
  fill_vectors();
  if (transposed) {
    lines.add("{} start[{}];", index, loads);
    lines.add("{} left[{}];", index, loads);
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", loads);
    lines.add("int chain = thread_id / {} + j * {};", per_chain, kThreads / per_chain);
    lines.add("{0} own = first_row + {0}(chain & {1});", index, lanes - 1);
    lines.add("own = SELECT(own < rows, own, rows - {}(1));", index);
    decompose(lines, words, geometry.shape, matrix.first, matrix.last, "own", "i", wide);
    lines.add("{0} i{1} = (first_block + {0}(chain / {2})) * {0}({3}) + {0}((thread_id & {4}) * 4);", index, k_dim,
              lanes, kBlock, per_chain - 1);
    lines.add("start[j] = {0}_batch + {1} + {2};", matrix.name,
              matrix.access.sum(words, -1, matrix.first, matrix.last, "i", false),
              matrix.access.sum(words, -1, k_dim, geometry.shape.rank(), "i", false));
    lines.add("left[j] = size_k - i{};", k_dim);
    lines.close();
    lines.open("for (int at_k = 0; at_k < {}; at_k += {}) {{", kBlock, step);
    lines.add("float next[{}];", loads * 4);
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", loads);
    lines.add("UINT words[4];");
    lines.open("if ({}(at_k) < left[j]) {{", index);
    lines.add("{}({}_at, start[j] + {}(at_k), words)", dtype_load, matrix.name, index);
    lines.close();
    lines.open("else {{");
    lines.add("for (int i = 0; i < 4; i++) words[i] = {};", beyond_word(matrix));
    lines.close();
    lines.add("UNROLL");
    lines.add("for (int i = 0; i < 4; i++) next[j * 4 + i] = {};", value(matrix, "words[i]"));
    lines.close();
    lines.add("BARRIER();");
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", loads);
    lines.add("UNROLL");
    lines.add(
        "for (int i = 0; i < 4; i++) chains[((thread_id & {}) * 4 + i) * {} + thread_id / {} + j * {}] = next[j * 4 + "
        "i];",
        per_chain - 1, kChainStride, per_chain, kThreads / per_chain);
    lines.close();
    lines.add("BARRIER();");
    lines.add("UNROLL");
    lines.open("for (int i = 0; i < {}; i++) {{", step);
    lines.add("float value = chains[i * {} + thread_id];", kChainStride);
    lines.add("UNROLL");
    lines.add("for (int v = 0; v < {0}; v++) sum[v] = {1};", vectors,
              product("value", fmt::format("x[(thread_id / {} * {} + v) * {} + at_k + i]", lanes, vectors, kBlock),
                      "sum[v]"));
    lines.close();
    lines.close();
  } else {
    lines.add("BARRIER();");
    lines.add("{0} own = SELECT(row < rows, row, rows - {0}(4));", index);
    decompose(lines, words, geometry.shape, matrix.first, matrix.last, "own", "i", wide);
    lines.add("{0} i{1} = block * {0}({2});", index, k_dim, kBlock);
    lines.add("{0} at = {1}_batch + {2} + {3};", index, matrix.name,
              matrix.access.sum(words, -1, matrix.first, matrix.last, "i", false),
              matrix.access.sum(words, -1, k_dim, geometry.shape.rank(), "i", false));
    lines.add("{} step = {};", index, words.index(matrix.view.strides[k_dim], wide));
    lines.add("{} left = size_k - i{};", index, k_dim);
    lines.add("int count = left < {0}({1}) ? int(left) : {1};", index, kBlock);
    lines.add("UNROLL_BY(8)");
    lines.open("for (int i = 0; i < count; i++) {{");
    lines.add("UINT words[4];");
    lines.add("{}({}_at, at, words)", dtype_load, matrix.name);
    lines.add("at += step;");
    lines.add("UNROLL");
    lines.open("for (int v = 0; v < {}; v++) {{", vectors);
    lines.add("float value = x[(thread_id / {} * {} + v) * {} + i];", lanes, vectors, kBlock);
    lines.add("UNROLL");
    lines.add("for (int q = 0; q < 4; q++) sum[v * 4 + q] = {};",
              product(value(matrix, "words[q]"), "value", "sum[v * 4 + q]"));
    lines.close();
    lines.close();
  }
  lines.open("if (row < rows && block < blocks) {{");
  lines.add("UNROLL");
  lines.open("for (int v = 0; v < {}; v++) {{", vectors * each);
  const std::string m = left ? fmt::format("LONG(row) + LONG(v % {})", each) : fmt::format("LONG(v / {})", each);
  const std::string n = left ? fmt::format("LONG(v / {})", each) : fmt::format("LONG(row) + LONG(v % {})", each);
  lines.add("LONG place = (((LONG(block) * {0} + LONG(batch)) * {1}) + {2}) * {3} + {4};",
            words.int64(geometry.batches), words.int64(geometry.rows), m, words.int64(geometry.columns), n);
  lines.add("STORE_U32(scratch, place, BITS(sum[v]));");
  lines.close();
  lines.close();
  lines.close();
  Launch result = finished(lines, words, "", units, limits);
  result.text.shared = {{ComputeType::f32, "x", teams * vectors * kBlock}};
  if (transposed) result.text.shared.push_back({ComputeType::f32, "chains", step * kChainStride});
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
