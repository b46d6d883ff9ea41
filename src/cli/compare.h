// Results against expectations.
#pragma once

#include <string>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

struct Comparison {
  bool pass = true;
  /// Largest absolute difference; infinity where one of two values is NaN, or they are different infinities.
  double max_error = 0;
  /// The first element outside the tolerance: "[0, 3]: 1.5 instead of 1.25"; or what else is wrong.
  std::string difference;
};

/// Floats agree if they are both NaN, equal, or at most `tolerance` apart; others if they are equal. Zeros of either
/// sign are equal. Dtype and shape must be the same.
Comparison compare(const Tensor& actual, const Tensor& expected, double tolerance);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
