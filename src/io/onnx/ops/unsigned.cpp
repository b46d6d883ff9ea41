#include "io/onnx/ops/unsigned.h"

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// 2^63 as bits of i64: adding it, which wraps, changes the highest bit.
constexpr double kHighest = -0x1p63;

Tensor with_highest_changed(const Tensor& x) {
  return add(x, kHighest);
}
// Of i64 that hold u64.
Tensor half(const Tensor& x) {
  const Tensor shifted = shift_right(x, 1);
  return where(lt(x, 0), with_highest_changed(shifted), shifted);
}
Tensor less_u64(const Tensor& a, const Tensor& b) {
  return lt(with_highest_changed(a), with_highest_changed(b));
}
// By divisors below 2^63 half the dividend is divided, which is too small by at most 1 once doubled; larger ones go
// into the dividend once or not at all.
Tensor quotient_u64(const Tensor& a, const Tensor& b) {
  const Tensor doubled = shift_left(div(half(a), b, Rounding::trunc), 1);
  const Tensor rest = sub(a, mul(doubled, b));
  const Tensor once = logical_not(less_u64(where(lt(b, 0), a, rest), b)).to(DType::i64);
  return where(lt(b, 0), once, add(doubled, once));
}

Tensor unsigned_to(const Tensor& x, DType dtype) {
  const Tensor wide = widened(x);
  if (x.dtype() == DType::u16 || !is_float(dtype)) return wide.to(dtype);
  // A half whose last bit says that something was left out rounds as the whole does.
  const Tensor sticky = bitwise_or(half(wide), bitwise_and(wide, 1));
  return where(lt(wide, 0), mul(sticky.to(dtype), 2.0), wide.to(dtype));
}
Tensor to_unsigned(const Tensor& x, DType dtype) {
  if (dtype == DType::u16) return narrowed(x.to(DType::i32), dtype);
  if (!is_float(x.dtype())) return narrowed(x.to(DType::i64), dtype);
  const Tensor above = with_highest_changed(sub(x, 0x1p63).to(DType::i64));
  return narrowed(where(ge(x, 0x1p63), above, x.to(DType::i64)), dtype);
}

}  // namespace

Tensor widened(const Tensor& x) {
  if (x.dtype() == DType::u16) return bitwise_and(x.bitcast(DType::i16).to(DType::i32), 0xffff);
  return x.dtype() == DType::u64 ? x.bitcast(DType::i64) : x;
}
Tensor narrowed(const Tensor& x, DType dtype) {
  if (dtype == DType::u16 && x.dtype() == DType::i32) return x.to(DType::i16).bitcast(DType::u16);
  if (dtype == DType::u64 && x.dtype() == DType::i64) return x.bitcast(DType::u64);
  return x;
}

Tensor ordered(const Tensor& x) {
  return x.dtype() == DType::u64 ? with_highest_changed(widened(x)) : widened(x);
}
Tensor from_ordered(const Tensor& x, DType dtype) {
  return narrowed(dtype == DType::u64 ? with_highest_changed(x) : x, dtype);
}

Tensor unsigned_quotient(const Tensor& a, const Tensor& b) {
  const bool wide = a.dtype() == DType::u64;
  const Tensor x = widened(a), y = widened(b);
  return narrowed(wide ? quotient_u64(x, y) : div(x, y, Rounding::trunc), a.dtype());
}
Tensor unsigned_remainder(const Tensor& a, const Tensor& b) {
  const Tensor x = widened(a), y = widened(b);
  return narrowed(sub(x, mul(widened(unsigned_quotient(a, b)), y)), a.dtype());
}
Tensor unsigned_shift_right(const Tensor& a, const Tensor& b) {
  const Tensor x = widened(a), by = widened(b);
  if (a.dtype() == DType::u16) return narrowed(shift_right(x, by), a.dtype());
  return narrowed(where(eq(by, 0), x, shift_right(half(x), sub(by, 1))), a.dtype());
}

Tensor cast_to(const Tensor& x, DType dtype) {
  if (is_stored_unsigned(dtype)) return to_unsigned(widened(x), dtype);
  return is_stored_unsigned(x.dtype()) ? unsigned_to(x, dtype) : x.to(dtype);
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
