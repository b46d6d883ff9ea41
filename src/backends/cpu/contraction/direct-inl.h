// The register tile over pixels that are not packed (direct.h). The order of terms is that of tile-inl.h: k ascending
// from +0 in a block of k, partial sums added block by block.

#if defined(LOCKSTEP_CONTRACTION_DIRECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_DIRECT_INL_H_
#undef LOCKSTEP_CONTRACTION_DIRECT_INL_H_
#else
#define LOCKSTEP_CONTRACTION_DIRECT_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/cpu/contraction/direct.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if LOCKSTEP_SCALAR_TILE

inline DirectFunction direct_function() {
  return nullptr;
}

#else

template <int kRows, int kVectors>
HWY_NOINLINE void direct_tile(const DirectArgs& args, std::int64_t row, const float* HWY_RESTRICT b,
                              float* HWY_RESTRICT results) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  hn::Vec<Tag<float> > acc[kRows][kVectors];
  const float* pixels[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    pixels[r] = args.data + args.row_address[row + r];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
  }
  const std::int64_t* const k_address = args.k_address;
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < args.k_count; ++k, b += kTileColumns<float>) {
    const std::int64_t offset = k_address[k];
    hn::Vec<Tag<float> > column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = hn::LoadU(d, b + v * kN);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto pixel = hn::Set(d, pixels[r][offset]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(pixel, column[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = results + r * args.results_stride + v * kN;
      hn::StoreU(args.first ? acc[r][v] : hn::Add(hn::LoadU(d, to), acc[r][v]), d, to);
    }
  }
}

using DirectTile = void (*)(const DirectArgs&, std::int64_t, const float*, float*);

template <int kVectors, int... kRowsMinusOne>
DirectTile direct_tile_of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
  static constexpr DirectTile kTiles[] = {&direct_tile<kRowsMinusOne + 1, kVectors>...};
  return kTiles[rows - 1];
}

inline void direct(const DirectArgs& args) {
  using Heights = std::make_integer_sequence<int, kTileRows>;
  // Tiles of nearly the same height: one of a row or two waits for its own sums, as long as a tile of many.
  const std::int64_t tiles = (args.rows + kTileRows - 1) / kTileRows;
  const std::int64_t least = args.rows / tiles;
  const std::int64_t higher = args.rows % tiles;  // this many have a row more
  const float* panel = args.column_panels;
  for (std::int64_t column = 0; column < args.columns; column += kTileColumns<float>) {
    const bool pair = args.columns - column > kLanes<float>;
    std::int64_t row = 0;
    for (std::int64_t i = 0; i < tiles; ++i) {
      const std::int64_t rows = least + (i < higher ? 1 : 0);
      const DirectTile tile = pair ? direct_tile_of<2>(rows, Heights{}) : direct_tile_of<1>(rows, Heights{});
      tile(args, row, panel, args.results + row * args.results_stride + column);
      row += rows;
    }
    panel += args.column_panel_stride;
  }
}

inline DirectFunction direct_function() {
  return &direct;
}

#endif  // LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
