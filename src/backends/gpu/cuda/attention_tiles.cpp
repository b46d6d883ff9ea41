#include "backends/gpu/cuda/attention_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

// A warp computes 16 rows of a result, by itself, in the order of docs/numerics.md section 12: scores of 128 keys are
// made as often as they are needed (for the largest one, for the sum, for the weights), never stored, and stay in
// registers while they become digits of the next product.
//
// Digits of operands were written in the order in which tensor cores take them, so that a lane reads 16 bytes for two
// steps of 8 columns: units of 8 rows (of an operand whose rows share a power of two along its width; `rows`) or of 8
// columns (along blocks of 128 positions; `columns`) and 32 of k, in each 32 lanes of {high, high, low, low}. Lane
// 4 g + c holds row g and k from 4 c on and from 16 + 4 c on. Along positions k is in the order in which a result of
// tensor cores lies in registers, which is then their left operand as it is.
//
// The scale that is stored is 2^(e - 1); a left operand's is 2^-19 of that.
const char* const kAttentionTilesText = R"(
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
};
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
// 16 rows of 128 results become a left operand; their scales are those of rows g and g + 8.
FUNCTION void attention_digits_of(Digits (&a)[4], const float (&w)[16][4], OUT(float, upper), OUT(float, lower)) {
  float most0 = 0.0f;
  float most1 = 0.0f;
  UNROLL
  for (int j = 0; j < 16; j++) {
    most0 = LARGER(most0, LARGER(fabsf(w[j][0]), fabsf(w[j][1])));
    most1 = LARGER(most1, LARGER(fabsf(w[j][2]), fabsf(w[j][3])));
  }
  float up0, up1;
  attention_scales(BITS(attention_largest(most0)) & 0x7fffffffu, up0, upper);
  attention_scales(BITS(attention_largest(most1)) & 0x7fffffffu, up1, lower);
  upper *= ATTENTION_LEFT;
  lower *= ATTENTION_LEFT;
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
FUNCTION void attention_scores(float (&s)[4], const Digits (&q)[STEPS], float upper, float lower, float scale,
                               const uint4* units, const float* scales, int tile) {
  attention_product(s, q, units + tile * STEPS * 32);
  const float2 of = __ldg((const float2*)(scales + 8 * tile) + (THREAD & 3u));
  s[0] = s[0] * upper * of.x * scale;
  s[1] = s[1] * upper * of.y * scale;
  s[2] = s[2] * lower * of.x * scale;
  s[3] = s[3] * lower * of.y * scale;
}
// -inf to the keys behind `last0` and `last1`.
FUNCTION void attention_hide(float (&s)[4], int key, int last0, int last1) {
  if (key > last0) s[0] = attention_hidden();
  if (key + 1 > last0) s[1] = attention_hidden();
  if (key > last1) s[2] = attention_hidden();
  if (key + 1 > last1) s[3] = attention_hidden();
}

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
FUNCTION void attention_sums(AttentionRow& row0, AttentionRow& row1, const AttentionSizes& z,
                             const Digits (&q)[STEPS], float upper, float lower, const uint4* units,
                             const float* scales, int last0, int last1) {
  const int column = 2 * int(THREAD & 3u);
  const int most = __shfl_sync(0xffffffffu, last1, 31);
  const int least = __shfl_sync(0xffffffffu, last0, 0);
  const int count = (most + 8) >> 3;  // units
  float largest0 = attention_hidden();
  float largest1 = attention_hidden();
  #pragma unroll 1
  for (int first = 0; first < count; first += 8) {
    UNROLL
    for (int j = 0; j < 8; j++) {
      float s[4];
      attention_scores(s, q, upper, lower, z.scale, units, scales, first + j);
      if (8 * (first + 8) > least) attention_hide(s, 8 * (first + j) + column, last0, last1);
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
        attention_scores(s, q, upper, lower, z.scale, units, scales, first + j);
        if (8 * (first + 8) > least) attention_hide(s, 8 * (first + j) + column, last0, last1);
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
FUNCTION void attention_add(float (&sums)[4], const Digits (&a)[4], float upper, float lower, const uint4* units,
                            const float* scales, int n) {
  float t[4];
  attention_product(t, a, units + 4 * n * 32);
  const float2 of = __ldg((const float2*)(scales + 8 * n) + (THREAD & 3u));
  sums[0] = __fmaf_rn(t[0] * upper, of.x, sums[0]);
  sums[1] = __fmaf_rn(t[1] * upper, of.y, sums[1]);
  sums[2] = __fmaf_rn(t[2] * lower, of.x, sums[2]);
  sums[3] = __fmaf_rn(t[3] * lower, of.y, sums[3]);
}
FUNCTION void attention_store(MEMORY to, LONG element, float x, float y) {
  float both[2] = {x, y};
  STORE_U32(to, element / 2, ATTENTION_PAIR(both, 0));
}

// Results [batch][row][head][32 STEPS], then what each [batch][head][row] has.
template <int STEPS>
FUNCTION void attention_forward(const AttentionSizes& z, const AttentionForm& query, const AttentionForm& key,
                                const AttentionForm& value, int heads_of_all, MEMORY made, MEMORY rows_to) {
  const int lane = int(THREAD & 31u);
  const int parts = (z.rows + 63) >> 6;
  for (int item = int(GROUP); item < heads_of_all * parts; item += int(GROUPS)) {
    // Those that see most keys first.
    const int part = parts - 1 - item / heads_of_all;
    const int head = item - (item / heads_of_all) * heads_of_all;
    const int tile = 4 * part + int(THREAD >> 5);
    if (16 * tile >= z.rows) continue;
    const int key_head = head / z.repeats();
    const int row = 16 * tile + (lane >> 2);
    const int last0 = SELECT(row + z.behind < z.keys, row + z.behind, z.keys - 1);
    const int last1 = SELECT(row + 8 + z.behind < z.keys, row + 8 + z.behind, z.keys - 1);
    const uint4* units = key.rows + LONG(key_head) * z.key_blocks() * 16 * STEPS * 32 + lane;
    const float* scales = key.row_scales + LONG(key_head) * z.key_blocks() * 128;
    Digits q[STEPS];
    attention_left(q, query.rows + LONG(head) * z.row_blocks() * 16 * STEPS * 32 + lane, tile);
    const float* of_rows = query.row_scales + LONG(head) * z.row_blocks() * 128 + row;
    const float upper = __ldg(of_rows) * ATTENTION_LEFT;
    const float lower = __ldg(of_rows + 8) * ATTENTION_LEFT;
    AttentionRow row0, row1;
    attention_sums(row0, row1, z, q, upper, lower, units, scales, last0, last1);
    // Keys of this tile of 128 rows; behind the last one that is seen their values show if they are no numbers.
    const bool shows = attention_any(value.flags + key_head * z.key_blocks(), z.key_blocks()) ||
                       attention_any(key.flags + key_head * z.key_blocks(), z.key_blocks()) ||
                       attention_any(query.flags + head * z.row_blocks(), z.row_blocks());
    int end = (tile >> 3) * 128 + 128;
    end = SELECT(end < z.rows, end, z.rows);
    end = SELECT(end < z.keys - z.behind, (end + z.behind + 255) & ~255, z.keys);
    end = SELECT(end < z.keys, end, z.keys);
    const int seen = __shfl_sync(0xffffffffu, last1, 31) + 1;
    if (!shows) end = SELECT(seen < end, seen, end);
    const int least = __shfl_sync(0xffffffffu, last0, 0);
    float sums[4 * STEPS][4];
    UNROLL
    for (int n = 0; n < 4 * STEPS; n++) {
      UNROLL
      for (int i = 0; i < 4; i++) sums[n][i] = 0.0f;
    }
    const uint4* columns = value.columns + LONG(key_head) * z.key_blocks() * STEPS * 512 + lane;
    const float* column_scales = value.column_scales + LONG(key_head) * z.key_blocks() * 32 * STEPS;
    #pragma unroll 1
    for (int block = 0; 128 * block < end; block++) {
      float w[16][4];
      UNROLL
      for (int j = 0; j < 16; j++) {
        attention_scores(w[j], q, upper, lower, z.scale, units, scales, 16 * block + j);
        if (128 * block + 127 > least) attention_hide(w[j], 128 * block + 8 * j + 2 * (lane & 3), last0, last1);
        UNROLL
        for (int i = 0; i < 4; i++) {
          const AttentionRow& of = i < 2 ? row0 : row1;
          w[j][i] = attention_weight<false>(ls_exp(w[j][i] - of.shift), of);
        }
      }
      Digits a[4];
      float left0, left1;
      attention_digits_of(a, w, left0, left1);
      UNROLL
      for (int n = 0; n < 4 * STEPS; n++) {
        attention_add(sums[n], a, left0, left1, columns + block * STEPS * 512, column_scales + block * 32 * STEPS, n);
      }
    }
    const int batch = head / z.heads;
    UNROLL
    for (int h = 0; h < 2; h++) {
      const int r = row + 8 * h;
      if (r >= z.rows) continue;
      const LONG to = ((LONG(batch) * z.rows + r) * z.heads + (head - batch * z.heads)) * (32 * STEPS);
      UNROLL
      for (int n = 0; n < 4 * STEPS; n++) {
        // A hidden block turns -0 to +0.
        attention_store(made, to + 8 * n + 2 * (lane & 3), CANONICAL_F32(sums[n][2 * h]) + 0.0f,
                        CANONICAL_F32(sums[n][2 * h + 1]) + 0.0f);
      }
      if ((lane & 3) != 0) continue;
      const AttentionRow& of = h == 0 ? row0 : row1;
      ((float4*)rows_to)[LONG(head) * z.rows + r] = make_float4(of.shift, of.total, of.reciprocal, of.up);
    }
  }
}

// The gradient of queries, from G of the results; `shares` as f32 [batch][head][row].
template <int STEPS>
FUNCTION void attention_query_gradients(const AttentionSizes& z, const AttentionForm& query, const AttentionForm& key,
                                        const AttentionForm& value, const AttentionForm& upstream, int heads_of_all,
                                        MEMORY rows_at, MEMORY shares, MEMORY to_all) {
  const int lane = int(THREAD & 31u);
  const int parts = (z.rows + 63) >> 6;
  for (int item = int(GROUP); item < heads_of_all * parts; item += int(GROUPS)) {
    const int part = parts - 1 - item / heads_of_all;
    const int head = item - (item / heads_of_all) * heads_of_all;
    const int tile = 4 * part + int(THREAD >> 5);
    if (16 * tile >= z.rows) continue;
    const int key_head = head / z.repeats();
    const int row = 16 * tile + (lane >> 2);
    const int last0 = SELECT(row + z.behind < z.keys, row + z.behind, z.keys - 1);
    const int last1 = SELECT(row + 8 + z.behind < z.keys, row + 8 + z.behind, z.keys - 1);
    const LONG key_units = LONG(key_head) * z.key_blocks() * 16 * STEPS * 32 + lane;
    const LONG key_scales = LONG(key_head) * z.key_blocks() * 128;
    const LONG row_units = LONG(head) * z.row_blocks() * 16 * STEPS * 32 + lane;
    const LONG row_scales = LONG(head) * z.row_blocks() * 128 + row;
    const bool shows = attention_any(value.flags + key_head * z.key_blocks(), z.key_blocks()) ||
                       attention_any(key.flags + key_head * z.key_blocks(), z.key_blocks()) ||
                       attention_any(query.flags + head * z.row_blocks(), z.row_blocks()) ||
                       attention_any(upstream.flags + head * z.row_blocks(), z.row_blocks());
    const int seen = __shfl_sync(0xffffffffu, last1, 31) + 1;
    const int end = !shows && seen < z.key_end ? seen : z.key_end;
    const int least = __shfl_sync(0xffffffffu, last0, 0);
    const int in0 = SELECT(row < z.rows, row, z.rows - 1);
    const int in1 = SELECT(row + 8 < z.rows, row + 8, z.rows - 1);
    const AttentionRow row0 = attention_row(rows_at, LONG(head) * z.rows + in0);
    const AttentionRow row1 = attention_row(rows_at, LONG(head) * z.rows + in1);
    const float share0 = FROM_BITS(LOAD_U32(shares, LONG(head) * z.rows + in0));
    const float share1 = FROM_BITS(LOAD_U32(shares, LONG(head) * z.rows + in1));
    const float query0 = __ldg(query.row_scales + row_scales) * ATTENTION_LEFT;
    const float query1 = __ldg(query.row_scales + row_scales + 8) * ATTENTION_LEFT;
    const float upstream0 = __ldg(upstream.row_scales + row_scales) * ATTENTION_LEFT;
    const float upstream1 = __ldg(upstream.row_scales + row_scales + 8) * ATTENTION_LEFT;
    float sums[4 * STEPS][4];
    UNROLL
    for (int n = 0; n < 4 * STEPS; n++) {
      UNROLL
      for (int i = 0; i < 4; i++) sums[n][i] = 0.0f;
    }
    #pragma unroll 1
    for (int block = 0; 128 * block < end; block++) {
      float w[16][4];
      Digits left[STEPS];
      attention_left(left, query.rows + row_units, tile);
      UNROLL
      for (int j = 0; j < 16; j++) {
        attention_scores(w[j], left, query0, query1, z.scale, key.rows + key_units, key.row_scales + key_scales,
                         16 * block + j);
        if (128 * block + 127 > least) attention_hide(w[j], 128 * block + 8 * j + 2 * (lane & 3), last0, last1);
        UNROLL
        for (int i = 0; i < 4; i++) {
          const AttentionRow& of = i < 2 ? row0 : row1;
          w[j][i] = attention_weight<true>(ls_exp(w[j][i] - of.shift), of);
        }
      }
      attention_left(left, upstream.rows + row_units, tile);
      UNROLL
      for (int j = 0; j < 16; j++) {
        float of_weights[4];
        attention_scores(of_weights, left, upstream0, upstream1, 1.0f, value.rows + key_units,
                         value.row_scales + key_scales, 16 * block + j);
        UNROLL
        for (int i = 0; i < 4; i++) w[j][i] = w[j][i] * (of_weights[i] - (i < 2 ? share0 : share1)) * z.scale;
      }
      Digits a[4];
      float left0, left1;
      attention_digits_of(a, w, left0, left1);
      const LONG at = LONG(key_head) * z.key_blocks() + block;
      UNROLL
      for (int n = 0; n < 4 * STEPS; n++) {
        attention_add(sums[n], a, left0, left1, key.columns + at * STEPS * 512 + lane,
                      key.column_scales + at * 32 * STEPS, n);
      }
    }
    const int batch = head / z.heads;
    UNROLL
    for (int h = 0; h < 2; h++) {
      const int r = row + 8 * h;
      if (r >= z.rows) continue;
      const LONG to = ((LONG(batch) * z.rows + r) * z.heads + (head - batch * z.heads)) * (32 * STEPS);
      UNROLL
      for (int n = 0; n < 4 * STEPS; n++) {
        // Hidden blocks that were left out would turn -0 to +0.
        const float none = end < z.key_end ? 0.0f : -0.0f;
        attention_store(to_all, to + 8 * n + 2 * (lane & 3), sums[n][2 * h] + none, sums[n][2 * h + 1] + none);
      }
    }
  }
}

// The gradient of keys, or of values: 16 of them are the rows here.
template <int STEPS, bool OF_KEYS>
FUNCTION void attention_key_gradients(const AttentionSizes& z, const AttentionForm& query, const AttentionForm& key,
                                      const AttentionForm& value, const AttentionForm& upstream, int key_heads_of_all,
                                      MEMORY rows_at, MEMORY shares, MEMORY to_all) {
  const int lane = int(THREAD & 31u);
  const int parts = (z.keys + 63) >> 6;
  for (int item = int(GROUP); item < key_heads_of_all * parts; item += int(GROUPS)) {
    // Keys that most rows see first.
    const int part = item / key_heads_of_all;
    const int key_head = item - part * key_heads_of_all;
    const int tile = 4 * part + int(THREAD >> 5);
    if (16 * tile >= z.keys) continue;
    const int own = 16 * tile + (lane >> 2);
    const int batch = key_head / z.key_heads;
    const LONG key_units = LONG(key_head) * z.key_blocks() * 16 * STEPS * 32 + lane;
    const LONG key_scales = LONG(key_head) * z.key_blocks() * 128 + own;
    const int first_head = key_head * z.repeats();
    const bool shows =
        attention_any(value.flags + key_head * z.key_blocks(), z.key_blocks()) ||
        attention_any(key.flags + key_head * z.key_blocks(), z.key_blocks()) ||
        attention_any(query.flags + first_head * z.row_blocks(), z.repeats() * z.row_blocks()) ||
        attention_any(upstream.flags + first_head * z.row_blocks(), z.repeats() * z.row_blocks());
    const float key0 = __ldg(key.row_scales + key_scales) * ATTENTION_LEFT;
    const float key1 = __ldg(key.row_scales + key_scales + 8) * ATTENTION_LEFT;
    const float value0 = OF_KEYS ? __ldg(value.row_scales + key_scales) * ATTENTION_LEFT : 0.0f;
    const float value1 = OF_KEYS ? __ldg(value.row_scales + key_scales + 8) * ATTENTION_LEFT : 0.0f;
    const AttentionForm& right = OF_KEYS ? query : upstream;
    const int first_row = 16 * tile - z.behind;  // that sees one of the keys
    int first_block = SELECT(first_row > 0 && !shows, first_row >> 7, 0);
    // No row sees these: their gradients are +0.
    if (16 * tile >= z.key_end) first_block = z.row_blocks();
    float sums[4 * STEPS][4];
    UNROLL
    for (int n = 0; n < 4 * STEPS; n++) {
      UNROLL
      for (int i = 0; i < 4; i++) sums[n][i] = 0.0f;
    }
    #pragma unroll 1
    for (int repeat = 0; repeat < z.repeats(); repeat++) {
      const int head = first_head + repeat;
      const LONG row_units = LONG(head) * z.row_blocks() * 16 * STEPS * 32 + lane;
      const LONG row_scales = LONG(head) * z.row_blocks() * 128;
      #pragma unroll 1
      for (int block = first_block; block < z.row_blocks(); block++) {
        const bool edge = 128 * block + z.behind < 16 * tile + 15;
        float w[16][4];
        Digits left[STEPS];
        attention_left(left, key.rows + key_units, tile);
        UNROLL
        for (int j = 0; j < 16; j++) {
          attention_scores(w[j], left, key0, key1, z.scale, query.rows + row_units, query.row_scales + row_scales,
                           16 * block + j);
          const int row = 128 * block + 8 * j + 2 * (lane & 3);
          if (edge) {
            UNROLL
            for (int i = 0; i < 4; i++) {
              if (own + 8 * (i >> 1) > row + (i & 1) + z.behind) w[j][i] = attention_hidden();
            }
          }
          UNROLL
          for (int i = 0; i < 2; i++) {
            const AttentionRow of = attention_row(rows_at, LONG(head) * z.rows + min(row + i, z.rows - 1));
            w[j][i] = attention_weight<OF_KEYS>(ls_exp(w[j][i] - of.shift), of);
            w[j][2 + i] = attention_weight<OF_KEYS>(ls_exp(w[j][2 + i] - of.shift), of);
          }
        }
        if (OF_KEYS) {
          attention_left(left, value.rows + key_units, tile);
          UNROLL
          for (int j = 0; j < 16; j++) {
            float of_weights[4];
            attention_scores(of_weights, left, value0, value1, 1.0f, upstream.rows + row_units,
                             upstream.row_scales + row_scales, 16 * block + j);
            const int row = 128 * block + 8 * j + 2 * (lane & 3);
            UNROLL
            for (int i = 0; i < 2; i++) {
              const float share = FROM_BITS(LOAD_U32(shares, LONG(head) * z.rows + min(row + i, z.rows - 1)));
              w[j][i] = w[j][i] * (of_weights[i] - share) * z.scale;
              w[j][2 + i] = w[j][2 + i] * (of_weights[2 + i] - share) * z.scale;
            }
          }
        }
        if (128 * block + 128 > z.rows) {
          // Beyond the last row there is nothing.
          UNROLL
          for (int j = 0; j < 16; j++) {
            UNROLL
            for (int i = 0; i < 4; i++) {
              if (128 * block + 8 * j + 2 * (lane & 3) + (i & 1) >= z.rows) w[j][i] = 0.0f;
            }
          }
        }
        Digits a[4];
        float left0, left1;
        attention_digits_of(a, w, left0, left1);
        const LONG at = LONG(head) * z.row_blocks() + block;
        UNROLL
        for (int n = 0; n < 4 * STEPS; n++) {
          attention_add(sums[n], a, left0, left1, right.columns + at * STEPS * 512 + lane,
                        right.column_scales + at * 32 * STEPS, n);
        }
      }
    }
    UNROLL
    for (int h = 0; h < 2; h++) {
      const int r = own + 8 * h;
      if (r >= z.keys) continue;
      const LONG to = ((LONG(batch) * z.keys + r) * z.key_heads + (key_head - batch * z.key_heads)) * (32 * STEPS);
      UNROLL
      for (int n = 0; n < 4 * STEPS; n++) {
        attention_store(to_all, to + 8 * n + 2 * (lane & 3), sums[n][2 * h], sums[n][2 * h + 1]);
      }
    }
  }
}

// An operand's digits: a workgroup reads 128 positions of a head; steps are between batches, heads and positions, in
// elements; both forms where their places are not 0. Of the gradient of `made` results also R of its products with
// them, as f32 [batch][head][position].
template <int STEPS>
FUNCTION void attention_digits(UINT* values, float* ups, UINT* most, MEMORY from, LONG step_b, LONG step_h, LONG step_p,
                               int heads_of_all, int heads, int positions, MEMORY rows_to, MEMORY row_scales_to,
                               MEMORY columns_to, MEMORY column_scales_to, MEMORY flags_to, MEMORY made,
                               MEMORY shares_to) {
  const int width = 32 * STEPS;
  const int stride = width / 2 + 1;  // of a position in shared memory, in pairs of elements
  const int blocks = (positions + 127) >> 7;
  const int thread_id = int(THREAD);
  for (int item = int(GROUP); item < heads_of_all * blocks; item += int(GROUPS)) {
    const int head = item / blocks;
    const int first = 128 * (item - head * blocks);
    const int batch = head / heads;
    const LONG base = LONG(batch) * step_b + LONG(head - batch * heads) * step_h;
    __syncthreads();
    for (int e = thread_id; e < 128 * width / 2; e += 256) {
      const int p = e / (width / 2);
      const int pair = e - p * (width / 2);
      UINT both = 0u;
      if (first + p < positions) both = LOAD_U32(from, (base + LONG(first + p) * step_p) / 2 + pair);
      values[p * stride + pair] = both;
    }
    if (thread_id < width) most[thread_id] = 0u;
    __syncthreads();
    // Two threads of a row.
    {
      const int p = thread_id >> 1;
      UINT largest = 0u;
      for (int i = 0; i < width / 4; i++) {
        const UINT both = values[p * stride + (thread_id & 1) * (width / 4) + i];
        const UINT x = BITS(ATTENTION_VALUE(both & 0xffffu)) & 0x7fffffffu;
        const UINT y = BITS(ATTENTION_VALUE(both >> 16)) & 0x7fffffffu;
        largest = max(largest, max(x, y));
      }
      largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
      float up, scale;
      attention_scales(largest, up, scale);
      if (rows_to != 0 && (thread_id & 1) == 0) {
        ups[p] = up;
        ((float*)row_scales_to)[LONG(item) * 128 + p] = scale;
      }
      const bool flag = __syncthreads_or(largest >= (157u << 23));
      if (thread_id == 0) STORE_U32(flags_to, item, flag ? 1u : 0u);
    }
    if (rows_to != 0) {
      for (int u = thread_id; u < 16 * STEPS * 32; u += 256) {
        const int lane = u & 31;
        const int step = (u >> 5) % STEPS;
        const int p = (u >> 5) / STEPS * 8 + (lane >> 2);
        UINT words[4];
        UNROLL
        for (int i = 0; i < 2; i++) {
          const int at = p * stride + 16 * step + 8 * i + 2 * (lane & 3);
          const UINT first_two = values[at];
          const UINT last_two = values[at + 1];
          const UINT x = attention_pair(ATTENTION_VALUE(first_two & 0xffffu), ATTENTION_VALUE(first_two >> 16), ups[p]);
          const UINT y = attention_pair(ATTENTION_VALUE(last_two & 0xffffu), ATTENTION_VALUE(last_two >> 16), ups[p]);
          words[i] = __byte_perm(x >> 7, y >> 7, 0x6420);
          words[2 + i] = __byte_perm(x, y, 0x6420) & 0x7f7f7f7fu;
        }
        ((uint4*)rows_to)[LONG(item) * 16 * STEPS * 32 + u] = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
    if (shares_to != 0) {
      const int lane = thread_id & 31;
      for (int p = thread_id >> 5; p < 128 && first + p < positions; p += 8) {
        const LONG row = ((LONG(batch) * positions + first + p) * heads + (head - batch * heads)) * width;
        float lanes[2] = {0.0f, 0.0f};
        UNROLL
        for (int i = 0; i < STEPS; i++) {
          const int column = 32 * i + lane;
          const UINT word = (values[p * stride + (column >> 1)] >> (16 * (column & 1))) & 0xffffu;
          const float x = FLUSHED_F32(ATTENTION_VALUE(word) * ATTENTION_VALUE(LOAD_U16(made, row + column)));
          lanes[i & 1] = i < 2 ? x : lanes[i & 1] + x;
        }
        float sum = STEPS == 1 ? lanes[0] : lanes[0] + lanes[1];
        UNROLL
        for (int h = 16; h > 0; h >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, h);
        if (lane == 0) STORE_U32(shares_to, LONG(head) * positions + first + p, BITS(CANONICAL_F32(sum)));
      }
    }
    if (columns_to == 0) continue;
    for (int e = thread_id; e < 8 * width; e += 256) {
      const int column = e % width;
      UINT largest = 0u;
      for (int p = e / width * 16; p < e / width * 16 + 16; p++) {
        const UINT word = (values[p * stride + (column >> 1)] >> (16 * (column & 1))) & 0xffffu;
        largest = max(largest, BITS(ATTENTION_VALUE(word)) & 0x7fffffffu);
      }
      atomicMax(most + column, largest);
    }
    __syncthreads();
    if (thread_id < width) {
      float scale;
      attention_scales(most[thread_id], ups[thread_id], scale);
      ((float*)column_scales_to)[LONG(item) * width + thread_id] = scale;
    }
    __syncthreads();
    for (int u = thread_id; u < 4 * STEPS * 4 * 32; u += 256) {
      const int lane = u & 31;
      const int step = (u >> 5) & 3;
      const int column = (u >> 7) * 8 + (lane >> 2);
      const int shift = 16 * (column & 1);
      UINT words[4];
      UNROLL
      for (int i = 0; i < 2; i++) {
        float x[4];
        UNROLL
        for (int k = 0; k < 4; k++) {
          const int p = 32 * step + 16 * i + 8 * (k >> 1) + 2 * (lane & 3) + (k & 1);
          x[k] = ATTENTION_VALUE((values[p * stride + (column >> 1)] >> shift) & 0xffffu);
        }
        const UINT first_two = attention_pair(x[0], x[1], ups[column]);
        const UINT last_two = attention_pair(x[2], x[3], ups[column]);
        words[i] = __byte_perm(first_two >> 7, last_two >> 7, 0x6420);
        words[2 + i] = __byte_perm(first_two, last_two, 0x6420) & 0x7f7f7f7fu;
      }
      ((uint4*)columns_to)[LONG(item) * STEPS * 512 + u] = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
