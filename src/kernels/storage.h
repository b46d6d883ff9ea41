// Elements in memory: words (the bits, zero extended) and what they mean in the compute type of their dtype.
// Scalar code; a backend's own loads and stores must agree with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lockstep/dtype.h>
#include <lockstep/encoding.h>

#include "core/elements.h"
#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {

/// The bits of element `index`, zero extended.
inline std::uint64_t load_word(DType dtype, const std::byte* data, std::int64_t index) {
  std::uint64_t word = 0;  // little endian, as every file format and device of this library
  const std::size_t size = size_of(dtype);
  std::memcpy(&word, data + static_cast<std::size_t>(index) * size, size);
  return word;
}

/// What an encoding's blocks say of an element (kernels/encodings.h).
struct BlockGroup {
  float scale = 0;
  int factor = 0;
  float offset = 0;
  int share = 0;
};
inline BlockGroup load_group(Encoding encoding, const std::byte* data, std::int64_t index) {
  BlockGroup group;
  switch (encoding) {
    case Encoding::dense: break;
#define ENCODING(name, ...)                                                                           \
  case Encoding::name:                                                                                \
    scalar::group_##name(data, index, group.scale, group.factor, group.offset, group.share); \
    break;
#define FLOATS(name, ...) \
  case Encoding::name: break;
#define NARROW(name, ...) \
  case Encoding::name: break;
#include <lockstep/encodings.def>
#undef ENCODING
  }
  return group;
}
/// Of two f16 numbers of a block the second is that of offsets.
constexpr bool has_offsets(Encoding encoding) {
  switch (encoding) {
    case Encoding::dense: break;
#define ENCODING(name, elements, bytes, first_half, halves, ...) \
  case Encoding::name: return (halves) == 2;
#define FLOATS(name, ...) \
  case Encoding::name: break;
#define NARROW(name, ...) \
  case Encoding::name: break;
#include <lockstep/encodings.def>
#undef ENCODING
  }
  return false;
}
/// Elements that share a factor.
constexpr int group_size(Encoding encoding) {
  return encoding == Encoding::q2_k || encoding == Encoding::q3_k || encoding == Encoding::q6_k ? 16 : 32;
}
inline int load_code(Encoding encoding, const std::byte* data, std::int64_t index) {
  switch (encoding) {
    case Encoding::dense: break;
#define ENCODING(name, ...) \
  case Encoding::name: return scalar::code_##name(data, index);
#define FLOATS(name, ...) \
  case Encoding::name: break;
#define NARROW(name, ...) \
  case Encoding::name: break;
#include <lockstep/encodings.def>
#undef ENCODING
  }
  return 0;
}

inline void store_word(DType dtype, std::byte* data, std::int64_t index, std::uint64_t word) {
  const std::size_t size = size_of(dtype);
  std::memcpy(data + static_cast<std::size_t>(index) * size, &word, size);
}

/// The value of an element as operand (docs/numerics.md section 1): exact, subnormals of f32 and bf16 read as zero.
/// T is the compute type of `dtype`, or a wider integer type.
template <typename T> T decode(DType dtype, std::uint64_t word) {
  const auto low = static_cast<std::uint32_t>(word);
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return static_cast<T>(low & 0xffU);
    case DType::i8: return static_cast<T>(static_cast<std::int8_t>(low));
    case DType::i16: return static_cast<T>(static_cast<std::int16_t>(low));
    case DType::i32: return static_cast<T>(static_cast<std::int32_t>(low));
    case DType::u32: return static_cast<T>(low);
    case DType::i64: return static_cast<T>(static_cast<std::int64_t>(word));
    case DType::f16: return static_cast<T>(scalar::decode_f16(low));
    case DType::bf16: return static_cast<T>(scalar::decode_bf16(low));
    case DType::f32: return static_cast<T>(scalar::operand_f32(FROM_BITS(low)));
    case DType::f64: return static_cast<T>(FROM_BITS64(word));
    case DType::u16:
    case DType::u64:
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::complex64: break;  // never in kernels: kernel_dtype
  }
  return T(0);
}

/// The bits of element `index` that may be packed, as a value of `dtype`.
inline std::uint64_t load_word(Encoding encoding, DType dtype, const std::byte* data, std::int64_t index) {
  switch (encoding) {
    case Encoding::dense: return load_word(dtype, data, index);
#define ENCODING(name, ...) \
  case Encoding::name: return scalar::word_##name(data, index);
#define FLOATS(name, ...) ENCODING(name)
#define NARROW(name, held, ...) \
  case Encoding::name:          \
    return BITS(scalar::canonical_f32(decode<float>(DType::held, load_word(DType::held, data, index))));
#include <lockstep/encodings.def>
#undef ENCODING
  }
  return 0;
}

/// The bits of a value in the compute type of `dtype`. Floats round to nearest even; integers lose their upper bits.
inline std::uint64_t encode(DType dtype, float value) {
  switch (dtype) {
    case DType::f16: return scalar::encode_f16(value);
    case DType::bf16: return scalar::encode_bf16(value);
    case DType::boolean:
    case DType::u8:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::u32:
    case DType::f32:
    case DType::f64:
    case DType::u16:
    case DType::u64:
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::complex64: break;
  }
  return BITS(value);
}
inline std::uint64_t encode(DType, double value) {
  return BITS64(value);
}
inline std::uint64_t encode(DType dtype, std::int64_t value) {
  const std::size_t bits = 8 * size_of(dtype);
  const auto word = static_cast<std::uint64_t>(value);
  return bits == 64 ? word : word & ((std::uint64_t{1} << bits) - 1);
}
inline std::uint64_t encode(DType dtype, std::int32_t value) {
  return encode(dtype, std::int64_t{value});
}

/// Whether the bits of an element are free of f32/bf16 subnormals, so that arithmetic can read them as they are.
inline bool is_canonical(DType dtype, std::uint64_t bits) {
  if (!zeroes_subnormals(dtype)) return true;
  const std::uint64_t magnitude = bits & ((std::uint64_t{1} << (8 * size_of(dtype) - 1)) - 1);
  const std::uint64_t smallest_normal = std::uint64_t{1} << (limits_of(dtype).digits - 1);
  return magnitude == 0 || magnitude > smallest_normal;
}

}  // namespace v0
}  // namespace lockstep
