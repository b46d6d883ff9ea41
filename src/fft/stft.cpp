// Short-time transforms: windows over the signal as a view, and their overlapping sums.
#include <cmath>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/fft.h>
#include <lockstep/ops.h>

#include "core/call.h"

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

struct Frames {
  std::int64_t n;
  std::int64_t hop;
  Tensor window;  ///< [n]; undefined: ones
};

template <typename Options> Frames frames_of(const Tensor& x, std::int64_t n_fft, const Options& options) {
  check<ValueError>(n_fft >= 1, fmt::format("n_fft is {}", n_fft), {{"x", x}}, "give the length of a frame");
  const std::int64_t hop = options.hop_length.value_or(n_fft / 4);
  check<ValueError>(hop >= 1, fmt::format("hop_length is {}", hop), {{"x", x}}, "give one of at least 1");
  Tensor window = options.window.value_or(Tensor());
  const std::int64_t length = options.win_length.value_or(window.defined() ? window.numel() : n_fft);
  check<ValueError>(length >= 1 && length <= n_fft, fmt::format("win_length is {}, n_fft {}", length, n_fft),
                    {{"x", x}}, "give one from 1 to n_fft");
  if (window.defined()) {
    check_same_device({{"x", x}, {"window", window}});
    check_same_dtype({{"x", x}, {"window", window}});
    check<ShapeError>(window.rank() == 1 && window.numel() == length, "the window must be [win_length]",
                      {{"window", window}});
  } else if (length < n_fft) {
    window = ones({length}, {.dtype = x.dtype(), .device = x.device()});
  }
  const std::int64_t before = (n_fft - length) / 2;
  if (window.defined() && length < n_fft) window = pad(window, {before, n_fft - length - before});
  return {n_fft, hop, window};
}

Norm norm_of(bool normalized) {
  return normalized ? Norm::ortho : Norm::backward;
}

// Columns [b, n, frames] added where they came from: [b, length].
Tensor overlapped(const Tensor& columns, const Frames& frames) {
  const std::int64_t length = frames.n + frames.hop * (columns.size(2) - 1);
  const Tensor sums = fold(columns, {1, length}, {.kernel = {1, frames.n}, .stride = {1, frames.hop}});
  return sums.reshape({columns.size(0), length});
}

}  // namespace

Tensor stft(const Operand& operand, std::int64_t n_fft, const StftOptions& options) {
  const CallScope call("fft.stft", operand);
  const Tensor& given = tensor_operand(operand);
  check_float({"x", given});
  check<ShapeError>(given.rank() == 1 || given.rank() == 2, "x must be [length] or [batch, length]", {{"x", given}});
  const Frames frames = frames_of(given, n_fft, options);
  Tensor x = given.rank() == 1 ? given.unsqueeze(0) : given;
  if (options.center) {
    const std::int64_t side = n_fft / 2;
    x = pad(x.unsqueeze(1), {side, side}, options.pad_mode).squeeze(1);
  }
  check<ShapeError>(x.size(1) >= n_fft, fmt::format("no frame of {} fits", n_fft), {{"x", given}},
                    "give a smaller n_fft");
  Tensor parts = x.unfold(1, n_fft, frames.hop);
  if (frames.window.defined()) parts = parts * frames.window;
  const FftOptions along{.n = std::nullopt, .dim = -1, .norm = norm_of(options.normalized)};
  Tensor spectra;
  if (options.onesided) {
    spectra = rfft(parts, along);
  } else {
    spectra = fft(stack({parts, zeros_like(parts)}, -1), along);
  }
  const Tensor result = spectra.transpose(1, 2);
  return given.rank() == 1 ? result.squeeze(0) : result;
}

Tensor istft(const Operand& operand, std::int64_t n_fft, const IstftOptions& options) {
  const CallScope call("fft.istft", operand);
  const Tensor& given = tensor_operand(operand);
  check_float({"x", given});
  const std::int64_t frequencies = options.onesided ? n_fft / 2 + 1 : n_fft;
  check<ShapeError>((given.rank() == 3 || given.rank() == 4) && given.size(-1) == 2 && given.size(-2) >= 1 &&
                        given.size(-3) == frequencies,
                    fmt::format("x must be [frequencies, frames, 2] with {} frequencies", frequencies), {{"x", given}},
                    "give it as stft returns it");
  const Frames frames = frames_of(given, n_fft, options);
  const Tensor spectra = (given.rank() == 3 ? given.unsqueeze(0) : given).transpose(1, 2);
  const FftOptions along{.n = n_fft, .dim = -1, .norm = norm_of(options.normalized)};
  // The other half of a real signal's frequencies says the same once more.
  Tensor parts = irfft(spectra.narrow(2, 0, n_fft / 2 + 1), along);
  const Tensor window =
      frames.window.defined() ? frames.window : ones({n_fft}, {.dtype = given.dtype(), .device = given.device()});
  parts = parts * window;
  const std::int64_t count = parts.size(1);
  const Tensor weights = overlapped((window * window).reshape({1, n_fft, 1}).expand({1, n_fft, count}), frames);
  const Tensor sums = overlapped(parts.transpose(1, 2), frames);
  const std::int64_t start = options.center ? n_fft / 2 : 0;
  std::int64_t end = sums.size(1) - start;
  if (options.length) end = start + *options.length;
  check<ValueError>(end > start, "nothing is left of the signal", {{"x", given}},
                    "give more frames, or center = false");
  const std::int64_t known = std::min(end, sums.size(1));
  const Tensor weight = weights.narrow(1, start, known - start);
  // PyTorch's bound.
  check<ValueError>(amin(weight).item<double>() > 1e-11, "the windows leave elements of the signal without weight",
                    {{"x", given}}, "use a window and a hop_length that overlap");
  Tensor result = sums.narrow(1, start, known - start) / weight;
  if (known < end) result = pad(result, {0, end - known});
  return given.rank() == 3 ? result.squeeze(0) : result;
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
