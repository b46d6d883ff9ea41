// The register tile, per instruction set: tile_rows x tile_columns accumulators that live in registers for one block of
// k. acc = fma(a, b, acc) from +0 with k ascending; then the partial sums are stored or added. This order is the
// specification (docs/numerics.md section 6); tile sizes are not.

#if defined(LOCKSTEP_CONTRACTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_TILE_INL_H_
#undef LOCKSTEP_CONTRACTION_TILE_INL_H_
#else
#define LOCKSTEP_CONTRACTION_TILE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "backends/cpu/contraction/panels.h"

// Only targets whose MulAdd is one rounding may use it; the others compute one element at a time.
#undef LOCKSTEP_SCALAR_TILE
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define LOCKSTEP_SCALAR_TILE 0
#else
#define LOCKSTEP_SCALAR_TILE 1
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Accumulators + two column vectors + one broadcast fill the register file.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kTileRows = 14;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kTileRows = 6;
#elif HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 12;
#else
inline constexpr int kTileRows = 4;
#endif

#if LOCKSTEP_SCALAR_TILE

template <typename T> inline constexpr int kLanes = 8;
template <typename T> inline constexpr int kTileColumns = 8;

template <typename T> T multiply_add(T a, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(a, b, c);
  } else {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b) + static_cast<U>(c));
  }
}

template <typename T> T plus(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
}

template <typename T> T canonical_result(T value) {
  if constexpr (std::is_same_v<T, float>) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return std::bit_cast<float>(0x7fc00000u);
    return magnitude <= 0x00800000u ? std::bit_cast<float>(bits & 0x80000000u) : value;
  } else if constexpr (std::is_same_v<T, double>) {
    return value != value ? std::bit_cast<double>(std::uint64_t{0x7ff8000000000000}) : value;
  } else {
    return value;
  }
}

template <typename T, int kRows, int kVectors>
void tile(std::int64_t k_count, const T* a, const T* b, T* results, std::int64_t stride, bool first, bool finish,
          const AskedLines& /*asked*/) {
  T acc[kRows][kTileColumns<T>] = {};
  for (std::int64_t k = 0; k < k_count; ++k, a += kTileRows, b += kTileColumns<T>) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kTileColumns<T>; ++c) acc[r][c] = multiply_add(a[r], b[c], acc[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    T* to = results + r * stride;
    for (int c = 0; c < kTileColumns<T>; ++c) {
      const T sum = first ? acc[r][c] : plus(to[c], acc[r][c]);
      to[c] = finish ? canonical_result(sum) : sum;
    }
  }
}
inline constexpr int kVectorsPerTile = 1;
template <typename T> inline constexpr bool kAsksWithK = false;

#else

template <typename T> using Tag = hn::CappedTag<T, 64 / sizeof(T)>;
template <typename T> inline constexpr int kLanes = static_cast<int>(HWY_LANES(T));
template <typename T> inline constexpr int kTileColumns = 2 * kLanes<T>;
inline constexpr int kVectorsPerTile = 2;

template <class D, class V = hn::Vec<D> > HWY_INLINE V multiply_add(D, V a, V b, V c) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D> >) {
    return hn::MulAdd(a, b, c);
  } else {
    return hn::Add(hn::Mul(a, b), c);
  }
}

// Results below or at the smallest normal number become the zero of their sign, NaN the one quiet NaN.
template <class D, class V = hn::Vec<D> > HWY_INLINE V canonical_result(D d, V value) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_same_v<T, float>) {
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(di, value);
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
    const auto sign = hn::BitCast(d, hn::AndNot(hn::Set(di, 0x7fffffff), bits));
    const auto tiny = hn::RebindMask(d, hn::Lt(magnitude, hn::Set(di, 0x00800001)));
    const auto nan = hn::RebindMask(d, hn::Gt(magnitude, hn::Set(di, 0x7f800000)));
    const auto quiet = hn::BitCast(d, hn::Set(di, 0x7fc00000));
    return hn::IfThenElse(nan, quiet, hn::IfThenElse(tiny, sign, value));
  } else if constexpr (std::is_same_v<T, double>) {
    const hn::RebindToSigned<D> di;
    return hn::IfThenElse(hn::IsNaN(value), hn::BitCast(d, hn::Set(di, 0x7ff8000000000000)), value);
  } else {
    return value;
  }
}

// Low tiles have few lines to ask for.
template <typename T> inline constexpr bool kAsksWithK = std::is_same_v<T, float> && kTileRows >= 12;

template <typename T, int kRows, int kVectors>
HWY_NOINLINE void tile(std::int64_t k_count, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, T* HWY_RESTRICT results,
                       std::int64_t stride, bool first, bool finish, const AskedLines& asked) {
  const Tag<T> d;
  constexpr int kN = kLanes<T>;
  hn::Vec<Tag<T> > acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = hn::Zero(d);
      if (!first) hwy::Prefetch(results + r * stride + v * kN);
    }
  }
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < k_count; ++k) {
    hn::Vec<Tag<T> > column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = hn::LoadU(d, b + v * kN);
    if constexpr (kAsksWithK<T>) hwy::Prefetch(asked.lines[static_cast<std::size_t>(k) % AskedLines::kMost]);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto row = hn::Set(d, a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[r][v] = multiply_add(d, row, column[v], acc[r][v]);
    }
    a += kTileRows;
    b += kTileColumns<T>;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      T* to = results + r * stride + v * kN;
      auto sum = acc[r][v];
      if (!first) sum = hn::Add(hn::LoadU(d, to), sum);
      if (finish) sum = canonical_result(d, sum);
      hn::StoreU(sum, d, to);
    }
  }
}

#endif  // LOCKSTEP_SCALAR_TILE

template <typename T>
using TileFunction = void (*)(std::int64_t, const T*, const T*, T*, std::int64_t, bool, bool, const AskedLines&);

// Rows of a tile where so many are left, of the heights that less common types are compiled for: all of them would be a third
// of this library's products.
constexpr int few_heights(std::int64_t rows) {
  return rows >= kTileRows ? kTileRows : static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(rows)));
}
// Every height for floats, so that ragged edges cost what they are worth.
template <typename T> constexpr int tile_height(std::int64_t rows) {
  return std::is_same_v<T, float> ? static_cast<int>(rows) : few_heights(rows);
}
template <typename T, int kVectors, int... kRowsMinusOne>
TileFunction<T> tile_of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
  static constexpr TileFunction<T> kTiles[] = {&tile<T, tile_height<T>(kRowsMinusOne + 1), kVectors>...};
  return kTiles[rows - 1];
}

template <typename T> TileFunction<T> tile_of(std::int64_t rows, std::int64_t vectors) {
  using Heights = std::make_integer_sequence<int, kTileRows>;
  return vectors == kVectorsPerTile ? tile_of<T, kVectorsPerTile>(rows, Heights{}) : tile_of<T, 1>(rows, Heights{});
}

// A tile at the ragged edge of an output that has no room for whole vectors.
template <typename T>
void edge_tile(TileFunction<T> function, std::int64_t k_count, const T* a, const T* b, T* results, std::int64_t stride,
               std::int64_t rows, std::int64_t columns, bool first, bool finish, const AskedLines& asked) {
  alignas(64) T local[kTileRows * kTileColumns<T>] = {};
  const std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(T);
  if (!first) {
    for (std::int64_t r = 0; r < rows; ++r) std::memcpy(local + r * kTileColumns<T>, results + r * stride, bytes);
  }
  function(k_count, a, b, local, kTileColumns<T>, first, finish, asked);
  for (std::int64_t r = 0; r < rows; ++r) std::memcpy(results + r * stride, local + r * kTileColumns<T>, bytes);
}

template <typename T> void multiply(const MultiplyArgs& args) {
  const T* a = static_cast<const T*>(args.row_panels);
  T* results = static_cast<T*>(args.results);
  const bool asks_with_k = kAsksWithK<T> && args.destination.operand.data != nullptr;
  AskedLines some;
  if (asks_with_k) some = kNothingAsked;
  const AskedLines& asked = asks_with_k ? some : kNothingAsked;
  for (std::int64_t row = 0; row < args.rows; row += kTileRows, a += args.row_panel_stride) {
    const std::int64_t rows = std::min<std::int64_t>(kTileRows, args.rows - row);
    const T* b = static_cast<const T*>(args.column_panels);
    for (std::int64_t column = 0; column < args.columns; column += kTileColumns<T>, b += args.column_panel_stride) {
      const std::int64_t columns = std::min<std::int64_t>(kTileColumns<T>, args.columns - column);
      const std::int64_t vectors = (columns + kLanes<T> - 1) / kLanes<T>;
      if (asks_with_k) {
        some.find(args.destination, row, rows, column, columns, args.k_count);
      } else {
        args.destination.ask_for(row, rows, column, columns);
      }
      T* to = results + row * args.results_stride + column;
      for (std::int64_t done = 0, height = 0; done < rows; done += height, to += height * args.results_stride) {
        height = tile_height<T>(rows - done);
        const TileFunction<T> function = tile_of<T>(height, vectors);
        if (args.padded || columns == vectors * kLanes<T>) {
          function(args.k_count, a + done, b, to, args.results_stride, args.first, args.finish, asked);
        } else {
          edge_tile<T>(function, args.k_count, a + done, b, to, args.results_stride, height, columns, args.first,
                       args.finish, asked);
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
