// Functions of integers.
#pragma once

namespace metal {

#define EMULATOR_INTEGER_FUNCTIONS(T)                                                                             \
  EMULATOR_INLINE T min(T x, T y) {                                                                               \
    return y < x ? y : x;                                                                                         \
  }                                                                                                               \
  EMULATOR_INLINE T max(T x, T y) {                                                                               \
    return x < y ? y : x;                                                                                         \
  }                                                                                                               \
  EMULATOR_INLINE T clamp(T x, T low, T high) {                                                                   \
    return min(max(x, low), high);                                                                                \
  }                                                                                                               \
  EMULATOR_INLINE T popcount(T x) {                                                                               \
    return T(__builtin_popcountl(std::make_unsigned_t<T>(x)));                                                    \
  }                                                                                                               \
  EMULATOR_INLINE T clz(T x) {                                                                                    \
    return x == 0 ? T(8 * sizeof(T)) : T(__builtin_clzl(std::make_unsigned_t<T>(x)) - (64 - 8 * int(sizeof(T)))); \
  }                                                                                                               \
  EMULATOR_INLINE T ctz(T x) {                                                                                    \
    return x == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzl(std::make_unsigned_t<T>(x)));                             \
  }                                                                                                               \
  EMULATOR_INLINE T mulhi(T x, T y) {                                                                             \
    return T((__int128(x) * __int128(y)) >> (8 * sizeof(T)));                                                     \
  }                                                                                                               \
  EMULATOR_INLINE T rotate(T x, T by) {                                                                           \
    typedef std::make_unsigned_t<T> U;                                                                            \
    const uint bits = 8 * sizeof(T), left = uint(by) % bits;                                                      \
    return T(U(U(x) << left) | U(U(x) >> ((bits - left) % bits)));                                                \
  }
EMULATOR_INTEGERS(EMULATOR_INTEGER_FUNCTIONS)

// clang-format off
#define EMULATOR_SIGNED_ABS(T) EMULATOR_INLINE T abs(T x) { return x < 0 ? T(0 - std::make_unsigned_t<T>(x)) : x; }
#define EMULATOR_UNSIGNED_ABS(T) EMULATOR_INLINE T abs(T x) { return x; }
// clang-format on
EMULATOR_SIGNED_ABS(char)
EMULATOR_SIGNED_ABS(short)
EMULATOR_SIGNED_ABS(int)
EMULATOR_SIGNED_ABS(long)
EMULATOR_UNSIGNED_ABS(uchar)
EMULATOR_UNSIGNED_ABS(ushort)
EMULATOR_UNSIGNED_ABS(uint)
EMULATOR_UNSIGNED_ABS(ulong)

}  // namespace metal
