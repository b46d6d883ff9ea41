// What reductions and normalisations share: checked operands, means and variances.
#pragma once

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// An operand and the dimensions (bits) that an op works over.
struct Checked {
  Tensor input;
  std::uint32_t dims = 0;
};
Checked check_input(const Operand& a, const Dims& dims);
Checked check_float_input(const Operand& a, const Dims& dims);

/// ShapeError if `dims` hold no elements.
void check_not_empty(const Checked& checked);

/// How many elements `dims` hold.
double count_of(const Tensor& tensor, std::uint32_t dims);
Tensor mean_of(const Tensor& x, std::uint32_t dims);

/// Deviations from the mean, and the sum of their squares divided by max(0, n - correction).
struct Moments {
  Tensor deviation;
  Tensor variance;
};
Moments moments(const Tensor& x, std::uint32_t dims, double correction);

/// exp(x - shift) with the largest value of each row as its shift, 0 where that is not finite. Results do not depend on
/// the shift but for rounding, so no gradient goes through it.
struct ShiftedExp {
  Tensor shift;
  Tensor shifted;
  Tensor exponential;
  Tensor total;
};
ShiftedExp shifted_exp(const Tensor& x, std::uint32_t dims);

/// The square root of a sum of squares. Its gradient at 0 is 0, as in PyTorch: that of sqrt would be inf times 0.
Tensor root_of_squares(const Tensor& squares);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
