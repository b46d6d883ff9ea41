#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Tensors call_gelu(Arguments& a) {
  const std::string form = a.text("approximate", "none");
  if (form != "none" && form != "tanh") throw Unsupported("approximate " + form);
  return {form == "none" ? gelu(a[0]) : gelu_tanh(a[0])};
}

Tensors call_leaky_relu(Arguments& a) {
  return {leaky_relu(a[0], a.real("negative_slope", 0.01))};
}

Tensors call_where(Arguments& a) {
  return {where(a[0], a[1], a[2])};
}

Tensors call_to(Arguments& a) {
  return {a[0].to(parse_dtype(a.text("dtype", "")))};
}

Tensors call_pow(Arguments& a) {
  if (a.has("exponent")) return {pow(a[0], a.real("exponent", 1))};
  return {pow(a[0], a[1])};
}

constexpr RecordedOp kElementwiseOps[] = {
    {"abs", kComputes, unary<abs>},
    {"acos", kComputes, unary<acos>},
    {"acosh", kComputes, unary<acosh>},
    {"add", kComputes, binary<add>},
    {"asin", kComputes, unary<asin>},
    {"asinh", kComputes, unary<asinh>},
    {"atan", kComputes, unary<atan>},
    {"atan2", kComputes, binary<atan2>},
    {"atanh", kComputes, unary<atanh>},
    {"bitwise_and", kComputes, binary<bitwise_and>},
    {"bitwise_left_shift", kComputes, binary<shift_left>},
    {"bitwise_not", kComputes, unary<bitwise_not>},
    {"bitwise_or", kComputes, binary<bitwise_or>},
    {"bitwise_right_shift", kComputes, binary<shift_right>},
    {"bitwise_xor", kComputes, binary<bitwise_xor>},
    {"ceil", kComputes, unary<ceil>},
    {"copysign", kComputes, binary<copysign>},
    {"cos", kComputes, unary<cos>},
    {"cosh", kComputes, unary<cosh>},
    {"digamma", kComputes, unary<digamma>},
    {"eq", kComputes, binary<eq>},
    {"erf", kComputes, unary<erf>},
    {"erfc", kComputes, unary<erfc>},
    {"erfinv", kComputes, unary<erfinv>},
    {"exp", kComputes, unary<exp>},
    {"exp2", kComputes, unary<exp2>},
    {"expm1", kComputes, unary<expm1>},
    {"floor", kComputes, unary<floor>},
    {"floor_divide", kComputes, binary<floor_divide>},
    {"fmod", kComputes, binary<fmod>},
    {"frac", kComputes, unary<frac>},
    {"ge", kComputes, binary<ge>},
    {"gelu", kComputes, call_gelu},
    {"gt", kComputes, binary<gt>},
    {"hypot", kComputes, binary<hypot>},
    {"isfinite", kComputes, unary<isfinite>},
    {"isinf", kComputes, unary<isinf>},
    {"isnan", kComputes, unary<isnan>},
    {"le", kComputes, binary<le>},
    {"leaky_relu", kComputes, call_leaky_relu},
    {"lgamma", kComputes, unary<lgamma>},
    {"log", kComputes, unary<log>},
    {"log10", kComputes, unary<log10>},
    {"log1p", kComputes, unary<log1p>},
    {"log2", kComputes, unary<log2>},
    {"logaddexp", kComputes, binary<logaddexp>},
    {"lt", kComputes, binary<lt>},
    {"maximum", kMoves, binary<maximum>},
    {"minimum", kMoves, binary<minimum>},
    {"mul", kComputes, binary<mul>},
    {"ne", kComputes, binary<ne>},
    {"neg", kMoves, unary<neg>},
    {"nextafter", kComputes, binary<nextafter>},
    {"pow", kComputes, call_pow},
    {"reciprocal", kComputes, unary<reciprocal>},
    {"relu", kMoves, unary<relu>},
    {"remainder", kComputes, binary<remainder>},
    {"round", kComputes, unary<round>},
    {"rsqrt", kComputes, unary<rsqrt>},
    {"sigmoid", kComputes, unary<sigmoid>},
    {"sign", kComputes, unary<sign>},
    {"signbit", kComputes, unary<signbit>},
    {"silu", kComputes, unary<silu>},
    {"sin", kComputes, unary<sin>},
    {"sinh", kComputes, unary<sinh>},
    {"sqrt", kComputes, unary<sqrt>},
    {"sub", kComputes, binary<sub>},
    {"tan", kComputes, unary<tan>},
    {"tanh", kComputes, unary<tanh>},
    {"to", kComputes, call_to},
    {"trunc", kComputes, unary<trunc>},
    {"where", kMoves, call_where},
    {"xlogy", kComputes, binary<xlogy>},
};

}  // namespace

std::span<const RecordedOp> elementwise_ops() {
  return kElementwiseOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
