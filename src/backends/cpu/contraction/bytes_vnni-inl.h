// What bytes.h describes: packing and the tile, with plain intrinsics, as in pairs_vnni-inl.h. Included where HWY_TARGET
// is AVX-512, once.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/cpu/contraction/bytes.h"
#include "backends/cpu/contraction/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

// Elements [k][lane] become words [k / 4][lane] in the same memory.
template <int kWidth> void four_up(std::uint8_t* panel, std::int64_t k_count) {
  std::fill_n(panel + k_count * kWidth, ((k_count + 3) / 4 * 4 - k_count) * kWidth, std::uint8_t{0});
  for (std::int64_t k = 0; k < k_count; k += 4, panel += 4 * kWidth) {
    std::uint8_t rows[4][kWidth];
    std::memcpy(rows, panel, sizeof rows);
    for (int lane = 0; lane < kWidth; ++lane) {
      for (int i = 0; i < 4; ++i) panel[4 * lane + i] = rows[i][lane];
    }
  }
}

template <int kWidth> void pack_fours(const PackArgs& args) {
  if (args.k_count == 0) return;
  if (args.side->order == Side::Order::along_k) {
    return pack_words_along_k<std::uint8_t, std::uint8_t>(args, kWidth, &transpose<float, kWidth>);
  }
  PackArgs elements = args;
  elements.panel_stride = 4 * args.panel_stride;
  pack<std::uint8_t, kWidth>(elements);
  auto* panel = static_cast<std::uint8_t*>(args.panels);
  for (std::int64_t o = 0; o < args.outer_count; o += kWidth, panel += elements.panel_stride) {
    four_up<kWidth>(panel, args.k_count);
  }
}

#define LOCKSTEP_VNNI __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,fma"), noinline))

template <bool kSignedRows, int kRows, int kVectors> LOCKSTEP_VNNI void vnni_byte_tile(const PairTileArgs& args) {
  __m512i sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = args.first ? _mm512_setzero_si512() : _mm512_loadu_si512(args.results + r * args.stride + 16 * v);
    }
  }
  const std::int32_t* a = args.rows;
  const std::byte* b = args.columns;
  constexpr std::int64_t kBytes = 64;  // of a vector
  for (std::int64_t p = 0; p < args.pairs; ++p, a += kTileRows, b += 2 * kBytes) {
    __m512i column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = _mm512_loadu_si512(b + v * kBytes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512i row = _mm512_set1_epi32(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = kSignedRows ? _mm512_dpbusd_epi32(sum[r][v], column[v], row)
                                : _mm512_dpbusd_epi32(sum[r][v], row, column[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(args.results + r * args.stride + 16 * v, sum[r][v]);
  }
}

template <bool kSignedRows> struct VnniByteTiles {
  template <bool, int kVectors, int... kRowsMinusOne>
  static PairTile of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
    static constexpr PairTile kTiles[] = {&vnni_byte_tile<kSignedRows, few_heights(kRowsMinusOne + 1), kVectors>...};
    return kTiles[rows - 1];
  }
};

#undef LOCKSTEP_VNNI

template <bool kSignedRows> constexpr KernelSet byte_kernels_of() {
  return {.lanes = kLanes<std::int32_t>,
          .tile_rows = kTileRows,
          .tile_columns = kTileColumns<std::int32_t>,
          .element_size = sizeof(std::int32_t),
          .panel_words = &byte_panel_words,
          .pack_rows = &pack_fours<kTileRows>,
          .pack_columns = &pack_fours<kTileColumns<std::int32_t>>,
          .multiply = &multiply_pairs<VnniByteTiles<kSignedRows>, false, 4>};
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();
