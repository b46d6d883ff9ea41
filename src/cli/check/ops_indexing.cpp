#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

std::int64_t limit(Probe& p) {
  return p.rank() == 0 ? 1 : p.size(p.dim());
}

// The probe's shape with another size along its dimension.
Shape resized(Probe& p, std::int64_t size) {
  Shape shape = p.shape();
  if (p.rank() > 0) shape[p.dim()] = size;
  return shape;
}

// Few positions, so that they repeat.
constexpr std::int64_t kFew = 5;

const CheckOp kIndexingOps[] = {
    {"gather", Form::rows, 2,
     [](Probe& p) -> Tensors { return {gather(p.x(), p.dim(), p.index(resized(p, kFew), limit(p)))}; }},
    {"take_along_dim", Form::rows, 2,
     [](Probe& p) -> Tensors { return {take_along_dim(p.x(), p.index(resized(p, kFew), limit(p)), p.dim())}; }},
    {"take", Form::rows, 1,
     [](Probe& p) -> Tensors {
       return {take(p.x(), p.index({3, kFew}, p.shape().numel()))};
     }},
    {"index_select", Form::rows, 2,
     [](Probe& p) -> Tensors { return {index_select(p.x(), p.dim(), p.index({kFew}, limit(p)))}; }},
    {"embedding", Form::rows, 1,
     [](Probe& p) -> Tensors {
       return {embedding(p.x(), p.index({3, kFew}, p.rank() == 0 ? 1 : p.size(0)))};
     }},
    {"one_hot", Form::small, 2,
     [](Probe& p) -> Tensors {
       const Tensor classes = p.index(p.shape(), 6).to(p.dtype());
       return {p.variant() == 0 ? one_hot(classes) : one_hot(classes, 9)};
     }},
    {"scatter", Form::rows, 3,
     [](Probe& p) -> Tensors {
       const Tensor index = p.index(resized(p, kFew), limit(p));
       if (p.variant() == 2) return {scatter(p.x(), p.dim(), index, 2)};
       return {scatter(p.x(), p.dim(), index, p.x(resized(p, kFew)))};
     }},
    {"scatter_add", Form::rows, 2,
     [](Probe& p) -> Tensors { return {scatter_add(p.x(), p.dim(), p.index(p.shape(), limit(p)), p.x())}; }},
    {"scatter_reduce", Form::rows, 10,
     [](Probe& p) -> Tensors {
       const auto mode = static_cast<ReduceMode>(p.variant() / 2);
       const int dim = p.rank() < 2 ? 0 : p.variant() % 2 == 0 ? p.rank() - 1 : 0;
       const std::int64_t size = p.rank() == 0 ? 1 : p.size(dim);
       return {scatter_reduce(p.x(), dim, p.index(p.shape(), size), p.x(), mode, p.variant() % 2 == 0)};
     }},
    {"index_copy", Form::rows, 2,
     [](Probe& p) -> Tensors {
       return {index_copy(p.x(), p.dim(), p.index({kFew}, limit(p)), p.x(resized(p, kFew)))};
     }},
    {"index_add", Form::rows, 3,
     [](Probe& p) -> Tensors {
       return {index_add(p.x(), p.dim(), p.index({kFew}, limit(p)), p.x(resized(p, kFew)), p.variant() == 2 ? 2 : 1)};
     }},
    {"index_fill", Form::rows, 2,
     [](Probe& p) -> Tensors { return {index_fill(p.x(), p.dim(), p.index({kFew}, limit(p)), p.variant())}; }},
    {"index", Form::rows, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 2) return {index(p.x(), {p.mask(p.shape())})};
       std::vector<std::optional<Tensor>> indices(static_cast<std::size_t>(p.dim()), std::nullopt);
       indices.emplace_back(p.index({kFew}, limit(p)));
       return {index(p.x(), indices)};
     }},
    {"index_put", Form::rows, 2,
     [](Probe& p) -> Tensors {
       const Tensor rows = p.index({kFew}, p.rank() == 0 ? 1 : p.size(0));
       Shape values = p.shape();
       if (p.rank() > 0) values[0] = kFew;
       return {index_put(p.x(), {rows}, p.x(values), p.variant() == 1)};
     }},
    {"nonzero", Form::rows, 1, [](Probe& p) -> Tensors { return {nonzero(p.x())}; }},
    {"masked_select", Form::rows, 1, [](Probe& p) -> Tensors { return {masked_select(p.x(), p.mask(p.shape()))}; }},
    {"masked_scatter", Form::rows, 1,
     [](Probe& p) -> Tensors { return {masked_scatter(p.x(), p.mask(p.shape()), p.x())}; }},
};

}  // namespace

std::span<const CheckOp> check_indexing_ops() {
  return kIndexingOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
