// The loops of Fourier transforms, compiled once per instruction set. Complex numbers are in two arrays, real and
// imaginary parts; where several lines are transformed at once, number i of all `width` lines is a row of each array.
// The arithmetic of every number is that of docs/numerics.md section 4.
#pragma once

#include <array>
#include <cstdint>

#include "backends/cpu/isa.h"

namespace lockstep {
inline namespace v0 {

template <typename T> struct FourierStageWork {
  std::int64_t radix, rest;
  std::int64_t run;             ///< numbers that are treated alike: those done, of all lines
  const T *re, *im;             ///< [radix, rest, run]
  T *out_re, *out_im;           ///< [rest, radix, run]
  const T* twiddles;            ///< FourierStage's; null: none
  const T* roots;               ///< of odd radices
  std::int64_t p_begin, p_end;  ///< of rest
  std::int64_t q_begin, q_end;  ///< of run
};

template <typename T> struct FourierLoops {
  void (*stage)(const FourierStageWork<T>& work);
  /// Rows times a block of `rows` roots.
  void (*turn)(T* re, T* im, const T* roots, std::int64_t rows, std::int64_t width);
  /// The spectrum [points + 1] of a real signal, of that [points] of its pairs; turns: FourierPlan's.
  void (*halves)(T* out_re, T* out_im, const T* re, const T* im, const T* turns, std::int64_t points,
                 std::int64_t width);
  /// And back.
  void (*join)(T* out_re, T* out_im, const T* re, const T* im, const T* turns, std::int64_t points, std::int64_t width);
  /// Parts side by side to arrays, and back as results: times scale, canonical.
  void (*split)(T* re, T* im, const T* pairs, std::int64_t count);
  void (*pairs)(T* out, const T* re, const T* im, T scale, std::int64_t count);
  void (*values)(T* out, const T* x, T scale, std::int64_t count);
};

struct FourierTable {
  FourierLoops<float> f32;
  FourierLoops<double> f64;

  template <typename T> const FourierLoops<T>& loops() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return f32;
    } else {
      return f64;
    }
  }
};

const FourierTable& fourier_table(Isa isa);

}  // namespace v0
}  // namespace lockstep
