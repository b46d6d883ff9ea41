// The tiles of blocked contractions with AVX-512 VNNI (blocked.h), which is not part of Highway's AVX-512 target: plain
// intrinsics in functions of their own target. Included where HWY_TARGET is AVX-512, once.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "backends/cpu/contraction/blocked-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#define LOCKSTEP_VNNI __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,fma"), noinline))

template <int kRows, int kVectors> LOCKSTEP_VNNI void vnni_tile(const BlockedTileArgs& args) {
  constexpr int kWidth = kTileColumns<float>;
  const BlockedParts<BlockedForm::vnni_rows, kTileRows> row_parts(args.k);
  const BlockedParts<BlockedForm::vnni_columns, kWidth> column_parts(args.k);
  __m512i sum[kRows][kVectors];
  __m512i high[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = _mm512_set1_epi32(64);
      high[r][v] = _mm512_loadu_si512(args.columns + column_parts.extra + 16 * v);
    }
  }
  const std::int32_t* a = args.rows;
  const std::int32_t* b = args.columns;
  for (std::int64_t p = 0; p < args.k / 2; ++p, a += kTileRows, b += kWidth) {
    __m512i column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = _mm512_loadu_si512(b + 16 * v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i row = _mm512_set1_epi32(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpwssd_epi32(sum[r][v], row, column[v]);
    }
  }
  a = args.rows + row_parts.second;
  b = args.columns + column_parts.second;
  for (std::int64_t p = 0; p < args.k / 4; ++p, a += kTileRows, b += kWidth) {
    __m512i column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = _mm512_loadu_si512(b + 16 * v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i row = _mm512_set1_epi32(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) high[r][v] = _mm512_dpbusd_epi32(high[r][v], row, column[v]);
    }
  }
  __m512 scale[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) scale[v] = _mm512_loadu_ps(args.columns + column_parts.scales + 16 * v);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512 row_scale = _mm512_castsi512_ps(_mm512_set1_epi32(args.rows[row_parts.scales + r]));
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const __m512i rest = _mm512_sub_epi32(sum[r][v], _mm512_slli_epi32(high[r][v], 14));
      const __m512i rounded = _mm512_add_epi32(_mm512_slli_epi32(high[r][v], 7), _mm512_srai_epi32(rest, 7));
      float* const to = args.results + r * args.stride + 16 * v;
      const __m512 before = args.first ? _mm512_setzero_ps() : _mm512_loadu_ps(to);
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(rounded), row_scale);
      _mm512_storeu_ps(to, _mm512_fmadd_ps(scaled, scale[v], before));
    }
  }
}

struct VnniTiles {
  using State = NoState;
  static constexpr int kPanelRows = kTileRows;
  static constexpr BlockedForm kRowForm = BlockedForm::vnni_rows;
  static constexpr BlockedForm kColumnForm = BlockedForm::vnni_columns;
  static constexpr int kRows = kBlockedRows;
  template <int kVectors, int... kRowsMinusOne>
  static BlockedTile of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
    static constexpr BlockedTile kTiles[] = {&vnni_tile<kRowsMinusOne + 1, kVectors>...};
    return kTiles[rows - 1];
  }
};

#undef LOCKSTEP_VNNI

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();
