#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

const CheckOp kOps[] = {
    {"cat", Form::rows, 2,
     [](Probe& p) -> Tensors {
       return {cat({p.x(), p.x(), p.x()}, p.dim())};
     }},
    {"stack", Form::rows, 2,
     [](Probe& p) -> Tensors {
       return {stack({p.x(), p.x()}, p.dim())};
     }},
    {"pad", Form::rows, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {pad(p.x(), {2, 3})};
       return {p.variant() == 1 ? pad(p.x(), {1, 0, 0, 2}, 1) : pad(p.x(), {3, -1})};
     }},
    {"broadcast_to", Form::small, 1,
     [](Probe& p) -> Tensors {
       Shape shape = p.shape();
       shape.insert(0, 3);
       return {broadcast_to(p.x(), shape)};
     }},
    {"contiguous", Form::elementwise, 1, [](Probe& p) -> Tensors { return {contiguous(p.x())}; }},
    // Members of Tensor, stored after a change so that a kernel copies them.
    {"reshape", Form::rows, 1, [](Probe& p) -> Tensors { return {p.x().reshape({-1}).flip({0})}; }},
    {"permute", Form::rows, 1,
     [](Probe& p) -> Tensors {
       Shape dims;
       for (int d = 1; d <= p.rank(); ++d) dims.push_back(d % p.rank());
       return {contiguous(p.x().permute(dims))};
     }},
    {"slice", Form::rows, 2,
     [](Probe& p) -> Tensors {
       return {
           contiguous(p.x().slice(p.dim(), {.start = p.variant() == 0 ? 1 : -1, .step = p.variant() == 0 ? 3 : -2}))};
     }},
    {"flip", Form::rows, 2, [](Probe& p) -> Tensors { return {contiguous(p.x().flip({p.dim()}))}; }},
};

}  // namespace

std::span<const CheckOp> check_shape_ops() {
  return kOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
