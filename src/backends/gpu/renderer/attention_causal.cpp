// Exact attention of many rows that see the keys up to their own, a prompt of a language model (docs/numerics.md
// section 6): the products are those of contractions by tiles, but for tiles and k that no row of 128 sees, and between
// them is a launch for softmax. All rows of as many heads as the scores' memory is for are three launches, so that
// units have enough tiles, where the composition has three for each 128 rows. Where a device has the form of
// attention_causal_tiles.cpp, it is one launch.
#include <algorithm>
#include <optional>
#include <utility>

#include "backends/gpu/renderer/attention_lanes.h"
#include "backends/gpu/renderer/attention_rows.h"
#include "backends/gpu/renderer/fast_parts.h"
#include "backends/gpu/renderer/kinds.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::int64_t kMostScoreBytes = std::int64_t{512} << 20;
constexpr int kRowAlignment = 32;  ///< of scores, in elements

class CausalAttention {
 public:
  CausalAttention(const AttentionKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        sizes_(kernel.sizes),
        limits_(limits),
        repeats_(sizes_.heads / sizes_.key_heads),
        stride_(aligned(sizes_.keys, kRowAlignment)) {}

  Rendered render() {
    const std::int64_t row_bytes = stride_ * 4;
    const std::int64_t head_bytes = repeats_ * sizes_.rows * row_bytes;
    Part all{0, sizes_.batches, 0, sizes_.key_heads, 0, sizes_.rows};
    // Steps of a part: whole batches, else heads of one, else rows of one head, whole tiles of them.
    const std::int64_t batches = std::max<std::int64_t>(kMostScoreBytes / (head_bytes * sizes_.key_heads), 1);
    const std::int64_t heads = std::clamp<std::int64_t>(kMostScoreBytes / head_bytes, 1, sizes_.key_heads);
    const std::int64_t most_rows = kMostScoreBytes / (repeats_ * row_bytes) / kAttentionTileRows * kAttentionTileRows;
    const std::int64_t rows = head_bytes <= kMostScoreBytes ? sizes_.rows : most_rows;
    for (std::int64_t batch = 0; batch < sizes_.batches; batch += batches) {
      for (std::int64_t head = 0; head < sizes_.key_heads; head += heads) {
        for (std::int64_t row = 0; row < sizes_.rows; row += rows) {
          append(Part{batch, std::min(batches, all.batches - batch), head, std::min(heads, all.heads - head), row,
                      std::min(rows, all.rows - row)});
        }
      }
    }
    return std::move(rendered_);
  }

 private:
  /// Some batches, heads of the keys and rows, whose scores are in memory at once.
  struct Part {
    std::int64_t first_batch, batches, first_head, heads, first_row, rows;
  };

  void append(const Part& part) {
    const std::int64_t scores = part.batches * part.heads * repeats_ * part.rows;
    rendered_.scratch_bytes = std::max(rendered_.scratch_bytes, static_cast<std::size_t>(scores * stride_ * 4));
    append_product(scores_of(part), {behind(part), false});
    rendered_.launches.push_back(softmax(part));
    append_product(results_of(part), {behind(part), true});
  }
  std::int64_t behind(const Part& part) const { return kernel_.behind + part.first_row; }

  void append_product(const ContractionKernel& product, SeenKeys seen) {
    // Heads that share keys are batches nevertheless: rows of a tile are those of one.
    const Geometry geometry = geometry_of(product, true);
    Launch launch = render_tiles(product, geometry, whole_tile_form(product, geometry, limits_), limits_, seen);
    for (Patch& patch : launch.patches) {
      if (patch.kind == Patch::Kind::address && patch.index == kScratchSlot) patch.kind = Patch::Kind::scratch;
    }
    rendered_.launches.push_back(std::move(launch));
  }

  // Over (batches, heads of the keys, repeats, and what follows).
  Input operand(const Input& input, const Part& part, std::int64_t repeats, bool is_query, Shape last) const {
    const View& view = input.view;
    const std::int64_t of_repeat = is_query ? view.strides[1] : 0;
    const std::int64_t of_head = is_query ? view.strides[1] * repeats : view.strides[1];
    Input result = input;
    result.view = View{.shape = {part.batches, part.heads, repeats, view.shape[static_cast<int>(last[0])],
                                 view.shape[static_cast<int>(last[1])]},
                       .strides = {view.strides[0], of_head, of_repeat, view.strides[static_cast<int>(last[0])],
                                   view.strides[static_cast<int>(last[1])]},
                       .offset = view.offset + part.first_batch * view.strides[0] + part.first_head * of_head};
    if (is_query) {
      result.view.shape[3] = part.rows;
      result.view.offset += part.first_row * view.strides[2];
    }
    return result;
  }
  Shape heads_of(const Part& part) const { return {part.batches, part.heads, repeats_}; }
  // Of an array [heads..., rows, row].
  Shape strides_of_scores(const Part& part) const {
    const std::int64_t head = part.rows * stride_;
    return {part.heads * repeats_ * head, repeats_ * head, head, stride_, 1};
  }

  ContractionKernel product(const Part& part, std::int64_t columns, std::int64_t length) const {
    ContractionKernel product;
    product.b = heads_of(part);
    product.m = {part.rows};
    product.n = {columns};
    product.k = {length};
    product.epilogue.rows = {part.batches, part.heads, repeats_, part.rows};
    product.epilogue.inner = {columns};
    product.epilogue.code.push_back(
        {.kind = Instruction::Kind::accumulator, .type = ComputeType::f32, .dtype = DType::f32});
    return product;
  }

  ContractionKernel scores_of(const Part& part) const {
    ContractionKernel made = product(part, sizes_.keys, sizes_.width);
    made.a = operand(kernel_.query, part, repeats_, true, {2, 3});
    made.b_operand = operand(kernel_.key, part, repeats_, false, {3, 2});
    made.epilogue.code.push_back({.kind = Instruction::Kind::constant,
                                  .type = ComputeType::f32,
                                  .dtype = DType::f32,
                                  .extent = Extent::row,
                                  .index = kernel_.scale});
    made.epilogue.code.push_back({.kind = Instruction::Kind::elementwise,
                                  .type = ComputeType::f32,
                                  .dtype = DType::f32,
                                  .from = DType::f32,
                                  .op = Op::mul,
                                  .a = 0,
                                  .b = 1});
    made.epilogue.outputs.push_back(
        {.slot = kScratchSlot, .dtype = DType::f32, .value = 2, .strides = strides_of_scores(part)});
    return made;
  }

  ContractionKernel results_of(const Part& part) const {
    ContractionKernel made = product(part, sizes_.width, sizes_.keys);
    made.a = {.slot = kScratchSlot,
              .dtype = DType::f32,
              .view = {.shape = {part.batches, part.heads, repeats_, part.rows, sizes_.keys},
                       .strides = strides_of_scores(part)},
              .canonical = true};
    made.b_operand = operand(kernel_.value, part, repeats_, false, {2, 3});
    const std::int64_t row = sizes_.heads * sizes_.width;
    made.epilogue.outputs.push_back({.slot = kernel_.out,
                                     .dtype = kernel_.query.dtype,
                                     .value = 0,
                                     .strides = {sizes_.rows * row, repeats_ * sizes_.width, sizes_.width, row, 1},
                                     .offset = (part.first_batch * sizes_.rows + part.first_row) * row +
                                               part.first_head * repeats_ * sizes_.width});
    return made;
  }

  // In place. A team has a row, a thread the elements of a lane of its sums. Weights that the second product reads
  // although they are hidden are zero.
  Launch softmax(const Part& part) const {
    int each = 4;  // few texts for all lengths
    while (each * order::kLanes < sizes_.keys) each *= 2;
    const std::int64_t rows = part.batches * part.heads * repeats_ * part.rows;
    Words words;
    Lines lines;
    lines.add("MEMORY scores_at = {};", words.memory(Patch::Kind::scratch, 0));
    lines.add("int rows = {};", words.int32(rows));
    lines.add("int keys = {};", words.int32(sizes_.keys));
    lines.add("int head_rows = {};", words.int32(part.rows));
    lines.add("int behind = {};", words.int32(behind(part)));
    declare_zero(lines, words, ComputeType::f32);
    lines.add("int thread_id = int(THREAD);");
    lines.add("int lane = thread_id & {};", order::kLanes - 1);
    lines.open("for (int first = int(GROUP) * {0}; first < rows; first += int(GROUPS) * {0}) {{", kLaneTeams);
    lines.add("int row = first + thread_id / {};", order::kLanes);
    lines.add("bool is_row = row < rows;");
    lines.add("row = SELECT(row < rows, row, rows - 1);");
    lines.add("int head = {};", quotient(words, "row", part.rows, false));
    lines.add("int query = row - head * head_rows;");
    lines.add("int seen = query + 1 + behind;");
    lines.add("seen = SELECT(seen < keys, seen, keys);");
    lines.add("int stop = (query | {}) + 1;", kAttentionTileRows - 1);
    lines.add("stop = SELECT(stop < head_rows, stop, head_rows) + behind;");
    lines.add("stop = SELECT(stop < keys, stop, keys) + 3 & -4;");
    lines.add("LONG at = LONG(row) * {} + LONG(lane);", words.int64(stride_));
    lines.add("float some_of_row[{}];", each);
    lines.add("float largest[1];");
    lines.add("float total[1];");
    lines.add("largest[0] = FROM_BITS(0xff800000u);");
    // By fours, which most rows have not all of.
    const auto each_key = [&](const char* end) {
      lines.add("UNROLL");
      lines.open("for (int g = 0; g < {}; g++) {{", each / 4);
      lines.open("if (g * {} < {}) {{", 4 * order::kLanes, end);
      lines.add("UNROLL");
      lines.open("for (int j = 4 * g; j < 4 * g + 4; j++) {{");
      lines.add("int key = j * {} + lane;", order::kLanes);
    };
    const auto close_keys = [&] {
      for (int i = 0; i < 3; ++i) lines.close();
    };
    lines.add("UNROLL");
    lines.add("for (int j = 0; j < {}; j++) some_of_row[j] = FROM_BITS(0xff800000u);", each);
    each_key("seen");
    lines.add("if (key < seen) some_of_row[j] = FROM_BITS(LOAD_U32_AGAIN(scores_at, at + LONG(j * {})));",
              order::kLanes);
    close_keys();
    lines.add("UNROLL");
    lines.add("for (int j = 0; j < {}; j++) largest[0] = LARGER(largest[0], some_of_row[j]);", each);
    join_lanes(lines, 1, "largest", "LARGER");
    lines.add("if ((BITS(largest[0]) & 0x7f800000u) == 0x7f800000u) largest[0] = zero;");
    lines.add("total[0] = zero;");
    each_key("seen");
    lines.add("some_of_row[j] = exponential_of(some_of_row[j], largest[0]);");
    lines.add("if (key < seen) total[0] = ADD_EXACT(total[0], some_of_row[j]);");
    close_keys();
    join_lanes(lines, 1, "total", "ADD_EXACT");
    lines.add("total[0] = CANONICAL_F32(total[0]);");
    lines.add("if (total[0] == 0.0f) total[0] = 1.0f;");
    lines.add("FLOAT inverse = DIV(1.0f, total[0]);");
    // The sum of exponentials of which one is 1 is in the range of quick_quotient, unless no score is finite.
    lines.add("bool is_plain = total[0] >= 1.0f && total[0] <= 1048576.0f;");
    each_key("stop");
    lines.open("if (key < stop && is_row) {{");
    lines.add("UINT word = 0u;");
    lines.open("if (key < seen) {{");
    lines.add("FLOAT weight;");
    lines.add("bool holds = quick_quotient(some_of_row[j], total[0], inverse, weight);");
    lines.add("if (!(holds && is_plain)) weight = CANONICAL_F32(DIV(some_of_row[j], total[0]));");
    lines.add("word = BITS(weight);");
    lines.close();
    lines.add("STORE_U32(scores_at, at + LONG(j * {}), word);", order::kLanes);
    lines.close();
    close_keys();
    lines.close();
    Launch launch;
    launch.text.body = lines.take();
    launch.text.functions = kExponentialText;
    launch.text.threads = kLaneThreads;
    add_lanes(launch.text, 1);
    launch.groups = limits_.groups_for(over(rows, kLaneTeams));
    words.move_to(launch);
    return launch;
  }

  const AttentionKernel& kernel_;
  const AttentionSizes& sizes_;
  const RenderLimits& limits_;
  const std::int64_t repeats_, stride_;
  Rendered rendered_;
};

}  // namespace

Rendered render_causal_attention(const AttentionKernel& kernel, const RenderLimits& limits) {
  LOCKSTEP_ASSERT(kernel.causal && !kernel.gradients && kernel.behind >= 0 && kernel.sizes.keys <= order::kChunk);
  if (limits.threads < kLaneThreads) throw BackendError("exact attention needs workgroups of 256 threads");
  if (std::optional<Rendered> tiles = render_causal_tiles(kernel, limits)) return std::move(*tiles);
  return CausalAttention(kernel, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
