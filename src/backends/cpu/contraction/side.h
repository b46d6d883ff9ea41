// One operand of a contraction, ready to be packed.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/contraction/geometry.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

struct Side {
  int slot = 0;
  DType dtype = DType::f32;
  Encoding encoding = Encoding::dense;
  bool flush = false;  ///< subnormals of this operand read as zeros of their sign
  std::uint64_t fill = 0;
  Geometry geometry;
  /// How panels are filled. `along_outer`: one row of a panel at a time; `along_k`: one lane at a time, then
  /// transposed; `by_element`: views with inserted zeros, and packed blocks whose neighbours are not along k.
  enum class Order : std::uint8_t { along_outer, along_k, by_element };
  Order order = Order::along_outer;

  /// f32 that can be read where it lies.
  bool is_plain_f32() const { return dtype == DType::f32 && encoding == Encoding::dense; }
  /// Floats of 16 bits, one by one.
  bool is_half() const { return (dtype == DType::f16 || dtype == DType::bf16) && encoding == Encoding::dense; }
};

/// Whether elements of the operand may read as f32 subnormals, which then become zeros of their sign. Where not,
/// packing takes them as they are. For all but two dtypes that needs no look at the data: integers are whole numbers,
/// and the smallest f16 subnormal, 2^-24, is normal as f32.
bool may_hold_subnormals(const Input& operand);

/// `batch`, `outer` and `k`: dims of the operand's view.
Side make_side(const Input& operand, const std::vector<int>& batch, const std::vector<int>& outer,
               const std::vector<int>& k);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
