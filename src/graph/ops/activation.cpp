// Activations that are compositions. Each takes f16 and bf16 to f32, composes, and rounds once.
#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// `compose` of the operand in its working type, rounded to the operand's type.
template <typename Compose> Tensor activation(const Operand& a, Compose compose) {
  const Tensor x = widened(a);
  return cast(compose(x), a.tensor().dtype());
}

// min(max(x + 3, 0), 6)
Tensor hard_gate(const Tensor& x) {
  return minimum(maximum(x + 3.0, 0.0), 6.0);
}

// log(1 + e^x) where x is not large.
Tensor log1p_exp(const Tensor& x) {
  return log1p(exp(x));
}

}  // namespace

// --- rectifiers -----------------------------------------------------------------------------------------------------

Tensor relu6(const Operand& a) {
  const CallScope call("relu6", a);
  return clamp(tensor_operand(a), 0, 6);
}

Tensor leaky_relu(const Operand& a, double negative_slope) {
  const CallScope call("leaky_relu", a);
  return activation(a, [&](const Tensor& x) { return where(x > 0.0, x, x * negative_slope); });
}

Tensor prelu(const Operand& a, const Tensor& weight) {
  const CallScope call("prelu", a);
  const Promoted types = promote({{"input", a}, {"weight", weight}}, true);
  const Tensor& input = tensor_operand(a);
  const std::int64_t channels = input.rank() >= 2 ? input.shape()[1] : 1;
  if (weight.rank() > 1 || (weight.numel() != 1 && weight.numel() != channels)) {
    fail<ShapeError>(fmt::format("weight must hold 1 or {} values", channels), {{"input", input}, {"weight", weight}},
                     "give one value, or one per channel (dimension 1)");
  }
  Shape shape = Shape::filled(input.rank(), 1);
  if (input.rank() >= 2) shape[1] = weight.numel();
  const Tensor x = cast(input, types.working);
  const Tensor slope = cast(weight, types.working).reshape(shape);
  return cast(where(x > 0.0, x, slope * x), types.dtype);
}

Tensor rrelu(const Operand& a, double lower, double upper) {
  const CallScope call("rrelu", a);
  tensor_operand(a);
  return leaky_relu(a, (lower + upper) / 2);
}

Tensor hardtanh(const Operand& a, double min, double max) {
  const CallScope call("hardtanh", a);
  tensor_operand(a);
  if (min > max) {
    fail<ValueError>(fmt::format("min {} is above max {}", min, max), {{"input", a}}, "exchange them");
  }
  return clamp(a, min, max);
}

Tensor threshold(const Operand& a, double threshold, double value) {
  const CallScope call("threshold", a);
  tensor_operand(a);
  return where(le(a, threshold), value, a);
}

// --- exponential forms ----------------------------------------------------------------------------------------------

Tensor elu(const Operand& a, double alpha) {
  const CallScope call("elu", a);
  return activation(a, [&](const Tensor& x) { return where(x <= 0.0, expm1(x) * alpha, x); });
}

Tensor selu(const Operand& a) {
  const CallScope call("selu", a);
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return activation(a, [](const Tensor& x) { return where(x <= 0.0, expm1(x) * (kAlpha * kScale), x * kScale); });
}

Tensor celu(const Operand& a, double alpha) {
  const CallScope call("celu", a);
  tensor_operand(a);
  if (alpha == 0) fail<ValueError>("alpha is 0", {{"input", a}}, "use another alpha");
  return activation(a, [&](const Tensor& x) { return where(x <= 0.0, expm1(x * (1 / alpha)) * alpha, x); });
}

Tensor softplus(const Operand& a, double beta, double threshold) {
  const CallScope call("softplus", a);
  return activation(a, [&](const Tensor& x) {
    const Tensor scaled = x * beta;
    return where(scaled > threshold, x, log1p_exp(scaled) / beta);
  });
}

Tensor logsigmoid(const Operand& a) {
  const CallScope call("logsigmoid", a);
  return activation(a, [](const Tensor& x) { return minimum(x, 0.0) - log1p_exp(-abs(x)); });
}

Tensor mish(const Operand& a) {
  const CallScope call("mish", a);
  return activation(a, [](const Tensor& x) { return x * tanh(log1p_exp(x)); });
}

// --- sigmoid forms --------------------------------------------------------------------------------------------------

Tensor logit(const Operand& a, std::optional<double> eps) {
  const CallScope call("logit", a);
  return activation(a, [&](const Tensor& x) {
    const Tensor p = eps ? clamp(x, *eps, 1 - *eps) : x;
    return log(p / (1.0 - p));
  });
}

Tensor silu(const Operand& a) {
  const CallScope call("silu", a);
  return activation(a, [](const Tensor& x) { return x * sigmoid(x); });
}

Tensor gelu_tanh(const Operand& a) {
  const CallScope call("gelu_tanh", a);
  return activation(a, [](const Tensor& x) {
    const Tensor inner = (x + x * x * x * 0.044715) * 0.7978845608028654;  // sqrt(2 / pi)
    return x * 0.5 * (tanh(inner) + 1.0);
  });
}

Tensor hardsigmoid(const Operand& a) {
  const CallScope call("hardsigmoid", a);
  return activation(a, [](const Tensor& x) { return hard_gate(x) / 6.0; });
}

Tensor hardswish(const Operand& a) {
  const CallScope call("hardswish", a);
  return activation(a, [](const Tensor& x) { return x * hard_gate(x) / 6.0; });
}

// --- shrinking ------------------------------------------------------------------------------------------------------

Tensor hardshrink(const Operand& a, double lambda) {
  const CallScope call("hardshrink", a);
  return activation(a, [&](const Tensor& x) { return where(bitwise_and(x >= -lambda, x <= lambda), 0.0, x); });
}

Tensor softshrink(const Operand& a, double lambda) {
  const CallScope call("softshrink", a);
  tensor_operand(a);
  if (!(lambda >= 0)) {
    fail<ValueError>(fmt::format("lambda is {}", lambda), {{"input", a}}, "use a lambda >= 0");
  }
  return activation(a, [&](const Tensor& x) {
    return where(x > lambda, x - lambda, where(x < -lambda, x + lambda, where(isnan(x), x, 0.0)));
  });
}

Tensor tanhshrink(const Operand& a) {
  const CallScope call("tanhshrink", a);
  return activation(a, [](const Tensor& x) { return x - tanh(x); });
}

Tensor softsign(const Operand& a) {
  const CallScope call("softsign", a);
  return activation(a, [](const Tensor& x) { return x / (abs(x) + 1.0); });
}

// --- gates ----------------------------------------------------------------------------------------------------------

Tensor glu(const Operand& a, int dim) {
  const CallScope call("glu", a);
  const Tensor x = widened(a);
  const int d = check_dim(a.tensor(), dim);
  const std::int64_t size = x.shape()[d];
  if (size % 2 != 0) {
    fail<ShapeError>(fmt::format("dimension {} of size {} has no two halves", d, size), {{"input", a}},
                     "use an even size");
  }
  const Tensor value = x.narrow(d, 0, size / 2);
  return cast(value * sigmoid(x.narrow(d, size / 2, size / 2)), a.tensor().dtype());
}

namespace {

template <typename Gate> Tensor gated(const Operand& gate, const Operand& value, Gate apply) {
  const Promoted types = promote({{"gate", gate}, {"value", value}}, true);
  tensor_operand(gate);
  const Tensor g = cast(gate.tensor(), types.working);
  return cast(mul(apply(g), Working(value, types.working)), types.dtype);
}

}  // namespace

Tensor reglu(const Operand& gate, const Operand& value) {
  const CallScope call("reglu", gate);
  return gated(gate, value, [](const Tensor& g) { return relu(g); });
}

Tensor geglu(const Operand& gate, const Operand& value) {
  const CallScope call("geglu", gate);
  return gated(gate, value, [](const Tensor& g) { return gelu(g); });
}

Tensor swiglu(const Operand& gate, const Operand& value) {
  const CallScope call("swiglu", gate);
  return gated(gate, value, [](const Tensor& g) { return g * sigmoid(g); });
}

}  // namespace v0
}  // namespace lockstep
