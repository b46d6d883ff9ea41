// Contractions by tiles: a workgroup computes 64 or 128 rows times 64 or 128 columns. While one step of k is multiplied
// out of shared memory, the next one is on its way into registers. Each thread has subtiles of 4 x 4 outputs, so that
// shared memory is read four values at a time.
//
// How elements reach shared memory depends on how they lie: four neighbours at once along the operand's own dimensions
// or along k where that can be, else one by one, neighbouring threads along whichever is contiguous. What k contributes
// to addresses and bounds (the positions of a convolution's window) is computed once per step of k for all threads.
#include <algorithm>
#include <string_view>

#include "backends/gpu/renderer/contraction_tiles.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

Launch TileKernel::render() {
  const std::int64_t tiles_m = (geometry_.rows + form_.rows() - 1) / form_.rows();
  const std::int64_t tiles_n = (geometry_.columns + form_.columns() - 1) / form_.columns();
  const std::int64_t tiles = tiles_m * tiles_n * geometry_.batches;
  open_tiles(tiles_m, tiles_n);
  prepare(a_, "m");
  prepare(b_, "n");
  if (has_totals() && !form_.shared_totals) declare_sums("total");
  // A loop over canonical blocks around the one over steps: sums stay in their registers from step to step.
  const bool blocks = is_split() || has_totals();
  if (!blocks) declare_sums("partial");
  if (!is_split()) fill_fixed();
  fill_tables("begin_k", "0", 2 * form_.step);
  if (guarded_) {
    lines_.add("if (thread_id < {}) small[thread_id] = 0;", 2 * kSmallFlags);
    shared_.push_back({ComputeType::i32, "small", 2 * kSmallFlags});
  }
  lines_.add("BARRIER();");
  lines_.add("{} load_k = begin_k;", index_);
  lines_.add("int front = 0;");
  lines_.add("int back = 0;");
  for (const Loader* loader : {&a_, &b_}) {
    lines_.add("{} {}_next[{}];", type_, loader->side.name, loader->count);
    load(*loader);
    put(*loader);
  }
  lines_.add("BARRIER();");
  walk_k(blocks);
  if (has_totals() && form_.shared_totals) lines_.add("BARRIER();");
  if (!is_split()) write_outputs();
  lines_.close();
  return launch(tiles);
}

void TileKernel::open_tiles(std::int64_t tiles_m, std::int64_t tiles_n) {
  const bool wide = geometry_.wide;
  const std::int64_t tiles = tiles_m * tiles_n * geometry_.batches;
  lines_.add("MEMORY a_at = {};", words_.memory(Patch::Kind::address, kernel_.a.slot));
  lines_.add("MEMORY b_at = {};", words_.memory(Patch::Kind::address, kernel_.b_operand.slot));
  if (is_split()) {
    lines_.add("MEMORY scratch = {};", words_.memory(Patch::Kind::scratch, 0));
  } else {
    writer_.declare_buffers(lines_);
  }
  declare_zero(lines_, words_, kernel_.type);
  lines_.add("int thread_id = int(THREAD);");
  lines_.add("int thread_m = ((thread_id / {}) * {} + ((thread_id & 31) >> 2)) * 4;", 32 * form_.teams_n,
             8 * form_.subtiles_m);
  lines_.add("int thread_n = (((thread_id >> 5) & {}) * {} + (thread_id & 3)) * 4;", form_.teams_n - 1,
             4 * form_.subtiles_n);
  for (const auto& [name, size] : {std::pair{"m", geometry_.rows}, {"n", geometry_.columns}, {"k", geometry_.length}}) {
    if (*name == 'k' && ends_by_tile()) continue;
    lines_.add("{} size_{} = {};", index_, name, words_.index(size, wide));
  }
  lines_.add("{} tiles = {};", index_, words_.index(tiles, wide));
  if (is_split()) {
    lines_.add("{} per_split = {};", index_, words_.index(per_split(), wide));
    lines_.add("{0} units = tiles * {1};", index_, words_.index(form_.split, wide));
    lines_.open("for ({0} unit = {0}(GROUP); unit < units; unit += {0}(GROUPS)) {{", index_);
    lines_.add("{} part = {};", index_, quotient(words_, "unit", tiles, wide));
    lines_.add("{} tile = unit - part * tiles;", index_);
    lines_.add("{} begin_k = part * per_split;", index_);
    lines_.add("{0} end_k = SELECT(begin_k + per_split < size_k, begin_k + per_split, size_k);", index_);
  } else {
    lines_.open("for ({0} tile = {0}(GROUP); tile < tiles; tile += {0}(GROUPS)) {{", index_);
    lines_.add("{0} begin_k = {0}(0);", index_);
  }
  place_tile(tiles_m, tiles_n);
  if (!is_split()) lines_.add("{} end_k = size_k;", index_);
  decompose(lines_, words_, geometry_.shape, 0, geometry_.m, "batch", "i", wide);
}

void TileKernel::place_tile(std::int64_t tiles_m, std::int64_t tiles_n) {
  const bool wide = geometry_.wide;
  lines_.add("{} tile_row = {};", index_, quotient(words_, "tile", tiles_n, wide));
  lines_.add("{0} first_n = (tile - tile_row * {1}) * {0}({2});", index_, words_.index(tiles_n, wide), form_.columns());
  if (!seen_) {
    lines_.add("{} batch = {};", index_, quotient(words_, "tile_row", tiles_m, wide));
    lines_.add("{0} first_m = (tile_row - batch * {1}) * {0}({2});", index_, words_.index(tiles_m, wide), form_.rows());
    return;
  }
  // Those that see most keys first, so that units end together.
  static_assert((kAttentionTileRows & (kAttentionTileRows - 1)) == 0);
  lines_.add("{} from_last = {};", index_, quotient(words_, "tile_row", geometry_.batches, wide));
  lines_.add("{} batch = tile_row - from_last * {};", index_, words_.index(geometry_.batches, wide));
  lines_.add("{0} first_m = ({1} - from_last) * {0}({2});", index_, words_.index(tiles_m - 1, wide), form_.rows());
  lines_.add("{0} seen = (first_m | {0}({1})) + {0}(1);", index_, kAttentionTileRows - 1);
  lines_.add("seen = SELECT(seen < size_m, seen, size_m) + {};", words_.index(seen_->behind, wide));
  if (!seen_->along_k) return lines_.add("if (first_n >= seen) continue;");
  lines_.add("{} size_k = {};", index_, words_.index(geometry_.length, wide));
  lines_.add("size_k = SELECT(seen < size_k, seen, size_k);");
}

void TileKernel::walk_k(bool blocks) {
  if (blocks) {
    lines_.open("for ({0} block_k = begin_k; block_k < end_k; block_k += {0}({1})) {{", index_, kBlock);
    lines_.add("{0} stop_k = SELECT(end_k - block_k > {0}({1}), block_k + {0}({1}), end_k);", index_, kBlock);
    declare_sums("partial");
    // A block's sums have met none of the elements before: nobody reads what the last one noted, nor writes there yet.
    if (guarded_) lines_.add("if (thread_id < {0}) small[{1} + thread_id] = 0;", kSmallFlags, small_of("block_k", 1));
  }
  lines_.open("for ({0} k = {1}; k < {2}; k += {0}({3})) {{", index_, blocks ? "block_k" : "begin_k",
              blocks ? "stop_k" : "end_k", form_.step);
  lines_.add("load_k = k + {}({});", index_, form_.step);
  lines_.add("back = 1 - front;");
  load(a_);
  load(b_);
  multiply();
  fill_tables(fmt::format("load_k + {}({})", index_, form_.step), "front", form_.step);
  put(a_);
  put(b_);
  lines_.add("BARRIER();");
  lines_.add("front = back;");
  lines_.close();
  if (blocks) {
    end_block();
    lines_.close();
  }
}

Launch TileKernel::launch(std::int64_t tiles) {
  Launch result;
  result.text.body = lines_.take();
  result.text.functions = writer_.functions();
  result.text.threads = form_.threads();
  result.text.groups_per_unit = form_.groups_per_unit;
  result.text.shared = std::move(shared_);
  result.text.shared.push_back({kernel_.type, "tile_a", 2 * form_.step * a_.stride});
  result.text.shared.push_back({kernel_.type, "tile_b", 2 * form_.step * b_.stride});
  if (!is_split()) {
    result.text.shared.push_back(
        {kernel_.type, "stage", (form_.shared_totals ? form_.rows() : kStageRows) * stage_stride()});
  }
  result.groups = limits_.groups_for(tiles * form_.split);
  words_.move_to(result);
  return result;
}

void TileKernel::declare_sums(const char* array) {
  lines_.add("{} {}[{}];", type_, array, each_m() * each_n());
  lines_.add("UNROLL");
  lines_.add("for (int x = 0; x < {}; x++) {}[x] = zero;", each_m() * each_n(), array);
}

void TileKernel::multiply() {
  if (!guarded_) return multiply(exact_fma_of(kernel_));
  lines_.add("int noted = {};", small_of("k", 0));
  // By what both operands have at the least: see note_small.
  lines_.add("bool plain = (small[noted] | small[noted + 5]) == 0 || (small[noted + 1] | small[noted + 4]) == 0 ||");
  lines_.add("             (small[noted + 2] | small[noted + 3]) == 0;");
  lines_.open("if (plain) {{");
  multiply("FMA");
  lines_.close();
  lines_.open("else {{");
  multiply("FMA_EXACT");
  lines_.close();
}

void TileKernel::multiply(const char* fma) {
  if (!guarded_ || fma == std::string_view("FMA")) lines_.add("UNROLL");  // what is rare stays short
  lines_.open("for (int at_k = 0; at_k < {}; at_k++) {{", form_.step);
  lines_.add("{} x[{}];", type_, each_m());
  lines_.add("{} y[{}];", type_, each_n());
  for (int s = 0; s < form_.subtiles_m; ++s) {
    read4("tile_a", fmt::format("(front * {} + at_k) * {} + thread_m + {}", form_.step, a_.stride, 32 * s), "x",
          std::to_string(4 * s));
  }
  for (int s = 0; s < form_.subtiles_n; ++s) {
    read4("tile_b", fmt::format("(front * {} + at_k) * {} + thread_n + {}", form_.step, b_.stride, 16 * s), "y",
          std::to_string(4 * s));
  }
  lines_.add("UNROLL");
  lines_.open("for (int i = 0; i < {}; i++) {{", each_m());
  lines_.add("UNROLL");
  // To and fro: what the last multiplication of a row read stays at hand for the next row.
  lines_.open("for (int s = 0; s < {}; s++) {{", each_n());
  lines_.add("int j = (i & 1) == 0 ? s : {} - s;", each_n() - 1);
  const std::string sum = fmt::format("partial[i * {} + j]", each_n());
  const bool plain = kernel_.type == ComputeType::f32;
  lines_.add("{} = {};", sum,
             plain ? fmt::format("{}(x[i], y[j], {})", fma, sum) : fused(kernel_.type, "x[i]", "y[j]", sum));
  lines_.close();
  lines_.close();
  lines_.close();
}

Launch render_tiles(const ContractionKernel& kernel, const Geometry& geometry, const TileForm& form,
                    const RenderLimits& limits, std::optional<SeenKeys> seen) {
  LOCKSTEP_ASSERT(!seen || (form.split == 1 && kAttentionTileRows % form.rows() == 0));
  return TileKernel(kernel, geometry, form, limits, seen).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
