#include "backends/gpu/cuda/attention_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

const char* const kAttentionProductsText = R"(
#define ATTENTION_LEFT FROM_BITS(0x36000000u)
struct Digits {
  UINT high[4], low[4];  // of 16 rows and 32 of k
};
struct AttentionSizes {
  int heads, key_heads, rows, keys;
  int key_end;  // of the keys that some row sees, in whole blocks
  int behind;   // row i sees the keys up to i + behind
  float scale;
  __device__ __forceinline__ int repeats() const { return heads / key_heads; }
  __device__ __forceinline__ int row_parts() const { return (rows + 63) >> 6; }  // of a workgroup
  __device__ __forceinline__ int key_parts() const { return (keys + 63) >> 6; }
  __device__ __forceinline__ int row_blocks() const { return (rows + 127) >> 7; }
  __device__ __forceinline__ int key_blocks() const { return (keys + 127) >> 7; }
};
// An operand's digits and scales, and for each head and block of 128 positions whether an element is so large, or none,
// that hidden products may show.
struct AttentionForm {
  const uint4* rows;
  const float* row_scales;
  const uint4* columns;
  const float* column_scales;
  const UINT* flags;
  // Of a head, whose positions have `blocks`: this thread's part of units, scales, and a block's of the other form.
  template <int STEPS> __device__ __forceinline__ const uint4* units_of(int head, int blocks) const {
    return rows + LONG(head) * blocks * 16 * STEPS * 32 + (THREAD & 31u);
  }
  __device__ __forceinline__ const float* scales_of(int head, int blocks) const {
    return row_scales + LONG(head) * blocks * 128;
  }
  template <int STEPS> __device__ __forceinline__ const uint4* columns_of(LONG block) const {
    return columns + block * STEPS * 512 + (THREAD & 31u);
  }
  template <int STEPS> __device__ __forceinline__ const float* column_scales_of(LONG block) const {
    return column_scales + block * 32 * STEPS;
  }
};
// Of two rows of a thread, 8 apart: scales of a left operand.
struct AttentionScales {
  float upper, lower;
};
FUNCTION AttentionScales attention_left_scales(const float* of_upper) {
  return {__ldg(of_upper) * ATTENTION_LEFT, __ldg(of_upper + 8) * ATTENTION_LEFT};
}
FUNCTION void attention_multiply(int (&d)[4], const UINT (&a)[4], UINT b0, UINT b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// P of 16 x 8 results, as floats; `b`: this lane's of the first step.
template <int STEPS> FUNCTION void attention_product(float (&t)[4], const Digits (&a)[STEPS], const uint4* b) {
  int high[4] = {0, 0, 0, 0};
  int mixed[4] = {0, 0, 0, 0};
  int low[4] = {64, 64, 64, 64};
  UNROLL
  for (int s = 0; s < STEPS; s++) {
    const uint4 w = __ldg(b + 32 * s);
    attention_multiply(high, a[s].high, w.x, w.y);
    attention_multiply(mixed, a[s].high, w.z, w.w);
    attention_multiply(mixed, a[s].low, w.x, w.y);
    attention_multiply(low, a[s].low, w.z, w.w);
  }
  UNROLL
  for (int i = 0; i < 4; i++) t[i] = __int2float_rn((high[i] << 7) + mixed[i] + (low[i] >> 7));
}
// 16 rows from units of 8.
template <int STEPS> FUNCTION void attention_left(Digits (&a)[STEPS], const uint4* units, int tile) {
  UNROLL
  for (int s = 0; s < STEPS; s++) {
    const uint4 upper = __ldg(units + (2 * tile * STEPS + s) * 32);
    const uint4 lower = __ldg(units + ((2 * tile + 1) * STEPS + s) * 32);
    a[s].high[0] = upper.x;
    a[s].high[1] = lower.x;
    a[s].high[2] = upper.y;
    a[s].high[3] = lower.y;
    a[s].low[0] = upper.z;
    a[s].low[1] = lower.z;
    a[s].low[2] = upper.w;
    a[s].low[3] = lower.w;
  }
}
FUNCTION UINT attention_pair(float x, float y, float up) {
  // Beside 1.5 * 2^23 stands the nearest integer, of two the even one, in the low 16 bits.
  const UINT first = BITS(fminf(__fmaf_rn(x, up, 12582912.0f), 12599295.0f));
  const UINT second = BITS(fminf(__fmaf_rn(y, up, 12582912.0f), 12599295.0f));
  return __byte_perm(first, second, 0x5410);
}
// What a power of two is shared with: 2^(14 - e), and 2^(e - 1) or NaN.
FUNCTION void attention_scales(UINT largest, OUT(float, up), OUT(float, scale)) {
  const bool is_number = largest < (246u << 23);
  int exponent = int(largest >> 23) - 126;
  exponent = SELECT(exponent < -106, -106, exponent);
  up = FROM_BITS(UINT(SELECT(is_number, 141 - exponent, 0)) << 23);
  scale = FROM_BITS(SELECT(is_number, UINT(exponent + 126) << 23, 0x7fc00000u));
}
FUNCTION float attention_largest(float x) {
  x = LARGER(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return LARGER(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
// 16 rows of 128 results become a left operand; the scales are those of rows g and g + 8.
FUNCTION void attention_digits_of(Digits (&a)[4], const float (&w)[16][4], AttentionScales& left) {
  float most0 = 0.0f;
  float most1 = 0.0f;
  UNROLL
  for (int j = 0; j < 16; j++) {
    most0 = LARGER(most0, LARGER(fabsf(w[j][0]), fabsf(w[j][1])));
    most1 = LARGER(most1, LARGER(fabsf(w[j][2]), fabsf(w[j][3])));
  }
  float up0, up1;
  attention_scales(BITS(attention_largest(most0)) & 0x7fffffffu, up0, left.upper);
  attention_scales(BITS(attention_largest(most1)) & 0x7fffffffu, up1, left.lower);
  left.upper *= ATTENTION_LEFT;
  left.lower *= ATTENTION_LEFT;
  UNROLL
  for (int s = 0; s < 4; s++) {
    UNROLL
    for (int i = 0; i < 4; i++) {
      const int j = 4 * s + (i >> 1) * 2;
      const int q = (i & 1) * 2;
      const UINT first = attention_pair(w[j][q], w[j][q + 1], q == 0 ? up0 : up1);
      const UINT second = attention_pair(w[j + 1][q], w[j + 1][q + 1], q == 0 ? up0 : up1);
      a[s].high[i] = __byte_perm(first >> 7, second >> 7, 0x6420);
      a[s].low[i] = __byte_perm(first, second, 0x6420) & 0x7f7f7f7fu;
    }
  }
}
FUNCTION bool attention_any(const UINT* flags, int count) {
  bool any = false;
  for (int i = int(THREAD & 31u); i < count; i += 32) any = any || LOAD_U32(flags, i) != 0u;
  return __any_sync(0xffffffffu, any);
}
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
