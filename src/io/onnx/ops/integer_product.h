// Exact products of small integers, less their zero points, with weights of bytes, which stay bytes: no wider copy of a
// weight is made, and backends may multiply four bytes at a time.
#pragma once

#include <vector>

#include <lockstep/tensor.h>

#include "io/onnx/operator.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// A matrix [k, n] of bytes and what belongs to them. Computed of weights alone.
struct ByteWeight {
  Tensor bytes;  ///< i8 or u8
  Tensor sums;   ///< i32 [n], of a column
  Tensor zero;   ///< i32, of all columns or one each; undefined: 0
};

/// Whether a weight has this form: a matrix of bytes with one zero point, or one a column, or none.
bool has_byte_form(const Tensor& weight, const Tensor& zero);
/// `zero`: undefined where every zero point is 0.
ByteWeight byte_weight(const Tensor& weight, const Tensor& zero);
/// Whether the zero points in an input of a node are known to be 0, or it is absent.
bool is_zero(const Call& call, std::size_t input);

/// a [..., k], of u8, less its zero point, which is one number or one a row, times the weight: i32 [..., n].
Tensor times_bytes(const Tensor& a, const Tensor& zero, const ByteWeight& weight);

/// `a` less its zero point times input `weight` of a node less input `zero`: i32.
Tensor integer_product(const Call& call, const Tensor& a, const Tensor& a_zero, std::size_t weight, std::size_t zero);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
