// The gradient of every op against central differences, in f64. The value is the sum of an op's float results times
// fixed weights, moved along a fixed direction: its slope by gradients() must be its slope by differences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

/// Slopes agree if they differ by less than this share of the sum of the slopes' magnitudes over all elements.
inline constexpr double kGradientBound = 1e-6;

enum class GradientStatus : std::uint8_t {
  right,
  wrong,
  refused,    ///< the op says that it has no gradient
  undefined,  ///< the op is defined nowhere that was tried, or refuses the shape
  none,       ///< no float operand, or no float result
};

/// Of one call.
struct GradientResult {
  GradientStatus status = GradientStatus::right;
  double analytic = 0;
  double numeric = 0;
  double error = 0;      ///< of the slopes, as a multiple of what is allowed
  double magnitude = 0;  ///< sum of the slopes' magnitudes
  std::string detail;    ///< what went wrong, or why there is nothing to compare
};
/// `shared`: operands of one shape are one leaf.
GradientResult check_gradient(const CheckOp& op, const Point& point, bool shared, Device device);

/// Of all calls of an op.
struct GradientRow {
  std::string op;
  int cases = 0;  ///< compared
  int refused = 0;
  int undefined = 0;
  double largest_error = 0;
  double magnitude = 0;            ///< the largest
  std::string why;                 ///< nothing was compared
  std::vector<std::string> wrong;  ///< a line each: variant, shape, layout, both slopes
};
GradientRow check_gradients(const CheckOp& op, Device device);

/// A line per op, then those that are wrong.
void print_gradients(const std::vector<GradientRow>& rows);
void print_gradients_json(const std::vector<GradientRow>& rows);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
