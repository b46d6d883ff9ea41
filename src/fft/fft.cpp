// fft, ifft, rfft, irfft and their forms in two dimensions.
#include <lockstep/fft.h>

#include <cmath>

#include <fmt/format.h>

#include "fft/transform.h"

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

enum class Pairs : bool { no, yes };

const Tensor& signal_operand(const Operand& a, Pairs pairs, int least_rank = 1) {
  const Tensor& x = tensor_operand(a);
  check_float({"x", x});
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64) {
    fail<DTypeError>("computes in f32 and f64 only", {{"x", x}}, "cast it: x.to(ls::DType::f32)");
  }
  if (pairs == Pairs::yes) {
    check<ShapeError>(x.rank() > least_rank && x.size(-1) == 2,
                      "x must be complex: pairs of a real and an imaginary part as the last dimension", {{"x", x}},
                      "stack({real, imaginary}, -1)");
  } else {
    check<ShapeError>(x.rank() >= least_rank, fmt::format("x must have at least {} dimension(s)", least_rank),
                      {{"x", x}});
  }
  return x;
}

// The transformed dimension of x, whose pairs are not counted.
int dim_of(const Tensor& x, Pairs pairs, int dim) {
  const int rank = x.rank() - (pairs == Pairs::yes ? 1 : 0);
  check<IndexError>(dim >= -rank && dim < rank, fmt::format("dim {} is none of the {} of the signal", dim, rank),
                    {{"x", x}});
  return dim < 0 ? dim + rank : dim;
}

void check_length(const Tensor& x, std::int64_t n) {
  check<ValueError>(n >= 1, "the transform needs at least one element", {{"x", x}}, "give options.n");
}

// x with `n` elements along `dim`: cut, or filled with zeros.
Tensor resized(const Tensor& x, int dim, std::int64_t n) {
  if (x.size(dim) == n) return x;
  if (x.size(dim) > n) return x.narrow(dim, 0, n);
  Shape padding;
  for (int d = x.rank() - 1; d > dim; --d) {
    padding.push_back(0);
    padding.push_back(0);
  }
  padding.push_back(0);
  padding.push_back(n - x.size(dim));
  return lockstep::pad(x, padding);
}

double factor_of(Norm norm, std::int64_t n, bool inverse) {
  const auto length = static_cast<double>(n);
  switch (norm) {
    case Norm::backward: return inverse ? 1 / length : 1;
    case Norm::ortho: return 1 / std::sqrt(length);
    case Norm::forward: return inverse ? 1 : 1 / length;
  }
  fail<ValueError>("norm is none");
}

Tensor scaled(const Tensor& x, double factor) {
  return factor == 1 ? x : x * factor;
}

// The shape of x without dimension `dim` (and without pairs).
Shape others(const Tensor& x, int dim, Pairs pairs) {
  Shape shape = pairs == Pairs::yes ? x.shape().slice(0, x.rank() - 1) : x.shape();
  shape.erase(dim);
  return shape;
}

// x as planes [2, 1, n, b], and back from [2, n, b].
Tensor planes_of(const Tensor& x, int dim) {
  const std::int64_t n = x.size(dim);
  const Tensor last = x.movedim({dim}, {x.rank() - 2});
  return last.reshape({-1, n, 2}).permute({2, 1, 0}).unsqueeze(1);
}
Tensor pairs_of(const Tensor& planes, const Shape& batch, int dim) {
  const std::int64_t n = planes.size(1);
  Shape shape = batch;
  shape.push_back(n);
  shape.push_back(2);
  const Tensor pairs = planes.permute({2, 1, 0}).reshape(shape);
  return dim == batch.rank() ? pairs : pairs.movedim({batch.rank()}, {dim});
}

Tensor complex_transform(const Tensor& given, const FftOptions& options, int sign) {
  const int dim = dim_of(given, Pairs::yes, options.dim);
  const std::int64_t n = options.n.value_or(given.size(dim));
  check_length(given, n);
  const Tensor x = resized(given, dim, n);
  const double factor = factor_of(options.norm, n, sign > 0);
  if (x.numel() == 0) return x;
  const Tensor planes = transform(planes_of(x, dim), sign);
  return scaled(pairs_of(planes.reshape({2, n, -1}), others(x, dim, Pairs::yes), dim), factor);
}

Tensor real_transform(const Tensor& given, const FftOptions& options) {
  const int dim = dim_of(given, Pairs::no, options.dim);
  const std::int64_t n = options.n.value_or(given.size(dim));
  check_length(given, n);
  const Tensor x = resized(given, dim, n);
  const Shape batch = others(x, dim, Pairs::no);
  const std::int64_t count = n / 2 + 1;
  const double factor = factor_of(options.norm, n, false);
  if (x.numel() == 0) {
    Shape shape = x.shape();
    shape[dim] = count;
    shape.push_back(2);
    return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
  }
  const Tensor rows = x.movedim({dim}, {x.rank() - 1}).reshape({-1, n});
  Tensor planes;
  if (n % 2 == 0) {
    planes = half_spectrum(rows);
  } else {
    const Tensor real = rows.transpose(0, 1).reshape({1, 1, n, -1});
    const Tensor both = lockstep::pad(real, {0, 0, 0, 0, 0, 0, 0, 1});
    planes = transform(both, -1).reshape({2, n, -1}).narrow(1, 0, count);
  }
  return scaled(pairs_of(planes, batch, dim), factor);
}

// All n frequencies of planes [2, n / 2 + 1, b], for an odd n.
Tensor whole_spectrum(const Tensor& x, std::int64_t n) {
  std::vector<std::int64_t> places;
  std::vector<float> signs[2];
  for (std::int64_t k = 0; k < n; ++k) {
    places.push_back(std::min(k, n - k));
    signs[0].push_back(1);
    signs[1].push_back(k == 0 ? 0.0F : (2 * k > n ? -1.0F : 1.0F));
  }
  signs[0].insert(signs[0].end(), signs[1].begin(), signs[1].end());
  const Tensor all = index_select(x, 1, Tensor::from(places, {n}, x.device()));
  return all * Tensor::from(signs[0], {2, n, 1}, x.device()).to(x.dtype());
}

Tensor real_inverse(const Tensor& given, const FftOptions& options) {
  const int dim = dim_of(given, Pairs::yes, options.dim);
  const std::int64_t n = options.n.value_or(2 * (given.size(dim) - 1));
  check_length(given, n);
  const std::int64_t count = n / 2 + 1;
  const Tensor x = resized(given, dim, count);
  const Shape batch = others(x, dim, Pairs::yes);
  const double factor = factor_of(options.norm, n, true);
  Shape shape = batch;
  shape.push_back(n);
  if (x.numel() == 0) {
    return zeros(shape, {.dtype = x.dtype(), .device = x.device()}).movedim({batch.rank()}, {dim});
  }
  const Tensor planes = planes_of(x, dim).reshape({2, count, -1});
  Tensor signal;
  if (n % 2 == 0) {
    // The imaginary parts at both ends are not read.
    std::vector<bool> reads(static_cast<std::size_t>(2 * count), true);
    reads[static_cast<std::size_t>(count)] = reads[static_cast<std::size_t>(2 * count - 1)] = false;
    const Tensor used = where(Tensor::from(reads, {2, count, 1}, x.device()), planes, 0);
    signal = scaled(half_signal(used), 2 * factor);
  } else {
    const Tensor back = transform(whole_spectrum(planes, n).unsqueeze(1), 1).reshape({2, n, -1});
    signal = scaled(back.select(0, 0).transpose(0, 1), factor);
  }
  return signal.reshape(shape).movedim({batch.rank()}, {dim});
}

FftOptions along(int dim, Norm norm) {
  return {.n = std::nullopt, .dim = dim, .norm = norm};
}

}  // namespace

Tensor fft(const Operand& x, const FftOptions& options) {
  const CallScope call("fft.fft", x);
  return complex_transform(signal_operand(x, Pairs::yes), options, -1);
}
Tensor ifft(const Operand& x, const FftOptions& options) {
  const CallScope call("fft.ifft", x);
  return complex_transform(signal_operand(x, Pairs::yes), options, 1);
}
Tensor rfft(const Operand& x, const FftOptions& options) {
  const CallScope call("fft.rfft", x);
  return real_transform(signal_operand(x, Pairs::no), options);
}
Tensor irfft(const Operand& x, const FftOptions& options) {
  const CallScope call("fft.irfft", x);
  return real_inverse(signal_operand(x, Pairs::yes), options);
}

Tensor fft2(const Operand& x, const Fft2Options& options) {
  const CallScope call("fft.fft2", x);
  const Tensor rows = complex_transform(signal_operand(x, Pairs::yes, 2), along(-1, options.norm), -1);
  return complex_transform(rows, along(-2, options.norm), -1);
}
Tensor ifft2(const Operand& x, const Fft2Options& options) {
  const CallScope call("fft.ifft2", x);
  const Tensor rows = complex_transform(signal_operand(x, Pairs::yes, 2), along(-1, options.norm), 1);
  return complex_transform(rows, along(-2, options.norm), 1);
}
Tensor rfft2(const Operand& x, const Fft2Options& options) {
  const CallScope call("fft.rfft2", x);
  const Tensor rows = real_transform(signal_operand(x, Pairs::no, 2), along(-1, options.norm));
  return complex_transform(rows, along(-2, options.norm), -1);
}
Tensor irfft2(const Operand& x, const Fft2Options& options) {
  const CallScope call("fft.irfft2", x);
  const Tensor columns = complex_transform(signal_operand(x, Pairs::yes, 2), along(-2, options.norm), 1);
  return real_inverse(columns, along(-1, options.norm));
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
