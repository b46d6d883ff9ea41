// Elementwise arithmetic and bounds made of the rows of ops.def.
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor square(const Operand& a) {
  return mul(a, a);
}

Tensor rsub(const Operand& a, const Operand& b, double alpha) {
  const Together types = together("rsub", {{"a", a}, {"b", b}}, a.site(), false);
  const Working x(a, types.working, types.site);
  if (a.is_scalar()) return sub(b, Operand(alpha * a.scalar(), types.site));
  return cast(sub(Working(b, types.working, types.site), alpha == 1 ? Operand(x) : Operand(mul(x, alpha))), types.dtype,
              types.site);
}

Tensor lerp(const Operand& start, const Operand& end, const Operand& weight) {
  const Together types = together("lerp", {{"start", start}, {"end", end}, {"weight", weight}}, start.site(), true);
  const Working a(start, types.working, types.site);
  const Working b(end, types.working, types.site);
  const Tensor difference = start.is_scalar() && end.is_scalar()
                                ? full({}, end.scalar() - start.scalar(),
                                       {.dtype = types.working, .device = weight.tensor().device()}, types.site)
                                : sub(b, a);
  // From the nearer end, so that weight 1 gives `end` exactly.
  if (weight.is_scalar()) {
    const double w = weight.scalar();
    const Tensor result = w < 0.5 ? add(a, difference * w) : sub(b, difference * (1 - w));
    return cast(result, types.dtype, types.site);
  }
  const Tensor w = cast(weight.tensor(), types.working, types.site);
  const Tensor result = where(abs(w) < 0.5, add(a, w * difference), sub(b, difference * (1.0 - w)));
  return cast(result, types.dtype, types.site);
}

namespace {

// value * b, where 1 * b is b itself.
Tensor scaled(const Working& b, double value, bool scalar, const Together& types, const Tensor& other) {
  if (!scalar) return value == 1 ? Operand(b).tensor() : mul(b, Operand(value, types.site));
  return full({}, value * Operand(b).scalar(), {.dtype = types.working, .device = other.device()}, types.site);
}

const Tensor& any_tensor(const Operand& a, const Operand& b, const Operand& c) {
  return !a.is_scalar() ? a.tensor() : !b.is_scalar() ? b.tensor() : c.tensor();
}

}  // namespace

Tensor addcmul(const Operand& a, const Operand& b, const Operand& c, double value) {
  const Together types = together("addcmul", {{"a", a}, {"b", b}, {"c", c}}, a.site(), false);
  const Working factor(b, types.working, types.site);
  const Tensor product =
      mul(scaled(factor, value, b.is_scalar(), types, any_tensor(a, b, c)), Working(c, types.working, types.site));
  return cast(add(Working(a, types.working, types.site), product), types.dtype, types.site);
}

Tensor addcdiv(const Operand& a, const Operand& b, const Operand& c, double value) {
  const Together types = together("addcdiv", {{"a", a}, {"b", b}, {"c", c}}, a.site(), true);
  const Working numerator(b, types.working, types.site);
  const Tensor quotient =
      div(scaled(numerator, value, b.is_scalar(), types, any_tensor(a, b, c)), Working(c, types.working, types.site));
  return cast(add(Working(a, types.working, types.site), quotient), types.dtype, types.site);
}

Tensor div(const Operand& a, const Operand& b, Rounding rounding) {
  if (rounding == Rounding::none) return div(a, b);
  if (rounding == Rounding::floor) return floor_divide(a, b);
  const Together types = together("div", {{"a", a}, {"b", b}}, a.site(), false);
  const Working x(a, types.working, types.site);
  const Working y(b, types.working, types.site);
  if (is_float(types.dtype)) return cast(trunc(div(x, y)), types.dtype, types.site);
  // The remainder has the dividend's sign, so what is left divides exactly.
  return floor_divide(sub(x, fmod(x, y)), y);
}

Tensor sinc(const Operand& a) {
  const Tensor x = widened("sinc", a) * std::numbers::pi;
  return cast(where(x == 0.0, 1.0, sin(x) / x), a.tensor().dtype(), a.site());
}

Tensor deg2rad(const Operand& a) {
  return cast(widened("deg2rad", a) * (std::numbers::pi / 180), a.tensor().dtype(), a.site());
}

Tensor rad2deg(const Operand& a) {
  return cast(widened("rad2deg", a) * (180 / std::numbers::pi), a.tensor().dtype(), a.site());
}

Tensor heaviside(const Operand& a, const Operand& values) {
  const Together types = together("heaviside", {{"input", a}, {"values", values}}, a.site(), false);
  const Tensor& x = tensor_operand("heaviside", a);
  return where(eq(a, 0), values, cast(gt(a, 0), x.dtype(), types.site));
}

Tensor float_power(const Operand& a, const Operand& b) {
  check_same_device("float_power", {{"a", a}, {"b", b}}, a.site());
  return pow(Working(a, DType::f64, a.site()), Working(b, DType::f64, a.site()));
}

// --- bounds ---------------------------------------------------------------------------------------------------------

Tensor clamp(const Operand& a, const std::optional<Operand>& min, const std::optional<Operand>& max) {
  if (!min && !max) fail<ValueError>("clamp", "needs a bound", {{"input", a}}, "give min or max", a.site());
  std::vector<Shown> shown{{"input", a}};
  if (min) shown.emplace_back("min", *min);
  if (max) shown.emplace_back("max", *max);
  together("clamp", shown, a.site(), false);
  // Bounds come second so that equal values keep the input, and NaN wins, as in PyTorch.
  Tensor result = min ? maximum(a, *min) : minimum(a, *max);
  if (min && max) result = minimum(Operand(result, a.site()), *max);
  return result;
}

namespace {

Tensor without_nan(const char* op, const Operand& a, const Operand& b,
                   Tensor (*choose)(const Operand&, const Operand&)) {
  const Together types = together(op, {{"a", a}, {"b", b}}, a.site(), false);
  if (a.is_scalar() && std::isnan(a.scalar())) return b.tensor();
  if (b.is_scalar() && std::isnan(b.scalar())) return a.tensor();
  Tensor chosen = choose(a, b);
  if (!is_float(types.dtype)) return chosen;
  if (!b.is_scalar()) chosen = where(isnan(b), a, chosen);
  if (!a.is_scalar()) chosen = where(isnan(a), b, chosen);
  return chosen;
}

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return 65504;
    case DType::bf16: return 0x1.fep127;
    case DType::f32: return 0x1.fffffep127;
    default: return 0x1.fffffffffffffp1023;
  }
}

}  // namespace

Tensor fmax(const Operand& a, const Operand& b) {
  return without_nan("fmax", a, b, &maximum);
}
Tensor fmin(const Operand& a, const Operand& b) {
  return without_nan("fmin", a, b, &minimum);
}

Tensor nan_to_num(const Operand& a, const NanToNumOptions& options) {
  const double nan = options.nan;
  const std::optional<double> positive = options.positive;
  const std::optional<double> negative = options.negative;
  const Tensor& x = tensor_operand("nan_to_num", a);
  const CallSite site = a.site();
  if (!is_float(x.dtype())) return x;
  const double largest = largest_of(x.dtype());
  // Replacements are stored as the dtype has them.
  const auto replacement = [&](double value) {
    return full({}, value, {.dtype = x.dtype(), .device = x.device()}, site);
  };
  Tensor result = where(eq(a, INFINITY), replacement(positive.value_or(largest)), a);
  result = where(eq(a, -INFINITY), replacement(negative.value_or(-largest)), result);
  return where(isnan(a), replacement(nan), result);
}

Tensor masked_fill(const Operand& a, const Operand& mask, const Operand& value) {
  if (!value.is_scalar() && value.tensor().defined() && value.tensor().rank() != 0) {
    fail<ShapeError>("masked_fill", "the value must be a scalar or a tensor without dimensions",
                     {{"input", a}, {"mask", mask}, {"value", value}}, "use where(mask, value, input)", a.site());
  }
  return where(mask, value, a);
}

}  // namespace v0
}  // namespace lockstep
