// What speech models hear: samples at their rate, and log-mel features.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/models/speech.h>
#include <lockstep/ops.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr std::int64_t kFftSize = 400;
constexpr std::int64_t kHop = 160;
constexpr std::int64_t kBins = kFftSize / 2 + 1;
constexpr double kHalfTurn = std::numbers::pi;

double hann(double share) {
  return 0.5 - 0.5 * scalar::ls_cos(2 * kHalfTurn * share);
}

// [2 bins, 1, size]: the real and the imaginary parts of a windowed Fourier transform as a convolution.
Tensor fourier_kernels(Device device) {
  std::vector<float> values;
  for (const bool imaginary : {false, true}) {
    for (std::int64_t bin = 0; bin < kBins; ++bin) {
      for (std::int64_t i = 0; i < kFftSize; ++i) {
        const double angle = 2 * kHalfTurn * static_cast<double>(bin * i % kFftSize) / static_cast<double>(kFftSize);
        const double turn = imaginary ? -scalar::ls_sin(angle) : scalar::ls_cos(angle);
        values.push_back(static_cast<float>(turn * hann(static_cast<double>(i) / static_cast<double>(kFftSize))));
      }
    }
  }
  return Tensor::from(values, {2 * kBins, 1, kFftSize}, device);
}

// Slaney's scale: linear up to 1000 Hz, logarithmic above.
constexpr double kBreakHertz = 1000;
constexpr double kBreakMel = 15;
double mel_step() {
  return scalar::ls_log(6.4) / 27;
}
double mel_of(double hertz) {
  return hertz < kBreakHertz ? 3 * hertz / 200 : kBreakMel + scalar::ls_log(hertz / kBreakHertz) / mel_step();
}
double hertz_of(double mel) {
  return mel < kBreakMel ? 200 * mel / 3 : kBreakHertz * scalar::ls_exp((mel - kBreakMel) * mel_step());
}

// [mels, bins]: triangles of equal area between neighbouring frequencies of the scale.
Tensor mel_filters(std::int64_t mels, Device device) {
  const double highest = kSpeechRate / 2.0;
  std::vector<double> edges;
  for (std::int64_t i = 0; i < mels + 2; ++i) {
    edges.push_back(hertz_of(mel_of(highest) * static_cast<double>(i) / static_cast<double>(mels + 1)));
  }
  std::vector<float> values;
  for (std::size_t m = 0; m < static_cast<std::size_t>(mels); ++m) {
    for (std::int64_t bin = 0; bin < kBins; ++bin) {
      const double hertz = highest * static_cast<double>(bin) / static_cast<double>(kBins - 1);
      const double up = (hertz - edges[m]) / (edges[m + 1] - edges[m]);
      const double down = (edges[m + 2] - hertz) / (edges[m + 2] - edges[m + 1]);
      values.push_back(static_cast<float>(std::max(0.0, std::min(up, down)) * 2 / (edges[m + 2] - edges[m])));
    }
  }
  return Tensor::from(values, {mels, kBins}, device);
}

}  // namespace

Tensor log_mel(const Tensor& samples, std::int64_t mels) {
  const CallScope call("log_mel");
  if (samples.rank() != 1 || samples.size(0) % kHop != 0 || samples.size(0) < kFftSize) {
    throw ShapeError(fmt::format("log_mel: samples have the shape {}, not [n] with a multiple of {}, at least {}",
                                 samples.shape().to_string(), kHop, kFftSize));
  }
  if (mels < 1 || mels > 1024) throw ValueError(fmt::format("log_mel: {} mels", mels));
  const std::int64_t half = kFftSize / 2;
  const std::int64_t n = samples.size(0);
  const Tensor padded = pad(samples.unsqueeze(0), {half, half}, PadMode::reflect).select(0, 0);
  const Device device = samples.device();
  const Tensor parts = conv1d(padded.reshape({1, 1, -1}), fourier_kernels(device), std::nullopt, {.stride = {kHop}});
  // The last frame begins behind the samples.
  const Tensor frames = parts.select(0, 0).narrow(1, 0, n / kHop);
  const Tensor real = frames.narrow(0, 0, kBins);
  const Tensor imaginary = frames.narrow(0, kBins, kBins);
  const Tensor power = real * real + imaginary * imaginary;
  const Tensor level = log10(maximum(matmul(mel_filters(mels, device), power), 1e-10));
  return (maximum(level, amax(level) - 8) + 4) / 4;
}

Tensor resample(const Tensor& samples, int from, int to) {
  constexpr int kMostRate = 1'000'000;
  constexpr double kWidth = 6;  // zero crossings on each side
  constexpr double kRolloff = 0.99;
  if (from < 1 || to < 1 || from > kMostRate || to > kMostRate) {
    throw ValueError(fmt::format("resample: from {} Hz to {} Hz", from, to));
  }
  if (samples.rank() != 1 && samples.rank() != 2) {
    throw ShapeError(
        fmt::format("resample: samples have the shape {}, not [n] or [channels, n]", samples.shape().to_string()));
  }
  const Tensor one = samples.rank() == 2 ? mean(samples.to(DType::f32), {0}) : samples.to(DType::f32);
  const std::vector<float> values = one.to_vector<float>();
  const auto count = static_cast<std::int64_t>(values.size());
  if (from == to) return Tensor::from(values, {count}, Device{});
  const std::int64_t common = std::gcd(from, to);
  const std::int64_t in = from / common;
  const std::int64_t out = to / common;
  const double base = static_cast<double>(std::min(in, out)) * kRolloff;
  const auto width = static_cast<std::int64_t>(std::ceil(kWidth * static_cast<double>(in) / base));
  // A kernel for each of the `out` places that a result can have between samples (or fewer, if there are fewer
  // results). It is 0 but for kWidth crossings on each side of its place: for rates without a common divisor, which
  // have thousands of long kernels, the rest is neither made nor multiplied.
  const std::int64_t taps = 2 * width + in;
  const std::int64_t side = width + 1;
  std::vector<float> result(static_cast<std::size_t>((count * out + in - 1) / in));
  const std::int64_t phases = std::min(out, static_cast<std::int64_t>(result.size()));
  const auto begin_of = [&](std::int64_t phase) { return std::max<std::int64_t>(0, width + phase * in / out - side); };
  const auto end_of = [&](std::int64_t phase) { return std::min(taps, width + phase * in / out + side + 2); };
  const std::int64_t most = 2 * side + 2;
  std::vector<float> kernels(static_cast<std::size_t>(phases * most));
  for (std::int64_t phase = 0; phase < phases; ++phase) {
    const std::int64_t begin = begin_of(phase);
    for (std::int64_t tap = begin; tap < end_of(phase); ++tap) {
      const double distance = static_cast<double>(tap - width) / static_cast<double>(in) -
                              static_cast<double>(phase) / static_cast<double>(out);
      const double t = std::clamp(distance * base, -kWidth, kWidth);
      const double window = scalar::ls_cos(t * kHalfTurn / kWidth / 2);
      const double sinc = t == 0 ? 1 : scalar::ls_sin(t * kHalfTurn) / (t * kHalfTurn);
      kernels[static_cast<std::size_t>(phase * most + tap - begin)] =
          static_cast<float>(sinc * window * window * base / static_cast<double>(in));
    }
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t block = static_cast<std::int64_t>(i) / out;
    const std::int64_t phase = static_cast<std::int64_t>(i) % out;
    const std::int64_t first = block * in - width;
    const std::int64_t begin = begin_of(phase);
    const std::int64_t end = std::min(end_of(phase), count - first);
    double sum = 0;
    for (std::int64_t tap = std::max(begin, -first); tap < end; ++tap) {
      sum += static_cast<double>(values[static_cast<std::size_t>(first + tap)]) *
             static_cast<double>(kernels[static_cast<std::size_t>(phase * most + tap - begin)]);
    }
    result[i] = static_cast<float>(sum);
  }
  return Tensor::from(result, {static_cast<std::int64_t>(result.size())}, Device{});
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
