// What blocked.h describes, per instruction set: panels of integers, and the tiles in words. The tiles of AVX-512 VNNI
// are in blocked_vnni-inl.h, those of NEON's products of bytes in blocked_neon-inl.h.

#if defined(LOCKSTEP_CONTRACTION_BLOCKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_BLOCKED_INL_H_
#undef LOCKSTEP_CONTRACTION_BLOCKED_INL_H_
#else
#define LOCKSTEP_CONTRACTION_BLOCKED_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "backends/cpu/contraction/blocked.h"
#include "backends/cpu/contraction/pairs-inl.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

enum class BlockedForm : std::uint8_t {
  word_rows,
  word_columns,
  vnni_rows,
  vnni_columns,
  dot_rows,
  dot_columns,
  matrix_rows,
  matrix_columns,
  tile_rows,
  tile_columns
};
constexpr bool is_of_rows(BlockedForm form) {
  return form == BlockedForm::word_rows || form == BlockedForm::vnni_rows || form == BlockedForm::dot_rows ||
         form == BlockedForm::matrix_rows || form == BlockedForm::tile_rows;
}
/// How many neighbours along k lie together in a panel of bytes; 0: in one of words or vnni.
constexpr int bytes_together(BlockedForm form) {
  switch (form) {
    case BlockedForm::dot_rows:
    case BlockedForm::dot_columns:
    case BlockedForm::tile_columns: return 4;
    case BlockedForm::matrix_rows:
    case BlockedForm::matrix_columns: return 8;
    case BlockedForm::tile_rows: return 64;
    default: return 0;
  }
}
/// As many k as a panel of a shared block of so many has.
template <BlockedForm kForm> constexpr std::int64_t filled_up(std::int64_t count) {
  constexpr std::int64_t kTogether = kForm == BlockedForm::tile_columns ? 64 : std::max(bytes_together(kForm), 4);
  return (count + kTogether - 1) / kTogether * kTogether;
}

// How far apart the parts of one shared block lie, in words; `k` is filled up.
template <BlockedForm kForm, int kWidth> struct BlockedParts {
  explicit BlockedParts(std::int64_t k)
      : second(k / (bytes_together(kForm) == 0 ? 2 : 4) * kWidth),
        scales(second + (kForm == BlockedForm::word_rows      ? k / 2
                         : kForm == BlockedForm::word_columns ? 0
                                                              : k / 4) *
                            kWidth),
        extra(scales + kWidth),
        end(extra + (kForm == BlockedForm::vnni_columns ? kWidth : 0)) {}
  std::int64_t second, scales, extra, end;
};

/// Words per lane of a panel that holds `k` of one canonical block.
template <typename Tiles> std::int64_t blocked_panel_words(std::int64_t k) {
  constexpr BlockedForm kRows = Tiles::kRowForm, kColumns = Tiles::kColumnForm;
  const auto words = [](std::int64_t count) {
    return std::max(BlockedParts<kRows, 1>(filled_up<kRows>(count)).end,
                    BlockedParts<kColumns, 1>(filled_up<kColumns>(count)).end);
  };
  const std::int64_t rest = k % order::kSharedBlock;
  return k / order::kSharedBlock * words(order::kSharedBlock) + (rest == 0 ? 0 : words(rest));
}

// The block's words from its f32 panel [k][lane]. Bits of magnitudes order as these do.
template <BlockedForm kForm, int kWidth>
void share_exponents(const float* HWY_RESTRICT panel, std::int64_t count, std::int32_t* HWY_RESTRICT to) {
  constexpr bool kRows = is_of_rows(kForm);
  constexpr bool kDigits = kForm == BlockedForm::vnni_rows || kForm == BlockedForm::vnni_columns;
  constexpr int kTogether = bytes_together(kForm);
  const std::int64_t filled = filled_up<kForm>(count);
  const BlockedParts<kForm, kWidth> parts(filled);
  std::int32_t largest[kWidth] = {};
  for (std::int64_t k = 0; k < count; ++k) {
    for (int lane = 0; lane < kWidth; ++lane) {
      const std::int32_t magnitude = std::bit_cast<std::int32_t>(panel[k * kWidth + lane]) & 0x7fffffff;
      largest[lane] = largest[lane] > magnitude ? largest[lane] : magnitude;
    }
  }
  float up[kWidth];  // 2^(14 - e)
  for (int lane = 0; lane < kWidth; ++lane) {
    constexpr std::int32_t kTooLarge = (127 + order::kMostExponent) << 23;
    const std::int32_t exponent = std::max((largest[lane] >> 23) - 126, order::kLeastExponent);
    up[lane] = std::bit_cast<float>((127 + 14 - exponent) << 23);
    const std::int32_t scale = (127 + exponent - (kRows ? 20 : 1)) << 23;
    to[parts.scales + lane] = largest[lane] < kTooLarge ? scale : 0x7fc00000;
  }
  std::int32_t raised[kWidth] = {};
  for (std::int64_t k = 0; k < filled; k += 4) {
    std::int32_t q[4][kWidth];
    for (int i = 0; i < 4; ++i) {
      if (k + i >= count) {
        for (int lane = 0; lane < kWidth; ++lane) q[i][lane] = 0;
        continue;
      }
      const float* from = panel + (k + i) * kWidth;
      for (int lane = 0; lane < kWidth; ++lane) {
        // Adding 1.5 * 2^23 leaves the nearest integer in the low bits, of two the even one.
        const float shifted = from[lane] * up[lane] + 0x1.8p23f;
        const std::int32_t nearest = std::bit_cast<std::int32_t>(shifted) - 0x4b400000;
        q[i][lane] = nearest < 16383 ? nearest : 16383;
      }
    }
    if constexpr (kTogether != 0) {
      std::int32_t* const quads = to + k / kTogether * kTogether / 4 * kWidth + k % kTogether / 4;
      for (int lane = 0; lane < kWidth; ++lane) {
        std::uint32_t high = 0;
        std::uint32_t low = 0;
        for (int i = 0; i < 4; ++i) {
          high |= (static_cast<std::uint32_t>(q[i][lane] >> 7) & 0xffu) << (8 * i);
          low |= (static_cast<std::uint32_t>(q[i][lane]) & 127u) << (8 * i);
        }
        quads[kTogether / 4 * lane] = static_cast<std::int32_t>(high);
        quads[parts.second + kTogether / 4 * lane] = static_cast<std::int32_t>(low);
      }
      continue;
    }
    for (int i = 0; i < 2; ++i) {
      std::int32_t* const pairs = to + (k / 2 + i) * kWidth;
      const std::int32_t* const even = q[2 * i];
      const std::int32_t* const odd = q[2 * i + 1];
      for (int lane = 0; lane < kWidth; ++lane) {
        const auto pair = [](std::int32_t low, std::int32_t high) {
          return static_cast<std::int32_t>((static_cast<std::uint32_t>(low) & 0xffffu) |
                                           static_cast<std::uint32_t>(high) << 16);
        };
        if constexpr (kForm == BlockedForm::word_rows) {
          pairs[lane] = pair(even[lane] >> 7, odd[lane] >> 7);
          pairs[parts.second + lane] = pair(even[lane] & 127, odd[lane] & 127);
        } else {
          pairs[lane] = pair(even[lane], odd[lane]);
        }
      }
    }
    if constexpr (kDigits) {
      std::int32_t* const quads = to + parts.second + k / 4 * kWidth;
      constexpr std::int32_t kRaise = kRows ? 128 : 0;
      for (int lane = 0; lane < kWidth; ++lane) {
        std::uint32_t quad = 0;
        for (int i = 0; i < 4; ++i) {
          const std::int32_t digit = q[i][lane] >> 7;
          raised[lane] -= digit * 128;
          quad |= (static_cast<std::uint32_t>(digit + kRaise) & 0xffu) << (8 * i);
        }
        quads[lane] = static_cast<std::int32_t>(quad);
      }
    }
  }
  if constexpr (kForm == BlockedForm::vnni_columns) {
    for (int lane = 0; lane < kWidth; ++lane) to[parts.extra + lane] = raised[lane];
  }
}

inline constexpr Isa kIsaOfTarget = HWY_TARGET == HWY_AVX3   ? Isa::avx512
                                    : HWY_TARGET == HWY_AVX2 ? Isa::avx2
                                    : HWY_TARGET == HWY_NEON ? Isa::neon
                                                             : Isa::scalar;

/// Fills panels as pack of packing-inl.h does, through f32.
template <BlockedForm kForm, int kWidth> void pack_blocked(const PackArgs& args) {
  const KernelSet& f32 = kernel_sets(kIsaOfTarget).f32;
  auto* to = static_cast<std::int32_t*>(args.panels);
  PackArgs part = args;
  float* const panel = args.workspace->f32_panel;
  part.panels = panel;
  part.panel_stride = kWidth * kBlock;
  for (std::int64_t o = 0; o < args.outer_count; o += kWidth, to += args.panel_stride) {
    part.outer_begin = args.outer_begin + o;
    part.outer_count = std::min<std::int64_t>(kWidth, args.outer_count - o);
    (kWidth == kTileColumns<float> ? f32.pack_columns : f32.pack_rows)(part);
    std::int32_t* next = to;
    for (std::int64_t k = 0; k < args.k_count; k += order::kSharedBlock) {
      const std::int64_t count = std::min<std::int64_t>(order::kSharedBlock, args.k_count - k);
      share_exponents<kForm, kWidth>(panel + k * kWidth, count, next);
      next += BlockedParts<kForm, kWidth>(filled_up<kForm>(count)).end;
    }
  }
}

// A tile of rows x vectors over one shared block: results = fma(t * scale, scale, results), from +0 if `first`.
struct BlockedTileArgs {
  const std::int32_t* rows;  ///< the block's words, from the first row of the tile on
  const std::int32_t* columns;
  std::int64_t row;  ///< the first one's place in its panel
  std::int64_t row_count;
  std::int64_t k;    ///< filled up
  float* results;
  std::int64_t stride;
  bool first;
};

#if LOCKSTEP_SCALAR_TILE

inline constexpr int kBlockedRows = kTileRows;

template <int kRows, int kVectors> void word_tile(const BlockedTileArgs& args) {
  constexpr int kWidth = kTileColumns<float>;
  const BlockedParts<BlockedForm::word_rows, kTileRows> row_parts(args.k);
  const BlockedParts<BlockedForm::word_columns, kWidth> column_parts(args.k);
  const auto low = [](std::int32_t pair) {
    return static_cast<std::int32_t>(static_cast<std::int16_t>(pair & 0xffff));
  };
  const auto high = [](std::int32_t pair) { return pair >> 16; };
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kWidth; ++c) {
      std::int32_t sum_high = 0;
      std::int32_t sum_low = 64;
      for (std::int64_t p = 0; p < args.k / 2; ++p) {
        const std::int32_t h = args.rows[p * kTileRows + r];
        const std::int32_t l = args.rows[row_parts.second + p * kTileRows + r];
        const std::int32_t q = args.columns[p * kWidth + c];
        sum_high += low(h) * low(q) + high(h) * high(q);
        sum_low += low(l) * low(q) + high(l) * high(q);
      }
      const auto sum = static_cast<float>(sum_high + (sum_low >> 7));
      const float row_scale = std::bit_cast<float>(args.rows[row_parts.scales + r]);
      const float column_scale = std::bit_cast<float>(args.columns[column_parts.scales + c]);
      float& result = args.results[r * args.stride + c];
      result = std::fma(sum * row_scale, column_scale, args.first ? 0.0f : result);
    }
  }
}

inline void finish_tile(float* results, std::int64_t stride, std::int64_t rows, std::int64_t) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int c = 0; c < kTileColumns<float>; ++c) results[r * stride + c] = canonical_result(results[r * stride + c]);
  }
}

#else

// Half a panel of rows (a quarter on NEON): two accumulators per result, and what multiplies.
inline constexpr int kBlockedRows = HWY_TARGET == HWY_NEON ? kTileRows / 4 : kTileRows / 2;

template <int kRows, int kVectors> HWY_NOINLINE void word_tile(const BlockedTileArgs& args) {
  constexpr int kWidth = kTileColumns<float>;
  constexpr int kN = kLanes<float>;
  const Tag<float> df;
  const hn::RebindToSigned<Tag<float>> d;
  const hn::Repartition<std::int16_t, Tag<float>> d16;
  using V = hn::Vec<decltype(d)>;
  const BlockedParts<BlockedForm::word_rows, kTileRows> row_parts(args.k);
  const BlockedParts<BlockedForm::word_columns, kWidth> column_parts(args.k);
  V sum_high[kRows][kVectors];
  V sum_low[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sum_high[r][v] = hn::Zero(d);
      sum_low[r][v] = hn::Set(d, 64);
    }
  }
  const std::int32_t* a = args.rows;
  const std::int32_t* b = args.columns;
  for (std::int64_t p = 0; p < args.k / 2; ++p, a += kTileRows, b += kWidth) {
    hn::Vec<decltype(d16)> column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = hn::BitCast(d16, hn::LoadU(d, b + v * kN));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto high = hn::BitCast(d16, hn::Set(d, a[r]));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum_high[r][v] = add_products(d, high, column[v], sum_high[r][v]);
      const auto low = hn::BitCast(d16, hn::Set(d, a[row_parts.second + r]));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum_low[r][v] = add_products(d, low, column[v], sum_low[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const auto row_scale = hn::Set(df, std::bit_cast<float>(args.rows[row_parts.scales + r]));
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const auto sum = hn::ConvertTo(df, hn::Add(sum_high[r][v], hn::ShiftRight<7>(sum_low[r][v])));
      const auto scale = hn::BitCast(df, hn::LoadU(d, args.columns + column_parts.scales + v * kN));
      float* const to = args.results + r * args.stride + v * kN;
      const auto before = args.first ? hn::Zero(df) : hn::LoadU(df, to);
      hn::StoreU(hn::MulAdd(hn::Mul(sum, row_scale), scale, before), df, to);
    }
  }
}

inline void finish_tile(float* results, std::int64_t stride, std::int64_t rows, std::int64_t vectors) {
  const Tag<float> d;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t v = 0; v < vectors; ++v) {
      float* const to = results + r * stride + v * kLanes<float>;
      hn::StoreU(canonical_result(d, hn::LoadU(d, to)), d, to);
    }
  }
}

#endif  // LOCKSTEP_SCALAR_TILE

using BlockedTile = void (*)(const BlockedTileArgs&);

// What tiles need of the processor while they multiply: of these forms nothing.
struct NoState {};

struct WordTiles {
  using State = NoState;
  static constexpr BlockedForm kRowForm = BlockedForm::word_rows;
  static constexpr BlockedForm kColumnForm = BlockedForm::word_columns;
  static constexpr int kPanelRows = kTileRows;
  static constexpr int kRows = kBlockedRows;
  template <int kVectors, int... kRowsMinusOne>
  static BlockedTile of(std::int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
    static constexpr BlockedTile kTiles[] = {&word_tile<kRowsMinusOne + 1, kVectors>...};
    return kTiles[rows - 1];
  }
};

// All shared blocks of one canonical block, for up to Tiles::kRows rows and a panel of columns.
template <typename Tiles>
void blocked_tile(const std::int32_t* rows, std::int64_t row, std::int64_t row_count, const std::int32_t* columns,
                  std::int64_t vectors, float* results, std::int64_t stride, const MultiplyArgs& args) {
  using Heights = std::make_integer_sequence<int, Tiles::kRows>;
  const BlockedTile tile = vectors == kVectorsPerTile ? Tiles::template of<kVectorsPerTile>(row_count, Heights{})
                                                      : Tiles::template of<1>(row_count, Heights{});
  bool first = args.first;
  for (std::int64_t k = 0; k < args.k_count; k += order::kSharedBlock) {
    const std::int64_t count = std::min<std::int64_t>(order::kSharedBlock, args.k_count - k);
    const std::int64_t filled = filled_up<Tiles::kRowForm>(count);
    tile({.rows = rows + row,
          .columns = columns,
          .row = row,
          .row_count = row_count,
          .k = filled,
          .results = results,
          .stride = stride,
          .first = first});
    rows += BlockedParts<Tiles::kRowForm, Tiles::kPanelRows>(filled).end;
    columns += BlockedParts<Tiles::kColumnForm, kTileColumns<float>>(filled).end;
    first = false;
  }
  if (first) {  // no k: +0
    for (std::int64_t r = 0; r < row_count; ++r) std::fill_n(results + r * stride, vectors * kLanes<float>, 0.0f);
  }
  if (args.finish) finish_tile(results, stride, row_count, vectors);
}

template <typename Tiles> void multiply_blocked(const MultiplyArgs& args) {
  constexpr int kWidth = kTileColumns<float>;
  constexpr int kPanelRows = Tiles::kPanelRows;
  static_assert(kPanelRows % Tiles::kRows == 0);
  [[maybe_unused]] const typename Tiles::State state;
  float* const results = static_cast<float*>(args.results);
  for (std::int64_t row = 0; row < args.rows; row += Tiles::kRows) {
    const std::int64_t rows = std::min<std::int64_t>(Tiles::kRows, args.rows - row);
    const auto* a = static_cast<const std::int32_t*>(args.row_panels) + row / kPanelRows * args.row_panel_stride;
    const auto* b = static_cast<const std::int32_t*>(args.column_panels);
    for (std::int64_t column = 0; column < args.columns; column += kWidth, b += args.column_panel_stride) {
      const std::int64_t columns = std::min<std::int64_t>(kWidth, args.columns - column);
      const std::int64_t vectors = (columns + kLanes<float> - 1) / kLanes<float>;
      float* const to = results + row * args.results_stride + column;
      if (args.padded || columns == vectors * kLanes<float>) {
        blocked_tile<Tiles>(a, row % kPanelRows, rows, b, vectors, to, args.results_stride, args);
        continue;
      }
      alignas(64) float local[Tiles::kRows * kWidth] = {};
      const std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(float);
      if (!args.first) {
        for (std::int64_t r = 0; r < rows; ++r) std::memcpy(local + r * kWidth, to + r * args.results_stride, bytes);
      }
      blocked_tile<Tiles>(a, row % kPanelRows, rows, b, vectors, local, kWidth, args);
      for (std::int64_t r = 0; r < rows; ++r) std::memcpy(to + r * args.results_stride, local + r * kWidth, bytes);
    }
  }
}

template <typename Tiles> constexpr KernelSet blocked_kernels_of() {
  return {.lanes = kLanes<float>,
          .tile_rows = Tiles::kPanelRows,
          .tile_columns = kTileColumns<float>,
          .element_size = sizeof(float),
          .panel_words = &blocked_panel_words<Tiles>,
          .pack_rows = &pack_blocked<Tiles::kRowForm, Tiles::kPanelRows>,
          .pack_columns = &pack_blocked<Tiles::kColumnForm, kTileColumns<float>>,
          .multiply = &multiply_blocked<Tiles>};
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
