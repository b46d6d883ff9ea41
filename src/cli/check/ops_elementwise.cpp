#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

const CheckOp kElementwiseOps[] = {
#define UNARY(name) \
  { #name, Form::elementwise, 1, unary < name> }
    UNARY(neg),
    UNARY(abs),
    UNARY(sign),
    UNARY(relu),
    UNARY(floor),
    UNARY(ceil),
    UNARY(trunc),
    UNARY(round),
    UNARY(frac),
    UNARY(sqrt),
    UNARY(rsqrt),
    UNARY(reciprocal),
    UNARY(square),
    UNARY(exp),
    UNARY(log),
    UNARY(exp2),
    UNARY(expm1),
    UNARY(log2),
    UNARY(log10),
    UNARY(log1p),
    UNARY(sin),
    UNARY(cos),
    UNARY(tan),
    UNARY(asin),
    UNARY(acos),
    UNARY(atan),
    UNARY(sinh),
    UNARY(cosh),
    UNARY(tanh),
    UNARY(asinh),
    UNARY(acosh),
    UNARY(atanh),
    UNARY(sigmoid),
    UNARY(erf),
    UNARY(erfc),
    UNARY(erfinv),
    UNARY(lgamma),
    UNARY(digamma),
    UNARY(gelu),
    UNARY(gelu_tanh),
    UNARY(silu),
    UNARY(isnan),
    UNARY(isfinite),
    UNARY(isinf),
    UNARY(signbit),
    UNARY(logical_not),
    UNARY(bitwise_not),
#undef UNARY
#define BINARY(name) \
  { #name, Form::elementwise, kBinaryVariants, binary < name> }
    BINARY(add),
    BINARY(sub),
    BINARY(mul),
    BINARY(div),
    BINARY(floor_divide),
    BINARY(fmod),
    BINARY(remainder),
    BINARY(pow),
    BINARY(atan2),
    BINARY(hypot),
    BINARY(logaddexp),
    BINARY(xlogy),
    BINARY(copysign),
    BINARY(nextafter),
    BINARY(maximum),
    BINARY(minimum),
    BINARY(eq),
    BINARY(ne),
    BINARY(lt),
    BINARY(le),
    BINARY(gt),
    BINARY(ge),
    BINARY(bitwise_and),
    BINARY(bitwise_or),
    BINARY(bitwise_xor),
    BINARY(shift_left),
    BINARY(shift_right),
#undef BINARY
    {"leaky_relu", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {leaky_relu(p.x(), p.variant() == 0 ? 0.01 : -1.5)}; }},
    {"clamp", Form::elementwise, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {clamp(p.x(), 0, 1)};
       return {p.variant() == 1 ? clamp(p.x(), 1, std::nullopt) : clamp(p.x(), std::nullopt, 1)};
     }},
    {"where", Form::elementwise, 3,
     [](Probe& p) -> Tensors {
       const Tensor condition = p.mask(p.shape());
       if (p.variant() == 0) return {where(condition, p.x(), p.x())};
       return {p.variant() == 1 ? where(condition, p.x(), 1) : where(condition, 0, p.x())};
     }},
    {"masked_fill", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {masked_fill(p.x(), p.mask(p.shape()), p.variant())}; }},
    // Casts: a variant per dtype.
    {"to", Form::elementwise, kDTypeCount,
     [](Probe& p) -> Tensors { return {p.x().to(static_cast<DType>(p.variant()))}; }},
};

}  // namespace

std::span<const CheckOp> check_elementwise_ops() {
  return kElementwiseOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
