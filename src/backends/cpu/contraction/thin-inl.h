// Few rows (depthwise and grouped convolutions, a vector times a matrix): lanes run over the columns and read them
// where they are, because packing would cost more than the few multiply-adds that use it. The order of terms is
// that of the tiles: k ascending from +0 in every block of k, partial sums added block by block.

#if defined(LOCKSTEP_CONTRACTION_THIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_THIN_INL_H_
#undef LOCKSTEP_CONTRACTION_THIN_INL_H_
#else
#define LOCKSTEP_CONTRACTION_THIN_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/contraction/block_columns-inl.h"
#include "backends/cpu/contraction/half_columns-inl.h"
#include "backends/cpu/contraction/long_rows-inl.h"
#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/thin_args.h"
#include "backends/cpu/contraction/thin_window-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if LOCKSTEP_SCALAR_TILE

inline ThinFunction thin_function() {
  return nullptr;
}

#else

// How many terms ahead of their use several rows' columns are asked for.
constexpr std::int64_t kTermsAhead = 16;

// kPieces pieces of every row, for one block of k.
template <int kStride, bool kFlush, bool kMasked, int kRows, int kPieces>
HWY_INLINE void thin_pieces(const ThinArgs& args, std::int64_t piece, std::int64_t k_begin, std::int64_t k_end) {
  const Tag<float> d;
  const ThinTable& table = *args.table;
  hn::Vec<Tag<float> > acc[kRows][kPieces];
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPieces; ++p) acc[r][p] = hn::Zero(d);
  }
  std::int64_t address[kPieces];
  for (int p = 0; p < kPieces; ++p) address[p] = table.address[static_cast<std::size_t>(piece + p)];
  const std::uint32_t* all_masks = kMasked ? table.masks.data() + piece : nullptr;
  const std::int64_t step = args.rows_stride;
  const float* row = args.rows + k_begin * step;
  // Of a cached prompt's values lines come from memory, more of them than processors fetch by themselves.
  const bool asks = kRows > 1 && kStride == 1 && !kMasked && !table.copy;
  for (std::int64_t k = k_begin; k < k_end; ++k, row += step) {
    const float* from = args.data + table.k_address[static_cast<std::size_t>(k)];
    const std::uint32_t* masks = nullptr;
    if (asks && k + kTermsAhead < k_end) {
      const float* const later = args.data + table.k_address[static_cast<std::size_t>(k + kTermsAhead)];
      for (int p = 0; p < kPieces; p += 16 / kLanes<float>) __builtin_prefetch(later + address[p], 0, 3);
    }
    if constexpr (kMasked) masks = all_masks + table.k_class[static_cast<std::size_t>(k)] * table.pieces();
    hn::Vec<Tag<float> > weight[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) weight[r] = hn::Set(d, row[r]);
#pragma GCC unroll 16
    for (int p = 0; p < kPieces; ++p) {
      hn::Vec<Tag<float> > value;
      if constexpr (kMasked) {
        value = load_strided<kStride, kFlush>(d, from + address[p], masks + p);
      } else {
        value = flushed<kFlush>(d, hn::LoadU(d, from + address[p]));
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[r][p] = hn::MulAdd(weight[r], value, acc[r][p]);
    }
  }
  // Vectors are stored whole: the next piece overwrites what lies past this one, unless it has partial sums there.
  const std::int64_t* begin = table.begin.data() + piece;
  const std::int64_t first = table.begin[static_cast<std::size_t>(args.piece_begin)];
  const bool one_block = args.k <= kBlock;
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPieces; ++p) {
      float* to = args.results + r * args.results_stride + begin[p] - first;
      const auto sum = k_begin == 0 ? acc[r][p] : hn::Add(hn::LoadU(d, to), acc[r][p]);
      if (one_block) {
        hn::StoreU(sum, d, to);
      } else {
        hn::BlendedStore(sum, hn::FirstN(d, static_cast<std::size_t>(begin[p + 1] - begin[p])), d, to);
      }
    }
  }
}

// Columns and terms from which on stretches of them pay.
constexpr std::int64_t kLongRow = 256;
constexpr std::int64_t kLongTerms = 32;

template <int kStride, bool kFlush, bool kMasked, int kRows> void thin_rows(const ThinArgs& args) {
  if constexpr (!kMasked) {
    const std::int64_t columns = (args.piece_end - args.piece_begin) * kLanes<float>;
    if (columns > kLongRow && args.k >= kLongTerms) {
      return long_rows<kFlush, kRows>(args);
    }
  }
  // Wider reaches let the prefetcher follow rows that lie far apart; masked pieces are bound by their masks instead.
  constexpr int kPieces = kRows > 1 ? 4 : (kMasked || kLanes<float> < 16) ? 8 : 16;
  for (std::int64_t k = 0; k == 0 || k < args.k; k += kBlock) {
    const std::int64_t end = std::min(args.k, k + kBlock);
    std::int64_t piece = args.piece_begin;
    for (; piece + kPieces <= args.piece_end; piece += kPieces) {
      thin_pieces<kStride, kFlush, kMasked, kRows, kPieces>(args, piece, k, end);
    }
    if constexpr (kPieces > 4) {
      for (; piece + 4 <= args.piece_end; piece += 4) {
        thin_pieces<kStride, kFlush, kMasked, kRows, 4>(args, piece, k, end);
      }
    }
    for (; piece < args.piece_end; ++piece) thin_pieces<kStride, kFlush, kMasked, kRows, 1>(args, piece, k, end);
  }
}

// kVectors vectors of kLines lines of a padded copy, which holds no subnormals. The last vector of a line goes over its
// end; the next line overwrites what it stores there.
template <int kRows, int kLines, int kVectors>
HWY_INLINE void thin_lines(const ThinArgs& args, std::int64_t line, std::int64_t vector) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  const ThinTable& table = *args.table;
  hn::Vec<Tag<float> > acc[kRows][kLines][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int l = 0; l < kLines; ++l) {
      for (int v = 0; v < kVectors; ++v) acc[r][l][v] = hn::Zero(d);
    }
  }
  const float* lines[kLines];
  for (int l = 0; l < kLines; ++l) lines[l] = args.data + (line + l) * table.line_stride + vector * kN;
  const float* row = args.rows;
  const std::int64_t* const k_address = table.k_address.data();
  for (std::int64_t k = 0; k < args.k; ++k, row += args.rows_stride) {
    const std::int64_t at = k_address[k];
    hn::Vec<Tag<float> > weight[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) weight[r] = hn::Set(d, row[r]);
#pragma GCC unroll 8
    for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const auto value = hn::LoadU(d, lines[l] + at + v * kN);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) acc[r][l][v] = hn::MulAdd(weight[r], value, acc[r][l][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int l = 0; l < kLines; ++l) {
      float* const to = args.results + r * args.results_stride + (line + l) * table.line + vector * kN;
      for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[r][l][v], d, to + v * kN);
    }
  }
}

// Lines go kLines at a time, the last ones some of them once more: a line alone waits for its own sums.
template <int kRows, int kLines, int kVectors>
HWY_INLINE void thin_strip_of(const ThinArgs& args, std::int64_t vector) {
  const std::int64_t lines = args.table->lines;
  if constexpr (kLines > 1) {
    if (lines < kLines) return thin_strip_of<kRows, kLines / 2, kVectors>(args, vector);
  }
  for (std::int64_t line = 0; line < lines; line += kLines) {
    thin_lines<kRows, kLines, kVectors>(args, std::min(line, lines - kLines), vector);
  }
}

template <int kRows, int kVectors> HWY_NOINLINE void thin_strip(const ThinArgs& args, std::int64_t vector) {
  thin_strip_of<kRows, std::max(1, (kRows > 1 ? 4 : 8) / kVectors), kVectors>(args, vector);
}

// An image whose lines are longer than the widest strip is computed strip by strip, the last one first: it may go over
// the ends of its lines into the first, but no other.
template <int kRows> void thin_copied(const ThinArgs& args) {
  constexpr int kWidest = kRows > 1 ? 4 : 8;
  const std::int64_t vectors = (args.table->line + kLanes<float> - 1) / kLanes<float>;
  std::int64_t vector = (vectors - 1) / kWidest * kWidest;
  const std::int64_t last = vectors - vector;
  if constexpr (kWidest > 4) {
    if (last == 8) thin_strip<kRows, 8>(args, vector);
    if (last == 7) thin_strip<kRows, 7>(args, vector);
    if (last == 6) thin_strip<kRows, 6>(args, vector);
    if (last == 5) thin_strip<kRows, 5>(args, vector);
  }
  if (last == 4) thin_strip<kRows, 4>(args, vector);
  if (last == 3) thin_strip<kRows, 3>(args, vector);
  if (last == 2) thin_strip<kRows, 2>(args, vector);
  if (last == 1) thin_strip<kRows, 1>(args, vector);
  while (vector > 0) {
    vector -= kWidest;
    thin_strip<kRows, kWidest>(args, vector);
  }
}

// Floats of a cache line, and how far ahead of its use a column is asked for: a vector's columns are more streams, each
// of them further apart, than processors of AVX2's time follow by themselves. Those with AVX-512 do, but ask for a
// page's first lines too late: into the second cache, since the first has no room for lines of 16 columns that lie a
// power of two apart (Zen 4, one thread: 25 GB/s; 24 without requests, 20 with those into the first cache). Of columns
// that end soon the next vector's are asked for.
constexpr std::int64_t kLine = 16;
constexpr std::int64_t kAhead = kLanes<float> == 16 ? 256 : 128;
constexpr std::int64_t kLongColumn = 1024;
constexpr int kCache = kLanes<float> == 16 ? 2 : 3;  // of __builtin_prefetch: 3 is the first
constexpr std::int64_t kPanelAhead = 512;

/// Lines `ahead` elements behind those that begin at k; 0: none. (GCC 12 leaves out calls of what only asks, unless it
/// has to inline them.)
HWY_INLINE void ask_for_columns(const float* const* columns, std::int64_t k, std::int64_t ahead) {
  if (ahead == 0 || k % kLine != 0) return;
  for (int i = 0; i < kLanes<float>; ++i) __builtin_prefetch(columns[i] + k + ahead, 0, kCache);
}

// One vector of columns that are contiguous along k, from k_begin on: 4 or 16 k at a time are transposed in registers.
// What lies `ahead` elements behind is asked for, if that is not 0.
template <int kRows>
void thin_along_k(const ThinArgs& args, const float* const* columns, std::int64_t piece, std::int64_t k_begin,
                  std::int64_t count, std::int64_t ahead) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  hn::Vec<Tag<float> > acc[kRows];
  for (int r = 0; r < kRows; ++r) acc[r] = hn::Zero(d);
  const std::int64_t step = args.rows_stride;
  const float* row = args.rows + k_begin * step;
  std::int64_t k = 0;
#if HWY_TARGET == HWY_AVX3
  if constexpr (kRows <= 2) {  // more rows wait for their sums, not for columns
    for (; k + 16 <= count; k += 16, row += 16 * step) {
      ask_for_columns(columns, k, ahead);
      hn::Vec<Tag<float> > lanes[16];
      transpose_lines<false>(columns, k, lanes);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
#pragma GCC unroll 2
        for (int r = 0; r < kRows; ++r) acc[r] = hn::MulAdd(hn::Set(d, row[i * step + r]), lanes[i], acc[r]);
      }
    }
  }
#endif
  for (; k + 4 <= count; k += 4, row += 4 * step) {
    ask_for_columns(columns, k, ahead);
    hn::Vec<Tag<float> > lanes[4];
    transpose_four<false>(columns, k, lanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) acc[r] = hn::MulAdd(hn::Set(d, row[i * step + r]), lanes[i], acc[r]);
    }
  }
  for (; k < count; ++k, row += step) {
    alignas(64) float lanes[kN];
    for (int i = 0; i < kN; ++i) lanes[i] = columns[i][k];
    const auto value = hn::Load(d, lanes);
    for (int r = 0; r < kRows; ++r) acc[r] = hn::MulAdd(hn::Set(d, row[r]), value, acc[r]);
  }
  float* to = args.results + (piece - args.piece_begin) * kN;
  for (int r = 0; r < kRows; ++r, to += args.results_stride) {
    hn::StoreU(k_begin == 0 ? acc[r] : hn::Add(hn::LoadU(d, to), acc[r]), d, to);
  }
}

// A column's blocks of k follow each other in memory: finish one vector of columns before the next.
template <int kRows> void thin_columns(const ThinArgs& args) {
  constexpr int kN = kLanes<float>;
  alignas(64) float stage[kN][kBlock];  // of columns with subnormals
  const std::vector<std::int64_t>& all = args.table->address;
  // A short column's later elements are there, but not the next vector's columns, which processors do not expect.
  std::int64_t ahead = args.k >= kLongColumn || all.size() <= kN ? kAhead : all[kN] - all[0];
  if (args.flush) ahead = 0;
  for (std::int64_t piece = args.piece_begin; piece < args.piece_end; ++piece) {
    const std::int64_t* const address = args.table->address.data() + piece * kN;
    for (std::int64_t k = 0; k == 0 || k < args.k; k += kBlock) {
      const std::int64_t count = std::min(args.k - k, kBlock);
      const float* columns[kN];
      for (int i = 0; i < kN; ++i) {
        columns[i] = args.data + address[i] + k;
        if (!args.flush) continue;
        copy_elements(columns[i], 1, count, true, stage[i]);
        columns[i] = stage[i];
      }
      thin_along_k<kRows>(args, columns, piece, k, count, ahead);
    }
  }
}

// kPieces vectors of columns that lie in panels, for `count` terms from k on: as many sums that wait for nothing but
// themselves.
template <int kRows, int kPieces, bool kAsks>
HWY_INLINE void thin_panel_pieces(const ThinArgs& args, std::int64_t piece, std::int64_t k, std::int64_t count) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  const std::int64_t per_panel = args.panel_width / kN;
  const float* columns[kPieces];
  for (int p = 0; p < kPieces; ++p) {
    columns[p] = args.panels + k / kBlock * args.block_stride + (piece + p) / per_panel * args.panel_stride +
                 (piece + p) % per_panel * kN;
  }
  hn::Vec<Tag<float> > acc[kRows][kPieces];
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPieces; ++p) acc[r][p] = hn::Zero(d);
  }
  const float* row = args.rows + k * args.rows_stride;
  for (std::int64_t i = 0; i < count; ++i, row += args.rows_stride) {
    hn::Vec<Tag<float> > column[kPieces];
#pragma GCC unroll 4
    for (int p = 0; p < kPieces; ++p) {
      const float* const from = columns[p] + i * args.panel_width;
      // A panel is read once, page after page, at whose beginning processors ask for nothing by themselves.
      if (kAsks && p * kN % 16 == 0) __builtin_prefetch(from + kPanelAhead, 0, kCache);
      column[p] = hn::LoadU(d, from);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto weight = hn::Set(d, row[r]);
#pragma GCC unroll 4
      for (int p = 0; p < kPieces; ++p) acc[r][p] = hn::MulAdd(weight, column[p], acc[r][p]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPieces; ++p) {
      float* const sum = args.results + r * args.results_stride + (piece - args.piece_begin + p) * kN;
      hn::StoreU(k == 0 ? acc[r][p] : hn::Add(hn::LoadU(d, sum), acc[r][p]), d, sum);
    }
  }
}

// Panels of a block of k lie one behind the other, and are read so.
template <int kRows, int kPieces, bool kAsks> void thin_panels(const ThinArgs& args) {
  for (std::int64_t k = 0; k == 0 || k < args.k; k += kBlock) {
    const std::int64_t count = std::min(args.k - k, kBlock);
    std::int64_t piece = args.piece_begin;
    for (; piece + kPieces <= args.piece_end; piece += kPieces)
      thin_panel_pieces<kRows, kPieces, kAsks>(args, piece, k, count);
    for (; piece < args.piece_end; ++piece) thin_panel_pieces<kRows, 1, kAsks>(args, piece, k, count);
  }
}

// What comes from memory is best read one panel at a time, what the caches hold with more sums side by side.
template <int kRows> void thin_panels(const ThinArgs& args) {
  constexpr std::int64_t kCached = 2 << 20;  // elements
  if (args.table->pieces() * kLanes<float> * args.k > kCached)
    return thin_panels<kRows, (kRows <= 4 ? 2 : 1), true>(args);
  thin_panels<kRows, kRows <= 2 ? 4 : kRows <= 4 ? 2 : 1, kLanes<float> == 16>(args);
}

template <int kRows> void thin_decoded_blocks(const ThinArgs& args, std::int64_t piece) {
  constexpr int kN = kLanes<float>;
  const Lines lines(args.encoding, args.blocks);
  alignas(64) float stage[kN][kBlock];
  const float* columns[kN];
  for (int i = 0; i < kN; ++i) columns[i] = stage[i];
  const std::int64_t* const address = args.table->address.data() + piece * kN;
  for (std::int64_t k = 0; k == 0 || k < args.k; k += kBlock) {
    const std::int64_t count = std::min(args.k - k, kBlock);
    // Of an empty sum there may be no memory to point at.
    for (int i = 0; i < kN && count > 0; ++i) lines.decode(args.first + address[i] + k, count, stage[i]);
    thin_along_k<kRows>(args, columns, piece, k, count, 0);
  }
}

// Rows from which on weights are decoded in memory, once for all of them, instead of in registers for two at a time.
constexpr std::int64_t kDecodedRows = 8;

template <int kRows> void thin_blocks(const ThinArgs& args) {
  if constexpr (kRows < kDecodedRows) {
    if (thin_block_lanes(args)) return;
  }
  for (std::int64_t piece = args.piece_begin; piece < args.piece_end; ++piece) {
    thin_decoded_blocks<kRows>(args, piece);
  }
}

template <int kRows> void thin_layout(const ThinArgs& args) {
  if (args.encoding != Encoding::dense) return thin_blocks<kRows>(args);
  if (args.panels != nullptr) return thin_panels<kRows>(args);
  if (args.halves != nullptr) return thin_halves<kRows>(args);
  if (args.table->along_k) return thin_columns<kRows>(args);
  if constexpr (kRows == 1) {
    if (args.table->window) return thin_window(args);
  }
  if constexpr (kRows <= kThinRows) {
    if (args.table->copy) {
      thin_copied<kRows>(args);
    } else if (args.table->stride == 2) {
      thin_rows<2, false, true, kRows>(args);
    } else if (!args.table->full) {
      thin_rows<1, false, true, kRows>(args);
    } else {
      args.flush ? thin_rows<1, true, false, kRows>(args) : thin_rows<1, false, false, kRows>(args);
    }
  }
}

inline void thin(const ThinArgs& args) {
  switch (args.row_count) {
    case 1: return thin_layout<1>(args);
    case 2: return thin_layout<2>(args);
    case 3: return thin_layout<3>(args);
    case 4: return thin_layout<4>(args);
    case 5: return thin_layout<5>(args);
    case 6: return thin_layout<6>(args);
    case 7: return thin_layout<7>(args);
    default: return thin_layout<8>(args);
  }
}

inline ThinFunction thin_function() {
  return kMasksAreBytes ? &thin : nullptr;
}

#endif  // LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
