// The tiles of blocked contractions with NEON's products of bytes (blocked.h). Included where HWY_TARGET is NEON, once.
#pragma once

#include <cstdint>
#include <utility>

#include "backends/cpu/contraction/blocked-inl.h"
#include "backends/cpu/contraction/neon_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

// Three accumulators for each result of these rows times two vectors of four columns, and what multiplies: 30
// registers.
inline constexpr int kByteRows = 4;
static_assert(kLanes<float> == 4);

HWY_INLINE int8x16_t load_bytes(const std::int32_t* words) {
  return vld1q_s8(reinterpret_cast<const std::int8_t*>(words));
}

// The block's sums of four columns of a row: those of h h, of h l and l h, and of l l and 64.
HWY_INLINE void add_block(int32x4_t high, int32x4_t middle, int32x4_t low, std::int32_t row_scale,
                          const std::int32_t* column_scales, float* to, bool first) {
  const int32x4_t sum = vsraq_n_s32(vaddq_s32(vshlq_n_s32(high, 7), middle), low, 7);
  const float32x4_t scale = vreinterpretq_f32_s32(vld1q_s32(column_scales));
  const float32x4_t before = first ? vdupq_n_f32(0.0f) : vld1q_f32(to);
  const float32x4_t scaled = vmulq_n_f32(vcvtq_f32_s32(sum), std::bit_cast<float>(row_scale));
  vst1q_f32(to, vfmaq_f32(before, scaled, scale));
}

template <int kRows, int kVectors> HWY_NOINLINE void dot_tile(const BlockedTileArgs& args) {
  constexpr int kWidth = kTileColumns<float>;
  const BlockedParts<BlockedForm::dot_rows, kTileRows> row_parts(args.k);
  const BlockedParts<BlockedForm::dot_columns, kWidth> column_parts(args.k);
  int32x4_t high[kRows][kVectors], middle[kRows][kVectors], low[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      high[r][v] = middle[r][v] = vdupq_n_s32(0);
      low[r][v] = vdupq_n_s32(64);
    }
  }
  const std::int32_t* a = args.rows;
  const std::int32_t* b = args.columns;
  for (std::int64_t p = 0; p < args.k / 4; ++p, a += kTileRows, b += kWidth) {
    const int8x16_t row_high = load_bytes(a);
    const int8x16_t row_low = load_bytes(a + row_parts.second);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const int8x16_t column_high = load_bytes(b + 4 * v);
      const int8x16_t column_low = load_bytes(b + column_parts.second + 4 * v);
      const auto add = [&]<int r>(std::integral_constant<int, r>) __attribute__((always_inline)) {
        high[r][v] = add_dots<r>(high[r][v], column_high, row_high);
        middle[r][v] = add_dots<r>(middle[r][v], column_low, row_high);
        middle[r][v] = add_dots<r>(middle[r][v], column_high, row_low);
        low[r][v] = add_dots<r>(low[r][v], column_low, row_low);
      };
      [add]<int... r>(std::integer_sequence<int, r...>) __attribute__((always_inline)) {
        (add(std::integral_constant<int, r>()), ...);
      }(std::make_integer_sequence<int, kRows>());
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      add_block(high[r][v], middle[r][v], low[r][v], args.rows[row_parts.scales + r],
                args.columns + column_parts.scales + 4 * v, args.results + r * args.stride + 4 * v, args.first);
    }
  }
}

// Two rows by two columns are a vector.
template <int kRows, int kVectors> HWY_NOINLINE void matrix_tile(const BlockedTileArgs& args) {
  constexpr int kWidth = kTileColumns<float>;
  constexpr int kPairs = (kRows + 1) / 2;
  constexpr int kColumnPairs = 2 * kVectors;
  const BlockedParts<BlockedForm::matrix_rows, kTileRows> row_parts(args.k);
  const BlockedParts<BlockedForm::matrix_columns, kWidth> column_parts(args.k);
  int32x4_t high[kPairs][kColumnPairs], middle[kPairs][kColumnPairs], low[kPairs][kColumnPairs];
#pragma GCC unroll 2
  for (int r = 0; r < kPairs; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumnPairs; ++c) {
      high[r][c] = middle[r][c] = vdupq_n_s32(0);
      low[r][c] = vdupq_n_s32(64);
    }
  }
  const std::int32_t* a = args.rows + args.row;  // two words a row
  const std::int32_t* b = args.columns;
  for (std::int64_t p = 0; p < args.k / 8; ++p, a += 2 * kTileRows, b += 2 * kWidth) {
    int8x16_t row_high[kPairs], row_low[kPairs];
#pragma GCC unroll 2
    for (int r = 0; r < kPairs; ++r) {
      row_high[r] = load_bytes(a + 4 * r);
      row_low[r] = load_bytes(a + row_parts.second + 4 * r);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kColumnPairs; ++c) {
      const int8x16_t column_high = load_bytes(b + 4 * c);
      const int8x16_t column_low = load_bytes(b + column_parts.second + 4 * c);
#pragma GCC unroll 2
      for (int r = 0; r < kPairs; ++r) {
        high[r][c] = add_matrices(high[r][c], row_high[r], column_high);
        middle[r][c] = add_matrices(middle[r][c], row_high[r], column_low);
        middle[r][c] = add_matrices(middle[r][c], row_low[r], column_high);
        low[r][c] = add_matrices(low[r][c], row_low[r], column_low);
      }
    }
  }
  const auto row_of = [](const int32x4_t* sums, int half) {
    const auto left = vreinterpretq_s64_s32(sums[0]), right = vreinterpretq_s64_s32(sums[1]);
    return vreinterpretq_s32_s64(half == 0 ? vtrn1q_s64(left, right) : vtrn2q_s64(left, right));
  };
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      add_block(row_of(&high[r / 2][2 * v], r % 2), row_of(&middle[r / 2][2 * v], r % 2),
                row_of(&low[r / 2][2 * v], r % 2), args.rows[row_parts.scales + r],
                args.columns + column_parts.scales + 4 * v, args.results + r * args.stride + 4 * v, args.first);
    }
  }
}

struct DotTiles {
  using State = NoState;
  static constexpr int kPanelRows = kTileRows;
  static constexpr BlockedForm kRowForm = BlockedForm::dot_rows;
  static constexpr BlockedForm kColumnForm = BlockedForm::dot_columns;
  static constexpr int kRows = kByteRows;
  template <int kVectors, int... kRowsMinusOne>
  static BlockedTile of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
    static constexpr BlockedTile kTiles[] = {&dot_tile<kRowsMinusOne + 1, kVectors>...};
    return kTiles[rows - 1];
  }
};

struct MatrixTiles {
  using State = NoState;
  static constexpr int kPanelRows = kTileRows;
  static constexpr BlockedForm kRowForm = BlockedForm::matrix_rows;
  static constexpr BlockedForm kColumnForm = BlockedForm::matrix_columns;
  static constexpr int kRows = kByteRows;
  template <int kVectors, int... kRowsMinusOne>
  static BlockedTile of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
    static constexpr BlockedTile kTiles[] = {&matrix_tile<kRowsMinusOne + 1, kVectors>...};
    return kTiles[rows - 1];
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();
