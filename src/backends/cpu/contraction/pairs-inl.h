// What pairs.h describes, per instruction set that multiplies pairs. The tile of AVX-512 VNNI is in pairs_vnni-inl.h.

#if defined(LOCKSTEP_CONTRACTION_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_PAIRS_INL_H_
#undef LOCKSTEP_CONTRACTION_PAIRS_INL_H_
#else
#define LOCKSTEP_CONTRACTION_PAIRS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/pairs.h"
#include "backends/cpu/contraction/tile-inl.h"

#if !LOCKSTEP_SCALAR_TILE

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

// sum + the products of 16-bit pairs.
template <class D, class D16 = hn::Repartition<std::int16_t, D>>
HWY_INLINE hn::Vec<D> add_products(D d, hn::Vec<D16> a, hn::Vec<D16> b, hn::Vec<D> sum) {
#if HWY_TARGET == HWY_NEON
  auto odd = hn::Zero(d);
  const auto even = hn::ReorderWidenMulAccumulate(d, a, b, hn::Zero(d), odd);
  return hn::Add(sum, hn::RearrangeToOddPlusEven(even, odd));
#else
  auto unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, a, b, sum, unused);
#endif
}

// Lanes of neighbours along k: two or four are a word, and words are transposed as f32 are.
template <typename Source, typename Element>
void pack_words_along_k(const PackArgs& args, int width, Transpose<float> transpose) {
  constexpr std::int64_t kTerms = 4 / sizeof(Element);
  PackWorkspace& workspace = *args.workspace;
  const Side& side = *args.side;
  const Geometry& geometry = side.geometry;
  const auto fill = decode_fill<Element>(side.dtype, side.fill, false);
  const std::int64_t stride = geometry.k.inner_stride();
  const Source* data = reinterpret_cast<const Source*>(args.data) + args.batch.address;
  const int pieces =
      cut_pieces(geometry.k, geometry.bounds(), args.k_begin, args.k_count, args.k_count, workspace.pieces);
  const std::int64_t words = (args.k_count + kTerms - 1) / kTerms;
  const bool straight = std::is_same_v<Source, Element> && pieces == 1 && stride == 1 && geometry.bounds() == 0 &&
                        args.k_count == kTerms * words;
  PackArgs of_words = args;
  of_words.k_count = words;
  pack_lanes<float>(of_words, width, transpose, false, [&](const Position& outer, float* stage) -> const float* {
    const Source* from = data + outer.address;
    if (straight) return reinterpret_cast<const float*>(from + workspace.pieces[0].position.address);
    auto* const to = reinterpret_cast<Element*>(stage);
    for (int p = 0; p < pieces; ++p) {
      const Piece& piece = workspace.pieces[p];
      const Span span = valid_span(geometry, geometry.k, coordinates(args.batch), coordinates(outer),
                                   coordinates(piece.position), piece.length);
      copy_run(from + piece.position.address, stride, span, piece.length, false, fill, to + piece.begin);
    }
    std::fill(to + args.k_count, to + kTerms * words, Element{0});
    return stage;
  });
}

// Elements [k][lane] become pairs [k / 2][lane] in the same memory.
template <int kWidth> void pair_up(std::int16_t* panel, std::int64_t k_count) {
  if (k_count % 2 != 0) std::fill_n(panel + k_count * kWidth, kWidth, std::int16_t{0});
  for (std::int64_t k = 0; k < k_count; k += 2, panel += 2 * kWidth) {
    std::int16_t even[kWidth];
    std::int16_t odd[kWidth];
    std::memcpy(even, panel, sizeof even);
    std::memcpy(odd, panel + kWidth, sizeof odd);
    std::int16_t pairs[2 * kWidth];
    for (int lane = 0; lane < kWidth; ++lane) {
      pairs[2 * lane] = even[lane];
      pairs[2 * lane + 1] = odd[lane];
    }
    std::memcpy(panel, pairs, sizeof pairs);
  }
}

template <int kWidth> void pack_pairs(const PackArgs& args) {
  if (args.k_count == 0) return;
  if (args.side->order == Side::Order::along_k) {
    switch (args.side->dtype) {
      case DType::i16: return pack_words_along_k<std::int16_t, std::int16_t>(args, kWidth, &transpose<float, kWidth>);
      case DType::i8: return pack_words_along_k<std::int8_t, std::int16_t>(args, kWidth, &transpose<float, kWidth>);
      default:  // booleans, too
        return pack_words_along_k<std::uint8_t, std::int16_t>(args, kWidth, &transpose<float, kWidth>);
    }
  }
  PackArgs elements = args;
  elements.panel_stride = 2 * args.panel_stride;
  pack<std::int16_t, kWidth>(elements);
  auto* panel = static_cast<std::int16_t*>(args.panels);
  for (std::int64_t o = 0; o < args.outer_count; o += kWidth, panel += elements.panel_stride) {
    pair_up<kWidth>(panel, args.k_count);
  }
}

// A tile of rows x vectors over `pairs` words of each lane.
struct PairTileArgs {
  std::int64_t pairs;
  const std::int32_t* rows;
  const std::byte* columns;
  std::int32_t* results;
  std::int64_t stride;
  bool first;
};
using PairTile = void (*)(const PairTileArgs&);

// Bytes of a word of columns.
constexpr std::int64_t bytes_of_word(bool halves) {
  return halves ? 2 : 4;
}

template <bool kHalves> HWY_INLINE auto load_pairs(const std::byte* from) {
  const hn::Repartition<std::int16_t, Tag<std::int32_t>> d16;
  if constexpr (kHalves) {
    const hn::Rebind<std::int8_t, decltype(d16)> d8;
    return hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(from)));
  } else {
    return hn::LoadU(d16, reinterpret_cast<const std::int16_t*>(from));
  }
}

template <bool kHalves, int kRows, int kVectors> HWY_NOINLINE void pair_tile(const PairTileArgs& args) {
  constexpr int kN = kLanes<std::int32_t>;
  constexpr std::int64_t kBytes = bytes_of_word(kHalves);
  const Tag<std::int32_t> d;
  const hn::Repartition<std::int16_t, Tag<std::int32_t>> d16;
  hn::Vec<Tag<std::int32_t>> sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = args.first ? hn::Zero(d) : hn::LoadU(d, args.results + r * args.stride + v * kN);
    }
  }
  const std::int32_t* HWY_RESTRICT a = args.rows;
  const std::byte* HWY_RESTRICT b = args.columns;
#pragma GCC unroll 2
  for (std::int64_t p = 0; p < args.pairs; ++p, a += kTileRows, b += 2 * kN * kBytes) {
    hn::Vec<decltype(d16)> column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = load_pairs<kHalves>(b + v * kN * kBytes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto row = hn::BitCast(d16, hn::Set(d, a[r]));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = add_products(d, row, column[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, args.results + r * args.stride + v * kN);
  }
}

struct PairTiles {
  template <bool kHalves, int kVectors, int... kRowsMinusOne>
  static PairTile of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
    static constexpr PairTile kTiles[] = {&pair_tile<kHalves, few_heights(kRowsMinusOne + 1), kVectors>...};
    return kTiles[rows - 1];
  }
};

// The tiles of a panel of `rows` rows, one below the other.
template <typename Tiles, bool kHalves, int kVectors> void run_pair_tiles(PairTileArgs tile, std::int64_t rows) {
  using Heights = std::make_integer_sequence<int, kTileRows>;
  for (std::int64_t height = 0; rows > 0; rows -= height) {
    height = few_heights(rows);
    Tiles::template of<kHalves, kVectors>(height, Heights{})(tile);
    tile.rows += height;
    tile.results += height * tile.stride;
  }
}

// `kTerms`: how many a word of the panels holds.
template <typename Tiles, bool kHalves, int kTerms = 2> void multiply_pairs(const MultiplyArgs& args) {
  constexpr int kWidth = kTileColumns<std::int32_t>;
  auto* const results = static_cast<std::int32_t*>(args.results);
  const auto* a = static_cast<const std::int32_t*>(args.row_panels);
  PairTileArgs tile{.pairs = (args.k_count + kTerms - 1) / kTerms,
                    .rows = a,
                    .columns = nullptr,
                    .results = nullptr,
                    .stride = 0,
                    .first = args.first};
  for (std::int64_t row = 0; row < args.rows; row += kTileRows, tile.rows += args.row_panel_stride) {
    const std::int64_t rows = std::min<std::int64_t>(kTileRows, args.rows - row);
    tile.columns = static_cast<const std::byte*>(args.column_panels);
    const std::int64_t panel = args.column_panel_stride * bytes_of_word(kHalves);
    for (std::int64_t column = 0; column < args.columns; column += kWidth, tile.columns += panel) {
      const std::int64_t columns = std::min<std::int64_t>(kWidth, args.columns - column);
      const std::int64_t vectors = (columns + kLanes<std::int32_t> - 1) / kLanes<std::int32_t>;
      const auto run = vectors == 2 ? &run_pair_tiles<Tiles, kHalves, 2> : &run_pair_tiles<Tiles, kHalves, 1>;
      std::int32_t* const to = results + row * args.results_stride + column;
      if (args.padded || columns == vectors * kLanes<std::int32_t>) {
        tile.results = to;
        tile.stride = args.results_stride;
        run(tile, rows);
        continue;
      }
      alignas(64) std::int32_t local[kTileRows * kWidth] = {};
      const std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(std::int32_t);
      if (!args.first) {
        for (std::int64_t r = 0; r < rows; ++r) std::memcpy(local + r * kWidth, to + r * args.results_stride, bytes);
      }
      tile.results = local;
      tile.stride = kWidth;
      run(tile, rows);
      for (std::int64_t r = 0; r < rows; ++r) std::memcpy(to + r * args.results_stride, local + r * kWidth, bytes);
    }
  }
}

// Words that are pairs of 16 bits, as pairs of bytes.
inline bool halve_pairs(const std::int32_t* words, std::int64_t count, std::int16_t* halves) {
  const auto* const from = reinterpret_cast<const std::int16_t*>(words);
  auto* const to = reinterpret_cast<std::int8_t*>(halves);
  int lost = 0;
  for (std::int64_t i = 0; i < 2 * count; ++i) {
    to[i] = static_cast<std::int8_t>(from[i]);
    lost |= to[i] ^ from[i];
  }
  return lost == 0;
}

template <typename Tiles> constexpr KernelSet pair_kernels_of() {
  static_assert(kTileColumns<std::int32_t> == 2 * kLanes<std::int32_t>);
  return {.lanes = kLanes<std::int32_t>,
          .tile_rows = kTileRows,
          .tile_columns = kTileColumns<std::int32_t>,
          .element_size = sizeof(std::int32_t),
          .panel_words = &pair_panel_words,
          .pack_rows = &pack_pairs<kTileRows>,
          .pack_columns = &pack_pairs<kTileColumns<std::int32_t>>,
          .multiply = &multiply_pairs<Tiles, false>,
          .multiply_halves = &multiply_pairs<Tiles, true>,
          .halve = &halve_pairs};
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // !LOCKSTEP_SCALAR_TILE

#endif  // include guard, per target
