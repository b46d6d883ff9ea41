// Running results along a dimension (docs/numerics.md section 5), and differences. Shapes are kept.
#pragma once

#include <optional>

#include <lockstep/ops/reduction.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// bool and integers give i64, wrapping; f16 and bf16 sum in f32, each result rounded once.
LOCKSTEP_API Tensor cumsum(const Operand& a, int dim);
LOCKSTEP_API Tensor cumprod(const Operand& a, int dim);
// The same of the input cast to `dtype` first.
LOCKSTEP_API Tensor cumsum(const Operand& a, int dim, DType dtype);
LOCKSTEP_API Tensor cumprod(const Operand& a, int dim, DType dtype);
/// The largest (smallest) value so far and its position. NaN wins. Of equal values the first stays (PyTorch: the last).
LOCKSTEP_API ValuesIndices cummax(const Operand& a, int dim);
LOCKSTEP_API ValuesIndices cummin(const Operand& a, int dim);
/// log of the running sum of e^x, without overflow. Floats.
LOCKSTEP_API Tensor logcumsumexp(const Operand& a, int dim);
struct DiffOptions {
  std::optional<Tensor> prepend = std::nullopt;
  std::optional<Tensor> append = std::nullopt;
};
/// The n-th differences of neighbors along `dim`: after `prepend` and before `append` come the input's elements. bool
/// differs by xor. ValueError for n < 0.
LOCKSTEP_API Tensor diff(const Operand& a, int n = 1, int dim = -1, const DiffOptions& options = {});

}  // namespace v0
}  // namespace lockstep
