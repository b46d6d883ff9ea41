#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Tensor verdict(const Probe& p, bool holds) {
  return full({}, holds ? 1 : 0, {.dtype = DType::boolean, .device = p.device()});
}

Tolerance tolerance(const Probe& p) {
  if (p.variant() == 0) return {};
  return {.relative = 0.25, .absolute = 0.5, .equal_nan = p.variant() == 2};
}

/// Variants of ops of three operands: equal shapes, a broadcast row, scalars.
constexpr int kTernaryVariants = 3;
template <typename Op> Tensors ternary(Probe& p, Op op) {
  const Tensor a = p.x();
  if (p.variant() == 2) return {op(a, p.x(), 3)};
  const bool equal_shapes = p.variant() == 0 || p.rank() == 0;
  const Tensor b = p.x(equal_shapes ? p.shape() : Shape{p.size(p.rank() - 1)});
  return {op(a, b, p.x())};
}

const CheckOp kPointwiseOps[] = {
#define UNARY(name) \
  { #name, Form::elementwise, 1, unary < name> }
    UNARY(sinc),
    UNARY(deg2rad),
    UNARY(rad2deg),
#undef UNARY
#define BINARY(name) \
  { #name, Form::elementwise, kBinaryVariants, binary < name> }
    BINARY(float_power),
    BINARY(fmax),
    BINARY(fmin),
    BINARY(logical_and),
    BINARY(logical_or),
    BINARY(logical_xor),
#undef BINARY
    // Without the last variant: its first operand is a tensor.
    {"heaviside", Form::elementwise, kBinaryVariants - 1, binary<heaviside>},
    {"rsub", Form::elementwise, 2,
     [](Probe& p) -> Tensors {
       const Tensor a = p.x();
       return {rsub(a, p.x(), p.variant() == 0 ? 1 : -2)};
     }},
    {"lerp", Form::elementwise, kTernaryVariants,
     [](Probe& p) -> Tensors {
       return ternary(p, [](const Operand& a, const Operand& b, const Operand& c) { return lerp(a, b, c); });
     }},
    {"addcmul", Form::elementwise, kTernaryVariants,
     [](Probe& p) -> Tensors {
       const double value = p.variant() == 0 ? 1 : -2;
       return ternary(p, [=](const Operand& a, const Operand& b, const Operand& c) { return addcmul(a, b, c, value); });
     }},
    {"addcdiv", Form::elementwise, kTernaryVariants,
     [](Probe& p) -> Tensors {
       const double value = p.variant() == 0 ? 1 : -2;
       return ternary(p, [=](const Operand& a, const Operand& b, const Operand& c) { return addcdiv(a, b, c, value); });
     }},
    {"nan_to_num", Form::elementwise, 2,
     [](Probe& p) -> Tensors {
       return {p.variant() == 0 ? nan_to_num(p.x()) : nan_to_num(p.x(), {.nan = 3, .positive = 7, .negative = -7})};
     }},
    {"isclose", Form::elementwise, 3,
     [](Probe& p) -> Tensors {
       const Tensor a = p.x();
       return {isclose(a, p.x(), tolerance(p)), isclose(a, a, tolerance(p))};
     }},
    {"allclose", Form::elementwise, 3,
     [](Probe& p) -> Tensors {
       const Tensor a = p.x();
       return {verdict(p, allclose(a, p.x(), tolerance(p))), verdict(p, allclose(a, a, tolerance(p)))};
     }},
    {"equal", Form::elementwise, 1,
     [](Probe& p) -> Tensors {
       const Tensor a = p.x();
       return {verdict(p, equal(a, p.x())), verdict(p, equal(a, a))};
     }},
};

}  // namespace

std::span<const CheckOp> check_pointwise_ops() {
  return kPointwiseOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
