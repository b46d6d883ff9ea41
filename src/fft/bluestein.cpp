// Bluestein (1970): j k = (j^2 + k^2 - (k - j)^2) / 2 makes a transform of any length a convolution with a chirp, which
// transforms of a power of two do.
#include "fft/radices.h"
#include "fft/tables.h"
#include "fft/transform.h"

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

// e^(pi i j^2 / n)
Root chirp_root(std::int64_t j, std::int64_t n) {
  const auto square = static_cast<unsigned __int128>(j) * static_cast<unsigned __int128>(j);
  return root_of_unity(static_cast<std::int64_t>(square % static_cast<unsigned __int128>(2 * n)), 2 * n);
}

// [3, n, 1]
Tensor chirp_of(const Transform& how, const Tensor& like) {
  const TableKey key{TableKind::chirp, how.n, 0, how.sign, like.dtype(), like.device()};
  return table(key, {3, how.n, 1}, [&] {
    return rotation(
        how.n, [&](std::int64_t j) { return chirp_root(j, how.n); }, how.sign);
  });
}

// The spectrum of the conjugate chirp, divided by the length of its transform: [3, size, 1].
Tensor filter_of(const Transform& how, std::int64_t size, const Tensor& like) {
  const TableKey key{TableKind::filter, how.n, size, how.sign, like.dtype(), like.device()};
  return table(key, {3, size, 1}, [&] {
    std::vector<double> real(static_cast<std::size_t>(size));
    std::vector<double> imaginary(real.size());
    for (std::int64_t j = 0; j < how.n; ++j) {
      const Root root = chirp_root(j, how.n);
      for (const std::int64_t place : {j, (size - j) % size}) {
        real[static_cast<std::size_t>(place)] = root.cosine;
        imaginary[static_cast<std::size_t>(place)] = -how.sign * root.sine;
      }
    }
    host_transform(real, imaginary, -1);
    const auto scale = 1 / static_cast<double>(size);  // of the inverse transform, exact
    return rotation(
        size,
        [&](std::int64_t k) {
          const auto at = static_cast<std::size_t>(k);
          return Root{.cosine = real[at] * scale, .sine = imaginary[at] * scale};
        },
        1);
  });
}

}  // namespace

Tensor transform_by_chirp(const Tensor& x, const Transform& how) {
  std::int64_t size = 1;
  while (size < 2 * how.n - 1) size *= 2;
  const std::vector<std::int64_t> radices = radices_of(size);
  const Tensor chirp = chirp_of(how, x);
  const Tensor given = chirp.narrow(1, 0, x.size(2));
  // A real signal has no imaginary part that would be turned.
  const Tensor turned = x.size(0) == 1 ? x * given.narrow(0, 1, 2).flip({0}).unsqueeze(1) : rotated(x, given, 1);
  const Tensor spectrum = transform_in_stages(turned, {.n = size, .sign = -1, .outputs = size}, radices);
  const Tensor product = rotated(spectrum, filter_of(how, size, x), 1);
  const Tensor back = transform_in_stages(product, {.n = size, .sign = 1, .outputs = how.outputs}, radices);
  const Tensor wanted = chirp.narrow(1, 0, how.outputs);
  if (!how.real_output) return rotated(back, wanted, 1);
  return back.narrow(0, 0, 1) * wanted.narrow(0, 2, 1).unsqueeze(1) +
         back.narrow(0, 1, 1) * wanted.narrow(0, 0, 1).unsqueeze(1);
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
