// Matrices of integer codes with scales and offsets for groups of neighbours, as GPTQ, AWQ and MLX store weights, and
// of floats of 8 bits with scales.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// Elements code * scale + offset, of the scale and offset of a row's group.
struct CodedMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t groups = 0;
  std::vector<std::int16_t> codes;     ///< [rows, columns]
  std::vector<std::int32_t> group_of;  ///< [columns], each in [0, groups)
  std::vector<float> scales;           ///< [rows, groups]
  std::vector<float> offsets;          ///< [rows, groups], or none
};

/// The elements, f32 [rows, columns]. With `packed` they lie in the smallest encoding that holds these very numbers
/// (q4_0, q5_0 or q8_0; with offsets q4_1 or q5_1), if there is one: 32 neighbours have a group in common, and scales
/// and offsets are f16 numbers. Else each is computed, the product rounded to f32, then the sum.
Tensor tensor_of(const CodedMatrix& matrix, bool packed);

/// Floats of 8 bits, each times the scale of its rectangle. Of those at the ends a part may be missing.
struct ScaledFloats {
  Tensor floats;              ///< f8e4m3 or f8e5m2 [rows, columns]
  std::int64_t tall = 1;      ///< rows of a rectangle
  std::int64_t wide = 1;      ///< columns
  std::vector<float> scales;  ///< of the rectangles, row-major
};

/// The elements, f32 [rows, columns]: products rounded to f32, of scales whose subnormals read as zero. With `packed`
/// they lie in blocks of e4m3 or e5m2 where each block has one scale.
Tensor tensor_of(const ScaledFloats& matrix, bool packed);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
