// Order statistics, and distances between vectors.
#pragma once

#include <optional>

#include <lockstep/ops/reduction.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

// --- order statistics: of nothing ShapeError
// ------------------------------------------------------------------------------
/// The lower of the two middle values, and the position of one that has it (the first in the stable sorted order). A
/// NaN wins: it is the value, and the first one's position the index.
LOCKSTEP_API ValuesIndices median(const Operand& a, int dim, bool keepdim = false);
/// Of all elements.
LOCKSTEP_API Tensor median(const Operand& a);
/// The same without the NaN (NaN where there is nothing else).
LOCKSTEP_API ValuesIndices nanmedian(const Operand& a, int dim, bool keepdim = false);
LOCKSTEP_API Tensor nanmedian(const Operand& a);
/// The most frequent value, the smallest of equally frequent ones, and the last position that has it.
LOCKSTEP_API ValuesIndices mode(const Operand& a, int dim = -1, bool keepdim = false);

/// What stands for a rank between two elements.
enum class QuantileMode { linear, lower, higher, nearest, midpoint };
/// The values at rank q * (n - 1) of the sorted elements. q: a scalar in [0, 1], or a tensor without or with one
/// dimension of the input's dtype (f32 for f16 and bf16); the result has q's dimension first. NaN gives NaN. Floats.
/// No dim: of all elements. ValueError for a scalar q outside [0, 1].
LOCKSTEP_API Tensor quantile(const Operand& a, const Operand& q, std::optional<int> dim = std::nullopt,
                             bool keepdim = false, QuantileMode interpolation = QuantileMode::linear);
/// The same without the NaN.
LOCKSTEP_API Tensor nanquantile(const Operand& a, const Operand& q, std::optional<int> dim = std::nullopt,
                                bool keepdim = false, QuantileMode interpolation = QuantileMode::linear);

// --- distances (floats) ---------------------------------------------------------------------------------------------
/// Sum of the products of x1 / max(|x1|, eps) and x2 / max(|x2|, eps) along `dim`; the operands broadcast.
LOCKSTEP_API Tensor cosine_similarity(const Operand& x1, const Operand& x2, int dim = 1, double eps = 1e-8);
struct PairwiseDistanceOptions {
  double eps = 1e-6;
  bool keepdim = false;
};
/// p-norm of x1 - x2 + eps over the last dimension; the operands broadcast.
LOCKSTEP_API Tensor pairwise_distance(const Operand& x1, const Operand& x2, double p = 2,
                                      const PairwiseDistanceOptions& options = {});
/// p-norms of all differences of rows: x1 [..., n, d], x2 [..., m, d] -> [..., n, m]; batches broadcast. ValueError for
/// p < 0, ShapeError for different d.
LOCKSTEP_API Tensor cdist(const Operand& x1, const Operand& x2, double p = 2);

}  // namespace v0
}  // namespace lockstep
