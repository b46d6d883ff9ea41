// Lines of a padded copy (padded_copy.h) in whole vectors.

#if defined(LOCKSTEP_CONTRACTION_PADDED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_PADDED_INL_H_
#undef LOCKSTEP_CONTRACTION_PADDED_INL_H_
#else
#define LOCKSTEP_CONTRACTION_PADDED_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/contraction/padded_copy.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if LOCKSTEP_SCALAR_TILE

inline CopyLines copy_lines_function() {
  return &write_padded;
}

#else

// The last vector of a line overlaps the one before.
HWY_INLINE void copy_line(const float* from, std::int64_t count, float* to) {
  const Tag<float> d;
  constexpr std::int64_t kN = kLanes<float>;
  std::int64_t i = 0;
  for (; i + kN <= count; i += kN) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  if (i == count) return;
#if HWY_TARGET == HWY_AVX3
  const auto left = hn::FirstN(d, static_cast<std::size_t>(count - i));
  hn::BlendedStore(hn::MaskedLoad(left, d, from + i), left, d, to + i);
#else
  if (i == 0) return put_line(from, 1, count, to);
  hn::StoreU(hn::LoadU(d, from + count - kN), d, to + count - kN);
#endif
}

// Every second element. Reads nothing before the first and behind the last of them.
HWY_INLINE void copy_even_line(const float* from, std::int64_t count, float* to) {
  const Tag<float> d;
  constexpr std::int64_t kN = kLanes<float>;
  if (count <= kN) return put_line(from, 2, count, to);
  std::int64_t i = 0;
  for (; i + kN < count; i += kN) {
    const float* const at = from + 2 * i;
    hn::StoreU(hn::ConcatEven(d, hn::LoadU(d, at + kN), hn::LoadU(d, at)), d, to + i);
  }
  const float* const last = from + 2 * (count - kN) - 1;
  hn::StoreU(hn::ConcatOdd(d, hn::LoadU(d, last + kN), hn::LoadU(d, last)), d, to + count - kN);
}

HWY_INLINE void zero_line(float* to, std::int64_t count) {
  const Tag<float> d;
  constexpr std::int64_t kN = kLanes<float>;
  if (count < kN) return put_zeros(to, count);
  for (std::int64_t i = 0; i + kN < count; i += kN) hn::StoreU(hn::Zero(d), d, to + i);
  hn::StoreU(hn::Zero(d), d, to + count - kN);
}

inline void copy_lines(const std::vector<PaddedCopy::Line>& lines, const float* from, float* to) {
  for (const PaddedCopy::Line& line : lines) {
    float* const at = to + line.to;
    const std::int64_t count = line.end - line.begin;
    zero_line(at, line.begin);
    if (line.step == 1) {
      copy_line(from + line.from, count, at + line.begin);
    } else if (line.step == 2) {
      copy_even_line(from + line.from, count, at + line.begin);
    } else {
      put_line(from + line.from, line.step, count, at + line.begin);
    }
    zero_line(at + line.end, line.size - line.end);
  }
}

inline CopyLines copy_lines_function() {
  return &copy_lines;
}

#endif  // LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
