// The words of plain_forms.h in fewer instructions, for devices on which they give the same bits
// (Arithmetic::quick_floats, quick_halves, hasty_bf16): products of floats in place of masks of their words, and
// conversions of the language.
#pragma once

namespace lockstep {
inline namespace v0 {
namespace gpu {

// x, or the zero of its sign where its magnitude is not above a word: a factor of 1 or 0, which leaves NaN what it is.
inline constexpr const char* kQuickFloats = R"(#define CANONICAL_F32(x) quick_canonical(x)
#define FLUSHED_F32(x) flushed(x, 0x00800000u)
#define FLUSH_FACTOR(x, least) flush_factor(x, least)
#define ROUND_BF16(x) quick_bf16(x)
#define ANY_ROUND_BF16(x) quick_bf16(x)
#define NEAREST_BF16(x) nearest_value(x)
#define ENCODE_BF16(x) (floatBitsToUint(quick_bf16(x)) >> 16)
#define JOINED_BF16(floats2, j) (ENCODE_BF16(floats2[j]) | floatBitsToUint(quick_bf16(floats2[j + 1])))
#define LARGER(x, y) quick_larger(x, y)
#define SMALLER(x, y) quick_smaller(x, y)
float flush_factor(float x, uint least) {
  return abs(x) > uintBitsToFloat(least) ? 1.0 : 0.0;
}
float flushed(float x, uint least) {
  return x * flush_factor(x, least);
}
float quick_canonical(float x) {
  float result = flushed(x, 0x00800000u);
  return result == result ? result : uintBitsToFloat(0x7fc00000u);
}
float nearest_value(float x) {
  uint word = floatBitsToUint(x);
  word = (word + 0x7fffu + ((word >> 16) & 1u)) & 0xffff0000u;
  return uintBitsToFloat(x == x ? word : 0x7fc00000u);
}
// What rounds to 0x0080 becomes zero, too.
float quick_bf16(float x) {
  return nearest_value(flushed(x, 0x00808000u));
}
float quick_larger(float x, float y) {
  return y > x || y != y ? y : x;
}
float quick_smaller(float x, float y) {
  return y < x || y != y ? y : x;
}
)";

// With |x| below 2^112: 65535 x is rounded to the 24 bits of a float just where x is to 8, to even, too, so the rest of
// 65536 x is x rounded. Above, that product overflows, and the result is no number. Of -0 the first difference is 0,
// and the second one -0 again. (By two fused multiply-adds that sign costs an instruction, too, of those that NVIDIA's
// GPUs start half as many of; and signs before operands of those are instructions of their own.)
inline constexpr const char* kHastyFloats = R"(#define HASTY_BF16(x) hasty_value(flushed(x, 0x00808000u))
#define HASTY_NEAREST_BF16(x) hasty_value(x)
#define HASTY_LOOSE_BF16(x) loose_value(x)
#define LEAST_MAGNITUDE(least, x) min(least, abs(x))
#ifndef HASTY_GELU_TO_BF16
#define HASTY_GELU_TO_BF16(x) (abs(x) < uintBitsToFloat(0x7f800000u) ? ls_gelu_to_bf16(x) : uintBitsToFloat(0x7fc00000u))
#endif
#define JOINED_UPPER(floats2, j) ((floatBitsToUint(floats2[j]) >> 16) + floatBitsToUint(floats2[j + 1]))
#define STORE4_ROUNDED(a, i, floats4) Words2((a) + (uint64_t(int64_t(i)) << 1)).at = uvec2(JOINED_UPPER(floats4, 0), JOINED_UPPER(floats4, 2));
#define STORE8_ROUNDED(a, i, floats8) Words4((a) + (uint64_t(int64_t(i)) << 1)).at = uvec4(JOINED_UPPER(floats8, 0), JOINED_UPPER(floats8, 2), JOINED_UPPER(floats8, 4), JOINED_UPPER(floats8, 6));
float hasty_value(float x) {
  float far = x * 65536.0;
  return far - (far - x);
}
// The same in two: of -0 this makes 0, and from 2^112 on a number is infinite. The first one flushes as the second does,
// which a product would not.
float loose_value(float x) {
  return fma(x, 65536.0, fma(x, -65535.0, 0.0));
}
)";

inline constexpr const char* kPlainBf16Pairs =
    "#define JOINED_BF16(floats2, j) (ENCODE_BF16(floats2[j]) | (ENCODE_BF16(floats2[j + 1]) << 16))\n";

/// What kQuickHalves converts by: functions of the language, or types of 16 bits (Arithmetic::native_halves).
inline constexpr const char* kPackedHalves =
    "#define PACK_HALVES(floats2) packHalf2x16(floats2)\n#define FIRST_HALF(word) unpackHalf2x16(word).x\n";
inline constexpr const char* kNativeHalves = R"(#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define PACK_HALVES(floats2) packFloat2x16(f16vec2(floats2))
#define FIRST_HALF(word) float(unpackFloat2x16(word).x)
)";

// NVIDIA's compiler (580.159) takes a conversion of what was converted just before for nothing at all, and leaves the
// rounding out. So the word passes through a sum with a zero that no compiler knows: launches have one row of
// workgroups.
inline constexpr const char* kOpaqueHalves = R"(#define ROUND_F16(x) quick_half(opaque_half(x))
#define ANY_ROUND_F16(x) FIRST_HALF(opaque_half(x))
uint opaque_half(float x) {
  return PACK_HALVES(vec2(x, 0.0)) + gl_WorkGroupID.y * 0x10001u;
}
)";

/// Of kFloatHalves. A sum with 1/2 has 24 bits behind the point, as many as subnormal halves.
inline constexpr const char* kRoundedHalves = R"(#define ROUND_F16(x) half_value(x)
#define ANY_ROUND_F16(x) half_value(x)
float half_value(float x) {
  uint word = floatBitsToUint(x);
  uint magnitude = word & 0x7fffffffu;
  float small = (abs(x) + 0.5) - 0.5;
  uint large = (magnitude + 0xfffu + ((magnitude >> 13) & 1u)) & 0xffffe000u;
  large = magnitude >= 0x477ff000u ? 0x7f800000u : large;
  uint result = (magnitude < 0x38800000u ? floatBitsToUint(small) : large) | (word & 0x80000000u);
  return uintBitsToFloat(x == x ? result : 0x7fc00000u);
}
)";

inline constexpr const char* kQuickHalves = R"(#define DECODE_F16(word) quick_half(word)
#define ANY_DECODE_F16(word) FIRST_HALF(word)
#define ENCODE_F16(x) half_word(x)
#define JOINED_F16(floats2, j) half_words(vec4(floats2[j], floats2[j + 1], 0.0, 0.0), vec4(0.0)).x
#define STORE4_F16(a, i, floats4) Words2((a) + (uint64_t(int64_t(i)) << 1)).at = half_words(vec4(floats4[0], floats4[1], floats4[2], floats4[3]), vec4(0.0)).xy;
#define STORE8_F16(a, i, floats8) Words4((a) + (uint64_t(int64_t(i)) << 1)).at = half_words(vec4(floats8[0], floats8[1], floats8[2], floats8[3]), vec4(floats8[4], floats8[5], floats8[6], floats8[7]));
#define STORE4_SURE_F16(a, i, floats4) Words2((a) + (uint64_t(int64_t(i)) << 1)).at = uvec2(PACK_HALVES(vec2(floats4[0], floats4[1])), PACK_HALVES(vec2(floats4[2], floats4[3])));
#define STORE8_SURE_F16(a, i, floats8) Words4((a) + (uint64_t(int64_t(i)) << 1)).at = uvec4(PACK_HALVES(vec2(floats8[0], floats8[1])), PACK_HALVES(vec2(floats8[2], floats8[3])), PACK_HALVES(vec2(floats8[4], floats8[5])), PACK_HALVES(vec2(floats8[6], floats8[7])));
float quick_half(uint word) {
  float result = FIRST_HALF(word);
  return result == result ? result : uintBitsToFloat(0x7fc00000u);
}
uint half_word(float x) {
  uint word = PACK_HALVES(vec2(x, 0.0));
  return x == x ? word : 0x7e00u;
}
// A NaN is rare: its word is made ours where one of eight is above infinity.
uvec4 half_words(vec4 x, vec4 y) {
  uvec4 words = uvec4(PACK_HALVES(x.xy), PACK_HALVES(x.zw), PACK_HALVES(y.xy), PACK_HALVES(y.zw));
  uvec4 above = (words & 0x7fff7fffu) + 0x03ff03ffu;
  if (((above.x | above.y | above.z | above.w) & 0x80008000u) != 0u) {
    uvec4 nan = ((above >> 15) & 0x00010001u) * 0xffffu;
    words = (words & ~nan) | (nan & 0x7e007e00u);
  }
  return words;
}
)";

inline constexpr const char* kFloatHalves = R"(#define DECODE_F16(word) float_of_half(word)
#define ANY_DECODE_F16(word) any_float_of_half(word)
#define ENCODE_F16(x) half_word(x)
float any_float_of_half(uint word) {
  uint bits = (word & 0x7fffu) << 13;
  float small = uintBitsToFloat(bits + 0x38800000u) - uintBitsToFloat(0x38800000u);
  float large = uintBitsToFloat(bits + (bits < 0x0f800000u ? 0x38000000u : 0x70000000u));
  return uintBitsToFloat(floatBitsToUint(bits < 0x00800000u ? small : large) | ((word & 0x8000u) << 16));
}
float float_of_half(uint word) {
  float result = any_float_of_half(word);
  return result == result ? result : uintBitsToFloat(0x7fc00000u);
}
uint half_word(float x) {
  uint word = floatBitsToUint(x);
  uint magnitude = word & 0x7fffffffu;
  uint small = floatBitsToUint(abs(x) + 0.5) - 0x3f000000u;
  uint large = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  large = magnitude >= 0x477ff000u ? 0x7c00u : large;
  uint result = (magnitude < 0x38800000u ? small : large) | ((word >> 16) & 0x8000u);
  return x == x ? result : 0x7e00u;
}
)";

inline constexpr const char* kPlainHalfPairs =
    R"(#define JOINED_F16(floats2, j) (ENCODE_F16(floats2[j]) | (ENCODE_F16(floats2[j + 1]) << 16))
#define STORE4_F16(a, i, floats4) Words2((a) + (uint64_t(int64_t(i)) << 1)).at = uvec2(JOINED_F16(floats4, 0), JOINED_F16(floats4, 2));
#define STORE4_SURE_F16(a, i, floats4) STORE4_F16(a, i, floats4)
#define STORE8_SURE_F16(a, i, floats8) STORE8_F16(a, i, floats8)
#define STORE8_F16(a, i, floats8) Words4((a) + (uint64_t(int64_t(i)) << 1)).at = uvec4(JOINED_F16(floats8, 0), JOINED_F16(floats8, 2), JOINED_F16(floats8, 4), JOINED_F16(floats8, 6));
)";

// A quotient by the language's operator is exact where it is asked to be, and slow.
inline constexpr const char* kEstimatedGelus =
    R"(#define MAGNITUDE(x) abs(x)
#define GELU_TO_BF16(x) near_gelu_to_bf16(x, gelu_magnitude(x, 13.1875f))
#define HASTY_GELU_TO_BF16(x) near_gelu_to_bf16(x, MAGNITUDE(x))
#define near_gelu_to_bf16(x, a) gelu_to_bf16_by(x, a, inversesqrt(gelu_radicand(a)), exp2(gelu_exponent(a, 0.35022f)))
#define GELU_TO_F16(x) gelu_to_f16_by(x, near_reciprocal(gelu_divisor(x, 5.5f, 0.25f)), exp2(gelu_exponent(gelu_magnitude(x, 5.5f), 0.0f)))
float near_reciprocal(float x) {
  return inversesqrt(x * x);
}
)";

// Of 32 threads whose numbers begin at a multiple of 32, if those are a subgroup.
inline constexpr const char* kNearTeams = R"(#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define NEAR_BARRIER() subgroupBarrier()
#define NEAR_OTHER(x, m) subgroupShuffleXor(x, uint(m))
#define ARE_TEAMS (gl_SubgroupSize == 32u && gl_SubgroupInvocationID == (gl_LocalInvocationIndex & 31u))
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
