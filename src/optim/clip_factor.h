// What bounding a norm is made of, for those who do not have all gradients in one place.
#pragma once

#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

/// The norm of several vectors from their norms, on the first one's device; f64 if one is.
Tensor norm_of_norms(const std::vector<Tensor>& norms, double p);
/// What gradients are multiplied by.
Tensor clip_factor(const Tensor& norm, double max_norm);

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
