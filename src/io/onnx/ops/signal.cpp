// Fourier transforms and windows.
#include <lockstep/fft.h>
#include <lockstep/ops.h>

#include <cmath>
#include <numbers>

#include "io/onnx/model.h"
#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// x [..., length, 1 or 2] to [..., bins, 2]; of half a spectrum back to the real signal, [..., length, 1].
Tensor transformed(const Call& call, const Tensor& given, std::int64_t length, bool onesided, bool inverse) {
  call.require(length > 0, "the length of the transform must be positive");
  const DType dtype = given.dtype();
  const Tensor x = given.to(dtype == DType::f64 ? DType::f64 : DType::f32);
  const bool real = x.shape().back() == 1;
  if (real && onesided && !inverse) return fft::rfft(x.select(-1, 0), {.n = length}).to(dtype);
  const Tensor pairs = real ? pad(x, {0, 1}) : x;
  if (inverse && onesided) return fft::irfft(pairs, {.n = length}).unsqueeze(-1).to(dtype);
  if (inverse) return fft::ifft(pairs, {.n = length}).to(dtype);
  const Tensor result = fft::fft(pairs, {.n = length});
  return (onesided ? result.narrow(result.rank() - 2, 0, length / 2 + 1) : result).to(dtype);
}

// Along one axis, of which `dft_length` elements count: cut, or zeros behind.
std::vector<Tensor> dft(const Call& call) {
  const Tensor& x = call.input(0);
  std::int64_t given = call.version() < 20 ? call.integer("axis", 1) : call.has(2) ? call.host_integer(2) : -2;
  const int axis = axis_of(call, given, x.rank());
  call.require(axis < x.rank() - 1, "the axis is that of the parts of a number");
  Tensor moved = x.movedim(axis, x.rank() - 2);
  const std::int64_t size = moved.shape()[x.rank() - 2];
  const bool onesided = call.integer("onesided", 0) != 0, inverse = call.integer("inverse", 0) != 0;
  const std::int64_t whole = onesided && inverse ? 2 * (size - 1) : size;
  const std::int64_t length = call.has(1) ? call.host_integer(1) : whole;
  const Tensor result = transformed(call, moved, length, onesided, inverse);
  return {result.movedim(x.rank() - 2, axis)};
}

// signal [N, L, 1 or 2] to [N, frames, bins, 2].
std::vector<Tensor> short_time_transform(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t step = call.host_integer(1);
  const Tensor window = call.optional_input(2);
  const std::int64_t length = call.has(3) ? call.host_integer(3) : window.defined() ? window.shape()[0] : 0;
  call.require(step > 0 && length > 0 && x.rank() == 3 && x.shape()[1] >= length, "the frames do not fit the signal");
  Tensor frames = x.unfold(1, length, step).movedim(-1, 2);  // [N, frames, length, parts]
  if (window.defined()) frames = mul(frames, window.reshape({length, 1}));
  return {transformed(call, frames, length, call.integer("onesided", 1) != 0, false)};
}

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), made in f64.
std::vector<Tensor> cosine_window(const Call& call, double a0, double a1, double a2) {
  const std::int64_t size = call.host_integer(0);
  call.require(size >= 0 && size < (1 << 22), "the size is out of range");
  const double period =
      static_cast<double>(call.integer("periodic", 1) != 0 ? size : std::max<std::int64_t>(1, size - 1));
  std::vector<double> values;
  for (std::int64_t n = 0; n < size; ++n) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(n) / period;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return {Tensor::from(values, {size}, Device{}).to(call.dtype("output_datatype", DType::f32)).to(call.device())};
}
std::vector<Tensor> hann(const Call& call) {
  return cosine_window(call, 0.5, 0.5, 0);
}
std::vector<Tensor> hamming(const Call& call) {
  return cosine_window(call, 25.0 / 46, 21.0 / 46, 0);
}
std::vector<Tensor> blackman(const Call& call) {
  return cosine_window(call, 0.42, 0.5, 0.08);
}

// Triangles over the bins of a spectrum, evenly apart on the mel scale: [bins, triangles], made in f64.
std::vector<Tensor> mel_weight_matrix(const Call& call) {
  const std::int64_t triangles = call.host_integer(0);
  const std::int64_t length = call.host_integer(1);
  const std::int64_t rate = call.host_integer(2);
  const double low = call.host_number(3), high = call.host_number(4);
  constexpr std::int64_t kMost = 1 << 22;
  call.require(triangles > 0 && length > 0 && rate > 0 && triangles < kMost && length < kMost,
               "a size is out of range");
  const std::int64_t bins = length / 2 + 1;
  call.require(bins * triangles <= kMost, "the matrix is too large");
  const auto mel_of = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel_of(high) - mel_of(low)) / static_cast<double>(triangles + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < triangles + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (static_cast<double>(i) * step + mel_of(low)) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    call.require(bin >= 0 && bin < static_cast<double>(bins), "an edge is outside of the spectrum");
    edges.push_back(static_cast<std::int64_t>(bin));
  }
  std::vector<double> values(static_cast<std::size_t>(bins * triangles), 0.0);
  for (std::int64_t i = 0; i < triangles; ++i) {
    const auto at = [&](std::int64_t bin) -> double& { return values[static_cast<std::size_t>(bin * triangles + i)]; };
    const auto edge = [&](std::int64_t k) { return edges[static_cast<std::size_t>(i + k)]; };
    const auto share = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
    const std::int64_t rise = edge(1) - edge(0), fall = edge(2) - edge(1);
    if (rise == 0) at(edge(1)) = 1;
    for (std::int64_t bin = edge(0); rise > 0 && bin <= edge(1); ++bin) at(bin) = share(bin - edge(0), rise);
    for (std::int64_t bin = edge(1); fall > 0 && bin < edge(2); ++bin) at(bin) = share(edge(2) - bin, fall);
  }
  return {Tensor::from(values, {bins, triangles}, Device{})
              .to(call.dtype("output_datatype", DType::f32))
              .to(call.device())};
}

constexpr Operator kSignalOperators[] = {
    {.name = "DFT", .since = 17, .run = dft},
    {.name = "STFT", .since = 17, .run = short_time_transform},
    {.name = "MelWeightMatrix", .since = 17, .run = mel_weight_matrix},
    {.name = "HannWindow", .since = 17, .run = hann},
    {.name = "HammingWindow", .since = 17, .run = hamming},
    {.name = "BlackmanWindow", .since = 17, .run = blackman},
};

}  // namespace

std::span<const Operator> signal_operators() {
  return kSignalOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
