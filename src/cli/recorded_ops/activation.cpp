#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Tensors call_prelu(Arguments& a) {
  return {prelu(a[0], a[1])};
}
Tensors call_rrelu(Arguments& a) {
  return {rrelu(a[0], a.real("lower", 1.0 / 8), a.real("upper", 1.0 / 3))};
}
Tensors call_hardtanh(Arguments& a) {
  return {hardtanh(a[0], a.real("min_val", -1), a.real("max_val", 1))};
}
Tensors call_threshold(Arguments& a) {
  return {threshold(a[0], a.real("threshold", 0), a.real("value", 0))};
}
Tensors call_logit(Arguments& a) {
  return {logit(a[0], a.optional_real("eps"))};
}
Tensors call_glu(Arguments& a) {
  return {glu(a[0], a.optional_dim("dim").value_or(-1))};
}

template <Tensor (*op)(const Operand&, double)> Tensors with_lambda(Arguments& a) {
  return {op(a[0], a.real("lambd", 0.5))};
}

Tensors call_softplus(Arguments& a) {
  return {softplus(a[0], a.real("beta", 1), a.real("threshold", 20))};
}
template <Tensor (*op)(const Operand&, double)> Tensors with_alpha(Arguments& a) {
  return {op(a[0], a.real("alpha", 1))};
}

constexpr RecordedOp kActivationOps[] = {
    {"celu", kComputes, with_alpha<celu>},
    {"elu", kComputes, with_alpha<elu>},
    {"glu", kComputes, call_glu},
    {"hardshrink", kMoves, with_lambda<hardshrink>},
    {"hardsigmoid", kComputes, unary<hardsigmoid>},
    {"hardswish", kComputes, unary<hardswish>},
    {"hardtanh", kMoves, call_hardtanh},
    {"logit", kComputes, call_logit},
    {"logsigmoid", kComputes, unary<logsigmoid>},
    {"mish", kComputes, unary<mish>},
    {"prelu", kComputes, call_prelu},
    {"relu6", kMoves, unary<relu6>},
    {"rrelu", kComputes, call_rrelu},
    {"selu", kComputes, unary<selu>},
    {"softplus", kComputes, call_softplus},
    {"softshrink", kComputes, with_lambda<softshrink>},
    {"softsign", kComputes, unary<softsign>},
    {"tanhshrink", kComputes, unary<tanhshrink>},
    {"threshold", kMoves, call_threshold},
};

}  // namespace

std::span<const RecordedOp> activation_ops() {
  return kActivationOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
