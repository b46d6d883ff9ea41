// Short-time transforms: windows over the signal as a view, and their overlapping sums.
#include <lockstep/fft.h>

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/ops.h>

#include "fft/signal.h"

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

struct Frames {
  std::int64_t n;
  std::int64_t hop;
  std::int64_t win_length;
  Tensor window;  ///< [n, 1]; undefined: ones
};

template <typename Options> Frames frames_of(const Tensor& x, std::int64_t n_fft, const Options& options) {
  check<ValueError>(n_fft >= 1, fmt::format("n_fft is {}", n_fft), {{"x", x}}, "give the length of a frame");
  const std::int64_t hop = options.hop_length.value_or(n_fft / 4);
  check<ValueError>(hop >= 1, fmt::format("hop_length is {}", hop), {{"x", x}}, "give one of at least 1");
  const std::int64_t length = options.win_length.value_or(n_fft);
  check<ValueError>(length >= 1 && length <= n_fft, fmt::format("win_length is {}, n_fft {}", length, n_fft),
                    {{"x", x}}, "give one from 1 to n_fft");
  Tensor window;
  if (options.window) {
    window = *options.window;
    check_same_device({{"x", x}, {"window", window}});
    check_same_dtype({{"x", x}, {"window", window}});
    check<ShapeError>(window.shape() == Shape{length}, fmt::format("the window must be [win_length], [{}]", length),
                      {{"window", window}}, "give win_length, if it is not n_fft");
  } else if (length < n_fft) {
    window = ones({length}, {.dtype = x.dtype(), .device = x.device()});
  }
  const std::int64_t before = (n_fft - length) / 2;
  if (length < n_fft) window = pad(window, {before, n_fft - length - before});
  return {n_fft, hop, length, window.defined() ? window.unsqueeze(1) : window};
}

Norm norm_of(bool normalized) {
  return normalized ? Norm::ortho : Norm::backward;
}

// x [b, length] with `side` elements more at both ends. Mirrors are views, which need no table of positions as long as
// the signal.
Tensor extended(const Tensor& x, std::int64_t side, PadMode mode) {
  const std::int64_t length = x.size(1);
  if (mode != PadMode::reflect || side >= length) return pad(x.unsqueeze(1), {side, side}, mode).squeeze(1);
  const Tensor before = x.narrow(1, 1, side).flip({1});
  const Tensor after = x.narrow(1, length - 1 - side, side).flip({1});
  return cat({before, x, after}, 1);
}

// Columns [b, n, frames] added where they came from: [b, length].
Tensor overlapped(const Tensor& columns, const Frames& frames) {
  const std::int64_t length = frames.n + frames.hop * (columns.size(2) - 1);
  const Tensor sums = fold(columns, {1, length}, {1, frames.n}, {.stride = {1, frames.hop}});
  return sums.reshape({columns.size(0), length});
}

}  // namespace

Tensor stft(const Operand& operand, std::int64_t n_fft, const StftOptions& options) {
  const CallScope call("fft.stft", operand);
  const Tensor& given = signal_operand(operand, Pairs::no, 1);
  check<ShapeError>(given.rank() <= 2, "x must be [length] or [batch, length]", {{"x", given}});
  const Frames frames = frames_of(given, n_fft, options);
  Tensor x = given.rank() == 1 ? given.unsqueeze(0) : given;
  if (options.center) x = extended(x, n_fft / 2, options.pad_mode);
  check<ShapeError>(x.size(1) >= n_fft, fmt::format("no frame of {} fits", n_fft), {{"x", given}},
                    "give a smaller n_fft");
  Tensor columns = x.unfold(1, n_fft, frames.hop).transpose(1, 2);
  if (frames.window.defined()) columns = columns * frames.window;
  const Along along{.n = n_fft, .dim = 1, .norm = norm_of(options.normalized)};
  const Tensor spectra = real_transform(columns, along, options.onesided);
  return given.rank() == 1 ? spectra.squeeze(0) : spectra;
}

Tensor istft(const Operand& operand, std::int64_t n_fft, const IstftOptions& options) {
  const CallScope call("fft.istft", operand);
  const Tensor& given = signal_operand(operand, Pairs::yes, 2);
  const Frames frames = frames_of(given, n_fft, options);
  const std::int64_t frequencies = options.onesided ? n_fft / 2 + 1 : n_fft;
  check<ShapeError>(given.rank() <= 4 && given.size(-2) >= 1 && given.size(-3) == frequencies,
                    fmt::format("x must be [frequencies, frames, 2] with {} frequencies", frequencies), {{"x", given}},
                    "give it as stft returns it");
  check<ValueError>(
      frames.hop <= frames.win_length,
      fmt::format("hop_length is {}, win_length {}: elements between windows are lost", frames.hop, frames.win_length),
      {{"x", given}}, "give a hop_length of at most win_length");
  const Tensor spectra = given.rank() == 3 ? given.unsqueeze(0) : given;
  // Of two-sided spectra the other half says the same once more.
  Tensor columns = real_inverse(spectra, {.n = n_fft, .dim = 1, .norm = norm_of(options.normalized)});
  const Tensor window =
      frames.window.defined() ? frames.window : ones({n_fft, 1}, {.dtype = given.dtype(), .device = given.device()});
  columns = columns * window;
  const Tensor weights = overlapped((window * window).expand({1, n_fft, columns.size(2)}), frames);
  const Tensor sums = overlapped(columns, frames);
  const std::int64_t start = options.center ? n_fft / 2 : 0;
  const std::int64_t end = options.length ? start + *options.length : sums.size(1) - start;
  check<ValueError>(end > start, "nothing is left of the signal", {{"x", given}},
                    "give more frames, or center = false");
  const std::int64_t known = std::min(end, sums.size(1));
  const Tensor weight = weights.narrow(1, start, known - start);
  // PyTorch's bound.
  check<ValueError>(!(amin(weight).item<double>() < 1e-11), "the windows leave elements of the signal without weight",
                    {{"x", given}}, "use a window and a hop_length that overlap");
  Tensor result = sums.narrow(1, start, known - start) / weight;
  if (known < end) result = pad(result, {0, end - known});
  return given.rank() == 3 ? result.squeeze(0) : result;
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
