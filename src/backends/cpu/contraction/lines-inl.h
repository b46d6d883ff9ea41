// The register tile over vectors of pixels that are not packed (lines.h). The order of terms is that of tile-inl.h: k
// ascending from +0 in a block of k, partial sums added block by block.

#if defined(LOCKSTEP_CONTRACTION_LINES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_LINES_INL_H_
#undef LOCKSTEP_CONTRACTION_LINES_INL_H_
#else
#define LOCKSTEP_CONTRACTION_LINES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/cpu/contraction/lines.h"
#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if LOCKSTEP_SCALAR_TILE

inline LineFunction line_function() {
  return nullptr;
}

#else

// Tiles have from this many rows on: more than kThinRows rows are cut into tiles of nearly the same height.
inline constexpr int kLeastLineRows = 3;
inline constexpr int kMostLineVectors = 3;
// Low tiles take a vector more: their sums fill the same registers.
inline constexpr int kLowLineRows = 2 * kTileRows / kMostLineVectors;

// kMasked: no element behind the last one of a line is touched.
template <int kRows, int kVectors, bool kMasked>
HWY_NOINLINE void line_tile(const LineArgs& args, std::int64_t row, std::int64_t vector) {
  const Tag<float> d;
  hn::Vec<Tag<float> > acc[kRows][kVectors];
  const float* weights[kRows];
  const float* pixels[kVectors];
  std::int64_t counts[kVectors];
  std::uint16_t bits[kVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    // The last tile of a segment may have vectors that do not exist.
    const bool exists = vector + v < args.vector_count;
    pixels[v] = args.data + args.vectors[exists ? vector + v : vector].address;
    counts[v] = exists ? args.vectors[vector + v].count : 0;
    bits[v] = static_cast<std::uint16_t>((1u << counts[v]) - 1);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    weights[r] = args.row_panels + (row + r) / kTileRows * args.row_panel_stride + (row + r) % kTileRows;
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
  }
  const std::int64_t* const k_address = args.k_address;
  std::int64_t at = 0;
  for (std::int64_t k = 0; k < args.k_count; ++k, at += kTileRows) {
    const std::int64_t offset = k_address[k];
    hn::Vec<Tag<float> > column[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      const float* const from = pixels[v] + offset;
      column[v] = kMasked ? load_lanes(d, from, reinterpret_cast<const std::uint8_t*>(bits + v)) : hn::LoadU(d, from);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto weight = hn::Set(d, weights[r][at]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(weight, column[v], acc[r][v]);
    }
  }
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    if (counts[v] == 0) break;
    float* to = args.results + row * args.results_stride + args.vectors[vector + v].column - args.vectors[0].column;
    const bool whole = counts[v] == kLanes<float>;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r, to += args.results_stride) {
      const auto sum = args.first ? acc[r][v] : hn::Add(hn::LoadU(d, to), acc[r][v]);
      if (whole) {
        hn::StoreU(sum, d, to);
      } else {
        hn::BlendedStore(sum, hn::FirstN(d, static_cast<std::size_t>(counts[v])), d, to);
      }
    }
  }
}

using LineTile = void (*)(const LineArgs&, std::int64_t, std::int64_t);

template <int kVectors, bool kMasked, int... kHeights>
LineTile line_tile_of(std::int64_t rows, std::integer_sequence<int, kHeights...>) {
  static constexpr LineTile kTiles[] = {&line_tile<kLeastLineRows + kHeights, kVectors, kMasked>...};
  return kTiles[rows - kLeastLineRows];
}

template <int kVectors, int kMostRows> void multiply_lines(const LineArgs& args) {
  using Heights = std::make_integer_sequence<int, kMostRows - kLeastLineRows + 1>;
  const std::int64_t tiles = (args.rows + kMostRows - 1) / kMostRows;
  const std::int64_t least = args.rows / tiles;
  const std::int64_t higher = args.rows % tiles;  // this many have a row more
  for (std::int64_t vector = 0; vector < args.vector_count; vector += kVectors) {
    const std::int64_t end = std::min(vector + kVectors, args.vector_count);
    const bool masked =
        !args.may_read_on && !std::all_of(args.vectors + vector, args.vectors + end,
                                          [](const LineVector& line) { return line.count == kLanes<float>; });
    std::int64_t row = 0;
    for (std::int64_t i = 0; i < tiles; ++i) {
      const std::int64_t rows = least + (i < higher ? 1 : 0);
      const LineTile tile =
          masked ? line_tile_of<kVectors, true>(rows, Heights{}) : line_tile_of<kVectors, false>(rows, Heights{});
      tile(args, row, vector);
      row += rows;
    }
  }
}

inline void lines(const LineArgs& args) {
  static_assert(kTileRows >= 2 * kLeastLineRows && kLowLineRows > kLeastLineRows);
  // The tiles whose sums fill more of the registers.
  const std::int64_t high_tiles = (args.rows + kTileRows - 1) / kTileRows;
  const std::int64_t low_tiles = (args.rows + kLowLineRows - 1) / kLowLineRows;
  const bool low = kMostLineVectors * high_tiles > 2 * low_tiles;
  low ? multiply_lines<kMostLineVectors, kLowLineRows>(args) : multiply_lines<2, kTileRows>(args);
}

inline LineFunction line_function() {
  return &lines;
}

#endif  // LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
