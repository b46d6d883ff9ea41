// Activations that are compositions. Each takes f16 and bf16 to f32, composes, and rounds once.
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace {

// The operand in the composition's working type, checked to be a float tensor.
Tensor widened(const char* op, const Operand& a) {
  graph::check_defined(op, {{"input", a}}, a.site());
  if (a.is_scalar()) {
    graph::fail<ValueError>(op, "needs a tensor operand", {{"input", a}}, "make the scalar a tensor", a.site());
  }
  graph::check_float(op, {"input", a.tensor()}, a.site());
  return graph::cast(a.tensor(), graph::wide(a.tensor().dtype()), a.site());
}

}  // namespace

Tensor square(const Operand& a) { return mul(a, a); }

Tensor gelu_tanh(const Operand& a) {
  const Tensor x = widened("gelu_tanh", a);
  const Tensor inner = (x + x * x * x * 0.044715) * 0.7978845608028654;  // sqrt(2 / pi)
  return graph::cast(x * 0.5 * (tanh(inner) + 1.0), a.tensor().dtype(), a.site());
}

Tensor silu(const Operand& a) {
  const Tensor x = widened("silu", a);
  return graph::cast(x * sigmoid(x), a.tensor().dtype(), a.site());
}

Tensor leaky_relu(const Operand& a, double negative_slope) {
  const Tensor x = widened("leaky_relu", a);
  return graph::cast(where(x > 0.0, x, x * negative_slope), a.tensor().dtype(), a.site());
}

Tensor clamp(const Operand& a, std::optional<double> min, std::optional<double> max) {
  if (!min && !max) graph::fail<ValueError>("clamp", "needs a bound", {{"input", a}}, "give min or max", a.site());
  // Bounds come second so that equal values keep the input, and NaN wins, as in torch.
  Tensor result = min ? maximum(a, Operand(*min, a.site())) : minimum(a, Operand(*max, a.site()));
  if (min && max) result = minimum(result, Operand(*max, a.site()));
  return result;
}

}  // namespace v0
}  // namespace lockstep
