// Element types of tensors. A DType is a value; dtype_of<T>() connects it to C++ types.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// The element types of tensors. All but the last five compute; those are read from files, viewed, copied, moved,
/// printed and saved, and refuse arithmetic and casts with DTypeError (is_storage_only).
enum class DType : std::uint8_t {
  boolean, u8, i8, i16, i32, i64, u32, f16, bf16, f32, f64,  //
  u16, u64, f8e4m3, f8e5m2, complex64
};

inline constexpr int kDTypeCount = 16;

/// IEEE binary16, as its bits. Arithmetic happens in tensors; convert with to_f16 / to_f32.
struct Float16 {
  std::uint16_t bits = 0;
  friend bool operator==(Float16, Float16) = default;
};

/// bfloat16: the upper half of a binary32, as its bits.
struct BFloat16 {
  std::uint16_t bits = 0;
  friend bool operator==(BFloat16, BFloat16) = default;
};

/// 8-bit floats of files (OCP 8-bit floating point: E4M3 without infinities, E5M2 with), as their bits.
struct Float8E4M3 {
  std::uint8_t bits = 0;
  friend bool operator==(Float8E4M3, Float8E4M3) = default;
};
struct Float8E5M2 {
  std::uint8_t bits = 0;
  friend bool operator==(Float8E5M2, Float8E5M2) = default;
};

/// Rounds to nearest even; NaN becomes the one quiet NaN of the format.
LOCKSTEP_API Float16 to_f16(float value);
LOCKSTEP_API BFloat16 to_bf16(float value);
LOCKSTEP_API float to_f32(Float16 value);
LOCKSTEP_API float to_f32(BFloat16 value);
/// Exact.
LOCKSTEP_API float to_f32(Float8E4M3 value);
LOCKSTEP_API float to_f32(Float8E5M2 value);

/// "f32", "bool", ... as printed and parsed everywhere (also safetensors-like, but lower case).
LOCKSTEP_API std::string_view name_of(DType dtype);
/// The inverse of name_of. Throws DTypeError naming `text` and the known names.
LOCKSTEP_API DType parse_dtype(std::string_view text);

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
    case DType::i8:
    case DType::f8e4m3:
    case DType::f8e5m2: return 1;
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16: return 2;
    case DType::i32:
    case DType::u32:
    case DType::f32: return 4;
    case DType::i64:
    case DType::u64:
    case DType::complex64:
    case DType::f64: return 8;
  }
  return 0;
}

/// Whether tensors of this type hold values but do not compute: u16, u64, f8e4m3, f8e5m2, complex64.
constexpr bool is_storage_only(DType dtype) { return dtype >= DType::u16; }

/// The floats that compute.
constexpr bool is_float(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

/// Integers that compute: bool and storage-only types are neither integers nor floats.
constexpr bool is_integer(DType dtype) {
  return !is_float(dtype) && dtype != DType::boolean && !is_storage_only(dtype);
}

namespace detail {
template <typename T>
struct DTypeOf;
template <> struct DTypeOf<bool> { static constexpr DType value = DType::boolean; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct DTypeOf<std::int16_t> { static constexpr DType value = DType::i16; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<std::uint32_t> { static constexpr DType value = DType::u32; };
template <> struct DTypeOf<Float16> { static constexpr DType value = DType::f16; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<std::uint16_t> { static constexpr DType value = DType::u16; };
template <> struct DTypeOf<std::uint64_t> { static constexpr DType value = DType::u64; };
template <> struct DTypeOf<Float8E4M3> { static constexpr DType value = DType::f8e4m3; };
template <> struct DTypeOf<Float8E5M2> { static constexpr DType value = DType::f8e5m2; };
template <> struct DTypeOf<std::complex<float>> { static constexpr DType value = DType::complex64; };
}  // namespace detail

/// C++ types that are tensor elements.
template <typename T>
concept Element = requires { detail::DTypeOf<T>::value; };

template <Element T>
constexpr DType dtype_of() {
  return detail::DTypeOf<T>::value;
}

}  // namespace v0
}  // namespace lockstep
