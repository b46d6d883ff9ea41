#include "cli/case_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

template <Tensor (*op)(const Operand&, const Shape&, bool, double)> Tensors deviation(Arguments& a) {
  return {op(a[0], a.sizes("dim", {}), a.flag("keepdim"), a.real("correction", 1))};
}

template <Tensor (*op)(const Operand&, std::optional<int>, bool)> Tensors position(Arguments& a) {
  return {op(a[0], a.optional_dim("dim"), a.flag("keepdim"))};
}

Tensors call_norm(Arguments& a) {
  if (a.real("p", 2) != 2) throw Unsupported("p other than 2");
  return {norm(a[0], a.sizes("dim", {}), a.flag("keepdim"))};
}

constexpr CaseOp kOps[] = {
    {"all", kComputes, reduction<all>},
    {"amax", kMoves, reduction<amax>},
    {"amin", kMoves, reduction<amin>},
    {"any", kComputes, reduction<any>},
    {"argmax", kComputes, position<argmax>},
    {"argmin", kComputes, position<argmin>},
    {"log_softmax", kComputes, along_dim<log_softmax>},
    {"logsumexp", kComputes, reduction<logsumexp>},
    {"mean", kComputes, reduction<mean>},
    {"norm", kComputes, call_norm},
    {"prod", kComputes, reduction<prod>},
    {"softmax", kComputes, along_dim<softmax>},
    {"std", kComputes, deviation<std>},
    {"sum", kComputes, reduction<sum>},
    {"var", kComputes, deviation<var>},
};

}  // namespace

std::span<const CaseOp> reduction_ops() { return kOps; }

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
