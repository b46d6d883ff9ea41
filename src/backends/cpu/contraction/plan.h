// A ContractionKernel normalised for the CPU: rows x columns per batch, whatever the kernel called them.
//
// Batch dimensions in which one operand does not change join the rows or columns of the other, so that a weight shared
// by a batch is packed once. Operands commute in fma: when its shape fits the vectors better, b supplies the rows.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/cpu/contraction/side.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

constexpr std::int64_t divide_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit;
}
constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return divide_up(value, unit) * unit;
}

/// Maps the linear index of some batch dimensions to the kernel's linear batch index.
struct BatchMap {
  Shape sizes;
  Shape weights;
  bool identity() const;  ///< the mapped index is the index
  std::int64_t operator()(std::int64_t index) const;
};

/// The epilogue only stores: the tile may be computed in the output itself.
struct DirectOutput {
  int slot = 0;
  std::int64_t offset = 0;
  Shape batch_strides;          ///< of Plan::batch
  std::int64_t row_stride = 0;  ///< columns are contiguous
};

struct Plan {
  ComputeType type = ComputeType::f32;
  Numerics numerics = Numerics::exact;
  Shape batch;  ///< batch dimensions in which both operands change
  std::int64_t batches = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t k = 0;
  Side row_side;
  Side column_side;
  bool swapped = false;  ///< rows are the kernel's n, columns its m

  // Where results go, in the kernel's own words.
  std::int64_t m = 1;
  std::int64_t n = 1;
  BatchMap batch_map;    ///< of `batch`
  BatchMap m_batch_map;  ///< of batch dimensions that joined m
  BatchMap n_batch_map;  ///< of batch dimensions that joined n
  std::optional<DirectOutput> direct;
};

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
