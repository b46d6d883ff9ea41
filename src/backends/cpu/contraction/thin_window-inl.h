// Depthwise convolutions of square windows from a padded copy that stays in the first cache: a column of vectors goes
// down the plane, some lines of results at a time, so that a vector of pixels is read once for all lines that it counts
// for, and the weights stay in registers, as far as there are enough. Each sum takes its terms in the order of
// thin-inl.h, which includes this.

#if defined(LOCKSTEP_CONTRACTION_THIN_WINDOW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_THIN_WINDOW_INL_H_
#undef LOCKSTEP_CONTRACTION_THIN_WINDOW_INL_H_
#else
#define LOCKSTEP_CONTRACTION_THIN_WINDOW_INL_H_
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

// kFinish: results are made canonical, and none is written behind the plane.
template <class D, int kSide, int kStep, bool kFinish> struct Window {
  using V = hn::Vec<D>;
  static constexpr int kLines = 4;

  HWY_INLINE explicit Window(const ThinArgs& args)
      : line(args.table->line),
        lines(args.table->lines),
        line_stride(args.table->line_stride),
        data(args.data + args.table->k_address[0]),
        results(args.results),
        next(reinterpret_cast<const std::byte*>(args.next)),
        next_end(next + args.next_count * static_cast<std::int64_t>(sizeof(float))) {
    if constexpr (kStep == 2) {
      column_phase = args.table->k_address[1] - args.table->k_address[0];
      line_phase = args.table->k_address[kSide] - args.table->k_address[0];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kSide; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kSide; ++j) weight[i][j] = hn::Set(D(), args.rows[(i * kSide + j) * args.rows_stride]);
    }
    const std::int64_t vectors = (line + lanes() - 1) / lanes();
    const std::int64_t parts = vectors * ((lines + kLines - 1) / kLines);
    ask = ((next_end - next) / kCacheBytes + parts - 1) / parts;
  }

  static HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }

  // The sums of kCount lines from `first` on, each of a vector from `at` on. A vector may go over the end of its line:
  // what is there is overwritten later.
  template <int kCount, bool kBounded> HWY_INLINE void compute(std::int64_t first, std::int64_t at) {
    const D d;
    V sum[kCount];
#pragma GCC unroll 4
    for (int l = 0; l < kCount; ++l) sum[l] = hn::Zero(d);
    const float* pixels[kStep];
    pixels[0] = data + first * line_stride + at;
    if constexpr (kStep == 2) pixels[1] = pixels[0] + line_phase;
#pragma GCC unroll 16
    for (int from = 0; from < (kCount - 1) * kStep + kSide; ++from) {
      const float*& row = pixels[from % kStep];
#pragma GCC unroll 8
      for (int j = 0; j < kSide; ++j) {
        const V value = hn::LoadU(d, row + (j % kStep == 0 ? 0 : column_phase) + j / kStep);
#pragma GCC unroll 4
        for (int l = 0; l < kCount; ++l) {
          const int i = from - l * kStep;
          if (i >= 0 && i < kSide) sum[l] = hn::MulAdd(weight[i][j], value, sum[l]);
        }
      }
      row += line_stride;
    }
    float* to = results + first * line + at;
#pragma GCC unroll 4
    for (int l = 0; l < kCount; ++l, to += line) {
      const V result = kFinish ? canonical_result(d, sum[l]) : sum[l];
      if (kBounded && l == kCount - 1) {
        hn::BlendedStore(result, hn::FirstN(d, static_cast<std::size_t>(line - at)), d, to);
      } else {
        hn::StoreU(result, d, to);
      }
    }
    for (std::int64_t i = 0; i < ask && next < next_end; ++i, next += kCacheBytes) __builtin_prefetch(next, 0, 2);
  }

  // Behind the last line is what belongs to others.
  template <int kCount> HWY_INLINE void compute_last(std::int64_t at) {
    if constexpr (kFinish) {
      if (at + lanes() > line) return compute<kCount, true>(lines - kCount, at);
    }
    compute<kCount, false>(lines - kCount, at);
  }

  // Of the last lines some are computed once more: one alone would wait for its own sums.
  HWY_INLINE void column(std::int64_t at) {
    std::int64_t first = 0;
    for (; first + kLines < lines; first += kLines) compute<kLines, false>(first, at);
    if (lines - first <= 2) return compute_last<2>(at);
    if (lines >= kLines) return compute_last<kLines>(at);
    compute<2, false>(0, at);
    compute_last<2>(at);
  }

  static constexpr std::int64_t kCacheBytes = 64;
  std::int64_t line, lines, line_stride;
  std::int64_t column_phase = 0, line_phase = 0;
  const float* data;
  float* results;
  const std::byte *next, *next_end;  ///< what to ask for
  std::int64_t ask;                  ///< cache lines at a time
  V weight[kSide][kSide];
};

// The last column first: it may go over the ends of its lines into the first one, but no other.
template <class D, int kSide, int kStep, bool kFinish> HWY_NOINLINE void window_columns(const ThinArgs& args) {
  Window<D, kSide, kStep, kFinish> window(args);
  for (std::int64_t at = (window.line - 1) / window.lanes() * window.lanes(); at >= 0; at -= window.lanes()) {
    window.column(at);
  }
}

template <class D, int kSide, int kStep> void finished_window(const ThinArgs& args) {
  args.finish ? window_columns<D, kSide, kStep, true>(args) : window_columns<D, kSide, kStep, false>(args);
}

template <class D> void window_of(const ThinArgs& args) {
  const ThinWindow& window = *args.table->window;
  static_assert(ThinWindow::kSmallSide == 3 && ThinWindow::kLargeSide == 5 && ThinWindow::kMostSteps == 2);
  if (window.side == 3) {
    window.step == 1 ? finished_window<D, 3, 1>(args) : finished_window<D, 3, 2>(args);
  } else {
    window.step == 1 ? finished_window<D, 5, 1>(args) : finished_window<D, 5, 2>(args);
  }
}

inline void thin_window(const ThinArgs& args) {
#if HWY_TARGET == HWY_AVX3
  // Where half a vector is enough for what is left of a line, or all of it.
  using Half = hn::CappedTag<float, 8>;
  if ((args.table->line - 1) % 16 < 8) return window_of<Half>(args);
#endif
  window_of<Tag<float> >(args);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
