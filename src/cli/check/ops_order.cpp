#include <algorithm>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// How many of the elements along the probe's dimension.
std::int64_t some(Probe& p) {
  const std::int64_t size = p.rank() == 0 ? 1 : p.size(p.dim());
  return std::min<std::int64_t>(size, 1 + size / 3);
}

const CheckOp kOrderOps[] = {
    {"sort", Form::rows, 3, [](Probe& p) { return both(sort(p.x(), p.dim(), p.variant() == 1)); }},
    {"argsort", Form::rows, 3, [](Probe& p) -> Tensors { return {argsort(p.x(), p.dim(), p.variant() == 2)}; }},
    {"topk", Form::rows, 3, [](Probe& p) { return both(topk(p.x(), some(p), p.dim(), p.variant() != 1)); }},
    {"kthvalue", Form::rows, 3, [](Probe& p) { return both(kthvalue(p.x(), some(p), p.dim(), p.variant() == 1)); }},
    {"unique", Form::rows, 1,
     [](Probe& p) -> Tensors {
       const Unique result = unique(p.x());
       return {result.values, result.inverse, result.counts};
     }},
    {"unique_consecutive", Form::rows, 1,
     [](Probe& p) -> Tensors {
       const Unique result = unique_consecutive(p.x());
       return {result.values, result.inverse, result.counts};
     }},
    {"searchsorted", Form::rows, 2,
     [](Probe& p) -> Tensors {
       const Tensor sorted = sort(p.x()).values;
       return {searchsorted(sorted, p.x(), p.variant() == 1)};
     }},
    {"bucketize", Form::rows, 2,
     [](Probe& p) -> Tensors {
       const Tensor boundaries = sort(p.x({13})).values;
       return {bucketize(p.x(), boundaries, p.variant() == 1)};
     }},
    {"bincount", Form::small, 2,
     [](Probe& p) -> Tensors {
       const std::int64_t n = p.shape().numel();
       const Tensor classes = p.index({n}, 7);
       return {p.variant() == 0 ? bincount(classes.to(p.dtype())) : bincount(classes, p.x({n}), 20)};
     }},
    {"histc", Form::rows, 2,
     [](Probe& p) -> Tensors {
       return {p.variant() == 0 ? histc(p.x(), 10, -2, 2) : histc(p.positive(p.shape()), 7)};
     }},
};

}  // namespace

std::span<const CheckOp> check_order_ops() {
  return kOrderOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
