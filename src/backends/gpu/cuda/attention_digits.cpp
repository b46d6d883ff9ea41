#include "backends/gpu/cuda/attention_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

const char* const kAttentionDigitsText = R"(
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
