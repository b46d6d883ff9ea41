// The transform as a linear operator with a gradient: what every function of fft is made of. Real signals are here
// [before, n, after], complex ones [before, n, after, 2], pairs of a real and an imaginary part.
#pragma once

#include <cstdint>

#include <lockstep/tensor.h>

#include "kernels/fourier.h"

namespace lockstep {
inline namespace v0 {
namespace fft {

struct Transform {
  FourierKind kind = FourierKind::forward;
  std::int64_t n = 1;
  double scale = 1;  ///< of the results
};

/// Along dim 1, of which x has as many elements as the kind reads.
Tensor transform(const Tensor& x, const Transform& how);

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
