// Ops that take dimensions away, and softmax. The order of additions is docs/numerics.md section 4.
//
// `dims` lists the reduced dimensions, negative ones from the end; none: all. With keepdim they stay with size 1. f16
// and bf16 sum in f32 and round once. IndexError for a dimension that does not exist, ValueError for one that is listed
// twice.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <lockstep/ops/order.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

// --- sums -----------------------------------------------------------------------------------------------------------
/// bool and integers give i64, wrapping. Of nothing: 0.
LOCKSTEP_API Tensor sum(const Operand& a, const Dims& dims = {}, bool keepdim = false);
/// bool and integers give i64, wrapping. Of nothing: 1.
LOCKSTEP_API Tensor prod(const Operand& a, const Dims& dims = {}, bool keepdim = false);
/// Floats. Of nothing: NaN.
LOCKSTEP_API Tensor mean(const Operand& a, const Dims& dims = {}, bool keepdim = false);
// The same of the input cast to `dtype` first.  PyTorch: the dtype argument.
LOCKSTEP_API Tensor sum(const Operand& a, const Dims& dims, bool keepdim, DType dtype);
LOCKSTEP_API Tensor prod(const Operand& a, const Dims& dims, bool keepdim, DType dtype);
LOCKSTEP_API Tensor mean(const Operand& a, const Dims& dims, bool keepdim, DType dtype);
/// Without the NaN: their sum and, for floats, mean (NaN where there is nothing else).
LOCKSTEP_API Tensor nansum(const Operand& a, const Dims& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor nanmean(const Operand& a, const Dims& dims = {}, bool keepdim = false);
/// How many elements are not 0 (NaN is not), i64.
LOCKSTEP_API Tensor count_nonzero(const Operand& a, const Dims& dims = {}, bool keepdim = false);
/// Of the main diagonal of a matrix. ShapeError unless there are two dimensions.
LOCKSTEP_API Tensor trace(const Operand& a);

// --- spread and length (floats) -------------------------------------------------------------------------------------
/// Two passes; divides by max(0, n - correction).  PyTorch: var, std.
LOCKSTEP_API Tensor var(const Operand& a, const Dims& dims = {}, bool keepdim = false, double correction = 1);
LOCKSTEP_API Tensor std(const Operand& a, const Dims& dims = {}, bool keepdim = false, double correction = 1);
/// {var or std, mean}.
LOCKSTEP_API std::pair<Tensor, Tensor> var_mean(const Operand& a, const Dims& dims = {}, bool keepdim = false,
                                                double correction = 1);
LOCKSTEP_API std::pair<Tensor, Tensor> std_mean(const Operand& a, const Dims& dims = {}, bool keepdim = false,
                                                double correction = 1);
/// Euclidean norm.
LOCKSTEP_API Tensor norm(const Operand& a, const Dims& dims = {}, bool keepdim = false);
/// (sum |x|^p)^(1/p); p = 0 counts what is not 0, p = inf and -inf are the largest and smallest |x| (of nothing:
/// ShapeError).  PyTorch: norm(p), linalg.vector_norm.
LOCKSTEP_API Tensor vector_norm(const Operand& a, double p, const Dims& dims = {}, bool keepdim = false);

// --- extremes: NaN wins, the first of equal values; of nothing: ShapeError
// ------------------------------------------------
/// The largest and the smallest element.
LOCKSTEP_API Tensor amax(const Operand& a, const Dims& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor amin(const Operand& a, const Dims& dims = {}, bool keepdim = false);
/// i64; over all elements (in row-major order) if no dim is given.
LOCKSTEP_API Tensor argmax(const Operand& a, std::optional<int> dim = std::nullopt, bool keepdim = false);
LOCKSTEP_API Tensor argmin(const Operand& a, std::optional<int> dim = std::nullopt, bool keepdim = false);

/// Along one dimension; the values keep their bits.
LOCKSTEP_API ValuesIndices max(const Operand& a, int dim, bool keepdim = false);
LOCKSTEP_API ValuesIndices min(const Operand& a, int dim, bool keepdim = false);
/// Of all elements.
LOCKSTEP_API Tensor max(const Operand& a);
LOCKSTEP_API Tensor min(const Operand& a);
/// {amin, amax}.
LOCKSTEP_API std::pair<Tensor, Tensor> aminmax(const Operand& a, const Dims& dims = {}, bool keepdim = false);

// --- logic: any dtype, what is not 0 is true; bool
// ----------------------------------------------------------------------
/// Whether any element, or every one, is not 0. Of nothing: false, true.
LOCKSTEP_API Tensor any(const Operand& a, const Dims& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor all(const Operand& a, const Dims& dims = {}, bool keepdim = false);

// --- exponentials (floats)
// --------------------------------------------------------------------------------------------
/// log(sum(e^x)) without overflow; -inf of nothing, and where all are -inf.
LOCKSTEP_API Tensor logsumexp(const Operand& a, const Dims& dims, bool keepdim = false);
/// e^x / sum(e^x); NaN where all are -inf.
LOCKSTEP_API Tensor softmax(const Operand& a, int dim);
LOCKSTEP_API Tensor log_softmax(const Operand& a, int dim);
/// Over several dimensions together.
LOCKSTEP_API Tensor softmax(const Operand& a, const Dims& dims);
LOCKSTEP_API Tensor log_softmax(const Operand& a, const Dims& dims);
/// softmax(-x).
LOCKSTEP_API Tensor softmin(const Operand& a, int dim);

}  // namespace v0
}  // namespace lockstep
