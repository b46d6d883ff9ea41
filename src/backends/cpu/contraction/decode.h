// Elements as the contraction multiplies them: every storage type converts exactly to its compute type, and f32 and
// bf16 subnormals read as the zero of their sign.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include <lockstep/dtype.h>

namespace lockstep {
inline namespace v0 {
namespace contraction {

constexpr std::uint32_t without_subnormal(std::uint32_t bits) {
  return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
}

/// Exact; f16 subnormals become normal f32 numbers.
inline float decode_f16(std::uint16_t half) {
  // Without branches, so that loops over it become vectors.
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  const std::uint32_t shifted = magnitude << 13;
  const std::uint32_t tiny = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f);
  const std::uint32_t normal = magnitude >= 0x0400u ? shifted + 0x38000000u : tiny;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00u ? shifted | 0x7f800000u : normal));
}

/// `flush` concerns f32 and bf16 only.
template <typename T, typename Source> T decode(Source value, bool flush) {
  if constexpr (std::is_same_v<Source, float>) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<T>(std::bit_cast<float>(flush ? without_subnormal(bits) : bits));
  } else if constexpr (std::is_same_v<Source, BFloat16>) {
    const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
    return static_cast<T>(std::bit_cast<float>(flush ? without_subnormal(bits) : bits));
  } else if constexpr (std::is_same_v<Source, Float16>) {
    return static_cast<T>(decode_f16(value.bits));
  } else {
    return static_cast<T>(value);
  }
}

/// Calls fn with a value of the type in which `dtype` is stored, if it converts exactly to T. Returns whether it does.
template <typename T, typename Fn> bool with_source_type(DType dtype, const Fn& fn) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (dtype) {
      case DType::f32: fn(float{}); return true;
      case DType::f16: fn(Float16{}); return true;
      case DType::bf16: fn(BFloat16{}); return true;
      case DType::f64:
        if constexpr (std::is_same_v<T, double>) {
          fn(double{});
          return true;
        }
        return false;
      case DType::boolean:
      case DType::u8:
      case DType::i8:
      case DType::i16:
      case DType::i32:
      case DType::i64:
      case DType::u32:
      case DType::u16:
      case DType::u64:
      case DType::f8e4m3:
      case DType::f8e5m2:
      case DType::complex64: return false;
    }
  } else {
    switch (dtype) {
      case DType::boolean:
      case DType::u8: fn(std::uint8_t{}); return true;
      case DType::i8: fn(std::int8_t{}); return true;
      case DType::i16: fn(std::int16_t{}); return true;
      case DType::i32: fn(std::int32_t{}); return true;
      case DType::u32:
      case DType::i64:
        if constexpr (sizeof(T) == 8) {
          if (dtype == DType::u32) {
            fn(std::uint32_t{});
          } else {
            fn(std::int64_t{});
          }
          return true;
        }
        return false;
      case DType::f16:
      case DType::bf16:
      case DType::f32:
      case DType::f64:
      case DType::u16:
      case DType::u64:
      case DType::f8e4m3:
      case DType::f8e5m2:
      case DType::complex64: return false;
    }
  }
  return false;
}

template <typename T> T decode_fill(DType dtype, std::uint64_t bits, bool flush) {
  T value{};
  with_source_type<T>(dtype, [&](auto source) {
    using Source = decltype(source);
    if constexpr (sizeof(Source) == 1) value = decode<T>(static_cast<Source>(bits & 0xff), flush);
    if constexpr (sizeof(Source) == 2)
      value = decode<T>(std::bit_cast<Source>(static_cast<std::uint16_t>(bits)), flush);
    if constexpr (sizeof(Source) == 4)
      value = decode<T>(std::bit_cast<Source>(static_cast<std::uint32_t>(bits)), flush);
    if constexpr (sizeof(Source) == 8) value = decode<T>(std::bit_cast<Source>(bits), flush);
  });
  return value;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
