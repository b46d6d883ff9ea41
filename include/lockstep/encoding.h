// How the elements of a tensor lie in memory: one by one, or packed (in blocks, or in fewer bits), and then decoded
// where they are read.
// A packed tensor has the dtype, shape and views of its values; few ops read it (Tensor::encoding).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/dtype.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

enum class Encoding : std::uint8_t {
  dense,  ///< One element after another, row-major.
#define ENCODING(name, ...) name,
#define FLOATS(name, ...) name,
#define NARROW(name, ...) name,
#include <lockstep/encodings.def>
#undef ENCODING
};

/// What is known of an encoding: a row of encodings.def.
struct EncodingInfo {
  std::string_view name;
  std::int64_t elements;  ///< Of a block; the last dimension is a multiple of it.
  std::size_t bytes;      ///< Of a block.
  std::size_t first_half;  ///< The byte where its f16 numbers begin, side by side.
  std::size_t halves;      ///< How many it holds.
  DType dtype;            ///< Of the values, which are exact in it.
  std::string_view what;
};

/// Of a packed encoding; `dense` has no blocks.
LOCKSTEP_API const EncodingInfo& info_of(Encoding encoding);
/// Whether elements are packed in blocks; else each lies in memory on its own.
constexpr bool is_blocks(Encoding encoding) {
  switch (encoding) {
    case Encoding::dense: return false;
#define ENCODING(name, ...) \
  case Encoding::name: return true;
#define FLOATS(name, ...) ENCODING(name)
#define NARROW(name, ...) \
  case Encoding::name: return false;
#include <lockstep/encodings.def>
#undef ENCODING
  }
  return false;
}
/// Whether blocks hold floats of 8 bits and a scale; else integers, or no blocks.
constexpr bool is_floats(Encoding encoding) {
  switch (encoding) {
#define ENCODING(...)
#define FLOATS(name, ...) case Encoding::name:
#include <lockstep/encodings.def>
#undef ENCODING
    return true;
    default: return false;
  }
}
/// Whether they are of the dtype f8e4m3.
constexpr bool holds_e4m3(Encoding encoding) {
  return is_floats(encoding) && encoding != Encoding::e5m2;
}
/// The dtype of the elements in memory, where the values are of `dtype`; of blocks `dtype`.
constexpr DType held_dtype(Encoding encoding, DType dtype) {
  switch (encoding) {
    case Encoding::dense: return dtype;
#define ENCODING(name, ...) \
  case Encoding::name: return dtype;
#define FLOATS(name, ...) ENCODING(name)
#define NARROW(name, held, ...) \
  case Encoding::name: return DType::held;
#include <lockstep/encodings.def>
#undef ENCODING
  }
  return dtype;
}

/// "dense", "q8_0", ...
LOCKSTEP_API std::string_view name_of(Encoding encoding);
/// What people are shown of a tensor: "f32", "f32 (q8_0)", ...
LOCKSTEP_API std::string type_text(DType dtype, Encoding encoding);

/// Bytes of `elements` elements: whole blocks.
constexpr std::size_t encoded_bytes(Encoding encoding, DType dtype, std::int64_t elements) {
  switch (encoding) {
    case Encoding::dense: return static_cast<std::size_t>(elements) * size_of(dtype);
#define ENCODING(name, block, bytes, ...) \
  case Encoding::name:                           \
    return static_cast<std::size_t>((elements + (block)-1) / (block)) * (bytes);
#define FLOATS(name, codes, ...) ENCODING(name, __VA_ARGS__)
#define NARROW(name, held, ...) \
  case Encoding::name: return static_cast<std::size_t>(elements) * size_of(DType::held);
#include <lockstep/encodings.def>
#undef ENCODING
  }
  return 0;
}

}  // namespace v0
}  // namespace lockstep
