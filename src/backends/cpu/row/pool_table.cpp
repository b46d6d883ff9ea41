// Vectors of results stay in registers while all taps of their windows pass by.
#define HWY_TARGET_INCLUDE "backends/cpu/row/pool_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "backends/cpu/row/pool_table.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

// One lane has no even elements to choose from, and no speed to gain.
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

constexpr PoolTable make_table() {
  return {};
}

#else

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// Magnitudes below `bound` (as bits) are the zero of their sign.
HWY_INLINE V zero_below(V v, std::uint32_t bound) {
  const hn::RebindToSigned<D> integers;
  const auto bits = hn::BitCast(integers, v);
  const auto magnitude = hn::And(bits, hn::Set(integers, 0x7fffffff));
  const auto small = hn::Lt(magnitude, hn::Set(integers, static_cast<std::int32_t>(bound)));
  return hn::BitCast(D(), hn::IfThenElse(small, hn::AndNot(hn::Set(integers, 0x7fffffff), bits), bits));
}

/// Elements from[i * stride] of the results [begin, end) of a vector, and -infinity for the others. Reads nothing
/// outside of the first and the last of them.
template <int stride> HWY_INLINE V some_elements(const float* from, std::int64_t begin, std::int64_t end) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  begin = std::clamp<std::int64_t>(begin, 0, lanes);
  end = std::clamp<std::int64_t>(end, begin, lanes);
#if HWY_ARCH_X86  // elsewhere what a mask leaves out may be read all the same
  if constexpr (stride <= 2) {
    const auto between = [&](std::int64_t first, std::int64_t last) HWY_ATTR {
      const auto first_n = [&](std::int64_t n) HWY_ATTR {
        return hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(n, 0, lanes)));
      };
      return hn::AndNot(first_n(first), first_n(last));
    };
    const auto mask = between(begin, end);
    const V nothing = hn::Set(d, -std::numeric_limits<float>::infinity());
    if constexpr (stride == 1) return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from), nothing);
    const std::int64_t first = 2 * begin, last = 2 * end - 1;
    const V low = hn::MaskedLoad(between(first, last), d, from);
    const V high = hn::MaskedLoad(between(first - lanes, last - lanes), d, from + lanes);
    return hn::IfThenElse(mask, hn::ConcatEven(d, high, low), nothing);
  }
#endif
  HWY_ALIGN float elements[hn::MaxLanes(d)];
  std::fill_n(elements, lanes, -std::numeric_limits<float>::infinity());
  for (std::int64_t i = begin; i < end; ++i) elements[i] = from[i * stride];
  return hn::Load(d, elements);
}

template <int stride> HWY_INLINE V all_elements(const float* from) {
  const D d;
  if constexpr (stride == 1) {
    return hn::LoadU(d, from);
  } else {
    constexpr int half = stride / 2;
    return hn::ConcatEven(d, all_elements<half>(from + half * hn::Lanes(d)), all_elements<half>(from));
  }
}

/// The same of results behind the last of which the memory may end.
template <int stride> HWY_INLINE V last_elements(const float* from) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
#if HWY_ARCH_X86
  if constexpr (stride == 2) {
    return hn::ConcatEven(d, hn::MaskedLoad(hn::FirstN(d, lanes - 1), d, from + lanes), hn::LoadU(d, from));
  }
#endif
  return some_elements<stride>(from, 0, static_cast<std::int64_t>(lanes));
}

/// `count` vectors of results from result `at` on. Those that would go over the end lie before it: results that are
/// computed twice cost less than vectors of parts.
template <int stride, bool flush, int count>
HWY_INLINE void largest_of_vectors(float* out, std::int64_t n, std::int64_t at, const PoolTap* taps,
                                   std::int64_t tap_count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto first_of = [&](int v) { return std::min(at + v * lanes, std::max<std::int64_t>(n - lanes, 0)); };
  V best[count];
  for (int v = 0; v < count; ++v) best[v] = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (const PoolTap* tap = taps; tap != taps + tap_count; ++tap) {
#pragma GCC unroll 4
    for (int v = 0; v < count; ++v) {
      const std::int64_t first = first_of(v);
      const std::int64_t left = tap->end - first - lanes;
      const float* const from = tap->from + first * stride;
      const bool whole = tap->begin <= first && left >= 0;
      // Vectors of steps reach past the last element, which must not be the end of the memory.
      V x = !whole ? some_elements<stride>(from, tap->begin - first, tap->end - first)
            : left >= stride - 1 ? all_elements<stride>(from)
                                 : last_elements<stride>(from);
      if constexpr (flush) x = zero_below(x, 0x00800000u);
      best[v] = hn::IfThenElse(hn::Or(hn::Gt(x, best[v]), hn::IsNaN(x)), x, best[v]);
    }
  }
  for (int v = 0; v < count; ++v) {
    const std::int64_t first = first_of(v);
    const V nan = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0x7fc00000u));
    const V canonical = zero_below(hn::IfThenElse(hn::IsNaN(best[v]), nan, best[v]), 0x00800001u);
    if (first + lanes <= n) {
      hn::StoreU(canonical, d, out + first);
    } else {
      hn::BlendedStore(canonical, hn::FirstN(d, static_cast<std::size_t>(n - first)), d, out + first);
    }
  }
}

template <int stride, bool flush>
void largest_of_line(float* out, std::int64_t n, const PoolTap* taps, std::int64_t count) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t at = 0;
  for (; n - at > 3 * lanes; at += 4 * lanes) largest_of_vectors<stride, flush, 4>(out, n, at, taps, count);
  for (; n - at > lanes; at += 2 * lanes) largest_of_vectors<stride, flush, 2>(out, n, at, taps, count);
  for (; at < n; at += lanes) largest_of_vectors<stride, flush, 1>(out, n, at, taps, count);
}

void largest(float* out, std::int64_t n, const PoolTap* taps, std::int64_t count, std::int64_t stride, bool flush) {
  if (stride == 1) {
    flush ? largest_of_line<1, true>(out, n, taps, count) : largest_of_line<1, false>(out, n, taps, count);
  } else if (stride == 2) {
    flush ? largest_of_line<2, true>(out, n, taps, count) : largest_of_line<2, false>(out, n, taps, count);
  } else {
    flush ? largest_of_line<4, true>(out, n, taps, count) : largest_of_line<4, false>(out, n, taps, count);
  }
}

constexpr PoolTable make_table() {
  return {largest};
}

#endif

}  // namespace

LOCKSTEP_TARGET_END(PoolTable, pool_table, make_table())
