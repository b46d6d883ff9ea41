// Distances between vectors: norms of broadcast differences, fused into one kernel each.
#include <fmt/format.h>

#include "graph/ops/operand.h"
#include "graph/ops/reduction.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor cosine_similarity(const Operand& x1, const Operand& x2, int dim, double eps) {
  const CallSite site = x1.site();
  const std::vector<Shown> shown{{"x1", x1}, {"x2", x2}};
  const Together types = together("cosine_similarity", shown, site, true);
  const Shape shape = broadcast_shape("cosine_similarity", shown, site);
  const Tensor a = broadcast_to(cast(tensor_operand("cosine_similarity", x1), types.working, site), shape);
  const Tensor b = broadcast_to(cast(tensor_operand("cosine_similarity", x2), types.working, site), shape);
  const std::uint32_t dims = 1u << check_dim("cosine_similarity", a, dim, site);
  const auto direction = [&](const Tensor& x) {
    return x / maximum(root_of_squares(reduce(ReduceOp::dot, x, dims, site, &x), site), eps);
  };
  const Tensor first = direction(a);
  const Tensor second = direction(b);
  const Tensor similarity = reduce(ReduceOp::dot, first, dims, site, &second);
  return drop_dims(cast(similarity, types.dtype, site), dims, false, site);
}

Tensor pairwise_distance(const Operand& x1, const Operand& x2, double p, const PairwiseDistanceOptions& options) {
  const CallSite site = x1.site();
  const Together types = together("pairwise_distance", {{"x1", x1}, {"x2", x2}}, site, true);
  const Tensor a = cast(tensor_operand("pairwise_distance", x1), types.working, site);
  const Tensor b = cast(tensor_operand("pairwise_distance", x2), types.working, site);
  const Tensor difference = sub(Operand(a, site), Operand(b, site)) + options.eps;
  return cast(vector_norm(Operand(difference, site), p, {-1}, options.keepdim), types.dtype, site);
}

Tensor cdist(const Operand& x1, const Operand& x2, double p) {
  const CallSite site = x1.site();
  const Together types = together("cdist", {{"x1", x1}, {"x2", x2}}, site, true);
  const Tensor& a = tensor_operand("cdist", x1);
  const Tensor& b = tensor_operand("cdist", x2);
  if (!(p >= 0)) fail<ValueError>("cdist", fmt::format("p is {}", p), {{"x1", a}, {"x2", b}}, "use p >= 0", site);
  if (a.rank() < 2 || b.rank() < 2 || a.shape().back() != b.shape().back()) {
    fail<ShapeError>("cdist", "needs [..., n, d] and [..., m, d]", {{"x1", a}, {"x2", b}},
                     "give rows of the same length", site);
  }
  const Tensor rows = cast(a, types.working, site).unsqueeze(-2, site);
  const Tensor columns = cast(b, types.working, site).unsqueeze(-3, site);
  const Tensor difference = sub(Operand(rows, site), Operand(columns, site));
  if (a.shape().back() == 0)
    return zeros(difference.shape().slice(0, difference.rank() - 1), {.dtype = types.dtype, .device = a.device()},
                 site);
  return cast(vector_norm(Operand(difference, site), p, {-1}), types.dtype, site);
}

}  // namespace v0
}  // namespace lockstep
