// Ops that take dimensions away, and softmax.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

// `dims` lists the reduced dimensions, negative ones from the end; none: all. bool and integers sum to i64.

LOCKSTEP_API Tensor sum(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor prod(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor mean(const Operand& a, const Shape& dims = {}, bool keepdim = false);
/// Two passes; divides by max(0, n - correction).  PyTorch: var, std.
LOCKSTEP_API Tensor var(const Operand& a, const Shape& dims = {}, bool keepdim = false, double correction = 1);
LOCKSTEP_API Tensor std(const Operand& a, const Shape& dims = {}, bool keepdim = false, double correction = 1);
/// Euclidean norm.
LOCKSTEP_API Tensor norm(const Operand& a, const Shape& dims = {}, bool keepdim = false);
/// NaN wins. Of nothing: ShapeError.
LOCKSTEP_API Tensor amax(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor amin(const Operand& a, const Shape& dims = {}, bool keepdim = false);
/// i64; the first of equal values; over all elements (in row-major order) if no dim is given.
LOCKSTEP_API Tensor argmax(const Operand& a, std::optional<int> dim = std::nullopt, bool keepdim = false);
LOCKSTEP_API Tensor argmin(const Operand& a, std::optional<int> dim = std::nullopt, bool keepdim = false);
/// Of bool tensors.
LOCKSTEP_API Tensor any(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor all(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor logsumexp(const Operand& a, const Shape& dims, bool keepdim = false);
LOCKSTEP_API Tensor softmax(const Operand& a, int dim);
LOCKSTEP_API Tensor log_softmax(const Operand& a, int dim);

}  // namespace v0
}  // namespace lockstep
