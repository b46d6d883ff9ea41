#include "graph/ops/attention_fused.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/backend.h"
#include "graph/kernel_watch.h"
#include "graph/numerics.h"
#include "graph/recording.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Of heads that fused kernels take: multiples, and the most.
constexpr std::int64_t kFusedWidths = 8;
constexpr std::int64_t kFusedBlockedWidths = 32;
constexpr std::int64_t kMostFusedWidth = 128;
// Of results, whose places are 32-bit numbers.
constexpr std::int64_t kMostFusedElements = std::int64_t{1} << 31;
// Of keys, whose sums of exponentials have as many chunks as lanes.
constexpr std::int64_t kMostFusedKeys = std::int64_t{order::kLanes} * order::kChunk;
// On the CPU, where the scores of a vector of queries stay in a core's cache.
constexpr std::int64_t kLeastExactKeys = 8;
constexpr std::int64_t kMostExactKeys = 8192;
// On a GPU, of one row with a mask or of causal ones, as a step or a prompt of a language model has it: all sums of
// exponentials are one chunk. What reads a step's values has 32 columns or more, for so many heads that share keys.
constexpr std::int64_t kMostMaskedKeys = order::kChunk;
constexpr std::int64_t kMaskedWidths = 32;
constexpr std::int64_t kMostMaskedHeads = 8;
// Of scales, so that none is subnormal in f32.
constexpr double kLeastExactScale = 0x1p-100;

// Gradients of what was broadcast are added in f32, before they are rounded.
bool is_broadcast(const AttentionCall& call) {
  const auto differs = [&](const Tensor& given, std::int64_t heads) {
    return given.shape().numel() != call.lead.numel() * heads * given.shape()[given.rank() - 2] * given.shape().back();
  };
  return differs(*call.shown[0].tensor, call.repeats) || differs(*call.shown[1].tensor, 1) ||
         differs(*call.shown[2].tensor, 1);
}

// Fused kernels know [batches, heads, positions, width].
std::int64_t heads(const AttentionCall& call) {
  return call.lead.empty() ? 1 : call.lead.back();
}
std::int64_t batches(const AttentionCall& call) {
  return call.lead.numel() / heads(call);
}
Tensor joined_query(const AttentionCall& call) {
  return call.query.reshape({batches(call), heads(call) * call.repeats, call.rows, call.query.shape().back()});
}
Tensor joined(const AttentionCall& call, const Tensor& tensor) {
  return tensor.reshape({batches(call), heads(call), call.keys, tensor.shape().back()});
}
// The elements from `first` on of what a fused kernel made, which lie as [batches, positions, heads, width].
Tensor part_of_fused(const AttentionCall& call, const Tensor& made, std::int64_t first, std::int64_t head_count,
                     std::int64_t positions) {
  const std::int64_t width = call.query.shape().back();
  return view_tensor(node_of(made),
                     View{.shape = {batches(call), head_count, positions, width},
                          .strides = {positions * head_count * width, width, head_count * width, 1},
                          .offset = first},
                     made.dtype());
}

thread_local constinit bool is_finite_padding = false;

// Who watches kernels, or writes them to a file, sees the composition, which every device has.
bool is_plain_exact(const AttentionCall& call) {
  const auto dense = [](const Tensor& tensor) { return read(tensor).base->encoding == Encoding::dense; };
  return dense(call.query) && dense(call.key) && dense(call.value) && std::abs(call.scale) <= 1 &&
         std::abs(call.scale) >= kLeastExactScale && !is_watched() && !is_recording();
}
bool has_gpu_dtype(const AttentionCall& call) {
  const DType dtype = call.query.dtype();
  return (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16) && call.key.dtype() == dtype &&
         call.value.dtype() == dtype;
}
// On a GPU that has a step as one kernel, where the composition would have rows of several tiles one after the other.
bool is_fused_causal(const AttentionCall& call, const Backend& backend) {
  const auto lies = [](const Tensor& tensor) { return read(tensor).view.bounds.empty(); };
  return has_gpu_dtype(call) && is_plain_exact(call) && backend.has_masked_attention() && call.rows > kTileRows &&
         call.keys <= kMostMaskedKeys && call.behind && *call.behind >= 0 &&
         call.query.shape().back() % kFusedWidths == 0 && call.result_shape().numel() <= kMostFusedElements &&
         lies(call.query) && lies(call.key) && lies(call.value);
}
bool is_fused_exact(const AttentionCall& call, const Backend& backend) {
  return is_plain_exact(call) && call.query.dtype() == DType::f32 && backend.has_exact_attention() &&
         call.query.shape().back() % kFusedWidths == 0 && call.keys >= kLeastExactKeys && call.keys <= kMostExactKeys &&
         call.behind.value_or(0) >= 0;
}

}  // namespace

bool is_fused(const AttentionCall& call) {
  const std::int64_t width = call.query.shape().back();
  const bool plain = !call.options.mask && !(call.options.softcap > 0) && !call.before;
  const bool fits = width <= kMostFusedWidth && call.value.shape().back() == width && call.rows > kFewRows;
  if (!plain || !fits || call.result_shape().numel() == 0 || call.keys == 0) return false;
  const Backend& backend = backend_of(call.query.device());
  const Numerics numerics = numerics_of(call.query.dtype());
  if (numerics == Numerics::exact) return is_fused_exact(call, backend) || is_fused_causal(call, backend);
  const bool seen = !call.behind || *call.behind == 0 || (*call.behind > 0 && *call.behind == call.keys - call.rows);
  if (!seen || call.options.first_query || size_of(call.query.dtype()) != 2) return false;
  if (numerics == Numerics::fast) return width % kFusedWidths == 0 && backend.has_fast_attention();
  return width % kFusedBlockedWidths == 0 && std::abs(call.scale) <= 1 && call.keys <= kMostFusedKeys &&
         call.result_shape().numel() <= kMostFusedElements && !is_broadcast(call) && backend.has_blocked_attention();
}

bool is_much(const AttentionCall& call) {
  constexpr std::int64_t kMuch = std::int64_t{1} << 30;  // multiplications
  return numerics_of(call.query.dtype()) == Numerics::exact && !is_host(call.query.device()) &&
         call.lead.numel() * call.repeats * call.rows * call.keys * call.query.shape().back() >= kMuch;
}

std::pair<Tensor, Tensor> fused_attention(const AttentionCall& call) {
  const Numerics numerics = numerics_of(call.query.dtype());
  const Tensor made =
      attend(numerics, joined_query(call), joined(call, call.key), joined(call, call.value), call.behind, call.scale);
  const Tensor result =
      part_of_fused(call, made, 0, heads(call) * call.repeats, call.rows).reshape(call.result_shape());
  return {result, numerics == Numerics::exact ? Tensor() : made};
}

bool is_fused_step(const AttentionCall& call) {
  const std::int64_t width = call.query.shape().back();
  const bool fits = call.rows == 1 && call.keys > 0 && call.keys % order::kBlock == 0 && call.keys <= kMostMaskedKeys &&
                    call.repeats <= kMostMaskedHeads && width > 0 && width % kMaskedWidths == 0 &&
                    width <= kMostFusedWidth && call.value.shape().back() == width && call.result_shape().numel() > 0;
  const bool hides = call.mask.defined() && call.mask.dtype() == DType::boolean &&
                     read(call.mask).view.bounds.empty() && read(call.query).view.bounds.empty();
  return fits && hides && has_gpu_dtype(call) && !call.by_position() && !(call.options.softcap > 0) &&
         is_plain_exact(call) && numerics_of(call.query.dtype()) == Numerics::exact &&
         backend_of(call.query.device()).has_masked_attention();
}

FinitePadding::FinitePadding() : before_(std::exchange(is_finite_padding, true)) {}
FinitePadding::~FinitePadding() {
  is_finite_padding = before_;
}
bool FinitePadding::is_promised() {
  return is_finite_padding;
}

Tensor fused_attention_step(const AttentionCall& call) {
  const std::int64_t all = heads(call) * call.repeats;
  const Tensor made = attend_masked(joined_query(call), joined(call, call.key), joined(call, call.value),
                                    call.mask.reshape({batches(call), all, call.rows, call.keys}), call.scale);
  return part_of_fused(call, made, 0, all, call.rows).reshape(call.result_shape());
}

bool has_fused_gradients(const AttentionCall& call, const Tensor& upstream) {
  const bool whole = call.repeats == 1 || call.rows % order::kSharedBlock == 0;
  return numerics_of(call.query.dtype()) == Numerics::fast || (whole && upstream.dtype() == call.query.dtype());
}

std::vector<Tensor> fused_attention_gradients(const AttentionCall& call, const Tensor& upstream, const Tensor& made) {
  const Numerics numerics = numerics_of(call.query.dtype());
  const Tensor query = joined_query(call);
  const Tensor key = joined(call, call.key);
  const Tensor given = cast(upstream, call.query.dtype()).reshape(query.shape());
  const Tensor all =
      attend_gradients(numerics, query, key, joined(call, call.value), made, given, call.behind, call.scale);
  const AttentionSizes sizes = attention_sizes(query.shape(), key.shape(), numerics);
  return {part_of_fused(call, all, 0, sizes.heads, call.rows).reshape(call.joined_heads(call.query.shape().back())),
          part_of_fused(call, all, sizes.queries(), heads(call), call.keys).reshape(call.key.shape()),
          part_of_fused(call, all, sizes.queries() + sizes.each_keys(), heads(call), call.keys)
              .reshape(call.value.shape())};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
