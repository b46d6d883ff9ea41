// The transform as a linear operator between planes: what every function of fft is made of. A complex signal is here
// [2, before, n, after], all real parts in front of all imaginary ones, so that what is done to one element of each is
// done to long rows; a real one is [1, before, n, after].
#pragma once

#include <cstdint>
#include <vector>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace fft {

struct Transform {
  std::int64_t n = 1;
  int sign = -1;             ///< of the exponent: -1 forward, 1 inverse; nothing is scaled
  std::int64_t outputs = 1;  ///< the first ones, up to n
  bool real_output = false;  ///< the real parts alone
};

/// x [1 or 2, before, inputs, after], of which inputs n and beyond would be zero (inputs <= n), to [1 or 2, before,
/// outputs, after]. Its gradient is the adjoint: the transform with the other sign that swaps inputs and outputs.
Tensor transform(const Tensor& x, const Transform& how);

/// The same without a record, for lengths with small prime factors and for others. Not for graphs of gradients.
Tensor transform_in_stages(const Tensor& x, const Transform& how, const std::vector<std::int64_t>& radices);
Tensor transform_by_chirp(const Tensor& x, const Transform& how);

/// x [2, before, ...] times the roots of a table [3, ...] as tables.h has them, which lacks the second dimension;
/// sign -1: times their conjugates.
Tensor rotated(const Tensor& x, const Tensor& roots, int sign);

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
