// Distances between vectors: norms of broadcast differences, fused into one kernel each.
#include <fmt/format.h>

#include "graph/autocast.h"
#include "graph/ops/operand.h"
#include "graph/ops/reduction.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor cosine_similarity(const Operand& x1, const Operand& x2, int dim, double eps) {
  const CallScope call("cosine_similarity", x1);
  if (is_autocasting()) return with_autocast(DType::f32, cosine_similarity, x1, x2, dim, eps);
  const std::vector<Shown> shown{{"x1", x1}, {"x2", x2}};
  const Promoted types = promote(shown, true);
  const Shape shape = broadcast_shape(shown);
  const Tensor a = broadcast_to(cast(tensor_operand(x1), types.working), shape);
  const Tensor b = broadcast_to(cast(tensor_operand(x2), types.working), shape);
  const std::uint32_t dims = 1u << check_dim(a, dim);
  const auto direction = [&](const Tensor& x) {
    return x / maximum(root_of_squares(reduce(ReduceOp::dot, x, dims, &x)), eps);
  };
  const Tensor first = direction(a);
  const Tensor second = direction(b);
  const Tensor similarity = reduce(ReduceOp::dot, first, dims, &second);
  return drop_dims(cast(similarity, types.dtype), dims, false);
}

Tensor pairwise_distance(const Operand& x1, const Operand& x2, double p, const PairwiseDistanceOptions& options) {
  const CallScope call("pairwise_distance", x1);
  if (is_autocasting()) return with_autocast(DType::f32, pairwise_distance, x1, x2, p, options);
  const Promoted types = promote({{"x1", x1}, {"x2", x2}}, true);
  const Tensor a = cast(tensor_operand(x1), types.working);
  const Tensor b = cast(tensor_operand(x2), types.working);
  const Tensor difference = sub(a, b) + options.eps;
  return cast(vector_norm(difference, p, {-1}, options.keepdim), types.dtype);
}

Tensor cdist(const Operand& x1, const Operand& x2, double p) {
  const CallScope call("cdist", x1);
  if (is_autocasting()) return with_autocast(DType::f32, cdist, x1, x2, p);
  const Promoted types = promote({{"x1", x1}, {"x2", x2}}, true);
  const Tensor& a = tensor_operand(x1);
  const Tensor& b = tensor_operand(x2);
  if (!(p >= 0)) fail<ValueError>(fmt::format("p is {}", p), {{"x1", a}, {"x2", b}}, "use p >= 0");
  if (a.rank() < 2 || b.rank() < 2 || a.shape().back() != b.shape().back()) {
    fail<ShapeError>("needs [..., n, d] and [..., m, d]", {{"x1", a}, {"x2", b}}, "give rows of the same length");
  }
  const Tensor rows = cast(a, types.working).unsqueeze(-2);
  const Tensor columns = cast(b, types.working).unsqueeze(-3);
  const Tensor difference = sub(rows, columns);
  if (a.shape().back() == 0)
    return zeros(difference.shape().slice(0, difference.rank() - 1), {.dtype = types.dtype, .device = a.device()});
  return cast(vector_norm(difference, p, {-1}), types.dtype);
}

}  // namespace v0
}  // namespace lockstep
