// The table of the check: every public op, one row each, by families. A row says which shapes the op takes, how many
// variants of its attributes there are, and calls it with operands of the probe. To add an op, add a row.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include <lockstep/ops.h>

#include "cli/check/probe.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

/// Which shapes the probes of an op have (shapes.cpp).
enum class Form : std::uint8_t {
  elementwise,  ///< any rank and length
  rows,         ///< reductions, scans, sorts: along long and short dimensions
  small,        ///< results grow faster than operands
  matrix,       ///< [m, k, n] of a product
  signal,       ///< [N, C, L]
  image,        ///< [N, C, H, W]
  volume,       ///< [N, C, D, H, W]
  sequence,     ///< [L, N, C]
};

inline constexpr int kDims = 3;  ///< variants of an op along a dimension: the last, the first, the second (Probe::dim)

struct CheckOp {
  const char* name;  ///< as declared in include/lockstep/ops; those of fft.h and linalg.h with their namespace
  Form form;
  int variants;
  Tensors (*run)(Probe& probe);
  Domain domain = Domain::any;  ///< of the floats of its gradient; others are tried where it has no values there
};

std::span<const CheckOp> check_activation_ops();
std::span<const CheckOp> check_attention_ops();
std::span<const CheckOp> check_contraction_ops();
std::span<const CheckOp> check_creation_ops();
std::span<const CheckOp> check_elementwise_ops();
std::span<const CheckOp> check_encoding_ops();
std::span<const CheckOp> check_fft_ops();
std::span<const CheckOp> check_image_ops();
std::span<const CheckOp> check_indexing_ops();
std::span<const CheckOp> check_linalg_ops();
std::span<const CheckOp> check_loss_ops();
std::span<const CheckOp> check_normalization_ops();
std::span<const CheckOp> check_order_ops();
std::span<const CheckOp> check_pointwise_ops();
std::span<const CheckOp> check_pooling_ops();
std::span<const CheckOp> check_recurrent_ops();
std::span<const CheckOp> check_reduction_ops();
std::span<const CheckOp> check_scan_ops();
std::span<const CheckOp> check_shape_ops();
std::span<const CheckOp> check_statistics_ops();

/// All families, in the order of their names.
std::vector<CheckOp> all_check_ops();

/// How many points: three, a choice of sizes and layouts, or every combination.
enum class Extent : std::uint8_t { brief, quick, full };
const char* name_of(Extent extent);

/// In which numerics operands of `dtype` are also tried: blocked where an op is made of products of matrices, q8 where it
/// multiplies packed weights.
std::vector<Numerics> numerics_beside_exact(const CheckOp& op, DType dtype);

/// The points at which an op is tried.
std::vector<Point> points_of(const CheckOp& op, Extent extent);

// Results of ops that have two.
inline Tensors both(const ValuesIndices& result) {
  return {result.values, result.indices};
}
inline Tensors both(const std::pair<Tensor, Tensor>& result) {
  return {result.first, result.second};
}

// Calls by their form, for rows without attributes.
template <Tensor (*op)(const Operand&)> Tensors unary(Probe& p) {
  return {op(p.x())};
}
/// Variants: equal shapes, a broadcast row, a broadcast column, a scalar at either side.
constexpr int kBinaryVariants = 5;
inline Tensors binary_variant(Probe& p, Tensor (*op)(const Operand&, const Operand&)) {
  const Tensor a = p.x();
  Shape other = p.shape();
  switch (p.variant()) {
    case 0: return {op(a, p.x())};
    case 1: return {op(a, p.x(p.rank() == 0 ? Shape{} : Shape{p.size(p.rank() - 1)}))};
    case 2:
      if (p.rank() > 0) other[p.rank() - 1] = 1;
      return {op(a, p.x(other))};
    case 3: return {op(a, 3)};
    default: return {op(2, a)};
  }
}
template <Tensor (*op)(const Operand&, const Operand&)> Tensors binary(Probe& p) {
  return binary_variant(p, op);
}
template <Tensor (*op)(const Operand&, const Dims&, bool)> Tensors reduction(Probe& p) {
  if (p.variant() == 2) return {op(p.x(), {}, false)};
  return {op(p.x(), {p.dim()}, p.variant() == 1)};
}
template <Tensor (*op)(const Operand&, int)> Tensors along_dim(Probe& p) {
  return {op(p.x(), p.dim())};
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
