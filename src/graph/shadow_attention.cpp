// Attention as one kernel, composed of ops on a shadow's device: the bits of blocked numerics; for fast numerics, whose
// bits are a library's own, the exact results and where others may lie (docs/numerics.md section 13).
#include <cmath>
#include <functional>
#include <limits>

#include <lockstep/autograd.h>
#include <lockstep/numerics.h>
#include <lockstep/ops.h>

#include "graph/autocast.h"
#include "graph/kernel_watch.h"
#include "graph/make.h"
#include "graph/shadow_kernels.h"
#include "graph/tape.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

/// Whatever NoGrad the thread is in.
struct WithGradients {
  bool before = set_gradients_on(true);
  ~WithGradients() { set_gradients_on(before); }
};

/// As they lie in memory: [batches, positions, heads, width], one after the other.
Bytes bytes_of(const std::vector<Tensor>& results) {
  Bytes bytes;
  for (const Tensor& one : results) {
    const Tensor as_it_lies = one.transpose(1, 2);
    const std::size_t before = bytes.size();
    bytes.resize(before + static_cast<std::size_t>(one.numel()) * size_of(one.dtype()));
    as_it_lies.read_bytes(bytes.data() + before);
  }
  return bytes;
}

/// The results' bounds; sums of f32 on this side may err as much as the library's.
class FastAttentionBound {
 public:
  FastAttentionBound(const AttentionKernel& kernel, const Tensor& query, const Tensor& key, const Tensor& value,
                     double scale)
      : kernel_(kernel),
        scale_(std::abs(scale)),
        query_(abs(query)),
        key_(abs(spread(key))),
        value_(abs(spread(value))) {
    const bool is_half = kernel.query.dtype == DType::f16;
    const double unit = is_half ? 0x1p-11 : 0x1p-8;
    const double smallest = is_half ? 0x1p-14 : 0x1p-126;
    const std::int64_t rows = query.shape()[2];
    const std::int64_t keys = key.shape()[2];
    Tensor scores = matmul(query, spread(key).transpose(2, 3)) * scale;
    Tensor seen = ones({rows, keys}, {.device = query.device()});
    if (kernel.causal) {
      const auto numbers = [&](std::int64_t count) {
        return arange(static_cast<double>(count), {.dtype = DType::i64, .device = query.device()});
      };
      const Tensor hidden = numbers(keys).reshape({1, keys}) > numbers(rows).reshape({rows, 1}) + kernel.behind;
      scores = masked_fill(scores, hidden, -std::numeric_limits<double>::infinity());
      seen = masked_fill(seen, hidden, 0);
    }
    const double features = static_cast<double>(query.shape()[3]) + 16;
    const Tensor of_scores = amax(matmul(query_, key_.transpose(2, 3)), {3}, true) * (0x1p-20 * features * scale_);
    weights_ = softmax(scores, -1) * (of_scores + (unit + 0x1p-22 * (static_cast<double>(keys) + 16)));
    weights_ = where(seen > 0, weights_, seen);
    least_ = seen * (unit * smallest);
  }

  std::vector<Tensor> of_result() const { return {matmul(weights_ + least_, value_)}; }
  std::vector<Tensor> of_gradients(const Tensor& upstream, const Tensor& result) const {
    const Tensor given = abs(upstream);
    const Tensor shares = matmul(given, value_.transpose(2, 3)) + sum(given * abs(result), {3}, true);
    const Tensor of_scores = (weights_ * 3 + least_) * shares * scale_;
    return {matmul(of_scores, key_), of_heads(matmul(of_scores.transpose(2, 3), query_)),
            of_heads(matmul((weights_ * 2 + least_).transpose(2, 3), given))};
  }

 private:
  std::int64_t repeats() const { return kernel_.sizes.heads / kernel_.sizes.key_heads; }
  /// To each head of the query the one whose keys it reads.
  Tensor spread(const Tensor& x) const {
    const Shape& s = x.shape();
    return x.reshape({s[0], s[1], 1, s[2], s[3]})
        .expand({s[0], s[1], repeats(), s[2], s[3]})
        .reshape({s[0], s[1] * repeats(), s[2], s[3]});
  }
  /// And sums over those.
  Tensor of_heads(const Tensor& x) const {
    const Shape& s = x.shape();
    return sum(x.reshape({s[0], s[1] / repeats(), repeats(), s[2], s[3]}), {2});
  }

  const AttentionKernel& kernel_;
  const double scale_;
  const Tensor query_, key_, value_;  ///< magnitudes
  Tensor weights_;                    ///< errors of weights
  Tensor least_;                      ///< of what is too small for the dtype
};

}  // namespace

ComposedAttention composed_attention(Device device, const AttentionKernel& kernel, std::span<const Bytes> operands,
                                     double scale) {
  const AttentionSizes& sizes = kernel.sizes;
  const bool is_fast = kernel.numerics == Numerics::fast;
  const Unwatched unwatched;
  const WithGradients tracked;
  const AutocastExchange no_casts(DType::f32);
  const NumericsScope numerics(is_fast ? Numerics::exact : kernel.numerics);
  const auto operand = [&](std::size_t number, const Input& input) {
    const auto count = static_cast<std::int64_t>(operands[number].size() / size_of(input.dtype));
    const Tensor all =
        Tensor::from_bytes(operands[number].data(), operands[number].size(), {count}, input.dtype, device);
    const Tensor one = view_tensor(node_of(all), input.view, input.dtype);
    return is_fast ? one.to(DType::f32) : one;
  };
  std::vector<Tensor> x{operand(0, kernel.query), operand(1, kernel.key), operand(2, kernel.value)};
  const std::vector<Tensor> given = x;
  const Tensor upstream = kernel.gradients ? operand(3, kernel.upstream) : Tensor();
  if (kernel.gradients) {
    for (Tensor& one : x) one = requires_grad(one);
  }
  const Tensor result = scaled_dot_product_attention(
      x[0], x[1], x[2],
      {.causal = kernel.causal,
       .alignment = kernel.behind == 0 ? CausalAlignment::top_left : CausalAlignment::bottom_right,
       .enable_gqa = sizes.heads != sizes.key_heads,
       .scale = scale});
  std::vector<Tensor> made{result};
  if (kernel.gradients) made = gradients(result, x, {.seed = upstream});
  if (!is_fast) return {.results = bytes_of(made)};
  const NoGrad no_grad;
  const FastAttentionBound bound(kernel, given[0], given[1], given[2], scale);
  const std::vector<Tensor> errors = kernel.gradients ? bound.of_gradients(upstream, result) : bound.of_result();
  const auto rounded = [&](double bounds) {
    std::vector<Tensor> moved;
    for (std::size_t i = 0; i < made.size(); ++i)
      moved.push_back((made[i] + errors[i] * bounds).to(kernel.query.dtype));
    return bytes_of(moved);
  };
  return {.results = rounded(0), .low = rounded(-1), .high = rounded(1)};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
