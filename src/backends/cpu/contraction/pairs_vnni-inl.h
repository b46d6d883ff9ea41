// The tile of pairs.h with AVX-512 VNNI, which is not part of Highway's AVX-512 target: plain intrinsics in functions
// of their own target. Included where HWY_TARGET is AVX-512, once.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "backends/cpu/contraction/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#define LOCKSTEP_VNNI __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,fma"), noinline))

template <bool kHalves, int kRows, int kVectors> LOCKSTEP_VNNI void vnni_pair_tile(const PairTileArgs& args) {
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
  constexpr std::int64_t kBytes = 16 * bytes_of_word(kHalves);  // of a vector
  for (std::int64_t p = 0; p < args.pairs; ++p, a += kTileRows, b += 2 * kBytes) {
    __m512i column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kHalves) {
        const auto* const bytes = reinterpret_cast<const __m256i*>(b + v * kBytes);
        column[v] = _mm512_cvtepi8_epi16(_mm256_loadu_si256(bytes));
      } else {
        column[v] = _mm512_loadu_si512(b + v * kBytes);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512i row = _mm512_set1_epi32(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpwssd_epi32(sum[r][v], row, column[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(args.results + r * args.stride + 16 * v, sum[r][v]);
  }
}

struct VnniPairTiles {
  template <bool kHalves, int kVectors, int... kRowsMinusOne>
  static PairTile of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
    static constexpr PairTile kTiles[] = {&vnni_pair_tile<kHalves, few_heights(kRowsMinusOne + 1), kVectors>...};
    return kTiles[rows - 1];
  }
};

#undef LOCKSTEP_VNNI

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();
