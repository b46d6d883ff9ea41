// Fourier transforms, as products with tables that the host makes in f64 and rounds once, and windows.
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

constexpr std::int64_t kLongestTransform = 1 << 12;  // the table has its square of elements

struct Roots {
  Tensor cosine;  // [n, bins]
  Tensor sine;
};

// e^(-2 pi i n k / length), or its conjugate.
Roots roots_of(const Call& call, std::int64_t length, std::int64_t bins, bool inverse, DType dtype) {
  if (length > kLongestTransform) call.unsupported("a transform of more than 4,096 points");
  std::vector<double> cosine, sine;
  for (std::int64_t n = 0; n < length; ++n) {
    for (std::int64_t k = 0; k < bins; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(n * k % length) / static_cast<double>(length);
      cosine.push_back(std::cos(angle));
      sine.push_back(inverse ? std::sin(angle) : -std::sin(angle));
    }
  }
  const auto table = [&](const std::vector<double>& values) {
    return Tensor::from(values, {length, bins}, Device{}).to(dtype).to(call.device());
  };
  return {table(cosine), table(sine)};
}

// x [..., length, 1 or 2] to [..., bins, 2].
Tensor transformed(const Call& call, const Tensor& x, std::int64_t length, bool onesided, bool inverse) {
  call.require(length > 0, "the length of the transform must be positive");
  const std::int64_t bins = onesided && !inverse ? length / 2 + 1 : length;
  const Roots roots = roots_of(call, length, bins, inverse, x.dtype());
  const Tensor real_in = x.select(-1, 0);
  Tensor real = matmul(real_in, roots.cosine);
  Tensor imaginary = matmul(real_in, roots.sine);
  if (x.shape().back() == 2) {
    const Tensor imaginary_in = x.select(-1, 1);
    real = sub(real, matmul(imaginary_in, roots.sine));
    imaginary = add(imaginary, matmul(imaginary_in, roots.cosine));
  }
  const Tensor result = stack({real, imaginary}, -1);
  return inverse ? div(result, static_cast<double>(length)) : result;
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
  moved = pad_spatial(moved, {0, 0}, {length - size, 0}, 0);
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
