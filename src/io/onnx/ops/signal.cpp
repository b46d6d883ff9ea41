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

// x [..., length, 1 or 2] to [..., bins, 2].
Tensor transformed(const Call& call, const Tensor& given, std::int64_t length, bool onesided, bool inverse) {
  call.require(length > 0, "the length of the transform must be positive");
  const DType dtype = given.dtype();
  const Tensor x = given.to(dtype == DType::f64 ? DType::f64 : DType::f32);
  const bool real = x.shape().back() == 1;
  if (real && onesided && !inverse) return fft::rfft(x.select(-1, 0), {.n = length}).to(dtype);
  const Tensor pairs = real ? pad(x, {0, 1}) : x;
  if (inverse) return fft::ifft(pairs, {.n = length}).to(dtype);
  const Tensor result = fft::fft(pairs, {.n = length});
  return (onesided ? result.narrow(result.rank() - 2, 0, length / 2 + 1) : result).to(dtype);
}

std::string check_dft(const NodeFacts& node) {
  return node.integer("inverse", 0) != 0 && node.integer("onesided", 0) != 0 ? "inverse=1 with onesided=1" : "";
}

// Along one axis, of which `dft_length` elements count: cut, or zeros behind.
std::vector<Tensor> dft(const Call& call) {
  const Tensor& x = call.input(0);
  std::int64_t given = call.version() < 20 ? call.integer("axis", 1) : call.has(2) ? call.host_integer(2) : -2;
  const int axis = axis_of(call, given, x.rank());
  call.require(axis < x.rank() - 1, "the axis is that of the parts of a number");
  Tensor moved = x.movedim(axis, x.rank() - 2);
  const std::int64_t size = moved.shape()[x.rank() - 2];
  const std::int64_t length = call.has(1) ? call.host_integer(1) : size;
  const Tensor result =
      transformed(call, moved, length, call.integer("onesided", 0) != 0, call.integer("inverse", 0) != 0);
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

constexpr Operator kSignalOperators[] = {
    {.name = "DFT", .since = 17, .run = dft, .check = check_dft},
    {.name = "STFT", .since = 17, .run = short_time_transform},
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
