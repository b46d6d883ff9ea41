#include "backends/gpu/cuda/attention_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

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
constexpr const char* kAttentionPassesText = R"(
// Results [batch][row][head][32 STEPS], then what each [batch][head][row] has.
template <int STEPS>
FUNCTION void attention_forward(const AttentionSizes& z, const AttentionForm& query, const AttentionForm& key,
                                const AttentionForm& value, int heads_of_all, MEMORY made, MEMORY rows_to) {
  const int lane = int(THREAD & 31u);
  for (int item = int(GROUP); item < heads_of_all * z.row_parts(); item += int(GROUPS)) {
    AttentionTile tile;
    if (!tile.find(z, item, heads_of_all)) continue;
    const int head = tile.head;
    const int key_head = tile.key_head;
    const uint4* units = key.units_of<STEPS>(key_head, z.key_blocks());
    const float* scales = key.scales_of(key_head, z.key_blocks());
    Digits q[STEPS];
    attention_left(q, query.units_of<STEPS>(head, z.row_blocks()), tile.number);
    const AttentionScales left = attention_left_scales(query.scales_of(head, z.row_blocks()) + tile.row);
    AttentionRow row0, row1;
    attention_sums(row0, row1, z, tile, q, left, units, scales);
    // Keys of this tile of 128 rows; behind the last one that is seen their values show if they are no numbers.
    const bool shows = attention_any(value.flags + key_head * z.key_blocks(), z.key_blocks()) ||
                       attention_any(key.flags + key_head * z.key_blocks(), z.key_blocks()) ||
                       attention_any(query.flags + head * z.row_blocks(), z.row_blocks());
    int end = (tile.number >> 3) * 128 + 128;
    end = SELECT(end < z.rows, end, z.rows);
    end = SELECT(end < z.keys - z.behind, (end + z.behind + 255) & ~255, z.keys);
    end = SELECT(end < z.keys, end, z.keys);
    if (!shows) end = SELECT(tile.seen < end, tile.seen, end);
    float sums[4 * STEPS][4];
    attention_clear(sums);
    const LONG first_block = LONG(key_head) * z.key_blocks();
    #pragma unroll 1
    for (int block = 0; 128 * block < end; block++) {
      float w[16][4];
      attention_weights<false>(w, z, tile, q, left, row0, row1, units, scales, block);
      attention_add_all(sums, w, value.columns_of<STEPS>(first_block + block),
                        value.column_scales_of<STEPS>(first_block + block));
    }
    const int batch = head / z.heads;
    UNROLL
    for (int h = 0; h < 2; h++) {
      const int r = tile.row + 8 * h;
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
  for (int item = int(GROUP); item < heads_of_all * z.row_parts(); item += int(GROUPS)) {
    AttentionTile tile;
    if (!tile.find(z, item, heads_of_all)) continue;
    const int head = tile.head;
    const int key_head = tile.key_head;
    const int row = tile.row;
    const bool shows = attention_any(value.flags + key_head * z.key_blocks(), z.key_blocks()) ||
                       attention_any(key.flags + key_head * z.key_blocks(), z.key_blocks()) ||
                       attention_any(query.flags + head * z.row_blocks(), z.row_blocks()) ||
                       attention_any(upstream.flags + head * z.row_blocks(), z.row_blocks());
    const int end = !shows && tile.seen < z.key_end ? tile.seen : z.key_end;
    const int in0 = SELECT(row < z.rows, row, z.rows - 1);
    const int in1 = SELECT(row + 8 < z.rows, row + 8, z.rows - 1);
    const AttentionRow row0 = attention_row(rows_at, LONG(head) * z.rows + in0);
    const AttentionRow row1 = attention_row(rows_at, LONG(head) * z.rows + in1);
    const float share0 = FROM_BITS(LOAD_U32(shares, LONG(head) * z.rows + in0));
    const float share1 = FROM_BITS(LOAD_U32(shares, LONG(head) * z.rows + in1));
    const AttentionScales of_query = attention_left_scales(query.scales_of(head, z.row_blocks()) + row);
    const AttentionScales of_upstream = attention_left_scales(upstream.scales_of(head, z.row_blocks()) + row);
    float sums[4 * STEPS][4];
    attention_clear(sums);
    #pragma unroll 1
    for (int block = 0; 128 * block < end; block++) {
      float w[16][4];
      Digits left[STEPS];
      attention_left(left, query.units_of<STEPS>(head, z.row_blocks()), tile.number);
      attention_weights<true>(w, z, tile, left, of_query, row0, row1, key.units_of<STEPS>(key_head, z.key_blocks()),
                              key.scales_of(key_head, z.key_blocks()), block);
      attention_left(left, upstream.units_of<STEPS>(head, z.row_blocks()), tile.number);
      UNROLL
      for (int j = 0; j < 16; j++) {
        float of_weights[4];
        attention_scores(of_weights, left, of_upstream, 1.0f, value.units_of<STEPS>(key_head, z.key_blocks()),
                         value.scales_of(key_head, z.key_blocks()), 16 * block + j);
        UNROLL
        for (int i = 0; i < 4; i++) w[j][i] = w[j][i] * (of_weights[i] - (i < 2 ? share0 : share1)) * z.scale;
      }
      const LONG at = LONG(key_head) * z.key_blocks() + block;
      attention_add_all(sums, w, key.columns_of<STEPS>(at), key.column_scales_of<STEPS>(at));
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
  for (int item = int(GROUP); item < key_heads_of_all * z.key_parts(); item += int(GROUPS)) {
    // Keys that most rows see first.
    const int part = item / key_heads_of_all;
    const int key_head = item - part * key_heads_of_all;
    const int tile = 4 * part + int(THREAD >> 5);
    if (16 * tile >= z.keys) continue;
    const int own = 16 * tile + (lane >> 2);
    const int batch = key_head / z.key_heads;
    const int first_head = key_head * z.repeats();
    const bool shows =
        attention_any(value.flags + key_head * z.key_blocks(), z.key_blocks()) ||
        attention_any(key.flags + key_head * z.key_blocks(), z.key_blocks()) ||
        attention_any(query.flags + first_head * z.row_blocks(), z.repeats() * z.row_blocks()) ||
        attention_any(upstream.flags + first_head * z.row_blocks(), z.repeats() * z.row_blocks());
    const AttentionScales of_key = attention_left_scales(key.scales_of(key_head, z.key_blocks()) + own);
    AttentionScales of_value = {0.0f, 0.0f};
    if (OF_KEYS) of_value = attention_left_scales(value.scales_of(key_head, z.key_blocks()) + own);
    const AttentionForm& right = OF_KEYS ? query : upstream;
    const int first_row = 16 * tile - z.behind;  // that sees one of the keys
    int first_block = SELECT(first_row > 0 && !shows, first_row >> 7, 0);
    // No row sees these: their gradients are +0.
    if (16 * tile >= z.key_end) first_block = z.row_blocks();
    float sums[4 * STEPS][4];
    attention_clear(sums);
    #pragma unroll 1
    for (int repeat = 0; repeat < z.repeats(); repeat++) {
      const int head = first_head + repeat;
      #pragma unroll 1
      for (int block = first_block; block < z.row_blocks(); block++) {
        const bool edge = 128 * block + z.behind < 16 * tile + 15;
        float w[16][4];
        Digits left[STEPS];
        attention_left(left, key.units_of<STEPS>(key_head, z.key_blocks()), tile);
        UNROLL
        for (int j = 0; j < 16; j++) {
          attention_scores(w[j], left, of_key, z.scale, query.units_of<STEPS>(head, z.row_blocks()),
                           query.scales_of(head, z.row_blocks()), 16 * block + j);
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
          attention_left(left, value.units_of<STEPS>(key_head, z.key_blocks()), tile);
          UNROLL
          for (int j = 0; j < 16; j++) {
            float of_weights[4];
            attention_scores(of_weights, left, of_value, 1.0f, upstream.units_of<STEPS>(head, z.row_blocks()),
                             upstream.scales_of(head, z.row_blocks()), 16 * block + j);
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
        const LONG at = LONG(head) * z.row_blocks() + block;
        attention_add_all(sums, w, right.columns_of<STEPS>(at), right.column_scales_of<STEPS>(at));
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
)";

}  // namespace

std::string attention_tiles_text() {
  return std::string(kAttentionProductsText) + kAttentionSoftmaxText + kAttentionPassesText + kAttentionDigitsText;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
