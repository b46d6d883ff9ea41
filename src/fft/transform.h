// The transform of planes: what every function of fft is made of. A complex tensor is here [2, before, n, after], the
// real parts in front of all imaginary ones, so that both are rows of one product and stay contiguous.
#pragma once

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace fft {

/// [2, a, n, c] to [2, n, a, c], not scaled; `sign` of the exponent: -1 forward, 1 inverse.
Tensor transform(const Tensor& x, int sign);
/// x times (c + i s) element by element, where `cosines` is c, and `sines` is -s for the real plane and s for the
/// other.
Tensor rotated(const Tensor& x, const Tensor& cosines, const Tensor& sines);

/// The rfft of [b, n] for an even n, as planes [2, n/2 + 1, b].
Tensor half_spectrum(const Tensor& x);
/// Its inverse, not scaled: planes [2, n/2 + 1, b] to [b, n], half as long as the sum over all n frequencies.
Tensor half_signal(const Tensor& x);

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
