// Elementwise ops that are made of others: interpolation, bounds, masks, logic, comparisons within a tolerance.
// Operands broadcast and share a dtype and device (ShapeError, DTypeError, DeviceError). Those that compute take f16
// and bf16 to f32 and round once.
#pragma once

#include <optional>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

// --- arithmetic -----------------------------------------------------------------------------------------------------
/// a * a.
LOCKSTEP_API Tensor square(const Operand& a);
/// b - alpha * a.
LOCKSTEP_API Tensor rsub(const Operand& a, const Operand& b, double alpha = 1);
/// start + weight * (end - start), from the nearer end; weight is a scalar or a tensor. Floats.
LOCKSTEP_API Tensor lerp(const Operand& start, const Operand& end, const Operand& weight);
/// a + value * b * c.
LOCKSTEP_API Tensor addcmul(const Operand& a, const Operand& b, const Operand& c, double value = 1);
/// a + value * b / c. Floats.
LOCKSTEP_API Tensor addcdiv(const Operand& a, const Operand& b, const Operand& c, double value = 1);

/// How a quotient is rounded.
enum class Rounding { none, trunc, floor };
/// a / b, rounded towards 0 (trunc) or down (floor; the same as floor_divide); integers only with a rounding.
/// PyTorch: div(rounding_mode=...).
LOCKSTEP_API Tensor div(const Operand& a, const Operand& b, Rounding rounding);

/// sin(pi x) / (pi x), 1 at 0. Floats.
LOCKSTEP_API Tensor sinc(const Operand& a);
/// Degrees to radians, and back.
LOCKSTEP_API Tensor deg2rad(const Operand& a);
LOCKSTEP_API Tensor rad2deg(const Operand& a);
/// 0 where a < 0, `values` where a is 0, 1 otherwise (NaN gives 0, as in PyTorch).
LOCKSTEP_API Tensor heaviside(const Operand& a, const Operand& values);
/// a to the power b in f64.
LOCKSTEP_API Tensor float_power(const Operand& a, const Operand& b);

// --- bounds ---------------------------------------------------------------------------------------------------------
/// min(max(a, min), max); bounds are scalars or tensors that broadcast, absent ones do not clamp. NaN anywhere gives
/// NaN; where min > max the result is max. ValueError without any bound.  PyTorch: clamp, clip.
LOCKSTEP_API Tensor clamp(const Operand& a, const std::optional<Operand>& min, const std::optional<Operand>& max);
/// The larger and the smaller operand; a NaN gives way to a number.
LOCKSTEP_API Tensor fmax(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor fmin(const Operand& a, const Operand& b);
struct NanToNumOptions {
  double nan = 0;
  std::optional<double> positive = std::nullopt;  ///< for infinity.  PyTorch: posinf
  std::optional<double> negative = std::nullopt;  ///< for -infinity.  PyTorch: neginf
};
/// NaN and infinities replaced; absent replacements of infinities are the largest finite values of the dtype.
/// Integers are returned as they are. Keeps the other bits.
LOCKSTEP_API Tensor nan_to_num(const Operand& a, const NanToNumOptions& options = {});
/// `value` (a scalar, or a tensor without dimensions) where the bool tensor `mask` holds. Keeps bits.
LOCKSTEP_API Tensor masked_fill(const Operand& a, const Operand& mask, const Operand& value);

// --- logic: any dtype, where what is not 0 (NaN too) is true; bool results
// ----------------------------------------------
LOCKSTEP_API Tensor logical_not(const Operand& a);
/// Of what is not 0: both, at least one, exactly one.
LOCKSTEP_API Tensor logical_and(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor logical_or(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor logical_xor(const Operand& a, const Operand& b);

// --- equality within a tolerance
// --------------------------------------------------------------------------------------
/// How far apart values may be.
struct Tolerance {
  double relative = 1e-5;  ///< PyTorch: rtol
  double absolute = 1e-8;  ///< PyTorch: atol
  bool equal_nan = false;
};
/// |a - b| <= absolute + relative * |b|, or a == b. Integers are compared in f32, as in PyTorch. ValueError for
/// negative tolerances.
LOCKSTEP_API Tensor isclose(const Operand& a, const Operand& b, const Tolerance& tolerance = {});
/// Whether isclose holds everywhere. Computes.
LOCKSTEP_API bool allclose(const Operand& a, const Operand& b, const Tolerance& tolerance = {});
/// Whether shapes and all values are equal (NaN equals nothing). Computes. DTypeError for different dtypes.
LOCKSTEP_API bool equal(const Tensor& a, const Tensor& b, CallSite site = {});

}  // namespace v0
}  // namespace lockstep
