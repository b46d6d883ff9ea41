#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

constexpr int kDims = 3;  // the last, the first, the second: see Probe::dim

const CheckOp kOps[] = {
#define REDUCTION(name) \
  { #name, Form::rows, 3, reduction < name> }
    REDUCTION(sum),
    REDUCTION(prod),
    REDUCTION(mean),
    REDUCTION(norm),
    REDUCTION(amax),
    REDUCTION(amin),
    REDUCTION(any),
    REDUCTION(all),
    REDUCTION(logsumexp),
#undef REDUCTION
    {"var", Form::rows, 3,
     [](Probe& p) -> Tensors {
       return {p.variant() == 2 ? var(p.x(), {}, false, 0) : var(p.x(), {p.dim()}, p.variant() == 1)};
     }},
    {"std", Form::rows, 3,
     [](Probe& p) -> Tensors {
       return {p.variant() == 2 ? lockstep::std(p.x(), {}, false, 0)
                                : lockstep::std(p.x(), {p.dim()}, p.variant() == 1)};
     }},
    {"argmax", Form::rows, 3,
     [](Probe& p) -> Tensors { return {p.variant() == 2 ? argmax(p.x()) : argmax(p.x(), p.dim(), p.variant() == 1)}; }},
    {"argmin", Form::rows, 3,
     [](Probe& p) -> Tensors { return {p.variant() == 2 ? argmin(p.x()) : argmin(p.x(), p.dim(), p.variant() == 1)}; }},
    {"softmax", Form::rows, kDims, along_dim<softmax>},
    {"log_softmax", Form::rows, kDims, along_dim<log_softmax>},
};

}  // namespace

std::span<const CheckOp> check_reduction_ops() {
  return kOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
