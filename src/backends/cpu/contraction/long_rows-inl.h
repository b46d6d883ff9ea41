// A few rows by columns that lie side by side, as those of weights [inputs, outputs]: a stretch of columns as long as
// the first cache has room for its sums, several k at a time. So memory is read along its rows, from as many places as
// the processor follows by itself, and almost at the rate of a plain copy; a strip of columns that registers hold the
// sums of touches a few lines of a row and goes to the next, which reads half as fast. Used by thin-inl.h; the order of
// terms is that of its other loops.

#if defined(LOCKSTEP_CONTRACTION_LONG_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_LONG_ROWS_INL_H_
#undef LOCKSTEP_CONTRACTION_LONG_ROWS_INL_H_
#else
#define LOCKSTEP_CONTRACTION_LONG_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/thin_args.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if !LOCKSTEP_SCALAR_TILE

/// The sums of a block of k for a stretch of columns.
template <int kRows> struct LongSums {
  static constexpr std::int64_t kPieces = 4096 / (kRows * kLanes<float>);
  alignas(64) float sums[kRows][kPieces * kLanes<float>];
};

// Adds kTerms terms from k on to the sums of `count` pieces.
template <bool kFlush, int kRows, int kTerms>
HWY_INLINE void add_terms(const ThinArgs& args, std::int64_t piece, std::int64_t count, std::int64_t k,
                          LongSums<kRows>& to) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  const float* terms[kTerms];
  hn::Vec<Tag<float> > weight[kTerms][kRows];
  const float* row = args.rows + k * args.rows_stride;
#pragma GCC unroll 16
  for (int t = 0; t < kTerms; ++t, row += args.rows_stride) {
    terms[t] = args.data + args.table->k_address[static_cast<std::size_t>(k + t)];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) weight[t][r] = hn::Set(d, row[r]);
  }
  const std::int64_t* const address = args.table->address.data() + piece;
  for (std::int64_t p = 0; p < count; ++p) {
    const std::int64_t at = address[p];
    hn::Vec<Tag<float> > acc[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) acc[r] = hn::Load(d, to.sums[r] + p * kN);
#pragma GCC unroll 16
    for (int t = 0; t < kTerms; ++t) {
      const auto value = flushed<kFlush>(d, hn::LoadU(d, terms[t] + at));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[r] = hn::MulAdd(weight[t][r], value, acc[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) hn::Store(acc[r], d, to.sums[r] + p * kN);
  }
}

// One block of k for a stretch of columns.
template <bool kFlush, int kRows>
HWY_NOINLINE void long_rows_block(const ThinArgs& args, std::int64_t piece, std::int64_t count, std::int64_t k_begin,
                                  LongSums<kRows>& block) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  // Weights, sums and a value fill the registers: 16 of AVX2, 32 of others.
  constexpr int kTerms = (kN == 8 ? 8 : 16) / (kRows == 3 ? 4 : kRows);
  for (int r = 0; r < kRows; ++r) std::fill_n(block.sums[r], count * kN, 0.0f);
  const std::int64_t k_end = std::min(args.k, k_begin + kBlock);
  std::int64_t k = k_begin;
  for (; k + kTerms <= k_end; k += kTerms) add_terms<kFlush, kRows, kTerms>(args, piece, count, k, block);
  for (; k < k_end; ++k) add_terms<kFlush, kRows, 1>(args, piece, count, k, block);
  for (int r = 0; r < kRows; ++r) {
    float* const to = args.results + r * args.results_stride + (piece - args.piece_begin) * kN;
    for (std::int64_t i = 0; i < count * kN; i += kN) {
      const auto sum = hn::Load(d, block.sums[r] + i);
      hn::StoreU(k_begin == 0 ? sum : hn::Add(hn::LoadU(d, to + i), sum), d, to + i);
    }
  }
}

/// Every piece is a whole vector that has data for every k (ThinTable::full).
template <bool kFlush, int kRows> void long_rows(const ThinArgs& args) {
  LongSums<kRows> block;
  for (std::int64_t piece = args.piece_begin; piece < args.piece_end; piece += LongSums<kRows>::kPieces) {
    const std::int64_t count = std::min(LongSums<kRows>::kPieces, args.piece_end - piece);
    for (std::int64_t k = 0; k == 0 || k < args.k; k += kBlock) {
      long_rows_block<kFlush, kRows>(args, piece, count, k, block);
    }
  }
}

#endif  // !LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
