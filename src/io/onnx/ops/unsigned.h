// u16 and u64, with which no op computes, as integers that one does: u16 as i32 of its value, u64 as i64 of its bits,
// so that sums, products and moves of bits wrap as they should. What depends on order or on division has functions of
// its own. Every other tensor is what it was.
#pragma once

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// The same bits as an integer that computes.
Tensor widened(const Tensor& x);
/// Back: the low bits of `x`. For results that are no integers (of comparisons), and other dtypes: `x`.
Tensor narrowed(const Tensor& x, DType dtype);

/// Integers in the order of the numbers that `x` stands for.
Tensor ordered(const Tensor& x);
/// Back to `dtype`.
Tensor from_ordered(const Tensor& x, DType dtype);

/// Quotient and remainder, truncating; both of one dtype, u16 or u64.
Tensor unsigned_quotient(const Tensor& a, const Tensor& b);
Tensor unsigned_remainder(const Tensor& a, const Tensor& b);
/// Zeros move in from above.
Tensor unsigned_shift_right(const Tensor& a, const Tensor& b);

/// x.to(dtype), also where one of the dtypes is u16 or u64: floats are the nearest ones, smaller integers wrap.
Tensor cast_to(const Tensor& x, DType dtype);

constexpr bool is_stored_unsigned(DType dtype) {
  return dtype == DType::u16 || dtype == DType::u64;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
