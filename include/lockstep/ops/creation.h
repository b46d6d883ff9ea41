// Tensors from nothing: constants, ranges, random numbers.
#pragma once

#include <lockstep/random.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

LOCKSTEP_API Tensor full(const Shape& shape, double value, TensorOptions options = {}, CallSite site = {});
LOCKSTEP_API Tensor zeros(const Shape& shape, TensorOptions options = {}, CallSite site = {});
LOCKSTEP_API Tensor ones(const Shape& shape, TensorOptions options = {}, CallSite site = {});
LOCKSTEP_API Tensor full_like(const Tensor& like, double value, CallSite site = {});
LOCKSTEP_API Tensor zeros_like(const Tensor& like, CallSite site = {});
LOCKSTEP_API Tensor ones_like(const Tensor& like, CallSite site = {});
/// start, start + step, ... below stop (above, for a negative step). Element i is start + i * step.
LOCKSTEP_API Tensor arange(double start, double stop, double step = 1, TensorOptions options = {.dtype = DType::i64},
                           CallSite site = {});

}  // namespace v0
}  // namespace lockstep
