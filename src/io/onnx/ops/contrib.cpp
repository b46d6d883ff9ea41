// Operators of com.microsoft that exported transformers and quantised files use.
#include <lockstep/ops.h>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

std::vector<Tensor> microsoft_gelu(const Call& call) {
  return {gelu(call.input(0))};
}
std::vector<Tensor> fast_gelu(const Call& call) {
  return {gelu_tanh(call.has(1) ? add(call.input(0), call.input(1)) : call.input(0))};
}
std::vector<Tensor> bias_gelu(const Call& call) {
  return {gelu(add(call.input(0), call.input(1)))};
}
std::vector<Tensor> quick_gelu(const Call& call) {
  const Tensor& x = call.input(0);
  return {mul(x, sigmoid(mul(x, call.number("alpha", 1.702f))))};
}

std::vector<Tensor> fused_matmul(const Call& call) {
  const auto turned = [](const Tensor& x, bool turn) { return turn && x.rank() > 1 ? x.transpose(-1, -2) : x; };
  const Tensor product = matmul(turned(call.input(0), call.integer("transA", 0) != 0),
                                turned(call.input(1), call.integer("transB", 0) != 0));
  const float alpha = call.number("alpha", 1);
  return {alpha == 1 ? product : mul(product, alpha)};
}
std::string check_fused_matmul(const NodeFacts& node) {
  return node.integer("transBatchA", 0) != 0 || node.integer("transBatchB", 0) != 0 ? "transBatchA or transBatchB" : "";
}

// Sum of input, skip and bias, normalised; the sum is output 3.
std::vector<Tensor> skip_layer_normalization(const Call& call) {
  Tensor x = add(call.input(0), call.input(1));
  if (call.has(4)) x = add(x, call.input(4));
  const Tensor beta = call.optional_input(3);
  const Tensor y = layer_norm(x, {x.shape().back()}, call.input(2), beta.defined() ? std::optional(beta) : std::nullopt,
                              call.number("epsilon", 1e-12f));
  return {y, Tensor(), Tensor(), x};
}
std::vector<Tensor> simplified_layer_normalization(const Call& call) {
  return {rms_norm(call.input(0), {call.shape(0).back()}, call.input(1), call.number("epsilon", 1e-5f))};
}
std::vector<Tensor> skip_simplified_layer_normalization(const Call& call) {
  Tensor x = add(call.input(0), call.input(1));
  if (call.has(3)) x = add(x, call.input(3));
  return {rms_norm(x, {x.shape().back()}, call.input(2), call.number("epsilon", 1e-5f)), Tensor(), Tensor(), x};
}
std::string check_statistics(const NodeFacts& node) {
  return node.wants(1) || node.wants(2) ? "the outputs mean and inverse deviation" : "";
}

constexpr Operator kContribOperators[] = {
    {.domain = kMicrosoft, .name = "Gelu", .run = microsoft_gelu},
    {.domain = kMicrosoft, .name = "FastGelu", .run = fast_gelu},
    {.domain = kMicrosoft, .name = "BiasGelu", .run = bias_gelu},
    {.domain = kMicrosoft, .name = "QuickGelu", .run = quick_gelu},
    {.domain = kMicrosoft, .name = "FusedMatMul", .run = fused_matmul, .check = check_fused_matmul},
    {.domain = kMicrosoft,
     .name = "SkipLayerNormalization",
     .run = skip_layer_normalization,
     .check = check_statistics},
    {.domain = kMicrosoft,
     .name = "SkipSimplifiedLayerNormalization",
     .run = skip_simplified_layer_normalization,
     .check = check_statistics},
    {.name = "SimplifiedLayerNormalization", .run = simplified_layer_normalization, .check = check_statistics},
};

}  // namespace

std::span<const Operator> contrib_operators() {
  return kContribOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
