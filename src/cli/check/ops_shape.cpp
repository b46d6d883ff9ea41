#include <utility>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

template <Tensor (*op)(const std::vector<Tensor>&, CallSite)> Tensors joined(Probe& p) {
  const Tensor first = p.x();
  return {op({first, p.x(), first}, {})};
}
// What may be a view, stored.
template <Tensor (*op)(const Operand&)> Tensors rearranged(Probe& p) {
  return {contiguous(op(p.x()))};
}

// What a scatter changes. Variant 1: nothing else holds it, so that it may be changed in place.
Tensor scattered_into(Probe& p, const Shape& shape) {
  const Tensor a = p.x(shape);
  return p.variant() == 1 && shape.rank() > 0 ? contiguous(a.flip({0})) : a;
}

const CheckOp kShapeOps[] = {
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
       Dims dims;
       for (int d = 1; d <= p.rank(); ++d) dims.push_back(d % p.rank());
       return {contiguous(p.x().permute(dims))};
     }},
    {"slice", Form::rows, 2,
     [](Probe& p) -> Tensors {
       return {
           contiguous(p.x().slice(p.dim(), {.start = p.variant() == 0 ? 1 : -1, .step = p.variant() == 0 ? 3 : -2}))};
     }},
    {"flip", Form::rows, 2, [](Probe& p) -> Tensors { return {contiguous(p.x().flip({p.dim()}))}; }},
    {"hstack", Form::rows, 1, joined<hstack>},
    {"vstack", Form::rows, 1, joined<vstack>},
    {"dstack", Form::rows, 1, joined<dstack>},
    {"column_stack", Form::rows, 1, joined<column_stack>},
    {"atleast_1d", Form::small, 1, rearranged<atleast_1d>},
    {"atleast_2d", Form::small, 1, rearranged<atleast_2d>},
    {"atleast_3d", Form::small, 1, rearranged<atleast_3d>},
    {"broadcast_tensors", Form::small, 1,
     [](Probe& p) -> Tensors {
       Shape column = p.shape();
       if (p.rank() > 0) column[p.rank() - 1] = 1;
       column.insert(0, 2);
       const Tensor first = p.x();
       const Tensor second = p.x(column);
       Tensors results;
       for (const Tensor& result : broadcast_tensors({first, second, p.mask({})}))
         results.push_back(contiguous(result));
       return results;
     }},
    {"tile", Form::rows, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {tile(p.x(), {2})};
       return {p.variant() == 1 ? tile(p.x(), {2, 1, 3}) : tile(p.x(), {0, 2})};
     }},
    // Variants: equal counts along a dimension; of all elements; a count for each.
    {"repeat_interleave", Form::rows, 4,
     [](Probe& p) -> Tensors {
       const Tensor a = p.x();
       if (p.variant() == 0) return {repeat_interleave(a, 3, p.dim())};
       if (p.variant() == 1) return {repeat_interleave(a, 2)};
       if (p.variant() == 2) return {repeat_interleave(a, p.index({a.numel()}, 4))};
       return {repeat_interleave(a, p.index({p.rank() == 0 ? 1 : p.size(p.dim())}, 4), p.dim())};
     }},
    {"swapaxes", Form::rows, 2,
     [](Probe& p) -> Tensors { return {contiguous(swapaxes(p.x(), p.variant() == 0 ? 0 : p.rank() / 2, -1))}; }},
    {"roll", Form::rows, 4,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {contiguous(roll(p.x(), {3}, {p.dim()}))};
       if (p.variant() == 1) return {contiguous(roll(p.x(), {-5}))};
       if (p.variant() == 2) return {contiguous(roll(p.x(), {100003}, {p.dim()}))};
       return {contiguous(roll(p.x(), {1, -2}, {0, p.rank() > 1 ? -1 : 0}))};
     }},
    {"rot90", Form::rows, 4,
     [](Probe& p) -> Tensors {
       if (p.variant() == 3) return {contiguous(rot90(p.x(), -1, {-1, 0}))};
       return {contiguous(rot90(p.x(), p.variant() + 1))};
     }},
    {"fliplr", Form::rows, 1, rearranged<fliplr>},
    {"flipud", Form::rows, 1, rearranged<flipud>},
    {"diag", Form::small, 3, [](Probe& p) -> Tensors { return {contiguous(diag(p.x(), p.variant() - 1))}; }},
    {"diag_embed", Form::small, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {contiguous(diag_embed(p.x()))};
       return {contiguous(p.variant() == 1 ? diag_embed(p.x(), 2, 0, -1) : diag_embed(p.x(), -1, -1, 0))};
     }},
    {"slice_scatter", Form::rows, 2,
     [](Probe& p) -> Tensors {
       const Slice range{.start = 1, .step = p.variant() == 0 ? 1 : 2};
       Shape part = p.shape();
       if (p.rank() > 0) part = contiguous(p.x()).slice(p.dim(), range).shape();
       Tensor a = scattered_into(p, p.shape());
       return {slice_scatter(std::move(a), p.x(part), p.dim(), range)};
     }},
    {"select_scatter", Form::rows, 2,
     [](Probe& p) -> Tensors {
       Shape part = p.shape();
       if (p.rank() > 0) part.erase(p.dim());
       Tensor a = scattered_into(p, p.shape());
       return {select_scatter(std::move(a), p.x(part), p.dim(), -1)};
     }},
    // Of [6, ...], so that there are two dimensions.
    {"diagonal_scatter", Form::small, 3,
     [](Probe& p) -> Tensors {
       const std::int64_t offset = p.variant() - 1;
       Shape shape = p.shape();
       shape.insert(0, 6);
       Tensor a = scattered_into(p, shape);
       const Shape part = a.diagonal(offset, 0, 1).shape();
       return {diagonal_scatter(std::move(a), p.x(part), offset, 0, 1)};
     }},
};

}  // namespace

std::span<const CheckOp> check_shape_ops() {
  return kShapeOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
