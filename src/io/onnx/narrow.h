// Element types of less than a byte: integers of 4 and 2 bits, and float4e2m1. Files pack them, the first element in
// the lowest bits. No op computes with them, so a tensor holds each alone, in a dtype that has all its numbers, and a
// Value says of which type they are (value.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

enum class Narrow : std::uint8_t { none, u4, i4, f4e2m1, u2, i2 };

struct NarrowForm {
  int bits;
  DType dtype;  ///< That holds an element: u8, i8, f32.
  double least, most;
};
/// Of a type that is not `none`.
const NarrowForm& form_of(Narrow type);

/// Why an operator that refuses them cannot run.
inline constexpr const char* kNarrowRefused = "numbers of less than a byte";

/// What an operator does with inputs of such types.
enum class NarrowInputs : std::uint8_t {
  refused,  ///< It computes, and would not keep within the type.
  taken,    ///< It asks values for their types, or looks at sizes alone.
  kept,     ///< It moves the elements of its first input: outputs are of that type.
};

/// The bytes of `count` elements in the form's dtype, from packed ones: at least `count` times the bits.
std::vector<std::byte> unpacked(Narrow type, std::span<const std::byte> packed, std::size_t count);

/// Numbers of a dtype that computes as those of the type, in its form's dtype: integers lose their higher bits, floats
/// are the nearest, halves to even, held within the range; NaN, which no narrow type has, becomes 0.
Tensor to_narrow(const Tensor& x, Narrow type);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
