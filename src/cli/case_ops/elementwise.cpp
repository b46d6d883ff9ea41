#include "cli/case_ops/families.h"

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

Tensors call_clamp(Arguments& a) {
  const std::optional<double> min = a.optional_real("min");
  return {clamp(a[0], min, a.optional_real("max"))};
}

Tensors call_where(Arguments& a) {
  return {where(a[0], a[1], a[2])};
}

Tensors call_masked_fill(Arguments& a) {
  return {masked_fill(a[0], a[1], a.real("value", 0))};
}

constexpr CaseOp kOps[] = {
    {"abs", kComputes, unary<abs>},
    {"add", kComputes, binary<add>},
    {"bitwise_and", kComputes, binary<bitwise_and>},
    {"bitwise_or", kComputes, binary<bitwise_or>},
    {"bitwise_xor", kComputes, binary<bitwise_xor>},
    {"ceil", kComputes, unary<ceil>},
    {"clamp", kMoves, call_clamp},
    {"cos", kComputes, unary<cos>},
    {"div", kComputes, binary<div>},
    {"eq", kComputes, binary<eq>},
    {"erf", kComputes, unary<erf>},
    {"exp", kComputes, unary<exp>},
    {"floor", kComputes, unary<floor>},
    {"ge", kComputes, binary<ge>},
    {"gelu", kComputes, call_gelu},
    {"gt", kComputes, binary<gt>},
    {"isfinite", kComputes, unary<isfinite>},
    {"isnan", kComputes, unary<isnan>},
    {"le", kComputes, binary<le>},
    {"leaky_relu", kComputes, call_leaky_relu},
    {"log", kComputes, unary<log>},
    {"logical_not", kComputes, unary<logical_not>},
    {"lt", kComputes, binary<lt>},
    {"masked_fill", kMoves, call_masked_fill},
    {"maximum", kMoves, binary<maximum>},
    {"minimum", kMoves, binary<minimum>},
    {"mul", kComputes, binary<mul>},
    {"ne", kComputes, binary<ne>},
    {"neg", kMoves, unary<neg>},
    {"reciprocal", kComputes, unary<reciprocal>},
    {"relu", kMoves, unary<relu>},
    {"round", kComputes, unary<round>},
    {"rsqrt", kComputes, unary<rsqrt>},
    {"sigmoid", kComputes, unary<sigmoid>},
    {"sign", kComputes, unary<sign>},
    {"silu", kComputes, unary<silu>},
    {"sin", kComputes, unary<sin>},
    {"sqrt", kComputes, unary<sqrt>},
    {"square", kComputes, unary<square>},
    {"sub", kComputes, binary<sub>},
    {"tanh", kComputes, unary<tanh>},
    {"trunc", kComputes, unary<trunc>},
    {"where", kMoves, call_where},
};

}  // namespace

std::span<const CaseOp> elementwise_ops() { return kOps; }

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
