// The register tile over rows that are not packed (in_place.h). The order of terms is that of tile-inl.h: k ascending
// from +0 in a block of k, partial sums added block by block.

#if defined(LOCKSTEP_CONTRACTION_IN_PLACE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_IN_PLACE_INL_H_
#undef LOCKSTEP_CONTRACTION_IN_PLACE_INL_H_
#else
#define LOCKSTEP_CONTRACTION_IN_PLACE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/cpu/contraction/in_place.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if LOCKSTEP_SCALAR_TILE

inline InPlaceFunction local_in_place() {
  return nullptr;
}

#else

// Accumulators and the columns of kUnroll terms fill the register file.
template <int kVectors> inline constexpr int kInPlaceUnroll = kVectors == 1 ? 4 : kVectors == 2 ? 2 : 1;
#if HWY_TARGET == HWY_AVX2
template <int kVectors> inline constexpr int kInPlaceRows = kVectors == 3 ? 4 : 5;
#else
template <int kVectors> inline constexpr int kInPlaceRows = kVectors == 3 ? 9 : 12;
#endif

// kUnroll terms of one row follow each other, so that its address is looked up once for all of them.
template <int kRows, int kVectors, int kUnroll>
HWY_INLINE void in_place_terms(const float* const* rows, std::int64_t offset, std::int64_t stride,
                               const float* HWY_RESTRICT columns, hn::Vec<Tag<float> > (&acc)[kRows][kVectors]) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  hn::Vec<Tag<float> > column[kUnroll][kVectors];
#pragma GCC unroll 4
  for (int u = 0; u < kUnroll; ++u) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) column[u][v] = hn::LoadU(d, columns + v * in_place_panel_stride(kN) + u * kN);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const float* from = rows[r] + offset;
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      const auto row = hn::Set(d, from[u * stride]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(row, column[u][v], acc[r][v]);
    }
  }
}

template <int kRows, int kVectors, int kStride>
HWY_NOINLINE void in_place_tile(const InPlaceArgs& args, std::int64_t row, float* HWY_RESTRICT results) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  constexpr int kUnroll = kInPlaceUnroll<kVectors>;
  hn::Vec<Tag<float> > acc[kRows][kVectors];
  const float* rows[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    rows[r] = args.data + args.row_address[row + r];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
  }
  const float* columns = args.columns;
  for (std::int64_t i = 0; i < args.run_count; ++i) {
    std::int64_t offset = args.runs[i].address;
    std::int64_t left = args.runs[i].length;
    for (; left >= kUnroll; left -= kUnroll) {
      in_place_terms<kRows, kVectors, kUnroll>(rows, offset, kStride, columns, acc);
      offset += kUnroll * kStride;
      columns += kUnroll * kN;
    }
    for (; left > 0; --left) {
      in_place_terms<kRows, kVectors, 1>(rows, offset, kStride, columns, acc);
      offset += kStride;
      columns += kN;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      float* to = results + r * args.results_stride + v * kN;
      hn::StoreU(args.first ? acc[r][v] : hn::Add(hn::LoadU(d, to), acc[r][v]), d, to);
    }
  }
}

using InPlaceTile = void (*)(const InPlaceArgs&, std::int64_t, float*);

template <int kVectors, int kStride, int... kRowsMinusOne>
InPlaceTile in_place_tile_of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
  static constexpr InPlaceTile kTiles[] = {&in_place_tile<kRowsMinusOne + 1, kVectors, kStride>...};
  return kTiles[rows - 1];
}

template <int kVectors, int kStride> void multiply_in_place(const InPlaceArgs& args) {
  constexpr int kRows = kInPlaceRows<kVectors>;
  using Heights = std::make_integer_sequence<int, kRows>;
  for (std::int64_t row = 0; row < args.rows; row += kRows) {
    const std::int64_t rows = std::min<std::int64_t>(kRows, args.rows - row);
    in_place_tile_of<kVectors, kStride>(rows, Heights{})(args, row, args.results + row * args.results_stride);
  }
}

template <int kStride> void multiply_vectors_in_place(const InPlaceArgs& args) {
  static_assert(kMaxInPlaceVectors == 3);
  switch (args.vectors) {
    case 1: return multiply_in_place<1, kStride>(args);
    case 2: return multiply_in_place<2, kStride>(args);
    default: return multiply_in_place<3, kStride>(args);
  }
}

inline void in_place(const InPlaceArgs& args) {
  args.run_stride == 1 ? multiply_vectors_in_place<1>(args) : multiply_vectors_in_place<2>(args);
}

inline InPlaceFunction local_in_place() {
  return &in_place;
}

#endif  // LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
