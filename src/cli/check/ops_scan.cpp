#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

const CheckOp kScanOps[] = {
    {"cumsum", Form::rows, 4,
     [](Probe& p) -> Tensors {
       return {p.variant() == 3 ? cumsum(p.x(), p.dim(), DType::f32) : cumsum(p.x(), p.dim())};
     }},
    {"cumprod", Form::rows, 4,
     [](Probe& p) -> Tensors {
       return {p.variant() == 3 ? cumprod(p.x(), p.dim(), DType::f32) : cumprod(p.x(), p.dim())};
     }},
    {"cummax", Form::rows, kDims, [](Probe& p) { return both(cummax(p.x(), p.dim())); }},
    {"cummin", Form::rows, kDims, [](Probe& p) { return both(cummin(p.x(), p.dim())); }},
    {"logcumsumexp", Form::rows, kDims, along_dim<logcumsumexp>},
    {"diff", Form::rows, 3,
     [](Probe& p) -> Tensors {
       const Tensor a = p.x();
       if (p.variant() < 2) return {diff(a, 1 + p.variant(), p.dim())};
       const Tensor before = p.x();
       return {diff(a, 3, p.dim(), {.prepend = before, .append = p.x()})};
     }},
};

}  // namespace

std::span<const CheckOp> check_scan_ops() {
  return kScanOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
