// The tiles of blocked contractions with AMX (blocked.h): the digits of 16 rows times 64 k of 16 columns are one
// instruction. Its sums go through memory into what they are made of. Included where HWY_TARGET is AVX-512, once.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/cpu/contraction/amx_tiles.h"
#include "backends/cpu/contraction/blocked-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

inline constexpr int kAmxRows = 16;
// Sums of h h, h l, l h and l l; then h and l of rows, of columns.
inline constexpr TileSizes kBlockedTileSizes = [] {
  TileSizes sizes;
  for (int i = 0; i < 8; ++i) sizes.set(i, 16, 64);
  return sizes;
}();

using AmxSums = std::int32_t[4][kAmxRows][16];

// What the sums of up to kAmxRows rows and 16 columns are made of; `scales` of rows.
LOCKSTEP_AMX inline void add_amx_sums(const AmxSums& sums, const std::int32_t* scales, std::int64_t row_count,
                                      __m512 scale, float* to, std::int64_t stride, bool first) {
  const __m512i half = _mm512_set1_epi32(64);
  for (std::int64_t r = 0; r < row_count; ++r, to += stride) {
    const __m512i high = _mm512_slli_epi32(_mm512_load_si512(sums[0][r]), 7);
    const __m512i middle = _mm512_add_epi32(_mm512_load_si512(sums[1][r]), _mm512_load_si512(sums[2][r]));
    const __m512i low = _mm512_srai_epi32(_mm512_add_epi32(_mm512_load_si512(sums[3][r]), half), 7);
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(high, middle), low);
    const __m512 row_scale = _mm512_castsi512_ps(_mm512_set1_epi32(scales[r]));
    const __m512 before = first ? _mm512_setzero_ps() : _mm512_loadu_ps(to);
    _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), row_scale), scale, before));
  }
}

// Columns of 16 one after the other, each for all rows, which find them in the first cache. While tiles multiply, the
// sums before are added.
template <int kVectors> LOCKSTEP_AMX void amx_tile(const BlockedTileArgs& args) {
  constexpr int kWidth = kTileColumns<float>;
  constexpr int kRowBytes = 64, kColumnBytes = 4 * kWidth;
  const BlockedParts<BlockedForm::tile_rows, kWidth> parts(args.k);  // those of columns, too
  alignas(64) AmxSums sums;
  const auto add = [&](std::int64_t row, int v) LOCKSTEP_AMX {
    add_amx_sums(sums, args.rows + parts.scales + row, std::min<std::int64_t>(args.row_count - row, kAmxRows),
                 _mm512_loadu_ps(args.columns + parts.scales + 16 * v), args.results + row * args.stride + 16 * v,
                 args.stride, args.first);
  };
  const std::int64_t last_row = (args.row_count - 1) / kAmxRows * kAmxRows;
  for (int v = 0; v < kVectors; ++v) {
    for (std::int64_t row = 0; row < args.row_count; row += kAmxRows) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      const std::int32_t* a = args.rows + 16 * row;
      const std::int32_t* b = args.columns + 16 * v;
      for (std::int64_t k = 0; k < args.k; k += 64, a += 16 * kWidth, b += 16 * kWidth) {
        _tile_loadd(4, a, kRowBytes);
        _tile_loadd(6, b, kColumnBytes);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(7, b + parts.second, kColumnBytes);
        _tile_dpbssd(1, 4, 7);
        _tile_loadd(5, a + parts.second, kRowBytes);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
      }
      if (row != 0) {
        add(row - kAmxRows, v);
      } else if (v != 0) {
        add(last_row, v - 1);
      }
      _tile_stored(0, sums[0], 64);
      _tile_stored(1, sums[1], 64);
      _tile_stored(2, sums[2], 64);
      _tile_stored(3, sums[3], 64);
    }
  }
  add(last_row, kVectors - 1);
}

struct AmxTiles {
  struct State {
    LOCKSTEP_AMX State() { _tile_loadconfig(&kBlockedTileSizes); }
    LOCKSTEP_AMX ~State() { _tile_release(); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
  };
  static constexpr BlockedForm kRowForm = BlockedForm::tile_rows;
  static constexpr BlockedForm kColumnForm = BlockedForm::tile_columns;
  static constexpr int kPanelRows = kTileColumns<float>;
  static constexpr int kRows = kPanelRows;
  template <int kVectors, int... kHeights>
  static BlockedTile of(std::int64_t, std::integer_sequence<int, kHeights...>) {
    return &amx_tile<kVectors>;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();
