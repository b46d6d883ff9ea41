// Few rows times columns of f16 or bf16 that are contiguous along k, per instruction set: two neighbours of a column
// are a word, words are transposed as f32 numbers are, and become numbers in the lanes where they are multiplied. The
// order of terms is that of thin-inl.h, whose ThinArgs it takes.

#if defined(LOCKSTEP_CONTRACTION_HALF_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_HALF_COLUMNS_INL_H_
#undef LOCKSTEP_CONTRACTION_HALF_COLUMNS_INL_H_
#else
#define LOCKSTEP_CONTRACTION_HALF_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/contraction/decode.h"
#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/q8_panel-inl.h"
#include "backends/cpu/contraction/thin_args.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if !LOCKSTEP_SCALAR_TILE

// The words of kN columns from k on: columns[0], columns[4], ... give the blocks of 128 bits.
template <class D> HWY_INLINE hn::Vec<D> load_words(D d, const std::uint16_t* const* columns, std::int64_t k) {
  constexpr int kN = static_cast<int>(hn::MaxLanes(D()));
  if constexpr (kN == 4) {
    return hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint16_t, D>(), columns[0] + k));
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_words(half, columns + kN / 2, k), load_words(half, columns, k));
  }
}

// The even elements of words, or the odd ones.
template <class Half, bool kOdd, class DU> HWY_INLINE auto halves_as_f32(DU du, hn::Vec<DU> words) {
  const hn::Rebind<float, DU> d;
  if constexpr (std::is_same_v<Half, Float16>) {
    const hn::Rebind<std::uint16_t, DU> dh;
    const auto bits = kOdd ? hn::ShiftRight<16>(words) : hn::And(words, hn::Set(du, 0xffffu));
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, DU>(), hn::TruncateTo(dh, bits)));
  } else {
    const auto bits = kOdd ? hn::And(words, hn::Set(du, 0xffff0000u)) : hn::ShiftLeft<16>(words);
    return hn::BitCast(d, bits);
  }
}

/// A block of k of some columns. In memory these often lie a multiple of 4096 bytes apart, where the first cache has
/// room for half of them: here they lie otherwise.
template <int kColumns> struct HalfStage {
  alignas(64) std::uint16_t halves[kColumns][kBlock + 32];

  /// `count` elements of the columns at `address`. `flush`: they are bf16, whose subnormals become zeros.
  void take(const std::uint16_t* from, const std::int64_t* address, std::int64_t count, bool flush) {
    const hn::CappedTag<std::uint16_t, 16> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (int i = 0; i < kColumns; ++i) {
      const std::uint16_t* const column = from + address[i];
      std::int64_t k = 0;
      for (; k + lanes <= count; k += lanes) hn::StoreU(hn::LoadU(d, column + k), d, halves[i] + k);
      for (; k < count; ++k) halves[i][k] = column[k];
      if (!flush) continue;
      for (k = 0; k < count; k += lanes) {  // past the end, too: there is room
        const auto bits = hn::LoadU(d, halves[i] + k);
        const auto tiny = hn::Eq(hn::And(bits, hn::Set(d, 0x7f80)), hn::Zero(d));
        hn::StoreU(hn::IfThenElse(tiny, hn::And(bits, hn::Set(d, 0x8000)), bits), d, halves[i] + k);
      }
    }
  }
};

/// What will be taken next: of columns at `address`, elements [first, first + count).
struct HalvesAhead {
  const std::uint16_t* from;
  const std::int64_t* address;
  std::int64_t first, count;

  HWY_INLINE void ask_for(std::int64_t column) const {
    constexpr std::int64_t kLineHalves = 32;
    for (std::int64_t k = 0; k < count; k += kLineHalves) fetch_later(from + address[column] + first + k);
  }
};

// kPieces vectors of columns, for one block of k: so many sums that wait for nothing but themselves. Meanwhile what
// comes next is asked for, column by column.
template <class Half, int kRows, int kPieces>
void multiply_halves(const ThinArgs& args, const HalfStage<kPieces * kLanes<float> >& stage, const HalvesAhead& ahead,
                     std::int64_t piece, std::int64_t k_begin, std::int64_t count) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float> > du;
  const hn::Repartition<std::uint64_t, Tag<float> > dd;
  constexpr int kN = kLanes<float>;
  const std::uint16_t* columns[kPieces * kN];
  for (int i = 0; i < kPieces * kN; ++i) columns[i] = stage.halves[i];
  hn::Vec<Tag<float> > acc[kRows][kPieces];
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPieces; ++p) acc[r][p] = hn::Zero(d);
  }
  const std::int64_t step = args.rows_stride;
  const float* row = args.rows + k_begin * step;
  std::int64_t k = 0;
  for (; k + 8 <= count; k += 8, row += 8 * step) {
    if (k / 8 < kPieces * kN) ahead.ask_for(k / 8);
#pragma GCC unroll 2
    for (int p = 0; p < kPieces; ++p) {
      const auto* const own = columns + p * kN;
      const auto a = load_words(du, own, k);
      const auto b = load_words(du, own + 1, k);
      const auto c = load_words(du, own + 2, k);
      const auto e = load_words(du, own + 3, k);
      const auto ab_low = hn::BitCast(dd, hn::InterleaveLower(du, a, b));
      const auto ab_high = hn::BitCast(dd, hn::InterleaveUpper(du, a, b));
      const auto ce_low = hn::BitCast(dd, hn::InterleaveLower(du, c, e));
      const auto ce_high = hn::BitCast(dd, hn::InterleaveUpper(du, c, e));
      const hn::Vec<decltype(du)> words[4] = {hn::BitCast(du, hn::InterleaveLower(dd, ab_low, ce_low)),
                                              hn::BitCast(du, hn::InterleaveUpper(dd, ab_low, ce_low)),
                                              hn::BitCast(du, hn::InterleaveLower(dd, ab_high, ce_high)),
                                              hn::BitCast(du, hn::InterleaveUpper(dd, ab_high, ce_high))};
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) {
        const auto even = halves_as_f32<Half, false>(du, words[w]);
        const auto odd = halves_as_f32<Half, true>(du, words[w]);
        const float* const rows = row + 2 * w * step;
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          acc[r][p] = hn::MulAdd(hn::Set(d, rows[r]), even, acc[r][p]);
          acc[r][p] = hn::MulAdd(hn::Set(d, rows[step + r]), odd, acc[r][p]);
        }
      }
    }
  }
  for (; k < count; ++k, row += step) {
    alignas(64) float lanes[kPieces * kN];
    for (int i = 0; i < kPieces * kN; ++i) lanes[i] = decode<float>(Half{columns[i][k]}, false);
    for (int r = 0; r < kRows; ++r) {
      for (int p = 0; p < kPieces; ++p) {
        acc[r][p] = hn::MulAdd(hn::Set(d, row[r]), hn::Load(d, lanes + p * kN), acc[r][p]);
      }
    }
  }
  float* to = args.results + (piece - args.piece_begin) * kN;
  for (int r = 0; r < kRows; ++r, to += args.results_stride) {
    for (int p = 0; p < kPieces; ++p) {
      float* const sum = to + p * kN;
      hn::StoreU(k_begin == 0 ? acc[r][p] : hn::Add(hn::LoadU(d, sum), acc[r][p]), d, sum);
    }
  }
}

// All of k, for pieces from `piece` on, kPieces at a time. Returns the first that is left.
template <int kRows, int kPieces> std::int64_t halves_of_pieces(const ThinArgs& args, std::int64_t piece) {
  constexpr int kColumns = kPieces * kLanes<float>;
  HalfStage<kColumns> stage;
  for (; piece + kPieces <= args.piece_end; piece += kPieces) {
    const std::int64_t* const address = args.table->address.data() + piece * kLanes<float>;
    for (std::int64_t k = 0; k == 0 || k < args.k; k += kBlock) {
      const std::int64_t count = std::min(args.k - k, kBlock);
      // The next block of these columns, or the first of those behind them.
      const bool more = k + kBlock < args.k || piece + 2 * kPieces > args.piece_end;
      const HalvesAhead ahead{args.halves, more ? address : address + kColumns, more ? k + kBlock : 0, count};
      if (count > 0) stage.take(args.halves + k, address, count, args.flush);
      args.is_f16 ? multiply_halves<Float16, kRows, kPieces>(args, stage, ahead, piece, k, count)
                  : multiply_halves<BFloat16, kRows, kPieces>(args, stage, ahead, piece, k, count);
    }
  }
  return piece;
}

template <int kRows> void thin_halves(const ThinArgs& args) {
  constexpr int kPieces = kRows <= 2 ? 2 : 1;
  const std::int64_t piece = halves_of_pieces<kRows, kPieces>(args, args.piece_begin);
  if constexpr (kPieces > 1) halves_of_pieces<kRows, 1>(args, piece);
}

#endif  // !LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
