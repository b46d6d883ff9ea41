// Rows times a vector of packed columns, per instruction set: their codes are transposed as bytes, and become numbers
// in the lanes where they are multiplied.

#if defined(LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#undef LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#else
#define LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "backends/cpu/contraction/blocks-inl.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if !LOCKSTEP_SCALAR_TILE

/// 16 codes of each of kN columns, to [k][column]. Each step makes the highest bit of a byte's number its lowest one;
/// so after as many as a column's number has bits, these are behind those of k.
template <int kN> HWY_INLINE void turn(const std::int8_t* const* columns, int k, std::int8_t* to) {
  static_assert(kN == 4 || kN == 8 || kN == 16);
  const hn::FixedTag<std::int8_t, 16> d;
  hn::Vec<decltype(d)> from[kN];
  for (int i = 0; i < kN; ++i) from[i] = hn::LoadU(d, columns[i] + k);
#pragma GCC unroll 4
  for (int size = kN; size > 1; size /= 2) {
    hn::Vec<decltype(d)> next[kN];
#pragma GCC unroll 8
    for (int i = 0; i < kN / 2; ++i) {
      next[2 * i] = hn::InterleaveLower(d, from[i], from[i + kN / 2]);
      next[2 * i + 1] = hn::InterleaveUpper(d, from[i], from[i + kN / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) from[i] = next[i];
  }
  for (int i = 0; i < kN; ++i) hn::Store(from[i], d, to + 16 * i);
}

/// A chunk of kN columns.
template <int kN> class Columns {
 public:
  /// Elements [first, first + count) as those of column i. False where they cannot be taken apart.
  bool take(const Lines& lines, int i, std::int64_t first, std::int64_t count) {
    if (!lines.take_apart(first, count, codes_[i])) return false;
    for (int g = 0; g * lines.group() < count; ++g) {
      scales_[g][i] = codes_[i].scales[g];
      if (lines.shifted()) offsets_[g][i] = codes_[i].offsets[g];
    }
    return true;
  }

  /// rows [k][row] times the columns, from +0, k ascending; stored to `to` [row][column], or added to what is there.
  template <int kRows>
  void multiply(const Lines& lines, std::int64_t count, const float* rows, std::int64_t rows_stride, bool first,
                float* to, std::int64_t to_stride) const {
    const Tag<float> d;
    hn::Vec<Tag<float> > sums[kRows];
    for (int r = 0; r < kRows; ++r) sums[r] = hn::Zero(d);
    lines.shifted() ? add<kRows, true>(lines.group(), count, rows, rows_stride, sums)
                    : add<kRows, false>(lines.group(), count, rows, rows_stride, sums);
    for (int r = 0; r < kRows; ++r, to += to_stride) {
      hn::StoreU(first ? sums[r] : hn::Add(hn::LoadU(d, to), sums[r]), d, to);
    }
  }

 private:
  template <int kRows, bool kShifted>
  HWY_INLINE void add(int group, std::int64_t count, const float* rows, std::int64_t rows_stride,
                      hn::Vec<Tag<float> >* sums) const {
    const Tag<float> d;
    const hn::Rebind<std::int32_t, Tag<float> > di;
    const hn::Rebind<std::int8_t, Tag<float> > d8;
    const std::int8_t* columns[kN];
    for (int i = 0; i < kN; ++i) columns[i] = codes_[i].codes;
    alignas(64) std::int8_t turned[16 * kN];
    hn::Vec<Tag<float> > acc[kRows];
    for (int r = 0; r < kRows; ++r) acc[r] = sums[r];
    for (int k = 0; k < count; k += 16) {
      turn<kN>(columns, k, turned);
      const int g = k / group;
      const auto scale = hn::Load(d, scales_[g]);
      [[maybe_unused]] const auto offset = hn::Load(d, kShifted ? offsets_[g] : scales_[g]);
#pragma GCC unroll 4
      for (int i = 0; i < 16; ++i, rows += rows_stride) {
        auto value = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, turned + i * kN)));
        // The product is exact: multiplying and adding at once rounds as one after the other.
        value = kShifted ? hn::MulAdd(value, scale, offset) : hn::Mul(value, scale);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) acc[r] = hn::MulAdd(hn::Set(d, rows[r]), value, acc[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) sums[r] = acc[r];
  }

  Codes codes_[kN];
  alignas(64) float scales_[16][kN];
  alignas(64) float offsets_[16][kN];
};

#endif  // !LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
