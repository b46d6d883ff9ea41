// The families of recorded ops, a table in a file each, and what they share: calls of ops by their form.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <lockstep/ops.h>

#include "cli/recorded_ops/recorded_op.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

using Tensors = std::vector<Tensor>;

constexpr bool kComputes = false;
constexpr bool kMoves = true;

// The tables, one file each.
std::span<const RecordedOp> activation_ops();
std::span<const RecordedOp> attention_ops();
std::span<const RecordedOp> contraction_ops();
std::span<const RecordedOp> elementwise_ops();
std::span<const RecordedOp> fft_ops();
std::span<const RecordedOp> image_ops();
std::span<const RecordedOp> indexing_ops();
std::span<const RecordedOp> linalg_ops();
std::span<const RecordedOp> loss_ops();
std::span<const RecordedOp> normalization_ops();
std::span<const RecordedOp> order_ops();
std::span<const RecordedOp> pointwise_ops();
std::span<const RecordedOp> pooling_ops();
std::span<const RecordedOp> recurrent_ops();
std::span<const RecordedOp> reduction_ops();
std::span<const RecordedOp> shape_ops();

inline int dim_of(Arguments& a, const char* name = "dim") {
  const std::optional<int> dim = a.optional_dim(name);
  if (!dim) throw Unsupported("no dim");
  return *dim;
}

template <Tensor (*op)(const Operand&)> Tensors unary(Arguments& a) {
  return {op(a[0])};
}

template <Tensor (*op)(const Operand&, const Operand&)> Tensors binary(Arguments& a) {
  return {op(a[0], a[1])};
}

template <Tensor (*op)(const Operand&, const Dims&, bool)> Tensors reduction(Arguments& a) {
  return {op(a[0], Dims(a.sizes("dim", {})), a.flag("keepdim"))};
}

template <Tensor (*op)(const Operand&, int)> Tensors along_dim(Arguments& a) {
  return {op(a[0], dim_of(a))};
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
