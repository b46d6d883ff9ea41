// Elementwise arithmetic and bounds made of the rows of ops.def.
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "core/elements.h"
#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor square(const Operand& a) {
  const CallScope call("square", a);
  return mul(a, a);
}

Tensor rsub(const Operand& a, const Operand& b, double alpha) {
  const CallScope call("rsub", a);
  const Promoted types = promote({{"a", a}, {"b", b}}, false);
  const Working x(a, types.working);
  if (a.is_scalar()) return sub(b, alpha * a.scalar());
  return cast(sub(Working(b, types.working), alpha == 1 ? Operand(x) : Operand(mul(x, alpha))), types.dtype);
}

Tensor lerp(const Operand& start, const Operand& end, const Operand& weight) {
  const CallScope call("lerp", start);
  const Promoted types = promote({{"start", start}, {"end", end}, {"weight", weight}}, true);
  const Working a(start, types.working);
  const Working b(end, types.working);
  const Tensor difference =
      start.is_scalar() && end.is_scalar()
          ? full({}, end.scalar() - start.scalar(), {.dtype = types.working, .device = weight.tensor().device()})
          : sub(b, a);
  // From the nearer end, so that weight 1 gives `end` exactly.
  if (weight.is_scalar()) {
    const double w = weight.scalar();
    const Tensor result = w < 0.5 ? add(a, difference * w) : sub(b, difference * (1 - w));
    return cast(result, types.dtype);
  }
  const Tensor w = cast(weight.tensor(), types.working);
  const Tensor result = where(abs(w) < 0.5, add(a, w * difference), sub(b, difference * (1.0 - w)));
  return cast(result, types.dtype);
}

namespace {

// value * b, where 1 * b is b itself.
Tensor scaled(const Working& b, double value, bool scalar, const Promoted& types, const Tensor& other) {
  if (!scalar) return value == 1 ? Operand(b).tensor() : mul(b, value);
  return full({}, value * Operand(b).scalar(), {.dtype = types.working, .device = other.device()});
}

const Tensor& any_tensor(const Operand& a, const Operand& b, const Operand& c) {
  return !a.is_scalar() ? a.tensor() : !b.is_scalar() ? b.tensor() : c.tensor();
}

}  // namespace

Tensor addcmul(const Operand& a, const Operand& b, const Operand& c, double value) {
  const CallScope call("addcmul", a);
  const Promoted types = promote({{"a", a}, {"b", b}, {"c", c}}, false);
  const Working factor(b, types.working);
  const Tensor product =
      mul(scaled(factor, value, b.is_scalar(), types, any_tensor(a, b, c)), Working(c, types.working));
  return cast(add(Working(a, types.working), product), types.dtype);
}

Tensor addcdiv(const Operand& a, const Operand& b, const Operand& c, double value) {
  const CallScope call("addcdiv", a);
  const Promoted types = promote({{"a", a}, {"b", b}, {"c", c}}, true);
  const Working numerator(b, types.working);
  const Tensor quotient =
      div(scaled(numerator, value, b.is_scalar(), types, any_tensor(a, b, c)), Working(c, types.working));
  return cast(add(Working(a, types.working), quotient), types.dtype);
}

Tensor div(const Operand& a, const Operand& b, Rounding rounding) {
  const CallScope call("div", a);
  if (rounding == Rounding::none) return div(a, b);
  if (rounding == Rounding::floor) return floor_divide(a, b);
  const Promoted types = promote({{"a", a}, {"b", b}}, false);
  const Working x(a, types.working);
  const Working y(b, types.working);
  if (is_float(types.dtype)) return cast(trunc(div(x, y)), types.dtype);
  // The remainder has the dividend's sign, so what is left divides exactly.
  return floor_divide(sub(x, fmod(x, y)), y);
}

Tensor sinc(const Operand& a) {
  const CallScope call("sinc", a);
  const Tensor x = widened(a) * std::numbers::pi;
  return cast(where(x == 0.0, 1.0, sin(x) / x), a.tensor().dtype());
}

Tensor deg2rad(const Operand& a) {
  const CallScope call("deg2rad", a);
  return cast(widened(a) * (std::numbers::pi / 180), a.tensor().dtype());
}

Tensor rad2deg(const Operand& a) {
  const CallScope call("rad2deg", a);
  return cast(widened(a) * (180 / std::numbers::pi), a.tensor().dtype());
}

Tensor heaviside(const Operand& a, const Operand& values) {
  const CallScope call("heaviside", a);
  promote({{"input", a}, {"values", values}}, false);
  const Tensor& x = tensor_operand(a);
  return where(eq(a, 0), values, cast(gt(a, 0), x.dtype()));
}

Tensor float_power(const Operand& a, const Operand& b) {
  const CallScope call("float_power", a);
  check_same_device({{"a", a}, {"b", b}});
  return pow(Working(a, DType::f64), Working(b, DType::f64));
}

// --- bounds ---------------------------------------------------------------------------------------------------------

Tensor clamp(const Operand& a, const std::optional<Operand>& min, const std::optional<Operand>& max) {
  const CallScope call("clamp", a);
  if (!min && !max) fail<ValueError>("needs a bound", {{"input", a}}, "give min or max");
  std::vector<Shown> shown{{"input", a}};
  if (min) shown.emplace_back("min", *min);
  if (max) shown.emplace_back("max", *max);
  promote(shown, false);
  // Bounds come second so that equal values keep the input, and NaN wins, as in PyTorch.
  Tensor result = min ? maximum(a, *min) : minimum(a, *max);
  if (min && max) result = minimum(result, *max);
  return result;
}

namespace {

Tensor without_nan(const Operand& a, const Operand& b, Tensor (*choose)(const Operand&, const Operand&)) {
  const Promoted types = promote({{"a", a}, {"b", b}}, false);
  if (a.is_scalar() && std::isnan(a.scalar())) return b.tensor();
  if (b.is_scalar() && std::isnan(b.scalar())) return a.tensor();
  Tensor chosen = choose(a, b);
  if (!is_float(types.dtype)) return chosen;
  if (!b.is_scalar()) chosen = where(isnan(b), a, chosen);
  if (!a.is_scalar()) chosen = where(isnan(a), b, chosen);
  return chosen;
}

}  // namespace

Tensor fmax(const Operand& a, const Operand& b) {
  const CallScope call("fmax", a);
  return without_nan(a, b, &maximum);
}
Tensor fmin(const Operand& a, const Operand& b) {
  const CallScope call("fmin", a);
  return without_nan(a, b, &minimum);
}

Tensor nan_to_num(const Operand& a, const NanToNumOptions& options) {
  const CallScope call("nan_to_num", a);
  const Tensor& x = tensor_operand(a);
  if (!is_float(x.dtype())) return x;
  const double largest = largest_of(x.dtype());
  // Replacements are stored as the dtype has them.
  const auto replacement = [&](double value) { return full({}, value, {.dtype = x.dtype(), .device = x.device()}); };
  Tensor result = where(eq(a, INFINITY), replacement(options.positive.value_or(largest)), a);
  result = where(eq(a, -INFINITY), replacement(options.negative.value_or(-largest)), result);
  return where(isnan(a), replacement(options.nan), result);
}

Tensor masked_fill(const Operand& a, const Operand& mask, const Operand& value) {
  const CallScope call("masked_fill", a);
  if (!value.is_scalar() && value.tensor().defined() && value.tensor().rank() != 0) {
    fail<ShapeError>("the value must be a scalar or a tensor without dimensions",
                     {{"input", a}, {"mask", mask}, {"value", value}}, "use where(mask, value, input)");
  }
  return where(mask, value, a);
}

}  // namespace v0
}  // namespace lockstep
