// NEON's products of signed bytes, `sdot` (Isa::neon_dot) and `smmla` (Isa::neon_i8mm), each four or eight to a sum of
// 32 bits. In assembler, because neither is part of Highway's NEON target: no function around them needs options of its
// own. The architectures are the first ones that have them.
#pragma once

#include <arm_neon.h>

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Adds to each lane of `sums` its four bytes of `a` times the four of lane kLane of `b`.
template <int kLane> [[gnu::always_inline]] inline int32x4_t add_dots(int32x4_t sums, int8x16_t a, int8x16_t b) {
  asm(".arch armv8.4-a+crypto\n\tsdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sums) : "w"(a), "w"(b), "i"(kLane));
  return sums;
}

/// Adds to each lane of `sums` its four bytes of `a` times its four of `b`.
[[gnu::always_inline]] inline int32x4_t add_dots(int32x4_t sums, int8x16_t a, int8x16_t b) {
  asm(".arch armv8.4-a+crypto\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(a), "w"(b));
  return sums;
}

/// Adds to lane 2 i + j of `sums` half i of `a` times half j of `b`, eight bytes each.
[[gnu::always_inline]] inline int32x4_t add_matrices(int32x4_t sums, int8x16_t a, int8x16_t b) {
  asm(".arch armv8.6-a+crypto\n\tsmmla %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(a), "w"(b));
  return sums;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
