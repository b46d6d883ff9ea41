#include "backends/gpu/cuda/attention_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

const char* const kAttentionSoftmaxText = R"(
// Of a row: what is subtracted from scores, the sum of their exponentials, its nearest reciprocal, and a power of two.
struct AttentionRow {
  float shift, total, reciprocal, up;
};
FUNCTION void attention_divisor(AttentionRow& row, float total) {
  total = total == 0.0f ? 1.0f : total;
  const bool is_number = (BITS(total) & 0x7f800000u) != 0x7f800000u;
  row.reciprocal = __frcp_rn(total);
  row.total = is_number ? total : 0.0f;
  row.up = is_number ? FROM_BITS(0x5f800000u) : 1.0f;
}
// e / total, correctly rounded: two steps of what division is, from the nearest reciprocal, with e times 2^64, so that
// no remainder is subnormal. Where the sum is no number remainders are e, and its reciprocal decides. Canonical, but
// that NaN is any NaN; and not where that cannot be seen.
template <bool SEEN> FUNCTION float attention_weight(float e, const AttentionRow& row) {
  e *= row.up;
  float w = e * row.reciprocal;
  w = __fmaf_rn(__fmaf_rn(-w, row.total, e), row.reciprocal, w);
  w = __fmaf_rn(__fmaf_rn(-w, row.total, e), row.reciprocal, w);
  w *= FROM_BITS(0x7f000000u - BITS(row.up));
  return SEEN && w <= FROM_BITS(0x00800000u) ? 0.0f : w;
}
FUNCTION AttentionRow attention_row(MEMORY rows_at, LONG row) {
  const float4 of = __ldg((const float4*)rows_at + row);
  return {of.x, of.y, of.z, of.w};
}
FUNCTION float attention_hidden() { return FROM_BITS(0xff800000u); }
// Scores of 16 rows and the 8 keys of a unit.
template <int STEPS>
FUNCTION void attention_scores(float (&s)[4], const Digits (&q)[STEPS], AttentionScales left, float scale,
                               const uint4* units, const float* scales, int tile) {
  attention_product(s, q, units + tile * STEPS * 32);
  const float2 of = __ldg((const float2*)(scales + 8 * tile) + (THREAD & 3u));
  s[0] = s[0] * left.upper * of.x * scale;
  s[1] = s[1] * left.upper * of.y * scale;
  s[2] = s[2] * left.lower * of.x * scale;
  s[3] = s[3] * left.lower * of.y * scale;
}
// Which 16 queries a warp has, and of them a thread `row` and `row` + 8: the last keys that these see, and the last
// that all 16 see, and one behind the last that some see.
struct AttentionTile {
  int head, key_head, number, row, last0, last1, least, seen;
  // Tiles with most keys come first. False where this warp has none.
  __device__ __forceinline__ bool find(const AttentionSizes& z, int item, int heads_of_all) {
    const int part = z.row_parts() - 1 - item / heads_of_all;
    head = item - (item / heads_of_all) * heads_of_all;
    number = 4 * part + int(THREAD >> 5);
    if (16 * number >= z.rows) return false;
    key_head = head / z.repeats();
    row = 16 * number + (int(THREAD & 31u) >> 2);
    last0 = SELECT(row + z.behind < z.keys, row + z.behind, z.keys - 1);
    last1 = SELECT(row + 8 + z.behind < z.keys, row + 8 + z.behind, z.keys - 1);
    least = __shfl_sync(0xffffffffu, last0, 0);
    seen = __shfl_sync(0xffffffffu, last1, 31) + 1;
    return true;
  }
  // -inf to keys that the rows do not see; this thread's first one is `key`.
  __device__ __forceinline__ void hide(float (&s)[4], int key) const {
    if (key > last0) s[0] = attention_hidden();
    if (key + 1 > last0) s[1] = attention_hidden();
    if (key > last1) s[2] = attention_hidden();
    if (key + 1 > last1) s[3] = attention_hidden();
  }
};

// Sums of a row's 64 lanes, of which this thread has those of 8 units: columns 2 c and 2 c + 1.
FUNCTION float attention_lanes(const float (&sums)[8][4], int q) {
  float pair[2];
  UNROLL
  for (int i = 0; i < 2; i++) {
    float four[4];
    UNROLL
    for (int j = 0; j < 4; j++) four[j] = sums[j][q + i] + sums[j + 4][q + i];
    pair[i] = (four[0] + four[2]) + (four[1] + four[3]);
    pair[i] += __shfl_xor_sync(0xffffffffu, pair[i], 2);
    pair[i] += __shfl_xor_sync(0xffffffffu, pair[i], 1);
  }
  return pair[0] + pair[1];
}
// R of chunks.
FUNCTION float attention_chunks(float* chunks, int count) {
  for (int half = 32; half > 0; half >>= 1) {
    for (int i = 0; i < half && i + half < count; i++) chunks[i] += chunks[i + half];
    count = SELECT(count < half, count, half);
  }
  return chunks[0];
}

template <int STEPS>
FUNCTION void attention_sums(AttentionRow& row0, AttentionRow& row1, const AttentionSizes& z, const AttentionTile& tile,
                             const Digits (&q)[STEPS], AttentionScales left, const uint4* units,
                             const float* scales) {
  const int column = 2 * int(THREAD & 3u);
  const int count = (tile.seen + 7) >> 3;  // units
  float largest0 = attention_hidden();
  float largest1 = attention_hidden();
  #pragma unroll 1
  for (int first = 0; first < count; first += 8) {
    UNROLL
    for (int j = 0; j < 8; j++) {
      float s[4];
      attention_scores(s, q, left, z.scale, units, scales, first + j);
      if (8 * (first + 8) > tile.least) tile.hide(s, 8 * (first + j) + column);
      largest0 = LARGER(largest0, LARGER(s[0], s[1]));
      largest1 = LARGER(largest1, LARGER(s[2], s[3]));
    }
  }
  largest0 = attention_largest(largest0);
  largest1 = attention_largest(largest1);
  row0.shift = (BITS(largest0) & 0x7f800000u) == 0x7f800000u ? 0.0f : largest0;
  row1.shift = (BITS(largest1) & 0x7f800000u) == 0x7f800000u ? 0.0f : largest1;
  float chunks0[ATTENTION_CHUNKS];
  float chunks1[ATTENTION_CHUNKS];
  int chunk = 0;
  #pragma unroll 1
  for (int begin = 0; begin < count; begin += 512) {
    float sums[8][4];
    UNROLL
    for (int j = 0; j < 8; j++) {
      UNROLL
      for (int i = 0; i < 4; i++) sums[j][i] = 0.0f;
    }
    const int end = SELECT(begin + 512 < count, begin + 512, count);
    #pragma unroll 1
    for (int first = begin; first < end; first += 8) {
      UNROLL
      for (int j = 0; j < 8; j++) {
        float s[4];
        attention_scores(s, q, left, z.scale, units, scales, first + j);
        if (8 * (first + 8) > tile.least) tile.hide(s, 8 * (first + j) + column);
        sums[j][0] += ls_exp(s[0] - row0.shift);
        sums[j][1] += ls_exp(s[1] - row0.shift);
        sums[j][2] += ls_exp(s[2] - row1.shift);
        sums[j][3] += ls_exp(s[3] - row1.shift);
      }
    }
    chunks0[ATTENTION_CHUNKS == 1 ? 0 : chunk] = attention_lanes(sums, 0);
    chunks1[ATTENTION_CHUNKS == 1 ? 0 : chunk] = attention_lanes(sums, 2);
    chunk++;
  }
  attention_divisor(row0, ATTENTION_CHUNKS == 1 ? chunks0[0] : attention_chunks(chunks0, chunk));
  attention_divisor(row1, ATTENTION_CHUNKS == 1 ? chunks1[0] : attention_chunks(chunks1, chunk));
}

// sums += (16 rows of digits) x (this block's 8 columns of unit n).
FUNCTION void attention_add(float (&sums)[4], const Digits (&a)[4], AttentionScales left, const uint4* units,
                            const float* scales, int n) {
  float t[4];
  attention_product(t, a, units + 4 * n * 32);
  const float2 of = __ldg((const float2*)(scales + 8 * n) + (THREAD & 3u));
  sums[0] = __fmaf_rn(t[0] * left.upper, of.x, sums[0]);
  sums[1] = __fmaf_rn(t[1] * left.upper, of.y, sums[1]);
  sums[2] = __fmaf_rn(t[2] * left.lower, of.x, sums[2]);
  sums[3] = __fmaf_rn(t[3] * left.lower, of.y, sums[3]);
}
// The same of all columns, from 16 rows of 128 results, whose digits are made here.
template <int UNITS>
FUNCTION void attention_add_all(float (&sums)[UNITS][4], const float (&w)[16][4], const uint4* units,
                                const float* scales) {
  Digits a[4];
  AttentionScales left;
  attention_digits_of(a, w, left);
  UNROLL
  for (int n = 0; n < UNITS; n++) attention_add(sums[n], a, left, units, scales, n);
}
template <int UNITS> FUNCTION void attention_clear(float (&sums)[UNITS][4]) {
  UNROLL
  for (int n = 0; n < UNITS; n++) {
    UNROLL
    for (int i = 0; i < 4; i++) sums[n][i] = 0.0f;
  }
}
// A tile's weights of a block of 128 keys.
template <bool SEEN, int STEPS>
FUNCTION void attention_weights(float (&w)[16][4], const AttentionSizes& z, const AttentionTile& tile,
                                const Digits (&q)[STEPS], AttentionScales left, const AttentionRow& row0,
                                const AttentionRow& row1, const uint4* units, const float* scales, int block) {
  UNROLL
  for (int j = 0; j < 16; j++) {
    attention_scores(w[j], q, left, z.scale, units, scales, 16 * block + j);
    if (128 * block + 127 > tile.least) tile.hide(w[j], 128 * block + 8 * j + 2 * int(THREAD & 3u));
    UNROLL
    for (int i = 0; i < 4; i++) {
      const AttentionRow& of = i < 2 ? row0 : row1;
      w[j][i] = attention_weight<SEEN>(ls_exp(w[j][i] - of.shift), of);
    }
  }
}
FUNCTION void attention_store(MEMORY to, LONG element, float x, float y) {
  float both[2] = {x, y};
  STORE_U32(to, element / 2, ATTENTION_PAIR(both, 0));
}
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
