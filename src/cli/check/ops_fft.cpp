// Fourier transforms: signals along a dimension, cut and filled; pictures; frames.
#include <lockstep/fft.h>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// The probe's shape, with at least one dimension, in pairs.
Shape signal_shape(Probe& p) {
  return p.rank() == 0 ? Shape{1} : p.shape();
}
Tensor pairs(Probe& p) {
  Shape shape = signal_shape(p);
  if (shape.rank() == kMaxRank) shape.erase(0);
  shape.push_back(2);
  return p.x(shape);
}

// Along the probe's dimension; the second variant cuts or fills the signal.
fft::FftOptions along(Probe& p, int rank) {
  fft::FftOptions options;
  options.dim = p.dim() >= rank ? rank - 1 : p.dim();
  if (p.variant() == 1) options.n = 12;
  if (p.variant() == 2) options.norm = fft::Norm::ortho;
  return options;
}

template <Tensor (*op)(const Operand&, const fft::FftOptions&)> Tensors of_pairs(Probe& p) {
  const Tensor x = pairs(p);
  return {op(x, along(p, x.rank() - 1))};
}

template <Tensor (*op)(const Operand&, const fft::Fft2Options&), bool complex> Tensors of_images(Probe& p) {
  Shape shape = p.shape();
  if (complex) shape.push_back(2);
  fft::Fft2Options options;
  if (p.variant() == 1) options = {.s = Shape{6, 5}, .dim = {1, -1}, .norm = fft::Norm::ortho};
  return {op(p.x(shape), options)};
}

fft::StftOptions frames(Probe& p, const Tensor& x) {
  fft::StftOptions options{.hop_length = 3};
  if (p.variant() == 1) {
    options.win_length = 6;
    options.window = linspace(0.5, 1, 6, {.dtype = x.dtype(), .device = x.device()});
  }
  if (p.variant() == 2) options.onesided = false;
  return options;
}

const CheckOp kFftOps[] = {
    {"fft.fft", Form::rows, 3, of_pairs<fft::fft>},
    {"fft.ifft", Form::rows, 3, of_pairs<fft::ifft>},
    {"fft.rfft", Form::rows, 3,
     [](Probe& p) -> Tensors {
       Shape shape = signal_shape(p);
       if (shape.rank() == kMaxRank) shape.erase(0);
       return {fft::rfft(p.x(shape), along(p, shape.rank()))};
     }},
    {"fft.irfft", Form::rows, 3, of_pairs<fft::irfft>},
    {"fft.fft2", Form::image, 2, of_images<fft::fft2, true>},
    {"fft.ifft2", Form::image, 2, of_images<fft::ifft2, true>},
    {"fft.rfft2", Form::image, 2, of_images<fft::rfft2, false>},
    {"fft.irfft2", Form::image, 2, of_images<fft::irfft2, true>},
    {"fft.fftfreq", Form::elementwise, 2,
     [](Probe& p) -> Tensors {
       return {fft::fftfreq(p.shape().numel() + 1, p.variant() == 0 ? 1 : 0.25, p.options())};
     }},
    {"fft.rfftfreq", Form::elementwise, 2,
     [](Probe& p) -> Tensors {
       return {fft::rfftfreq(p.shape().numel() + 1, p.variant() == 0 ? 1 : 0.25, p.options())};
     }},
    {"fft.stft", Form::sequence, 3,
     [](Probe& p) -> Tensors {
       const Tensor x = p.x({p.size(1), 12 + p.size(0)});
       return {fft::stft(x, 8, frames(p, x))};
     }},
    {"fft.istft", Form::sequence, 3,
     [](Probe& p) -> Tensors {
       const bool onesided = p.variant() != 2;
       const Tensor x = p.x({p.size(1), onesided ? 5 : 8, 3 + p.size(0), 2});
       const fft::StftOptions options = frames(p, x);
       return {fft::istft(x, 8,
                          {.hop_length = options.hop_length,
                           .win_length = options.win_length,
                           .window = options.window,
                           .onesided = onesided})};
     }},
};

}  // namespace

std::span<const CheckOp> check_fft_ops() {
  return kFftOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
