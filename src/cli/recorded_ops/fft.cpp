// Fourier transforms of pairs.
#include <string>

#include <lockstep/fft.h>

#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

fft::Norm norm_of(Arguments& a) {
  const std::string norm = a.text("norm", "backward");
  if (norm == "ortho") return fft::Norm::ortho;
  if (norm == "forward") return fft::Norm::forward;
  if (norm != "backward") throw Unsupported("norm " + norm);
  return fft::Norm::backward;
}

template <Tensor (*op)(const Operand&, const fft::FftOptions&)> Tensors transform(Arguments& a) {
  fft::FftOptions options;
  if (a.has("n")) options.n = a.integer("n");
  options.dim = a.optional_dim("dim").value_or(-1);
  options.norm = norm_of(a);
  return {op(a[0], options)};
}
template <Tensor (*op)(const Operand&, const fft::Fft2Options&)> Tensors transform2(Arguments& a) {
  fft::Fft2Options options{.norm = norm_of(a)};
  if (a.has("s")) options.s = a.sizes("s", {});
  if (a.has("dim")) options.dim = Dims(a.sizes("dim", {}));
  return {op(a[0], options)};
}

PadMode pad_mode_of(Arguments& a) {
  const std::string mode = a.text("pad_mode", "reflect");
  if (mode == "replicate") return PadMode::replicate;
  if (mode == "circular") return PadMode::circular;
  if (mode != "reflect") throw Unsupported("pad_mode " + mode);
  return PadMode::reflect;
}

Tensors call_stft(Arguments& a) {
  fft::StftOptions options;
  if (a.has("hop_length")) options.hop_length = a.integer("hop_length");
  if (a.has("win_length")) options.win_length = a.integer("win_length");
  options.window = a.named("window");
  options.center = a.flag("center", true);
  options.pad_mode = pad_mode_of(a);
  options.normalized = a.flag("normalized");
  options.onesided = a.flag("onesided", true);
  return {fft::stft(a[0], a.integer("n_fft"), options)};
}
Tensors call_istft(Arguments& a) {
  fft::IstftOptions options;
  if (a.has("hop_length")) options.hop_length = a.integer("hop_length");
  if (a.has("win_length")) options.win_length = a.integer("win_length");
  if (a.has("length")) options.length = a.integer("length");
  options.window = a.named("window");
  options.center = a.flag("center", true);
  options.normalized = a.flag("normalized");
  options.onesided = a.flag("onesided", true);
  return {fft::istft(a[0], a.integer("n_fft"), options)};
}

constexpr RecordedOp kFftOps[] = {
    {"fft.fft", kComputes, transform<fft::fft>},
    {"fft.fft2", kComputes, transform2<fft::fft2>},
    {"fft.ifft", kComputes, transform<fft::ifft>},
    {"fft.ifft2", kComputes, transform2<fft::ifft2>},
    {"fft.irfft", kComputes, transform<fft::irfft>},
    {"fft.irfft2", kComputes, transform2<fft::irfft2>},
    {"fft.rfft", kComputes, transform<fft::rfft>},
    {"fft.rfft2", kComputes, transform2<fft::rfft2>},
    {"istft", kComputes, call_istft},
    {"stft", kComputes, call_stft},
};

}  // namespace

std::span<const RecordedOp> fft_ops() {
  return kFftOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
