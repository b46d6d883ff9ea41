// The loops of Fourier transforms. See fourier_table.h.
#define HWY_TARGET_INCLUDE "backends/cpu/irregular/fourier_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/irregular/fourier_table.h"
#include "kernels/fourier.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#include "kernels/texts.h"

HWY_INLINE float fused_of(float a, float b, float c) {
  return FMA(a, b, c);
}
HWY_INLINE double fused_of(double a, double b, double c) {
  return FMA64(a, b, c);
}

/// a * b + c and c - a * b, rounded once.
template <class D, class V = hn::Vec<D>> HWY_INLINE V fused(D d, V a, V b, V c) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128  // whose MulAdd rounds twice
  using T = hn::TFromD<D>;
  HWY_ALIGN T x[hn::MaxLanes(D())], y[hn::MaxLanes(D())], z[hn::MaxLanes(D())];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) z[i] = fused_of(x[i], y[i], z[i]);
  return hn::Load(d, z);
#else
  (void)d;
  return hn::MulAdd(a, b, c);
#endif
}
template <class D, class V = hn::Vec<D>> HWY_INLINE V fused_minus(D d, V a, V b, V c) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return fused(d, hn::Neg(a), b, c);
#else
  (void)d;
  return hn::NegMulAdd(a, b, c);
#endif
}

template <class D> struct Complex { hn::Vec<D> re, im; };
template <class D> HWY_INLINE Complex<D> sum(Complex<D> a, Complex<D> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D> HWY_INLINE Complex<D> difference(Complex<D> a, Complex<D> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class D> HWY_INLINE Complex<D> times(D d, Complex<D> x, hn::Vec<D> c, hn::Vec<D> s) {
  return {fused_minus(d, x.im, s, hn::Mul(x.re, c)), fused(d, x.im, c, hn::Mul(x.re, s))};
}

template <class D> HWY_INLINE void butterfly4(Complex<D>& x0, Complex<D>& x1, Complex<D>& x2, Complex<D>& x3) {
  const Complex<D> a = sum<D>(x0, x2), b = difference<D>(x0, x2), c = sum<D>(x1, x3), d = difference<D>(x1, x3);
  x0 = sum<D>(a, c);
  x1 = {hn::Add(b.re, d.im), hn::Sub(b.im, d.re)};
  x2 = difference<D>(a, c);
  x3 = {hn::Sub(b.re, d.im), hn::Add(b.im, d.re)};
}

template <class D> HWY_INLINE void butterfly8(D d, Complex<D>* x) {
  const auto h = hn::Set(d, hn::TFromD<D>(0.70710678118654752440));
  butterfly4<D>(x[0], x[2], x[4], x[6]);
  butterfly4<D>(x[1], x[3], x[5], x[7]);
  const Complex<D> e0 = x[0], e1 = x[2], e2 = x[4], e3 = x[6];
  const Complex<D> o0 = x[1], o1 = x[3], o2 = x[5], o3 = x[7];
  x[0] = sum<D>(e0, o0);
  x[4] = difference<D>(e0, o0);
  const auto u_re = hn::Add(o1.re, o1.im), u_im = hn::Sub(o1.im, o1.re);
  x[1] = {fused(d, u_re, h, e1.re), fused(d, u_im, h, e1.im)};
  x[5] = {fused_minus(d, u_re, h, e1.re), fused_minus(d, u_im, h, e1.im)};
  x[2] = {hn::Add(e2.re, o2.im), hn::Sub(e2.im, o2.re)};
  x[6] = {hn::Sub(e2.re, o2.im), hn::Add(e2.im, o2.re)};
  const auto v_re = hn::Sub(o3.im, o3.re), v_im = hn::Add(o3.re, o3.im);
  x[3] = {fused(d, v_re, h, e3.re), fused_minus(d, v_im, h, e3.im)};
  x[7] = {fused_minus(d, v_re, h, e3.re), fused(d, v_im, h, e3.im)};
}

/// kRadix 0: any; x[radix], with the roots of the radix.
template <int kRadix, class D, class T = hn::TFromD<D>>
HWY_INLINE void butterfly_odd(D d, Complex<D>* HWY_RESTRICT x, std::int64_t radix, const T* HWY_RESTRICT roots) {
  constexpr int kMost = kRadix == 0 ? static_cast<int>(kLargestRadix) : kRadix;
  const int r = kRadix == 0 ? static_cast<int>(radix) : kRadix;
  const int half = (r - 1) / 2;
  Complex<D> a[kMost / 2 + 1], b[kMost / 2 + 1];
  const Complex<D> first = x[0];
  Complex<D> all = first;
  HWY_UNROLL(4)
  for (int j = 1; j <= half; ++j) {
    a[j] = sum<D>(x[j], x[r - j]);
    b[j] = difference<D>(x[j], x[r - j]);
    all = sum<D>(all, a[j]);
  }
  x[0] = all;
  HWY_UNROLL(4)
  for (int k = 1; k <= half; ++k) {
    Complex<D> p = first;
    Complex<D> q{hn::Zero(d), hn::Zero(d)};
    int at = 0;
    HWY_UNROLL(4)
    for (int j = 1; j <= half; ++j) {
      at += k;
      if (at >= r) at -= r;
      const auto c = hn::Set(d, roots[at]), s = hn::Set(d, roots[r + at]);
      p = {fused(d, a[j].re, c, p.re), fused(d, a[j].im, c, p.im)};
      q = {fused(d, b[j].re, s, q.re), fused(d, b[j].im, s, q.im)};
    }
    x[k] = {hn::Sub(p.re, q.im), hn::Add(p.im, q.re)};
    x[r - k] = {hn::Add(p.re, q.im), hn::Sub(p.im, q.re)};
  }
}

template <int kRadix, class D, class T = hn::TFromD<D>>
HWY_INLINE void butterfly(D d, Complex<D>* x, std::int64_t radix, const T* roots) {
  if constexpr (kRadix == 2) {
    const Complex<D> low = x[0];
    x[0] = sum<D>(low, x[1]);
    x[1] = difference<D>(low, x[1]);
  } else if constexpr (kRadix == 4) {
    butterfly4<D>(x[0], x[1], x[2], x[3]);
  } else if constexpr (kRadix == 8) {
    butterfly8(d, x);
  } else {
    butterfly_odd<kRadix>(d, x, radix, roots);
  }
}

/// Vectors of neighbours in a run, from q on; what is left goes on with shorter ones.
template <int kRadix, std::size_t kLanes, typename T>
HWY_INLINE void along_run(const FourierStageWork<T>& w, std::int64_t p, std::int64_t q) {
  using D = hn::CappedTag<T, kLanes>;
  const D d;
  constexpr auto lanes = static_cast<std::int64_t>(kLanes);
  const std::int64_t radix = kRadix == 0 ? w.radix : kRadix;
  const std::int64_t step = w.rest * w.run;
  Complex<D> x[kRadix == 0 ? kLargestRadix : kRadix];
  for (; q + lanes <= w.q_end; q += lanes) {
    const T* re = w.re + p * w.run + q;
    const T* im = w.im + p * w.run + q;
    for (std::int64_t j = 0; j < radix; ++j) x[j] = {hn::LoadU(d, re + j * step), hn::LoadU(d, im + j * step)};
    butterfly<kRadix>(d, x, radix, w.roots);
    if (w.twiddles != nullptr) {
      const T* c = w.twiddles + p;
      const T* s = c + (radix - 1) * w.rest;
      for (std::int64_t k = 1; k < radix; ++k) {
        x[k] = times(d, x[k], hn::Set(d, c[(k - 1) * w.rest]), hn::Set(d, s[(k - 1) * w.rest]));
      }
    }
    T* out_re = w.out_re + p * radix * w.run + q;
    T* out_im = w.out_im + p * radix * w.run + q;
    for (std::int64_t k = 0; k < radix; ++k) {
      hn::StoreU(x[k].re, d, out_re + k * w.run);
      hn::StoreU(x[k].im, d, out_im + k * w.run);
    }
  }
  if constexpr (kLanes > 1) {
    if (q < w.q_end) along_run<kRadix, (kLanes >= 8 ? kLanes / 2 : 1)>(w, p, q);
  }
}

/// Runs of one number: vectors across p, whose results lie radix apart.
template <int kRadix, std::size_t kLanes, typename T>
HWY_INLINE std::int64_t across_runs(const FourierStageWork<T>& w, std::int64_t p) {
  using D = hn::CappedTag<T, kLanes>;
  const D d;
  constexpr auto lanes = static_cast<std::int64_t>(kLanes);
  const T* c = w.twiddles;
  const T* s = c + (kRadix - 1) * w.rest;
  for (; p + lanes <= w.p_end; p += lanes) {
    Complex<D> x[kRadix];
    for (int j = 0; j < kRadix; ++j) x[j] = {hn::LoadU(d, w.re + j * w.rest + p), hn::LoadU(d, w.im + j * w.rest + p)};
    butterfly<kRadix>(d, x, kRadix, w.roots);
    for (int k = 1; k < kRadix; ++k) {
      x[k] = times(d, x[k], hn::LoadU(d, c + (k - 1) * w.rest + p), hn::LoadU(d, s + (k - 1) * w.rest + p));
    }
    HWY_ALIGN T re[kRadix * kLanes];
    HWY_ALIGN T im[kRadix * kLanes];
    for (int k = 0; k < kRadix; ++k) {
      hn::Store(x[k].re, d, re + static_cast<std::size_t>(k) * kLanes);
      hn::Store(x[k].im, d, im + static_cast<std::size_t>(k) * kLanes);
    }
    for (std::size_t l = 0; l < kLanes; ++l) {
      T* out_re = w.out_re + (p + static_cast<std::int64_t>(l)) * kRadix;
      T* out_im = w.out_im + (p + static_cast<std::int64_t>(l)) * kRadix;
      for (std::size_t k = 0; k < kRadix; ++k) {
        out_re[k] = re[k * kLanes + l];
        out_im[k] = im[k * kLanes + l];
      }
    }
  }
  return p;
}

template <int kRadix, typename T> void stage_of(const FourierStageWork<T>& w) {
  constexpr std::size_t kLanes = HWY_LANES(T);
  std::int64_t p = w.p_begin;
  if constexpr (kRadix != 0 && kLanes > 1) {
    if (w.run == 1 && w.twiddles != nullptr) p = across_runs<kRadix, kLanes>(w, p);
  }
  for (; p < w.p_end; ++p) along_run<kRadix, kLanes>(w, p, w.q_begin);
}

template <typename T> void stage(const FourierStageWork<T>& w) {
  switch (w.radix) {
    case 2: return stage_of<2>(w);
    case 3: return stage_of<3>(w);
    case 4: return stage_of<4>(w);
    case 5: return stage_of<5>(w);
    case 7: return stage_of<7>(w);
    case 8: return stage_of<8>(w);
    default: return stage_of<0>(w);
  }
}

template <typename T>
void turn(T* HWY_RESTRICT re, T* HWY_RESTRICT im, const T* HWY_RESTRICT roots, std::int64_t rows, std::int64_t width) {
  const auto one = [](T& x, T& y, T c, T s) {
    const T product = x * s;
    x = fused_of(-y, s, x * c);
    y = fused_of(y, c, product);
  };
  if (width == 1) {
    LOCKSTEP_INDEPENDENT
    for (std::int64_t i = 0; i < rows; ++i) one(re[i], im[i], roots[i], roots[rows + i]);
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const T c = roots[i], s = roots[rows + i];
    LOCKSTEP_INDEPENDENT
    for (std::int64_t l = i * width; l < (i + 1) * width; ++l) one(re[l], im[l], c, s);
  }
}

template <typename T> HWY_INLINE void half_of(T& out_re, T& out_im, T a_re, T a_im, T b_re, T b_im, T c, T s) {
  const T even_re = a_re + b_re, even_im = a_im - b_im;
  const T odd_re = a_im + b_im, odd_im = b_re - a_re;
  out_re = fused_of(-odd_im, s, fused_of(odd_re, c, even_re)) * T(0.5);
  out_im = fused_of(odd_re, s, fused_of(odd_im, c, even_im)) * T(0.5);
}
template <typename T> HWY_INLINE void joint_of(T& out_re, T& out_im, T a_re, T a_im, T b_re, T b_im, T c, T s) {
  const T even_re = a_re + b_re, even_im = a_im - b_im;
  const T odd_re = a_re - b_re, odd_im = a_im + b_im;
  out_re = fused_of(-odd_im, c, fused_of(odd_re, s, even_re));
  out_im = fused_of(odd_im, s, fused_of(odd_re, c, even_im));
}

template <typename T>
void halves(T* HWY_RESTRICT out_re, T* HWY_RESTRICT out_im, const T* HWY_RESTRICT re, const T* HWY_RESTRICT im,
            const T* HWY_RESTRICT turns, std::int64_t points, std::int64_t width) {
  const T* c = turns;
  const T* s = turns + points + 1;
  if (width == 1) {
    half_of(out_re[0], out_im[0], re[0], im[0], re[0], im[0], c[0], s[0]);
    half_of(out_re[points], out_im[points], re[0], im[0], re[0], im[0], c[points], s[points]);
    LOCKSTEP_INDEPENDENT
    for (std::int64_t k = 1; k < points; ++k) {
      half_of(out_re[k], out_im[k], re[k], im[k], re[points - k], im[points - k], c[k], s[k]);
    }
    return;
  }
  for (std::int64_t k = 0; k <= points; ++k) {
    const std::int64_t to = k * width, a = k % points * width, b = (points - k) % points * width;
    LOCKSTEP_INDEPENDENT
    for (std::int64_t l = 0; l < width; ++l) {
      half_of(out_re[to + l], out_im[to + l], re[a + l], im[a + l], re[b + l], im[b + l], c[k], s[k]);
    }
  }
}

template <typename T>
void join(T* HWY_RESTRICT out_re, T* HWY_RESTRICT out_im, const T* HWY_RESTRICT re, const T* HWY_RESTRICT im,
          const T* HWY_RESTRICT turns, std::int64_t points, std::int64_t width) {
  const T* c = turns;
  const T* s = turns + points + 1;
  if (width == 1) {
    LOCKSTEP_INDEPENDENT
    for (std::int64_t k = 0; k < points; ++k) {
      joint_of(out_re[k], out_im[k], re[k], im[k], re[points - k], im[points - k], c[k], s[k]);
    }
    return;
  }
  for (std::int64_t k = 0; k < points; ++k) {
    const std::int64_t a = k * width, b = (points - k) * width;
    LOCKSTEP_INDEPENDENT
    for (std::int64_t l = 0; l < width; ++l) {
      joint_of(out_re[a + l], out_im[a + l], re[a + l], im[a + l], re[b + l], im[b + l], c[k], s[k]);
    }
  }
}

template <typename T>
void split(T* HWY_RESTRICT re, T* HWY_RESTRICT im, const T* HWY_RESTRICT pairs, std::int64_t count) {
  LOCKSTEP_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    re[i] = pairs[2 * i];
    im[i] = pairs[2 * i + 1];
  }
}
template <typename T>
void pairs(T* HWY_RESTRICT out, const T* HWY_RESTRICT re, const T* HWY_RESTRICT im, T scale, std::int64_t count) {
  LOCKSTEP_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    out[2 * i] = canonical(re[i] * scale);
    out[2 * i + 1] = canonical(im[i] * scale);
  }
}
template <typename T> void values(T* HWY_RESTRICT out, const T* HWY_RESTRICT x, T scale, std::int64_t count) {
  LOCKSTEP_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) out[i] = canonical(x[i] * scale);
}

template <typename T> FourierLoops<T> loops_of() {
  return {stage<T>, turn<T>, halves<T>, join<T>, split<T>, pairs<T>, values<T>};
}
FourierTable make_table() {
  return {loops_of<float>(), loops_of<double>()};
}

}  // namespace

LOCKSTEP_TARGET_END(FourierTable, fourier_table, make_table())
