// Discrete Fourier transforms in the order of docs/numerics.md section 4.
#include <cmath>
#include <utility>
#include <vector>

#include "backends/reference/elements.h"
#include "backends/reference/irregular.h"
#include "backends/reference/program.h"
#include "backends/reference/reduce.h"

namespace lockstep {
inline namespace v0 {
namespace reference {
namespace {

template <typename T> struct Complex {
  T re{}, im{};

  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  Complex swapped() const { return {im, re}; }
};
template <typename T> using Signal = std::vector<Complex<T>>;

/// "A product with a root": the real part of the product first, the other one added in one rounding.
template <typename T> Complex<T> times(Complex<T> x, Complex<T> root) {
  return {std::fma(-x.im, root.im, x.re * root.re), std::fma(x.im, root.re, x.re * root.im)};
}

/// A block of `count` roots of the table.
template <typename T> struct Roots {
  const T* data;
  std::int64_t count;
  Complex<T> operator[](std::int64_t i) const { return {data[i], data[count + i]}; }
};

template <typename T> Signal<T> butterfly4(const Signal<T>& x) {
  const Complex<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = x[1] - x[3];
  // -i d = (d.im, -d.re)
  return {a + c, {b.re + d.im, b.im - d.re}, a - c, {b.re - d.im, b.im + d.re}};
}

template <typename T> Signal<T> butterfly8(const Signal<T>& x) {
  const T h = static_cast<T>(0.70710678118654752440);
  const Signal<T> e = butterfly4<T>({x[0], x[2], x[4], x[6]});
  const Signal<T> o = butterfly4<T>({x[1], x[3], x[5], x[7]});
  Signal<T> y(8);
  y[0] = e[0] + o[0];
  y[4] = e[0] - o[0];
  // (1 - i) h o[1]
  const Complex<T> u{o[1].re + o[1].im, o[1].im - o[1].re};
  y[1] = {std::fma(u.re, h, e[1].re), std::fma(u.im, h, e[1].im)};
  y[5] = {std::fma(-u.re, h, e[1].re), std::fma(-u.im, h, e[1].im)};
  y[2] = {e[2].re + o[2].im, e[2].im - o[2].re};
  y[6] = {e[2].re - o[2].im, e[2].im + o[2].re};
  // (-1 - i) h o[3] = h (v.re, -v.im)
  const Complex<T> v{o[3].im - o[3].re, o[3].re + o[3].im};
  y[3] = {std::fma(v.re, h, e[3].re), std::fma(-v.im, h, e[3].im)};
  y[7] = {std::fma(-v.re, h, e[3].re), std::fma(v.im, h, e[3].im)};
  return y;
}

/// Sums and differences of the numbers that stand for conjugate roots.
template <typename T> Signal<T> butterfly_odd(const Signal<T>& x, Roots<T> roots) {
  const std::size_t r = x.size();
  const std::size_t half = (r - 1) / 2;
  Signal<T> a(half + 1), b(half + 1), y(r);
  y[0] = x[0];
  for (std::size_t j = 1; j <= half; ++j) {
    a[j] = x[j] + x[r - j];
    b[j] = x[j] - x[r - j];
    y[0] = y[0] + a[j];
  }
  for (std::size_t k = 1; k <= half; ++k) {
    Complex<T> p = x[0];
    Complex<T> q;
    for (std::size_t j = 1; j <= half; ++j) {
      const Complex<T> root = roots[static_cast<std::int64_t>(j * k % r)];
      p = {std::fma(a[j].re, root.re, p.re), std::fma(a[j].im, root.re, p.im)};
      q = {std::fma(b[j].re, root.im, q.re), std::fma(b[j].im, root.im, q.im)};
    }
    // p + i q and its counterpart
    y[k] = {p.re - q.im, p.im + q.re};
    y[r - k] = {p.re + q.im, p.im - q.re};
  }
  return y;
}

template <typename T> class Transform {
 public:
  Transform(const FourierKernel& kernel, const Binding& binding)
      : kernel_(kernel),
        binding_(binding),
        plan_(kernel.kind, kernel.n),
        table_(reinterpret_cast<const T*>(slot(binding, kernel.table))),
        scale_(value_of(binding.parameters[static_cast<std::size_t>(kernel.scale)])) {}

  void run() const {
    for (std::int64_t line = 0; line < kernel_.lines.numel(); ++line) {
      Index index{};
      unravel(kernel_.lines, line, index.data());
      Signal<T> x = numbers(index);
      if (plan_.is_inverse()) swap_parts(x);
      x = plan_.chirped ? by_chirp(x) : in_stages(std::move(x));
      if (plan_.is_inverse()) swap_parts(x);
      write(x, index);
    }
  }

 private:
  static T value_of(Scalar scalar) {
    if constexpr (std::is_same_v<T, double>) {
      return FROM_BITS64(scalar.bits);
    } else {
      return FROM_BITS(scalar.bits);
    }
  }
  Roots<T> block(std::int64_t at, std::int64_t count) const { return {table_ + at, count}; }
  static void swap_parts(Signal<T>& x) {
    for (Complex<T>& number : x) number = number.swapped();
  }

  T part(Index& index, std::int64_t element, int which) const {
    const auto rank = static_cast<std::size_t>(kernel_.lines.rank());
    index[rank] = element;
    index[rank + 1] = which;
    return value_at<T>(kernel_.input, binding_, index.data());
  }
  /// Element k of half a spectrum; parts that are zero in every spectrum of a real signal are not read.
  Complex<T> frequency(Index& index, std::int64_t k) const {
    const bool stands_alone = k == 0 || 2 * k == plan_.n;
    return {part(index, k, 0), stands_alone ? T(0) : part(index, k, 1)};
  }

  /// The complex numbers that are transformed.
  Signal<T> numbers(Index index) const {
    Signal<T> x;
    for (std::int64_t i = 0; i < plan_.points; ++i) {
      switch (plan_.kind) {
        case FourierKind::forward:
        case FourierKind::inverse: x.push_back({part(index, i, 0), part(index, i, 1)}); break;
        case FourierKind::real:
          x.push_back(plan_.paired ? Complex<T>{part(index, 2 * i, 0), part(index, 2 * i + 1, 0)}
                                   : Complex<T>{part(index, i, 0), T(0)});
          break;
        case FourierKind::real_inverse:
          if (plan_.paired) {
            x.push_back(joined_halves(frequency(index, i), frequency(index, plan_.points - i), i));
          } else if (2 * i < plan_.n) {
            x.push_back(frequency(index, i));
          } else {
            const Complex<T> other = frequency(index, plan_.n - i);
            x.push_back({other.re, -other.im});
          }
          break;
      }
    }
    return x;
  }
  /// Even elements as real, odd ones as imaginary parts: number i of their spectrum.
  Complex<T> joined_halves(Complex<T> x, Complex<T> other, std::int64_t i) const {
    const Complex<T> turn = block(plan_.turns, plan_.points + 1)[i];
    const Complex<T> even{x.re + other.re, x.im - other.im};
    const Complex<T> odd{x.re - other.re, x.im + other.im};
    return {std::fma(-odd.im, turn.re, std::fma(odd.re, turn.im, even.re)),
            std::fma(odd.im, turn.im, std::fma(odd.re, turn.re, even.im))};
  }

  Signal<T> in_stages(Signal<T> x) const {
    for (const FourierStage& stage : plan_.stages) {
      const auto [radix, rest, done, twiddles, roots] = stage;
      Signal<T> y(x.size());
      for (std::int64_t p = 0; p < rest; ++p) {
        for (std::int64_t q = 0; q < done; ++q) {
          Signal<T> in;
          for (std::int64_t j = 0; j < radix; ++j) in.push_back(x[static_cast<std::size_t>((j * rest + p) * done + q)]);
          const Signal<T> out = butterfly(in, roots);
          for (std::int64_t k = 0; k < radix; ++k) {
            Complex<T> number = out[static_cast<std::size_t>(k)];
            if (k > 0 && rest > 1) number = times(number, block(twiddles, (radix - 1) * rest)[(k - 1) * rest + p]);
            y[static_cast<std::size_t>((p * radix + k) * done + q)] = number;
          }
        }
      }
      x = std::move(y);
    }
    return x;
  }
  Signal<T> butterfly(const Signal<T>& x, std::int64_t roots) const {
    switch (x.size()) {
      case 2: return {x[0] + x[1], x[0] - x[1]};
      case 4: return butterfly4(x);
      case 8: return butterfly8(x);
      default: return butterfly_odd(x, block(roots, static_cast<std::int64_t>(x.size())));
    }
  }

  Signal<T> by_chirp(const Signal<T>& x) const {
    const Roots<T> chirp = block(plan_.chirp, plan_.points);
    const Roots<T> filter = block(plan_.filter, plan_.size);
    Signal<T> y(static_cast<std::size_t>(plan_.size));
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = times(x[i], chirp[static_cast<std::int64_t>(i)]);
    y = in_stages(std::move(y));
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = times(y[i], filter[static_cast<std::int64_t>(i)]).swapped();
    y = in_stages(std::move(y));
    y.resize(x.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = times(y[i].swapped(), chirp[static_cast<std::int64_t>(i)]);
    return y;
  }

  void write(const Signal<T>& x, Index index) const {
    for (std::int64_t k = 0; k < plan_.outputs(); ++k) {
      if (plan_.kind == FourierKind::real && plan_.paired) {
        put(index, k, frequency_of_pairs(x, k));
      } else if (plan_.kind == FourierKind::real_inverse && plan_.paired) {
        const Complex<T> pair = x[static_cast<std::size_t>(k / 2)];
        put(index, k, {k % 2 == 0 ? pair.re : pair.im, T(0)});
      } else {
        put(index, k, x[static_cast<std::size_t>(k)]);
      }
    }
  }
  /// Of the spectrum of (even + i odd) elements.
  Complex<T> frequency_of_pairs(const Signal<T>& x, std::int64_t k) const {
    const Complex<T> a = x[static_cast<std::size_t>(k % plan_.points)];
    const Complex<T> b = x[static_cast<std::size_t>((plan_.points - k) % plan_.points)];
    const Complex<T> turn = block(plan_.turns, plan_.points + 1)[k];
    const Complex<T> even{a.re + b.re, a.im - b.im};
    const Complex<T> odd{a.im + b.im, b.re - a.re};
    const Complex<T> sum{std::fma(-odd.im, turn.im, std::fma(odd.re, turn.re, even.re)),
                         std::fma(odd.re, turn.im, std::fma(odd.im, turn.re, even.im))};
    return {sum.re * T(0.5), sum.im * T(0.5)};
  }
  void put(Index& index, std::int64_t element, Complex<T> number) const {
    const auto rank = static_cast<std::size_t>(kernel_.lines.rank());
    index[rank] = element;
    for (int which = 0; which < (plan_.writes_pairs() ? 2 : 1); ++which) {
      index[rank + 1] = which;
      const T value = scalar::canonical((which == 0 ? number.re : number.im) * scale_);
      store_word(kernel_.input.dtype, slot(binding_, kernel_.out), dot_index(kernel_.out_strides, index.data()),
                 encode(kernel_.input.dtype, value));
    }
  }

  const FourierKernel& kernel_;
  const Binding& binding_;
  const FourierPlan plan_;
  const T* table_;
  const T scale_;
};

}  // namespace
}  // namespace reference

void run_kernel(const FourierKernel& kernel, const Binding& binding) {
  if (kernel.input.dtype == DType::f64) {
    reference::Transform<double>(kernel, binding).run();
  } else {
    reference::Transform<float>(kernel, binding).run();
  }
}

}  // namespace v0
}  // namespace lockstep
