// Functions in the kernel subset that the start-up probe's facts call (probe.cpp): each tries 16 words of 16 bits.
#pragma once

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Every word of 16 bits, and what lies between it and the next one: how many are rounded wrongly, or taken for
/// numbers.
inline constexpr const char* kHastyFunctions = R"(FUNCTION UINT is_wrong_bf16(float x) {
  float right = cast_bf16(x);
  float hasty = HASTY_BF16(x);
  float nearest = HASTY_NEAREST_BF16(x);
  float loose = HASTY_LOOSE_BF16(x);
  UINT magnitude = BITS(x) & 0x7fffffffu;
  if (magnitude > 0x77800100u) {
    UINT all = BITS(hasty) & BITS(nearest) & BITS(loose);
    return SELECT((all & 0x7f800000u) == 0x7f800000u, 0u, 1u);
  }
  if (magnitude >= 0x77800000u) return 0u;
  UINT wrong = SELECT(BITS(hasty) == BITS(right), 0u, 1u);
  bool small = (BITS(right) << 1) == 0u && (BITS(nearest) ^ BITS(right)) <= 0x00800000u;
  wrong = wrong + SELECT(BITS(nearest) == BITS(right) || small, 0u, 1u);
  small = (BITS(right) << 1) == 0u && (BITS(loose) & 0x7fffffffu) <= 0x00800000u;
  wrong = wrong + SELECT(BITS(loose) == BITS(right) || small, 0u, 1u);
  // Of what has just been rounded.
  float sum = hasty + FROM_BITS(BITS(x) & 0xff800000u);
  float product = FROM_BITS(BITS(hasty) & 0x3fffffffu) * FROM_BITS(0x3fc10000u);
  wrong = wrong + SELECT(magnitude >= 0x77000000u || BITS(HASTY_BF16(sum)) == BITS(cast_bf16(sum)), 0u, 1u);
  return wrong + SELECT(BITS(HASTY_BF16(product)) == BITS(cast_bf16(product)), 0u, 1u);
}
FUNCTION UINT wrong_bf16(UINT from) {
  float special = FROM_BITS(from << 16);
  special = HASTY_GELU_TO_BF16(special);
  UINT wrong = SELECT((from & 0x7f80u) != 0x7f80u || (BITS(special) & 0x7f800000u) == 0x7f800000u, 0u, 1u);
  for (UINT word = from; word < from + 16u; word++) {
    for (UINT part = 0u; part < 6u; part++) {
      UINT low = SELECT(part < 3u, part, part + 0x7ffcu);
      low = SELECT(part == 2u, 0xffffu, low);
      wrong = wrong + is_wrong_bf16(FROM_BITS((word << 16) | low));
    }
  }
  return wrong;
}
)";

/// Every half, and what lies between it and the next one: roundings of it and of what is made of rounded numbers, whose
/// conversions back and forth a compiler might take for nothing.
inline constexpr const char* kHalfFunctions = R"(FUNCTION UINT joined_halves(float x, float y) {
  float both[2];
  both[0] = x;
  both[1] = y;
  return JOINED_F16(both, 0);
}
FUNCTION UINT is_wrong_half(float x) {
  return SELECT(BITS(ROUND_F16(x)) == BITS(cast_f16(x)), 0u, 1u);
}
FUNCTION UINT is_wrong_number(float x) {
  float rounded = ANY_ROUND_F16(x);
  return SELECT(x != x, SELECT(rounded != rounded, 0u, 1u), SELECT(BITS(rounded) == BITS(cast_f16(x)), 0u, 1u));
}
FUNCTION UINT wrong_halves(UINT from) {
  UINT wrong = 0u;
  for (UINT word = from; word < from + 16u; word++) {
    float half_of_word = ANY_DECODE_F16(word);
    for (UINT part = 0u; part < 6u; part++) {
      UINT low = SELECT(part < 3u, part, part + 0x0ffcu);
      low = SELECT(part == 2u, 0x1fffu, low);
      float x = FROM_BITS(BITS(half_of_word) + low);
      wrong = wrong + is_wrong_half(x) + is_wrong_number(x);
      float known = SELECT(x == x, x, FROM_BITS(0x3f801234u));
      wrong = wrong + is_wrong_number(known) + is_wrong_number(ls_exp(known));
      float rounded = ANY_ROUND_F16(known);
      float sum = rounded + FROM_BITS(0x3f9d6800u);
      wrong = wrong + SELECT(BITS(rounded) == BITS(cast_f16(known)), 0u, 1u) + is_wrong_number(sum);
      wrong = wrong + is_wrong_number(ANY_ROUND_F16(sum) * rounded);
    }
  }
  return wrong;
}
)";

/// Every value of 16 bits, 16 for each vector: how many are not what the full function rounds to.
inline constexpr const char* kEstimateFunctions = R"(FUNCTION UINT wrong_gelus_bf16(UINT from) {
  UINT wrong = 0u;
  for (UINT word = from; word < from + 16u; word++) {
    float x = FROM_BITS(word << 16);
    UINT right = ENCODE_BF16(ls_gelu(operand_f32(x)));
    wrong = wrong + SELECT(ENCODE_BF16(GELU_TO_BF16(x)) == right, 0u, 1u);
    float hasty = HASTY_GELU_TO_BF16(x);
    bool finite = (BITS(x) & 0x7f800000u) != 0x7f800000u;
    wrong = wrong + SELECT(SELECT(finite, ENCODE_BF16(hasty) == right, hasty != hasty), 0u, 1u);
  }
  return wrong;
}
FUNCTION UINT wrong_gelus_f16(UINT from) {
  UINT wrong = 0u;
  for (UINT word = from; word < from + 16u; word++) {
    float x = DECODE_F16(word);
    wrong = wrong + SELECT(ENCODE_F16(GELU_TO_F16(x)) == ENCODE_F16(ls_gelu(x)), 0u, 1u);
  }
  return wrong;
}
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
