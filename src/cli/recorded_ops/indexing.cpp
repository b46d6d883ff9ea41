#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

template <Tensor (*op)(const Operand&, int, const Tensor&)> Tensors select_along(Arguments& a) {
  return {op(a[0], dim_of(a), a[1])};
}

template <Tensor (*op)(const Operand&, int, const Tensor&, const Tensor&)> Tensors write_along(Arguments& a) {
  return {op(a[0], dim_of(a), a[1], a[2])};
}

template <Tensor (*op)(const Operand&, const Tensor&)> Tensors with_tensor(Arguments& a) {
  return {op(a[0], a[1])};
}

Tensors call_scatter(Arguments& a) {
  if (a.size() == 2) return {scatter(a[0], dim_of(a), a[1], a.real("value", 0))};
  return {scatter(a[0], dim_of(a), a[1], a[2])};
}

Tensors call_scatter_reduce(Arguments& a) {
  const std::string name = a.text("reduce", "sum");
  const ReduceMode mode = name == "sum"    ? ReduceMode::sum
                          : name == "prod" ? ReduceMode::prod
                          : name == "mean" ? ReduceMode::mean
                          : name == "amax" ? ReduceMode::amax
                                           : ReduceMode::amin;
  return {scatter_reduce(a[0], dim_of(a), a[1], a[2], mode, a.flag("include_self", true))};
}

Tensors call_index_add(Arguments& a) {
  return {index_add(a[0], dim_of(a), a[1], a[2], a.real("alpha", 1))};
}

Tensors call_index_fill(Arguments& a) {
  return {index_fill(a[0], dim_of(a), a[1], a.real("value", 0))};
}

Tensors call_take_along_dim(Arguments& a) {
  return {take_along_dim(a[0], a[1], a.optional_dim("dim"))};
}

// As in PyTorch the ids come first. The padding index matters to gradients only.
Tensors call_embedding(Arguments& a) {
  a.optional_dim("padding_idx");
  return {embedding(a[1], a[0])};
}

Tensors call_one_hot(Arguments& a) {
  const std::int64_t count = a.integer("num_classes", -1);
  return {one_hot(a[0], count < 0 ? std::nullopt : std::optional(count))};
}

// An index for each of the leading dimensions; `skip` of them are taken whole.
std::vector<std::optional<Tensor>> index_list(Arguments& a, std::size_t first, std::size_t last) {
  const std::int64_t skip = a.integer("skip", 0);
  if (skip < 0 || skip > kMaxRank) throw Unsupported("skip");
  std::vector<std::optional<Tensor>> indices(static_cast<std::size_t>(skip));
  for (std::size_t i = first; i < last; ++i) indices.emplace_back(a[i]);
  return indices;
}

Tensors call_index(Arguments& a) {
  return {index(a[0], index_list(a, 1, a.size()))};
}

Tensors call_index_put(Arguments& a) {
  return {index_put(a[0], index_list(a, 2, a.size()), a[1], a.flag("accumulate"))};
}

Tensors call_nonzero(Arguments& a) {
  return {nonzero(a[0])};
}

Tensors call_masked_scatter(Arguments& a) {
  return {masked_scatter(a[0], a[1], a[2])};
}

constexpr RecordedOp kIndexingOps[] = {
    {"embedding", kMoves, call_embedding},
    {"gather", kMoves, select_along<gather>},
    {"index", kMoves, call_index},
    {"index_add", kComputes, call_index_add},
    {"index_copy", kMoves, write_along<index_copy>},
    {"index_fill", kMoves, call_index_fill},
    {"index_put", kComputes, call_index_put},
    {"index_select", kMoves, select_along<index_select>},
    {"masked_scatter", kMoves, call_masked_scatter},
    {"masked_select", kMoves, with_tensor<masked_select>},
    {"nonzero", kMoves, call_nonzero},
    {"one_hot", kMoves, call_one_hot},
    {"scatter", kMoves, call_scatter},
    {"scatter_add", kComputes, write_along<scatter_add>},
    {"scatter_reduce", kComputes, call_scatter_reduce},
    {"take", kMoves, with_tensor<take>},
    {"take_along_dim", kMoves, call_take_along_dim},
};

}  // namespace

std::span<const RecordedOp> indexing_ops() {
  return kIndexingOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
