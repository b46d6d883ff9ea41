// Numbers as small integers with scales and zero points: what the operators that compute with them share. Integers are
// multiplied exactly; each scale is a rounding of its own.
#pragma once

#include <lockstep/tensor.h>

#include "io/onnx/operator.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// A scale or zero point beside a tensor of `rank` dimensions: one number for all, or one for each place of `dim`.
Tensor along(const Tensor& parameter, int rank, int dim);
/// Integers less their zero point, which is one number or one for each place of `dim`; undefined: 0. Bytes become i16,
/// which holds every difference and which contractions multiply in pairs and sum in i32; others become i32.
Tensor centred(const Tensor& x, const Tensor& zero, int dim);
/// The same of inputs of a node, which are computed once where they are weights. Once in an operator.
Tensor centred_weight(const Call& call, std::size_t input, std::size_t zero, int dim);
/// The numbers that integers stand for, with one scale and zero point for all.
Tensor dequantised(const Tensor& x, const Tensor& scale, const Tensor& zero);
/// Rounded to even, moved by the zero point, and held within the integers of the type.
Tensor quantised(const Call& call, const Tensor& quotient, const Tensor& zero, ElementType type);
/// The numbers as integers of the zero point's dtype (u8 without one), by one scale for all.
Tensor quantised_by(const Call& call, const Tensor& x, const Tensor& scale, const Tensor& zero);

/// Floats as u8, by a scale and zero point that their range gives: it holds 0, and all zeros have the scale 1.
struct Quantised {
  Tensor values, scale, zero;
};
Quantised quantised_by_range(const Call& call, const Tensor& x);

/// The 8-bit floats of `dtype` nearest to f32, halves to even. With `saturate` the largest one for all that is larger.
Tensor small_float(const Tensor& x, DType dtype, bool saturate);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
