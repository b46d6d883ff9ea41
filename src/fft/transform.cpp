#include "fft/transform.h"

#include "fft/tables.h"
#include "graph/ops/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

constexpr std::int64_t kLargestRadix = 64;   ///< of lengths that have other factors
constexpr std::int64_t kLargestPrime = 128;  ///< that is transformed by one product

TableKey key_of(TableKind kind, std::int64_t n, std::int64_t m, int sign, const Tensor& like) {
  return {kind, n, m, sign, like.dtype(), like.device()};
}

// The factor of n to transform first: of two or three that are near to each other, up to the largest radix; n itself
// where it has no such factor.
std::int64_t radix_of(std::int64_t n) {
  if (n <= kLargestRadix) return n;
  // As few stages as there can be, and then the smallest largest radix.
  int stages = 1;
  for (std::int64_t reach = kLargestRadix; reach < n; reach *= kLargestRadix) ++stages;
  std::int64_t best = n;
  double target = 1;
  while (true) {
    double power = 1;
    for (int s = 0; s < stages; ++s) power *= target;
    if (power >= static_cast<double>(n)) break;
    target += 1;
  }
  for (std::int64_t r = 2; r <= kLargestRadix; ++r) {
    if (n % r != 0) continue;
    if (static_cast<double>(r) <= target || best == n) best = r;
    if (static_cast<double>(r) >= target) break;
  }
  return best;
}

// The matrix [2, n, 2, n] that takes planes to planes.
Tensor matrix_of(std::int64_t n, int sign, const Tensor& like) {
  return table(key_of(TableKind::matrix, n, 0, sign, like), {2, n, 2, n}, [&] {
    const auto size = static_cast<std::size_t>(n);
    std::vector<double> values(4 * size * size);
    for (std::size_t j = 0; j < size; ++j) {
      for (std::size_t k = 0; k < size; ++k) {
        const Root root = root_of_unity(static_cast<std::int64_t>(j * k % size), n);
        const auto at = [&](std::size_t to, std::size_t from) -> double& {
          return values[((to * size + j) * 2 + from) * size + k];
        };
        at(0, 0) = root.cosine;
        at(1, 1) = root.cosine;
        at(0, 1) = -sign * root.sine;
        at(1, 0) = sign * root.sine;
      }
    }
    return values;
  });
}

// One product: over the planes and the transformed dimension.
Tensor direct(const Tensor& x, int sign) {
  return graph::contract_dims(matrix_of(x.size(2), sign, x), x,
                              {.batch_a = {}, .batch_b = {}, .m = {0, 1}, .n = {1, 3}, .k_a = {2, 3}, .k_b = {0, 2}});
}

// Tables for `rotated`, of roots that `number` gives by their number of n-th parts of a turn.
template <typename Number>
Tensor turned(const Tensor& x, TableKind first, TableKind second, std::int64_t n, const Shape& shape, int sign,
              Number number, std::int64_t parts) {
  const std::int64_t m = shape.numel();
  Shape cosine_shape{1};
  Shape sine_shape{2};
  for (const std::int64_t size : shape) {
    cosine_shape.push_back(size);
    sine_shape.push_back(size);
  }
  const Tensor cosines = table(key_of(first, n, m, sign, x), cosine_shape, [&] {
    std::vector<double> values;
    for (std::int64_t i = 0; i < m; ++i) values.push_back(root_of_unity(number(i), parts).cosine);
    return values;
  });
  const Tensor sines = table(key_of(second, n, m, sign, x), sine_shape, [&] {
    std::vector<double> values;
    for (const int plane : {-1, 1}) {
      for (std::int64_t i = 0; i < m; ++i) values.push_back(plane * sign * root_of_unity(number(i), parts).sine);
    }
    return values;
  });
  return rotated(x, cosines, sines);
}

// Bluestein (1970): j k = (j^2 + k^2 - (k - j)^2) / 2 makes the sum a convolution, which transforms of a power of two
// do.
Tensor bluestein(const Tensor& x, int sign) {
  const std::int64_t n = x.size(2);
  std::int64_t size = 1;
  while (size < 2 * n - 1) size *= 2;
  const auto square = [n](std::int64_t j) {
    return static_cast<std::int64_t>((static_cast<unsigned __int128>(j) * static_cast<unsigned __int128>(j)) %
                                     static_cast<unsigned __int128>(2 * n));
  };
  const auto chirp = [&](const Tensor& planes) {
    return turned(planes, TableKind::chirp, TableKind::chirp_swapped, n, {1, n, 1}, sign, square, 2 * n);
  };
  const auto filter = [&](bool swapped) {
    std::vector<double> real(static_cast<std::size_t>(size));
    std::vector<double> imaginary(real.size());
    for (std::int64_t j = 0; j < n; ++j) {
      const Root root = root_of_unity(square(j), 2 * n);
      for (const std::int64_t place : {j, (size - j) % size}) {
        real[static_cast<std::size_t>(place)] = root.cosine;
        imaginary[static_cast<std::size_t>(place)] = -sign * root.sine;
      }
    }
    host_transform(real, imaginary, -1);
    const auto scale = 1 / static_cast<double>(size);  // of the inverse transform, exact
    std::vector<double> values;
    const auto append = [&](const std::vector<double>& part, double factor) {
      for (const double value : part) values.push_back(value * factor);
    };
    if (swapped) {
      append(imaginary, -scale);
      append(imaginary, scale);
    } else {
      append(real, scale);
    }
    return values;
  };
  const Tensor cosines =
      table(key_of(TableKind::filter, n, size, sign, x), {1, size, 1, 1}, [&] { return filter(false); });
  const Tensor sines =
      table(key_of(TableKind::filter_swapped, n, size, sign, x), {2, size, 1, 1}, [&] { return filter(true); });
  const Tensor signal = lockstep::pad(chirp(x), {0, 0, 0, size - n});
  const Tensor product = rotated(transform(signal, -1), cosines, sines);  // [2, size, a, c]
  const Tensor back = transform(product.transpose(1, 2), 1).narrow(1, 0, n);
  return chirp(back.transpose(1, 2)).transpose(1, 2);
}

}  // namespace

Tensor rotated(const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  return x * cosines + x.flip({0}) * sines;
}

Tensor transform(const Tensor& x, int sign) {
  const std::int64_t n = x.size(2);
  if (n == 1) return x.transpose(1, 2);
  const std::int64_t radix = radix_of(n);
  if (radix == n) return n <= kLargestPrime ? direct(x, sign) : bluestein(x, sign);
  // Cooley and Tukey (1965): n = radix * rest, element i1 rest + i2, frequency j1 + radix k2.
  const std::int64_t rest = n / radix;
  const std::int64_t before = x.size(1);
  const std::int64_t after = x.size(3);
  const Tensor parts = x.reshape({2, before, radix, rest, after});
  const Tensor first =
      graph::contract_dims(matrix_of(radix, sign, x), parts,
                           {.batch_a = {}, .batch_b = {}, .m = {0, 1}, .n = {1, 3, 4}, .k_a = {2, 3}, .k_b = {0, 2}});
  const Tensor second = turned(
      first, TableKind::cosines, TableKind::sines, radix, {radix, 1, rest, 1}, sign,
      [&](std::int64_t i) { return (i / rest) * (i % rest); }, n);
  return transform(second.reshape({2, radix * before, rest, after}), sign).reshape({2, n, before, after});
}

namespace {

// Frequencies 0 to h of x [2, h or h + 1, b], and conjugates of those mirrored at h, the other way round from the
// signal.
struct Halves {
  Tensor sum;         ///< (x_k + conj x_(h - k)) / 2
  Tensor difference;  ///< (x_k - conj x_(h - k)) / 2
};
Halves halves_of(const Tensor& x, std::int64_t h, std::int64_t count) {
  const std::int64_t given = x.size(1);
  std::vector<std::int64_t> places[2];
  for (std::int64_t k = 0; k < count; ++k) {
    places[0].push_back(k % given);
    places[1].push_back((h - k) % given);
  }
  const Tensor own = index_select(x, 1, Tensor::from(places[0], {count}, x.device()));
  const Tensor sign = Tensor::from(std::vector<float>{0.5F, -0.5F}, {2, 1, 1}, x.device()).to(x.dtype());
  const Tensor mirrored = index_select(x, 1, Tensor::from(places[1], {count}, x.device())) * sign;
  const Tensor half = own * 0.5;
  return {half + mirrored, half - mirrored};
}

// Of e^(2 pi i k / n): cosines for the real plane, and minus them; sines.
Tensor half_cosines(const Tensor& x, std::int64_t n, std::int64_t count) {
  return table(key_of(TableKind::half, n, count, 0, x), {2, count, 1}, [&] {
    std::vector<double> values;
    for (const int plane : {1, -1}) {
      for (std::int64_t k = 0; k < count; ++k) values.push_back(plane * root_of_unity(k, n).cosine);
    }
    return values;
  });
}
Tensor half_sines(const Tensor& x, std::int64_t n, std::int64_t count) {
  return table(key_of(TableKind::half_swapped, n, count, 0, x), {1, count, 1}, [&] {
    std::vector<double> values;
    for (std::int64_t k = 0; k < count; ++k) values.push_back(root_of_unity(k, n).sine);
    return values;
  });
}

}  // namespace

Tensor half_spectrum(const Tensor& x) {
  const std::int64_t batch = x.size(0);
  const std::int64_t n = x.size(1);
  const std::int64_t h = n / 2;
  // Even elements as real parts, odd ones as imaginary parts.
  const Tensor planes = x.reshape({batch, h, 2}).permute({2, 1, 0}).unsqueeze(1);
  const Tensor z = transform(planes, -1).reshape({2, h, batch});
  const Halves halves = halves_of(z, h, h + 1);
  // The spectrum of the odd elements is -i times the difference; it goes with e^(-2 pi i k / n).
  return halves.sum + halves.difference.flip({0}) * half_cosines(x, n, h + 1) -
         halves.difference * half_sines(x, n, h + 1);
}

Tensor half_signal(const Tensor& x) {
  const std::int64_t h = x.size(1) - 1;
  const std::int64_t n = 2 * h;
  const std::int64_t batch = x.size(2);
  const Halves halves = halves_of(x, h, h);
  const Tensor z =
      halves.sum - halves.difference.flip({0}) * half_cosines(x, n, h) - halves.difference * half_sines(x, n, h);
  return transform(z.unsqueeze(1), 1).reshape({2, h, batch}).permute({2, 1, 0}).reshape({batch, n});
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
