// Element types of tensors. A DType is a value; dtype_of<T>() connects it to C++ types.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// The element types of tensors: boolean, u8, i8, i16, i32, i64, u32, f16, bf16, f32, f64 compute. u16, u64, f8e4m3,
/// f8e5m2 and complex64 are read from files, viewed, copied, moved, printed and saved, and refuse arithmetic and casts
/// with DTypeError (is_storage_only). dtypes.def says all that is known of each.
enum class DType : std::uint8_t {
#define LOCKSTEP_DTYPE(name, ...) name,
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
};

inline constexpr int kDTypeCount = 0
#define LOCKSTEP_DTYPE(name, ...) +1
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
    ;

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
/// The same, with 5 bits of exponent and 2 of mantissa.
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

namespace detail {
enum class DTypeKind : std::uint8_t { boolean, unsigned_integer, signed_integer, floating, complex };
enum class DTypeUse : std::uint8_t { computes, stored };

struct DTypeRow {
  std::uint8_t bytes;
  DTypeKind kind;
  DTypeUse use;
};
inline constexpr DTypeRow kDTypeRows[] = {
#define LOCKSTEP_DTYPE(name, text, element, bytes, kind, use, ...) {bytes, DTypeKind::kind, DTypeUse::use},
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
};
constexpr const DTypeRow& row_of(DType dtype) { return kDTypeRows[static_cast<std::size_t>(dtype)]; }

template <typename T>
struct DTypeOf;
#define LOCKSTEP_DTYPE(name, text, element, bytes, ...)                           \
  template <> struct DTypeOf<element> { static constexpr DType value = DType::name; }; \
  static_assert(sizeof(element) == bytes);
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
}  // namespace detail

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) { return detail::row_of(dtype).bytes; }

/// Whether tensors of this type hold values but do not compute: u16, u64, f8e4m3, f8e5m2, complex64.
constexpr bool is_storage_only(DType dtype) { return detail::row_of(dtype).use == detail::DTypeUse::stored; }

/// The floats that compute.
constexpr bool is_float(DType dtype) {
  return detail::row_of(dtype).kind == detail::DTypeKind::floating && !is_storage_only(dtype);
}

/// Integers that compute: bool and storage-only types are neither integers nor floats.
constexpr bool is_integer(DType dtype) {
  return !is_float(dtype) && dtype != DType::boolean && !is_storage_only(dtype);
}

/// C++ types that are tensor elements.
template <typename T>
concept Element = requires { detail::DTypeOf<T>::value; };

template <Element T>
constexpr DType dtype_of() {
  return detail::DTypeOf<T>::value;
}

}  // namespace v0
}  // namespace lockstep
