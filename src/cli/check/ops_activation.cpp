#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Both halves of glu's operand have the probe's size.
Tensors gated(Probe& p) {
  Shape shape = p.rank() == 0 ? Shape{1} : p.shape();
  shape[p.dim()] *= 2;
  return {glu(p.x(shape), p.dim())};
}

Tensors per_channel(Probe& p) {
  const Tensor a = p.x();
  const bool one = p.variant() == 0 || p.rank() < 2;
  return {prelu(a, p.x(Shape{one ? 1 : p.size(1)}))};
}

using Drop = Tensor (*)(const Operand&, double, bool, Generator*);
/// Variants: one half, most, all, and evaluation.
constexpr int kDropVariants = 4;
template <Drop op> Tensors dropped(Probe& p) {
  constexpr double kRates[kDropVariants] = {0.5, 0.9, 1, 0.5};
  Generator generator(17);
  return {op(p.x(), kRates[p.variant()], p.variant() != 3, &generator)};
}

const CheckOp kActivationOps[] = {
#define UNARY(name) \
  { #name, Form::elementwise, 1, unary < name> }
    UNARY(selu),
    UNARY(relu6),
    UNARY(logsigmoid),
    UNARY(mish),
    UNARY(hardsigmoid),
    UNARY(hardswish),
    UNARY(tanhshrink),
    UNARY(softsign),
#undef UNARY
// Without the last variant: a gate is a tensor.
#define GATE(name) \
  { #name, Form::elementwise, kBinaryVariants - 1, binary < name> }
    GATE(reglu),
    GATE(geglu),
    GATE(swiglu),
#undef GATE
    {"elu", Form::elementwise, 2, [](Probe& p) -> Tensors { return {elu(p.x(), p.variant() == 0 ? 1 : -0.3)}; }},
    {"celu", Form::elementwise, 2, [](Probe& p) -> Tensors { return {celu(p.x(), p.variant() == 0 ? 1 : 0.3)}; }},
    {"prelu", Form::elementwise, 2, per_channel},
    {"rrelu", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {p.variant() == 0 ? rrelu(p.x()) : rrelu(p.x(), -0.5, 0.7)}; }},
    {"hardtanh", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {p.variant() == 0 ? hardtanh(p.x()) : hardtanh(p.x(), 0, 2)}; }},
    {"threshold", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {p.variant() == 0 ? threshold(p.x(), 0, 3) : threshold(p.x(), -1, -2)}; }},
    {"softplus", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {p.variant() == 0 ? softplus(p.x()) : softplus(p.x(), 0.7, 2)}; }},
    {"logit", Form::elementwise, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {logit(sigmoid(p.x()))};
       return {p.variant() == 1 ? logit(p.x()) : logit(p.x(), 1e-3)};
     }},
    {"hardshrink", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {hardshrink(p.x(), p.variant() == 0 ? 0.5 : 0)}; }},
    {"softshrink", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {softshrink(p.x(), p.variant() == 0 ? 0.5 : 0)}; }},
    {"glu", Form::rows, 3, gated},
    {"softmin", Form::rows, 3, along_dim<softmin>},
    {"dropout", Form::elementwise, kDropVariants, dropped<dropout>},
    {"alpha_dropout", Form::elementwise, kDropVariants, dropped<alpha_dropout>},
    {"feature_dropout", Form::signal, kDropVariants, dropped<feature_dropout>},
    {"feature_alpha_dropout", Form::signal, kDropVariants, dropped<feature_alpha_dropout>},
    {"dropout1d", Form::signal, kDropVariants, dropped<dropout1d>},
    {"dropout2d", Form::image, kDropVariants, dropped<dropout2d>},
    {"dropout3d", Form::volume, kDropVariants, dropped<dropout3d>},
};

}  // namespace

std::span<const CheckOp> check_activation_ops() {
  return kActivationOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
