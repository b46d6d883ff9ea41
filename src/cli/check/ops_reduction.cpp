#include <limits>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

const CheckOp kReductionOps[] = {
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
    REDUCTION(nansum),
    REDUCTION(nanmean),
    REDUCTION(count_nonzero),
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
    {"var_mean", Form::rows, 3,
     [](Probe& p) {
       return both(p.variant() == 2 ? var_mean(p.x(), {}, false, 0) : var_mean(p.x(), {p.dim()}, p.variant() == 1));
     }},
    {"std_mean", Form::rows, 3,
     [](Probe& p) {
       return both(p.variant() == 2 ? std_mean(p.x(), {}, false, 0) : std_mean(p.x(), {p.dim()}, p.variant() == 1));
     }},
    {"aminmax", Form::rows, 3,
     [](Probe& p) { return both(p.variant() == 2 ? aminmax(p.x()) : aminmax(p.x(), {p.dim()}, p.variant() == 1)); }},
    {"max", Form::rows, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 2) return {max(p.x())};
       return both(max(p.x(), p.dim(), p.variant() == 1));
     }},
    {"min", Form::rows, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 2) return {min(p.x())};
       return both(min(p.x(), p.dim(), p.variant() == 1));
     }},
    {"vector_norm", Form::rows, 8,
     [](Probe& p) -> Tensors {
       constexpr double kInfinity = std::numeric_limits<double>::infinity();
       constexpr double kPowers[] = {3, 0, kInfinity, -kInfinity, 1, 2, 0.5, 3};
       const double power = kPowers[p.variant()];
       return {p.variant() == 7 ? vector_norm(p.x(), power)
                                : vector_norm(p.x(), power, {p.dim()}, p.variant() % 2 == 1)};
     }},
    {"trace", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       return {trace(p.x({p.size(0), p.size(2)}))};
     }},
    {"softmax", Form::rows, kDims, along_dim<softmax>},
    {"log_softmax", Form::rows, kDims, along_dim<log_softmax>},
};

}  // namespace

std::span<const CheckOp> check_reduction_ops() {
  return kReductionOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
