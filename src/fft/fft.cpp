// fft, ifft, rfft, irfft, their forms in two dimensions, and the frequencies they belong to.
#include <lockstep/fft.h>

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "fft/signal.h"
#include "fft/transform.h"

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

// The transformed dimension of x, whose pairs are not counted.
int dim_of(const Tensor& x, Pairs pairs, std::int64_t dim) {
  const int rank = x.rank() - (pairs == Pairs::yes ? 1 : 0);
  check<IndexError>(dim >= -rank && dim < rank, fmt::format("dim {} is none of the {} of the signal", dim, rank),
                    {{"x", x}});
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

// Roots are held as tables, which are made at the call.
constexpr std::int64_t kMostElements = std::int64_t{1} << 24;

// What is asked for: a length, given or the tensor's own.
std::int64_t length_of(const Tensor& x, std::optional<std::int64_t> given, std::int64_t own) {
  const std::int64_t n = given.value_or(own);
  check<ValueError>(n >= 1, fmt::format("a transform has at least one element, not {}", n), {{"x", x}},
                    "give its length in the options");
  check<ValueError>(n <= kMostElements, fmt::format("a transform has at most 2^24 elements, not {}", n), {{"x", x}},
                    "transform parts of it");
  return n;
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

// x along `dim` as [before, n, after] with its pairs, and back.
struct Around {
  Shape before, after;
};
Around around(const Tensor& x, int dim, Pairs pairs) {
  const int rank = x.rank() - (pairs == Pairs::yes ? 1 : 0);
  return {.before = x.shape().slice(0, dim), .after = x.shape().slice(dim + 1, rank)};
}
Tensor lines_of(const Tensor& x, int dim, Pairs pairs) {
  const Around sizes = around(x, dim, pairs);
  Shape shape{sizes.before.numel(), x.size(dim), sizes.after.numel()};
  if (pairs == Pairs::yes) shape.push_back(2);
  return x.reshape(shape);
}
Tensor from_lines(const Tensor& lines, const Around& sizes) {
  Shape shape = sizes.before;
  shape.push_back(lines.size(1));
  for (const std::int64_t size : sizes.after) shape.push_back(size);
  if (lines.rank() == 4) shape.push_back(2);
  return lines.reshape(shape);
}

// Lines of n elements: without those that are too many, zeros for those that are missing.
Tensor fitted(const Tensor& lines, std::int64_t n) {
  const std::int64_t size = lines.size(1);
  if (size >= n) return size > n ? lines.narrow(1, 0, n) : lines;
  return pad(lines, lines.rank() == 4 ? Shape{0, 0, 0, 0, 0, n - size} : Shape{0, 0, 0, n - size});
}

Tensor complex_transform(const Tensor& x, const Along& along, int sign) {
  const int dim = dim_of(x, Pairs::yes, along.dim);
  const std::int64_t n = length_of(x, along.n, x.size(dim));
  const Tensor lines = fitted(lines_of(x, dim, Pairs::yes), n);
  const FourierKind kind = sign > 0 ? FourierKind::inverse : FourierKind::forward;
  const Tensor result = transform(lines, {kind, n, factor_of(along.norm, n, sign > 0)});
  return from_lines(result, around(x, dim, Pairs::yes));
}

// The two dimensions of an op, counted from the front, with their lengths.
std::pair<Along, Along> two_dims(const Tensor& x, Pairs pairs, const Fft2Options& options) {
  check<ValueError>(options.dim.size() == 2, fmt::format("dim has {} elements", options.dim.size()), {{"x", x}},
                    "give two dimensions");
  Along first{.n = {}, .dim = dim_of(x, pairs, options.dim[0]), .norm = options.norm};
  Along last{.n = {}, .dim = dim_of(x, pairs, options.dim[1]), .norm = options.norm};
  check<ValueError>(first.dim != last.dim, fmt::format("dimension {} is given twice", first.dim), {{"x", x}},
                    "give two different ones");
  if (options.s) {
    check<ShapeError>(options.s->rank() == 2, fmt::format("s is {}", options.s->to_string()), {{"x", x}},
                      "give two lengths");
    first.n = (*options.s)[0];
    last.n = (*options.s)[1];
  }
  return {first, last};
}

Along along(const FftOptions& options) {
  return {.n = options.n, .dim = options.dim, .norm = options.norm};
}

Tensor frequencies(const std::vector<double>& numbers, std::int64_t n, double d, TensorOptions options) {
  check<DTypeError>(options.dtype == DType::f32 || options.dtype == DType::f64, "frequencies are f32 or f64");
  check<ValueError>(d != 0, "d is 0", {}, "give the distance of two samples");
  // NumPy's order of operations, so that its values come out.
  const double unit = 1 / (static_cast<double>(n) * d);
  std::vector<double> values;
  for (const double number : numbers) values.push_back(number * unit);
  const auto count = static_cast<std::int64_t>(values.size());
  if (options.dtype == DType::f64) return Tensor::from(values, {count}, options.device);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), {count}, options.device);
}
void check_count(std::int64_t n) {
  check<ValueError>(n >= 1, fmt::format("n is {}", n), {}, "give the length of the signal");
  check<ValueError>(n <= kMostElements, fmt::format("a transform has at most 2^24 elements, not {}", n));
}

}  // namespace

Tensor real_transform(const Tensor& x, const Along& along, bool onesided) {
  const int dim = dim_of(x, Pairs::no, along.dim);
  const std::int64_t n = length_of(x, along.n, x.size(dim));
  Tensor lines = fitted(lines_of(x, dim, Pairs::no), n);
  if (!onesided) lines = pad(lines.unsqueeze(-1), {0, 1});
  const FourierKind kind = onesided ? FourierKind::real : FourierKind::forward;
  const Tensor result = transform(lines, {kind, n, factor_of(along.norm, n, false)});
  return from_lines(result, around(x, dim, Pairs::no));
}

Tensor real_inverse(const Tensor& x, const Along& along) {
  const int dim = dim_of(x, Pairs::yes, along.dim);
  const std::int64_t n = length_of(x, along.n, 2 * (x.size(dim) - 1));
  const Tensor lines = fitted(lines_of(x, dim, Pairs::yes), n / 2 + 1);
  const Tensor result = transform(lines, {FourierKind::real_inverse, n, factor_of(along.norm, n, true)});
  return from_lines(result, around(x, dim, Pairs::yes));
}

const Tensor& signal_operand(const Operand& a, Pairs pairs, int least_rank) {
  const Tensor& x = tensor_operand(a);
  check_float({"x", x});
  check<DTypeError>(x.dtype() == DType::f32 || x.dtype() == DType::f64, "computes in f32 and f64 only", {{"x", x}},
                    "cast it: x.to(ls::DType::f32)");
  check<DTypeError>(x.encoding() == Encoding::dense, "x is packed", {{"x", x}}, "dequantize(x)");
  if (pairs == Pairs::yes) {
    check<ShapeError>(
        x.rank() > least_rank && x.size(-1) == 2,
        fmt::format("x must be complex: {} dimension(s) and one of pairs of a real and an imaginary part", least_rank),
        {{"x", x}}, "stack({real, imaginary}, -1)");
  } else {
    check<ShapeError>(x.rank() >= least_rank, fmt::format("x must have at least {} dimension(s)", least_rank),
                      {{"x", x}});
  }
  return x;
}

Tensor fft(const Operand& x, const FftOptions& options) {
  const CallScope call("fft.fft", x);
  return complex_transform(signal_operand(x, Pairs::yes, 1), along(options), -1);
}
Tensor ifft(const Operand& x, const FftOptions& options) {
  const CallScope call("fft.ifft", x);
  return complex_transform(signal_operand(x, Pairs::yes, 1), along(options), 1);
}
Tensor rfft(const Operand& x, const FftOptions& options) {
  const CallScope call("fft.rfft", x);
  return real_transform(signal_operand(x, Pairs::no, 1), along(options));
}
Tensor irfft(const Operand& x, const FftOptions& options) {
  const CallScope call("fft.irfft", x);
  return real_inverse(signal_operand(x, Pairs::yes, 1), along(options));
}

Tensor fft2(const Operand& operand, const Fft2Options& options) {
  const CallScope call("fft.fft2", operand);
  const Tensor& x = signal_operand(operand, Pairs::yes, 2);
  const auto [first, last] = two_dims(x, Pairs::yes, options);
  return complex_transform(complex_transform(x, last, -1), first, -1);
}
Tensor ifft2(const Operand& operand, const Fft2Options& options) {
  const CallScope call("fft.ifft2", operand);
  const Tensor& x = signal_operand(operand, Pairs::yes, 2);
  const auto [first, last] = two_dims(x, Pairs::yes, options);
  return complex_transform(complex_transform(x, last, 1), first, 1);
}
Tensor rfft2(const Operand& operand, const Fft2Options& options) {
  const CallScope call("fft.rfft2", operand);
  const Tensor& x = signal_operand(operand, Pairs::no, 2);
  const auto [first, last] = two_dims(x, Pairs::no, options);
  return complex_transform(real_transform(x, last), first, -1);
}
Tensor irfft2(const Operand& operand, const Fft2Options& options) {
  const CallScope call("fft.irfft2", operand);
  const Tensor& x = signal_operand(operand, Pairs::yes, 2);
  const auto [first, last] = two_dims(x, Pairs::yes, options);
  return real_inverse(complex_transform(x, first, 1), last);
}

Tensor fftfreq(std::int64_t n, double d, TensorOptions options, CallSite site) {
  const CallScope call("fft.fftfreq", site);
  check_count(n);
  std::vector<double> numbers;
  for (std::int64_t k = 0; k < n; ++k) numbers.push_back(static_cast<double>(2 * k < n ? k : k - n));
  return frequencies(numbers, n, d, options);
}
Tensor rfftfreq(std::int64_t n, double d, TensorOptions options, CallSite site) {
  const CallScope call("fft.rfftfreq", site);
  check_count(n);
  std::vector<double> numbers;
  for (std::int64_t k = 0; k <= n / 2; ++k) numbers.push_back(static_cast<double>(k));
  return frequencies(numbers, n, d, options);
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
