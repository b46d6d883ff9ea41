// Writes padded copies of f32 (padded_copy.h), per instruction set: a line is some vectors, of which the last one lies
// over its neighbour instead of behind the end.

#if defined(LOCKSTEP_CONTRACTION_COPY_LINES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_COPY_LINES_INL_H_
#undef LOCKSTEP_CONTRACTION_COPY_LINES_INL_H_
#else
#define LOCKSTEP_CONTRACTION_COPY_LINES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/padded_copy.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if LOCKSTEP_SCALAR_TILE

inline CopyFunction copy_function() {
  return nullptr;
}

#else

// Fewer elements than this are copied one by one.
inline constexpr std::int64_t kFewest = 4;

template <class D> HWY_INLINE void put_zeros(D d, std::int64_t count, float* to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (count < lanes) {
    if constexpr (hn::MaxLanes(D()) > kFewest) return put_zeros(hn::Half<D>(), count, to);
    for (std::int64_t i = 0; i < count; ++i) to[i] = 0;
    return;
  }
  for (std::int64_t i = 0; i < count - lanes; i += lanes) hn::StoreU(hn::Zero(d), d, to + i);
  hn::StoreU(hn::Zero(d), d, to + count - lanes);
}

// Elements side by side.
template <bool kFlush, class D> HWY_INLINE void put(D d, const float* from, std::int64_t count, float* to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (count < lanes) {
    if constexpr (hn::MaxLanes(D()) > kFewest) return put<kFlush>(hn::Half<D>(), from, count, to);
    for (std::int64_t i = 0; i < count; ++i) to[i] = decode<float>(from[i], kFlush);
    return;
  }
  std::int64_t i = 0;
  for (; i + lanes < count; i += lanes) hn::StoreU(flushed<kFlush>(d, hn::LoadU(d, from + i)), d, to + i);
  i = count - lanes;
  hn::StoreU(flushed<kFlush>(d, hn::LoadU(d, from + i)), d, to + i);
}

// Every second element, of which the last is the last one that is read.
template <bool kFlush, class D> HWY_INLINE void put_even(D d, const float* from, std::int64_t count, float* to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (count < lanes) {
    if constexpr (hn::MaxLanes(D()) > kFewest) return put_even<kFlush>(hn::Half<D>(), from, count, to);
    for (std::int64_t i = 0; i < count; ++i) to[i] = decode<float>(from[i * 2], kFlush);
    return;
  }
  std::int64_t i = 0;
  for (; i + lanes < count; i += lanes) {
    const auto low = hn::LoadU(d, from + i * 2);
    const auto high = hn::LoadU(d, from + i * 2 + lanes);
    hn::StoreU(flushed<kFlush>(d, hn::ConcatEven(d, high, low)), d, to + i);
  }
  i = count - lanes;
  const auto low = hn::LoadU(d, from + i * 2);
  const auto high = hn::LoadU(d, from + i * 2 + lanes - 1);
  const auto even = hn::ConcatUpperLower(d, hn::ConcatOdd(d, high, high), hn::ConcatEven(d, low, low));
  hn::StoreU(flushed<kFlush>(d, even), d, to + i);
}

template <bool kFlush, bool kZeros> void copy_lines_as(const CopyArgs& args) {
  const Tag<float> d;
  for (const PaddedCopy::Line* line = args.lines; line != args.lines + args.count; ++line) {
    float* const to = args.to + line->to;
    const float* const from = args.from + line->from;
    const std::int64_t count = line->end - line->begin;
    if (args.next != nullptr) {
      for (std::int64_t i = 0; i < count * line->step; i += kCacheLine) hwy::Prefetch(args.next + line->from + i);
    }
    if (kZeros) put_zeros(d, line->begin, to);
    if (line->step == 1) {
      put<kFlush>(d, from, count, to + line->begin);
    } else if (line->step == 2) {
      put_even<kFlush>(d, from, count, to + line->begin);
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[line->begin + i] = decode<float>(from[i * line->step], kFlush);
    }
    if (kZeros) put_zeros(d, line->size - line->end, to + line->end);
  }
}

inline void copy_lines(const CopyArgs& args) {
  if (args.flush) return args.zeros ? copy_lines_as<true, true>(args) : copy_lines_as<true, false>(args);
  args.zeros ? copy_lines_as<false, true>(args) : copy_lines_as<false, false>(args);
}

inline CopyFunction copy_function() {
  return &copy_lines;
}

#endif  // LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
