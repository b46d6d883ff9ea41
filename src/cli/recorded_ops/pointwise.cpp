#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Bounds are attributes, or inputs of these names.
Tensors call_clamp(Arguments& a) {
  const std::optional<Tensor> low = a.named("min");
  const std::optional<Tensor> high = a.named("max");
  const std::optional<double> min = a.optional_real("min");
  const std::optional<double> max = a.optional_real("max");
  std::optional<Operand> lower;
  std::optional<Operand> upper;
  if (low) lower.emplace(*low);
  if (high) upper.emplace(*high);
  if (min) lower.emplace(*min);
  if (max) upper.emplace(*max);
  return {clamp(a[0], lower, upper)};
}

Tensors call_masked_fill(Arguments& a) {
  if (a.size() > 2) return {masked_fill(a[0], a[1], a[2])};
  return {masked_fill(a[0], a[1], a.real("value", 0))};
}

Tensors call_lerp(Arguments& a) {
  if (a.size() > 2) return {lerp(a[0], a[1], a[2])};
  return {lerp(a[0], a[1], a.real("weight", 0))};
}

template <Tensor (*op)(const Operand&, const Operand&, const Operand&, double)> Tensors with_value(Arguments& a) {
  return {op(a[0], a[1], a[2], a.real("value", 1))};
}

Tensors call_rsub(Arguments& a) {
  return {rsub(a[0], a[1], a.real("alpha", 1))};
}

Tensors call_nan_to_num(Arguments& a) {
  const std::optional<double> positive = a.optional_real("posinf");
  return {nan_to_num(a[0], {.nan = a.real("nan", 0), .positive = positive, .negative = a.optional_real("neginf")})};
}

Tensors call_isclose(Arguments& a) {
  const double relative = a.real("rtol", 1e-5);
  const double absolute = a.real("atol", 1e-8);
  return {isclose(a[0], a[1], {.relative = relative, .absolute = absolute, .equal_nan = a.flag("equal_nan")})};
}

Tensors call_div(Arguments& a) {
  const std::string mode = a.text("rounding_mode", "none");
  return {div(a[0], a[1], mode == "floor" ? Rounding::floor : mode == "trunc" ? Rounding::trunc : Rounding::none)};
}

template <Tensor (*op)(const Operand&, std::int64_t)> Tensors triangle(Arguments& a) {
  return {op(a[0], a.integer("diagonal", 0))};
}

constexpr RecordedOp kPointwiseOps[] = {
    {"addcdiv", kComputes, with_value<addcdiv>},
    {"addcmul", kComputes, with_value<addcmul>},
    {"clamp", kMoves, call_clamp},
    {"deg2rad", kComputes, unary<deg2rad>},
    {"div", kComputes, call_div},
    {"float_power", kComputes, binary<float_power>},
    {"fmax", kMoves, binary<fmax>},
    {"fmin", kMoves, binary<fmin>},
    {"heaviside", kMoves, binary<heaviside>},
    {"isclose", kComputes, call_isclose},
    {"lerp", kComputes, call_lerp},
    {"logical_and", kComputes, binary<logical_and>},
    {"logical_not", kComputes, unary<logical_not>},
    {"logical_or", kComputes, binary<logical_or>},
    {"logical_xor", kComputes, binary<logical_xor>},
    {"masked_fill", kMoves, call_masked_fill},
    {"nan_to_num", kMoves, call_nan_to_num},
    {"rad2deg", kComputes, unary<rad2deg>},
    {"rsub", kComputes, call_rsub},
    {"sinc", kComputes, unary<sinc>},
    {"square", kComputes, unary<square>},
    {"tril", kMoves, triangle<tril>},
    {"triu", kMoves, triangle<triu>},
};

}  // namespace

std::span<const RecordedOp> pointwise_ops() {
  return kPointwiseOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
