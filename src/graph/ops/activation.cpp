// Activations that are compositions. Each takes f16 and bf16 to f32, composes, and rounds once.
#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// `compose` of the operand in its working type, rounded to the operand's type.
template <typename Compose> Tensor activation(const char* op, const Operand& a, Compose compose) {
  const Tensor x = widened(op, a);
  return cast(compose(x), a.tensor().dtype(), a.site());
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
  return clamp(tensor_operand("relu6", a), Operand(0, a.site()), Operand(6, a.site()));
}

Tensor leaky_relu(const Operand& a, double negative_slope) {
  return activation("leaky_relu", a, [&](const Tensor& x) { return where(x > 0.0, x, x * negative_slope); });
}

Tensor prelu(const Operand& a, const Tensor& weight) {
  const CallSite site = a.site();
  const Together types = together("prelu", {{"input", a}, {"weight", weight}}, site, true);
  const Tensor& input = tensor_operand("prelu", a);
  const std::int64_t channels = input.rank() >= 2 ? input.shape()[1] : 1;
  if (weight.rank() > 1 || (weight.numel() != 1 && weight.numel() != channels)) {
    fail<ShapeError>("prelu", fmt::format("weight must hold 1 or {} values", channels),
                     {{"input", input}, {"weight", weight}}, "give one value, or one per channel (dimension 1)", site);
  }
  Shape shape = Shape::filled(input.rank(), 1);
  if (input.rank() >= 2) shape[1] = weight.numel();
  const Tensor x = cast(input, types.working, site);
  const Tensor slope = cast(weight, types.working, site).reshape(shape, site);
  return cast(where(x > 0.0, x, slope * x), types.dtype, site);
}

Tensor rrelu(const Operand& a, double lower, double upper) {
  tensor_operand("rrelu", a);
  return leaky_relu(a, (lower + upper) / 2);
}

Tensor hardtanh(const Operand& a, double min, double max) {
  tensor_operand("hardtanh", a);
  if (min > max) {
    fail<ValueError>("hardtanh", fmt::format("min {} is above max {}", min, max), {{"input", a}}, "exchange them",
                     a.site());
  }
  return clamp(a, Operand(min, a.site()), Operand(max, a.site()));
}

Tensor threshold(const Operand& a, double threshold, double value) {
  tensor_operand("threshold", a);
  return where(le(a, Operand(threshold, a.site())), Operand(value, a.site()), a);
}

// --- exponential forms ----------------------------------------------------------------------------------------------

Tensor elu(const Operand& a, double alpha) {
  return activation("elu", a, [&](const Tensor& x) { return where(x <= 0.0, expm1(x) * alpha, x); });
}

Tensor selu(const Operand& a) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return activation("selu", a,
                    [](const Tensor& x) { return where(x <= 0.0, expm1(x) * (kAlpha * kScale), x * kScale); });
}

Tensor celu(const Operand& a, double alpha) {
  tensor_operand("celu", a);
  if (alpha == 0) fail<ValueError>("celu", "alpha is 0", {{"input", a}}, "use another alpha", a.site());
  return activation("celu", a, [&](const Tensor& x) { return where(x <= 0.0, expm1(x * (1 / alpha)) * alpha, x); });
}

Tensor softplus(const Operand& a, double beta, double threshold) {
  return activation("softplus", a, [&](const Tensor& x) {
    const Tensor scaled = x * beta;
    return where(scaled > threshold, x, log1p_exp(scaled) / beta);
  });
}

Tensor logsigmoid(const Operand& a) {
  return activation("logsigmoid", a, [](const Tensor& x) { return minimum(x, 0.0) - log1p_exp(-abs(x)); });
}

Tensor mish(const Operand& a) {
  return activation("mish", a, [](const Tensor& x) { return x * tanh(log1p_exp(x)); });
}

// --- sigmoid forms --------------------------------------------------------------------------------------------------

Tensor logit(const Operand& a, std::optional<double> eps) {
  return activation("logit", a, [&](const Tensor& x) {
    const Tensor p = eps ? clamp(x, *eps, 1 - *eps) : x;
    return log(p / (1.0 - p));
  });
}

Tensor silu(const Operand& a) {
  return activation("silu", a, [](const Tensor& x) { return x * sigmoid(x); });
}

Tensor gelu_tanh(const Operand& a) {
  return activation("gelu_tanh", a, [](const Tensor& x) {
    const Tensor inner = (x + x * x * x * 0.044715) * 0.7978845608028654;  // sqrt(2 / pi)
    return x * 0.5 * (tanh(inner) + 1.0);
  });
}

Tensor hardsigmoid(const Operand& a) {
  return activation("hardsigmoid", a, [](const Tensor& x) { return hard_gate(x) / 6.0; });
}

Tensor hardswish(const Operand& a) {
  return activation("hardswish", a, [](const Tensor& x) { return x * hard_gate(x) / 6.0; });
}

// --- shrinking ------------------------------------------------------------------------------------------------------

Tensor hardshrink(const Operand& a, double lambda) {
  return activation("hardshrink", a,
                    [&](const Tensor& x) { return where(bitwise_and(x >= -lambda, x <= lambda), 0.0, x); });
}

Tensor softshrink(const Operand& a, double lambda) {
  tensor_operand("softshrink", a);
  if (!(lambda >= 0)) {
    fail<ValueError>("softshrink", fmt::format("lambda is {}", lambda), {{"input", a}}, "use a lambda >= 0", a.site());
  }
  return activation("softshrink", a, [&](const Tensor& x) {
    return where(x > lambda, x - lambda, where(x < -lambda, x + lambda, where(isnan(x), x, 0.0)));
  });
}

Tensor tanhshrink(const Operand& a) {
  return activation("tanhshrink", a, [](const Tensor& x) { return x - tanh(x); });
}

Tensor softsign(const Operand& a) {
  return activation("softsign", a, [](const Tensor& x) { return x / (abs(x) + 1.0); });
}

// --- gates ----------------------------------------------------------------------------------------------------------

Tensor glu(const Operand& a, int dim) {
  const CallSite site = a.site();
  const Tensor x = widened("glu", a);
  const int d = check_dim("glu", a.tensor(), dim, site);
  const std::int64_t size = x.shape()[d];
  if (size % 2 != 0) {
    fail<ShapeError>("glu", fmt::format("dimension {} of size {} has no two halves", d, size), {{"input", a}},
                     "use an even size", site);
  }
  const Tensor value = x.narrow(d, 0, size / 2, site);
  return cast(value * sigmoid(x.narrow(d, size / 2, size / 2, site)), a.tensor().dtype(), site);
}

namespace {

template <typename Gate> Tensor gated(const char* op, const Operand& gate, const Operand& value, Gate apply) {
  const CallSite site = gate.site();
  const Together types = together(op, {{"gate", gate}, {"value", value}}, site, true);
  tensor_operand(op, gate);
  const Tensor g = cast(gate.tensor(), types.working, site);
  return cast(mul(apply(g), Working(value, types.working, site)), types.dtype, site);
}

}  // namespace

Tensor reglu(const Operand& gate, const Operand& value) {
  return gated("reglu", gate, value, [](const Tensor& g) { return relu(g); });
}

Tensor geglu(const Operand& gate, const Operand& value) {
  return gated("geglu", gate, value, [](const Tensor& g) { return gelu(g); });
}

Tensor swiglu(const Operand& gate, const Operand& value) {
  return gated("swiglu", gate, value, [](const Tensor& g) { return g * sigmoid(g); });
}

}  // namespace v0
}  // namespace lockstep
