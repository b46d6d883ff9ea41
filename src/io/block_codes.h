// Matrices of integer codes with scales and offsets for groups of neighbours, as GPTQ, AWQ and MLX store weights.
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

}  // namespace io
}  // namespace v0
}  // namespace lockstep
