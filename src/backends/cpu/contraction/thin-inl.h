// Few rows (depthwise and grouped convolutions, a vector times a matrix): lanes run over the columns and read them
// straight from the view, because packing would cost more than the few multiply-adds that use it. The order of terms is
// that of the tiles: k ascending from +0 in every block of k, partial sums added block by block.

#if defined(LOCKSTEP_CONTRACTION_THIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_THIN_INL_H_
#undef LOCKSTEP_CONTRACTION_THIN_INL_H_
#else
#define LOCKSTEP_CONTRACTION_THIN_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/thin.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if LOCKSTEP_SCALAR_TILE

inline ThinFunction thin_function() { return nullptr; }

#else

// kPieces pieces of every row, for one block of k.
template <int kStride, bool kFlush, bool kMasked, int kRows, int kPieces>
HWY_INLINE void thin_pieces(const ThinArgs& args, std::int64_t piece, std::int64_t k_begin, std::int64_t k_end) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  const ThinTable& table = *args.table;
  hn::Vec<Tag<float>> acc[kRows][kPieces];
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPieces; ++p) acc[r][p] = hn::Zero(d);
  }
  std::int64_t address[kPieces];
  for (int p = 0; p < kPieces; ++p) address[p] = table.address[static_cast<std::size_t>(piece + p)];
  const std::uint32_t* all_masks = table.masks.data() + piece;
  const float* row = args.rows + k_begin * kTileRows;
  for (std::int64_t k = k_begin; k < k_end; ++k, row += kTileRows) {
    const float* from = args.data + table.k_address[static_cast<std::size_t>(k)];
    const std::uint32_t* masks = nullptr;
    if constexpr (kMasked) masks = all_masks + table.k_class[static_cast<std::size_t>(k)] * table.pieces();
    hn::Vec<Tag<float>> weight[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) weight[r] = hn::Set(d, row[r]);
#pragma GCC unroll 8
    for (int p = 0; p < kPieces; ++p) {
      hn::Vec<Tag<float>> value;
      if constexpr (kMasked) {
        value = load_strided<kStride, kFlush>(d, from + address[p], masks + p);
      } else {
        value = flushed<kFlush>(d, hn::LoadU(d, from + address[p]));
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[r][p] = hn::MulAdd(weight[r], value, acc[r][p]);
    }
  }
  // Each piece has a whole vector of its own among the results.
  for (int r = 0; r < kRows; ++r) {
    float* to = args.results + r * args.results_stride + (piece - args.piece_begin) * kN;
    for (int p = 0; p < kPieces; ++p, to += kN) {
      hn::StoreU(k_begin == 0 ? acc[r][p] : hn::Add(hn::LoadU(d, to), acc[r][p]), d, to);
    }
  }
}

template <int kStride, bool kFlush, bool kMasked, int kRows>
void thin_rows(const ThinArgs& args) {
  constexpr int kPieces = kRows == 1 ? 8 : 4;
  for (std::int64_t k = 0; k == 0 || k < args.k; k += kBlock) {
    const std::int64_t end = std::min(args.k, k + kBlock);
    std::int64_t piece = args.piece_begin;
    for (; piece + kPieces <= args.piece_end; piece += kPieces) {
      thin_pieces<kStride, kFlush, kMasked, kRows, kPieces>(args, piece, k, end);
    }
    for (; piece < args.piece_end; ++piece) thin_pieces<kStride, kFlush, kMasked, kRows, 1>(args, piece, k, end);
  }
}

template <int kRows>
void thin_layout(const ThinArgs& args) {
  const bool masked = !args.table->full;
  if (args.table->stride == 2) {
    args.flush ? thin_rows<2, true, true, kRows>(args) : thin_rows<2, false, true, kRows>(args);
  } else if (masked) {
    args.flush ? thin_rows<1, true, true, kRows>(args) : thin_rows<1, false, true, kRows>(args);
  } else {
    args.flush ? thin_rows<1, true, false, kRows>(args) : thin_rows<1, false, false, kRows>(args);
  }
}

inline void thin(const ThinArgs& args) {
  switch (args.row_count) {
    case 1: return thin_layout<1>(args);
    case 2: return thin_layout<2>(args);
    case 3: return thin_layout<3>(args);
    default: return thin_layout<4>(args);
  }
}

inline ThinFunction thin_function() { return kMasksAreBytes ? &thin : nullptr; }

#endif  // LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
