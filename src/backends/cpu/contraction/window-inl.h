// The register tile over columns that are not packed (window.h). The order of terms is that of tile-inl.h: k ascending
// from +0 in a block of k, partial sums added block by block.

#if defined(LOCKSTEP_CONTRACTION_WINDOW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_WINDOW_INL_H_
#undef LOCKSTEP_CONTRACTION_WINDOW_INL_H_
#else
#define LOCKSTEP_CONTRACTION_WINDOW_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/window.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

// Only where masks are registers of their own and a load under a mask costs no more than a load.
#if HWY_TARGET != HWY_AVX3

inline WindowFunction window_function() {
  return nullptr;
}

#else

template <int kLoads, bool kFlush, class D>
HWY_INLINE hn::Vec<D> load_window(D d, const float* from, const std::int64_t* address, const std::uint16_t* masks) {
  const auto part = [&](int i) HWY_ATTR {
    return load_lanes(d, from + address[i], reinterpret_cast<const std::uint8_t*>(masks + i));
  };
  auto value = part(0);
  if constexpr (kLoads > 1) value = hn::Or(value, part(1));
  if constexpr (kLoads > 2) value = hn::Or(value, part(2));
  return flushed<kFlush>(d, value);
}

template <int kRows, int kVectors, int kLoads, bool kFlush>
HWY_NOINLINE void window_tile(const WindowArgs& args, const float* HWY_RESTRICT a, std::int64_t vector,
                              float* HWY_RESTRICT results) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  const WindowTable& table = *args.table;
  const bool first = args.k_begin == 0;
  const std::int64_t stride = args.results_stride;
  hn::Vec<Tag<float> > acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = hn::Zero(d);
      if (!first) hwy::Prefetch(results + r * stride + v * kN);
    }
  }
  std::int64_t address[kVectors * kLoads];
  for (int i = 0; i < kVectors * kLoads; ++i) {
    address[i] = table.address[static_cast<std::size_t>(vector * kLoads + i)];
  }
  const std::uint16_t* all_masks = table.masks.data() + vector * kLoads;
  const std::int64_t* k_address = table.k_address.data();
  const std::uint32_t* k_masks = table.k_masks.data();
  const float* data = args.data;
  const std::int64_t k_end = args.k_end;
  for (std::int64_t k = args.k_begin; k < k_end; ++k, a += kTileRows) {
    const float* from = data + k_address[k];
    const std::uint16_t* masks = all_masks + k_masks[k];
    hn::Vec<Tag<float> > column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      column[v] = load_window<kLoads, kFlush>(d, from, address + v * kLoads, masks + v * kLoads);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto row = hn::Set(d, a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(row, column[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = results + r * stride + v * kN;
      hn::StoreU(first ? acc[r][v] : hn::Add(hn::LoadU(d, to), acc[r][v]), d, to);
    }
  }
}

using WindowTile = void (*)(const WindowArgs&, const float*, std::int64_t, float*);

// Even heights: the panel's lanes past its rows are zeros, and the results have room for whole tiles.
template <int kVectors, int kLoads, bool kFlush, int... kHalfHeights>
WindowTile window_tile_of(std::int64_t rows, std::integer_sequence<int, kHalfHeights...>) {
  static constexpr WindowTile kTiles[] = {&window_tile<2 * kHalfHeights + 2, kVectors, kLoads, kFlush>...};
  return kTiles[(rows - 1) / 2];
}

template <int kLoads, bool kFlush> void multiply_windows(const WindowArgs& args) {
  static_assert(kTileRows % 2 == 0);
  using Heights = std::make_integer_sequence<int, kTileRows / 2>;
  for (std::int64_t vector = args.vector_begin; vector < args.vector_end; vector += 2) {
    const bool pair = vector + 1 < args.vector_end;
    const float* panel = args.row_panels;
    float* results = args.results + (vector - args.vector_begin) * kLanes<float>;
    for (std::int64_t row = 0; row < args.rows; row += kTileRows, panel += args.row_panel_stride) {
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, args.rows - row);
      const WindowTile tile = pair ? window_tile_of<2, kLoads, kFlush>(rows, Heights{})
                                   : window_tile_of<1, kLoads, kFlush>(rows, Heights{});
      tile(args, panel, vector, results + row * args.results_stride);
    }
  }
}

inline void window(const WindowArgs& args) {
  switch (args.table->loads) {
    case 1: return args.flush ? multiply_windows<1, true>(args) : multiply_windows<1, false>(args);
    case 2: return args.flush ? multiply_windows<2, true>(args) : multiply_windows<2, false>(args);
    default: return args.flush ? multiply_windows<3, true>(args) : multiply_windows<3, false>(args);
  }
}

inline WindowFunction window_function() {
  return &window;
}

#endif  // HWY_TARGET

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
