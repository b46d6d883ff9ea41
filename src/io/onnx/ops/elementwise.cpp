// Operators that work element by element: arithmetic, activations, bounds, and the sums and extrema of many inputs.
#include <lockstep/ops.h>

#include <cmath>
#include <limits>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"
#include "io/onnx/ops/unsigned.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

using Tensors = std::vector<Tensor>;

// Before version 7 the second operand broadcasts only if the node says so, from dimension `axis` on.
Tensor second_operand(const Call& call) {
  const Tensor& b = call.input(1);
  if (call.version() >= 7 || call.integer("broadcast", 0) == 0 || !call.has_attribute("axis")) return b;
  const int axis = axis_of(call, call.integer("axis", 0), call.input(0).rank());
  Shape shape = b.shape();
  while (axis + shape.rank() < call.input(0).rank()) shape.push_back(1);
  return b.reshape(shape);
}

template <Tensor (*Function)(const Operand&, const Operand&)> Tensors arithmetic(const Call& call) {
  const Tensor& a = call.input(0);
  return {narrowed(Function(widened(a), widened(second_operand(call))), a.dtype())};
}
template <Tensor (*Function)(const Operand&, const Operand&)> Tensors comparison(const Call& call) {
  return {Function(ordered(call.input(0)), ordered(second_operand(call)))};
}
Tensors bitwise_not_of(const Call& call) {
  const Tensor& x = call.input(0);
  return {narrowed(bitwise_not(widened(x)), x.dtype())};
}

Tensors divide(const Call& call) {
  const Tensor& a = call.input(0);
  const Tensor b = second_operand(call);
  if (is_stored_unsigned(a.dtype())) return {unsigned_quotient(a, b)};
  return {is_float(a.dtype()) ? div(a, b) : div(a, b, Rounding::trunc)};
}

Tensors modulo(const Call& call) {
  if (is_stored_unsigned(call.dtype_of_input(0))) return {unsigned_remainder(call.input(0), call.input(1))};
  const bool truncates = call.integer("fmod", 0) != 0;
  return {truncates ? fmod(call.input(0), call.input(1)) : remainder(call.input(0), call.input(1))};
}

// The result has the base's dtype, whatever the exponent's.
Tensors power(const Call& call) {
  const Tensor& base = call.input(0);
  const Tensor exponent = second_operand(call);
  if (base.dtype() == exponent.dtype()) return {pow(base, exponent)};
  if (is_stored_unsigned(exponent.dtype())) return {pow(base, cast_to(exponent, base.dtype()))};
  if (is_float(base.dtype())) return {pow(base, exponent.to(base.dtype()))};
  if (!is_float(exponent.dtype())) return {pow(base, exponent.to(base.dtype()))};
  return {pow(base.to(exponent.dtype()), exponent).to(base.dtype())};
}

template <Tensor (*Function)(const Operand&, const Operand&)> Tensors many(const Call& call) {
  Tensor result = call.input(0);
  for (std::size_t i = 1; i < call.inputs(); ++i) result = Function(result, call.input(i));
  return {result};
}

template <Tensor (*Function)(const Operand&, const Operand&)> Tensors extreme(const Call& call) {
  Tensor result = ordered(call.input(0));
  for (std::size_t i = 1; i < call.inputs(); ++i) result = Function(result, ordered(call.input(i)));
  return {from_ordered(result, call.dtype_of_input(0))};
}

Tensors mean_of_inputs(const Call& call) {
  return {div(many<add>(call).front(), static_cast<double>(call.inputs()))};
}

Tensors clip(const Call& call) {
  const Tensor& x = call.input(0);
  if (call.version() < 11) {
    Tensor result = x;
    if (call.has_attribute("min")) result = maximum(result, call.number("min", 0));
    if (call.has_attribute("max")) result = minimum(result, call.number("max", 0));
    return {result};
  }
  Tensor result = x;
  if (call.has(1)) result = maximum(result, call.input(1).reshape({}));
  if (call.has(2)) result = minimum(result, call.input(2).reshape({}));
  return {result};
}

Tensors leaky(const Call& call) {
  return {leaky_relu(call.input(0), call.number("alpha", 0.01f))};
}
Tensors elu_of(const Call& call) {
  return {elu(call.input(0), call.number("alpha", 1))};
}
Tensors celu_of(const Call& call) {
  return {celu(call.input(0), call.number("alpha", 1))};
}
Tensors selu_of(const Call& call) {
  const float alpha = call.number("alpha", 1.67326319217681884765625f);
  const float gamma = call.number("gamma", 1.05070102214813232421875f);
  return {mul(elu(call.input(0), alpha), gamma)};
}
Tensors thresholded(const Call& call) {
  return {threshold(call.input(0), call.number("alpha", 1), 0)};
}
Tensors hard_sigmoid(const Call& call) {
  const Tensor line = add(mul(call.input(0), call.number("alpha", 0.2f)), call.number("beta", 0.5f));
  return {clamp(line, 0.0, 1.0)};
}
Tensors shrink(const Call& call) {
  const Tensor& x = call.input(0);
  const float lambda = call.number("lambd", 0.5f);
  const float bias = call.number("bias", 0);
  const Tensor zero = zeros_like(x);
  if (!is_float(x.dtype())) call.unsupported("integers");
  return {where(lt(x, -lambda), add(x, bias), where(gt(x, lambda), sub(x, bias), zero))};
}
Tensors swish(const Call& call) {
  const Tensor& x = call.input(0);
  return {mul(x, sigmoid(mul(x, call.number("alpha", 1))))};
}
Tensors gelu_of(const Call& call) {
  return {call.text("approximate", "none") == "tanh" ? gelu_tanh(call.input(0)) : gelu(call.input(0))};
}
Tensors softplus_of(const Call& call) {
  return {softplus(call.input(0))};
}
Tensors prelu_of(const Call& call) {
  const Tensor& x = call.input(0);
  Tensor slope = call.input(1);
  // Old files give one slope per channel, without the dimensions behind.
  if (slope.rank() == 1 && x.rank() > 2 && slope.shape()[0] == x.shape()[1] && slope.shape()[0] != x.shape().back()) {
    Shape shape = {slope.shape()[0]};
    while (shape.rank() + 1 < x.rank()) shape.push_back(1);
    slope = slope.reshape(shape);
  }
  return {where(lt(x, 0), mul(x, slope), x)};
}
Tensors is_infinite(const Call& call) {
  const Tensor& x = call.input(0);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const bool negative = call.integer("detect_negative", 1) != 0;
  const bool positive = call.integer("detect_positive", 1) != 0;
  if (negative && positive) return {isinf(x)};
  if (!negative && !positive) return {zeros_like(x, DType::boolean)};
  return {eq(x, positive ? kInfinite : -kInfinite)};
}

Tensors shift(const Call& call) {
  if (call.text("direction") == "LEFT") return arithmetic<shift_left>(call);
  const Tensor& x = call.input(0);
  return {is_stored_unsigned(x.dtype()) ? unsigned_shift_right(x, call.input(1)) : shift_right(x, call.input(1))};
}

Tensors swiglu_of(const Call& call) {
  const Tensor& gate = call.input(0);
  return {mul(mul(gate, sigmoid(mul(gate, call.number("alpha", 1)))), call.input(1))};
}

constexpr Operator kElementwiseOperators[] = {
    {.name = "Abs", .run = unary<abs>},
    {.name = "Acos", .run = unary<acos>},
    {.name = "Acosh", .run = unary<acosh>},
    {.name = "Add", .run = arithmetic<add>},
    {.name = "And", .run = arithmetic<logical_and>},
    {.name = "Asin", .run = unary<asin>},
    {.name = "Asinh", .run = unary<asinh>},
    {.name = "Atan", .run = unary<atan>},
    {.name = "Atanh", .run = unary<atanh>},
    {.name = "BitShift", .run = shift},
    {.name = "BitwiseAnd", .run = arithmetic<bitwise_and>},
    {.name = "BitwiseNot", .run = bitwise_not_of},
    {.name = "BitwiseOr", .run = arithmetic<bitwise_or>},
    {.name = "BitwiseXor", .run = arithmetic<bitwise_xor>},
    {.name = "Ceil", .run = unary<ceil>},
    {.name = "Celu", .run = celu_of},
    {.name = "Clip", .run = clip},
    {.name = "Cos", .run = unary<cos>},
    {.name = "Cosh", .run = unary<cosh>},
    {.name = "Div", .run = divide},
    {.name = "Elu", .run = elu_of},
    {.name = "Equal", .run = arithmetic<eq>},
    {.name = "Erf", .run = unary<erf>},
    {.name = "Exp", .run = unary<exp>},
    {.name = "Floor", .run = unary<floor>},
    {.name = "Gelu", .run = gelu_of},
    {.name = "Greater", .run = comparison<gt>},
    {.name = "GreaterOrEqual", .run = comparison<ge>},
    {.name = "HardSigmoid", .run = hard_sigmoid},
    {.name = "HardSwish", .run = unary<hardswish>},
    {.name = "IsInf", .run = is_infinite},
    {.name = "IsNaN", .run = unary<isnan>},
    {.name = "LeakyRelu", .run = leaky},
    {.name = "Less", .run = comparison<lt>},
    {.name = "LessOrEqual", .run = comparison<le>},
    {.name = "Log", .run = unary<log>},
    {.name = "Max", .run = extreme<maximum>},
    {.name = "Mean", .run = mean_of_inputs},
    {.name = "Min", .run = extreme<minimum>},
    {.name = "Mish", .run = unary<mish>},
    {.name = "Mod", .run = modulo},
    {.name = "Mul", .run = arithmetic<mul>},
    {.name = "Neg", .run = unary<neg>},
    {.name = "Not", .run = unary<logical_not>},
    {.name = "Or", .run = arithmetic<logical_or>},
    {.name = "PRelu", .run = prelu_of},
    {.name = "Pow", .run = power},
    {.name = "Reciprocal", .run = unary<reciprocal>},
    {.name = "Relu", .run = unary<relu>},
    {.name = "Round", .run = unary<round>},
    {.name = "Selu", .run = selu_of},
    {.name = "Shrink", .run = shrink},
    {.name = "Sigmoid", .run = unary<sigmoid>},
    {.name = "Sign", .run = unary<sign>},
    {.name = "Sin", .run = unary<sin>},
    {.name = "Sinh", .run = unary<sinh>},
    {.name = "Softplus", .run = softplus_of},
    {.name = "Softsign", .run = unary<softsign>},
    {.name = "Sqrt", .run = unary<sqrt>},
    {.name = "Sub", .run = arithmetic<sub>},
    {.name = "Sum", .run = many<add>},
    {.name = "SwiGLU", .since = 28, .run = swiglu_of},
    {.name = "Swish", .run = swish},
    {.name = "Tan", .run = unary<tan>},
    {.name = "Tanh", .run = unary<tanh>},
    {.name = "ThresholdedRelu", .run = thresholded},
    {.name = "Xor", .run = arithmetic<logical_xor>},
};

}  // namespace

std::span<const Operator> elementwise_operators() {
  return kElementwiseOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
