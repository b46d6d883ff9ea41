// Discrete Fourier transforms of any length. There are no complex dtypes: a complex tensor is one of pairs, [..., 2]
// with the real and the imaginary part (PyTorch: view_as_real). f32 and f64; DTypeError names the cast for others.
//
// A transform is one kernel (mixed radices; Bluestein's algorithm where a prime factor is above 127) with the same bits
// on every device; docs/numerics.md says in which order. Roots are made on the host in f64 and rounded once. Errors
// against the exact transform, as the length of the difference relative to the length of the result: below 1e-6 in f32
// and 2e-15 in f64, with Bluestein's algorithm twice that (tested up to 2^20 elements). One element that is not finite
// makes a part of every frequency NaN, or infinite.
//
// Dimensions count those of the signal: the pairs' dimension is none of them, and -1 is the last but one of a complex
// tensor.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/ops/shape.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace fft {

/// Where the factor 1/n goes: to the inverse transform; its root to both; to the forward transform.
enum class Norm : std::uint8_t { backward, ortho, forward };

struct FftOptions {
  /// Length of the signal, which is cut or filled with zeros at its end; absent: as it is. Of irfft the length of the
  /// result, absent: 2 (size - 1). ValueError below 1 and above 2^24: the roots of all elements are held in memory.
  std::optional<std::int64_t> n = std::nullopt;
  int dim = -1;  ///< IndexError if there is none of that number
  Norm norm = Norm::backward;
};
/// y_k = sum_j x_j e^(-2 pi i j k / n) of complex x.  PyTorch: fft.fft.
LOCKSTEP_API Tensor fft(const Operand& x, const FftOptions& options = {});
/// The inverse, with e^(+2 pi i j k / n).  PyTorch: fft.ifft.
LOCKSTEP_API Tensor ifft(const Operand& x, const FftOptions& options = {});
/// Of real x [..., n]: the first n/2 + 1 of the frequencies, which determine the others, [..., n/2 + 1, 2].
/// PyTorch: fft.rfft.
LOCKSTEP_API Tensor rfft(const Operand& x, const FftOptions& options = {});
/// The real signal of such frequencies. Imaginary parts of frequency 0, and n/2 for even n, are not read.
/// PyTorch: fft.irfft.
LOCKSTEP_API Tensor irfft(const Operand& x, const FftOptions& options = {});

struct Fft2Options {
  /// A length per dimension, as n of FftOptions. ShapeError unless there are two.
  std::optional<Shape> s = std::nullopt;
  Dims dim = {-2, -1};  ///< two, different ones (ValueError)
  Norm norm = Norm::backward;
};
/// fft along two dimensions, the last one of `dim` first.  PyTorch: fft.fft2.
LOCKSTEP_API Tensor fft2(const Operand& x, const Fft2Options& options = {});
/// ifft along two dimensions, the last one of `dim` first.  PyTorch: fft.ifft2.
LOCKSTEP_API Tensor ifft2(const Operand& x, const Fft2Options& options = {});
/// rfft along the last one of `dim`, then fft along the other.  PyTorch: fft.rfft2.
LOCKSTEP_API Tensor rfft2(const Operand& x, const Fft2Options& options = {});
/// ifft along the first one of `dim`, then irfft along the last.  PyTorch: fft.irfft2.
LOCKSTEP_API Tensor irfft2(const Operand& x, const Fft2Options& options = {});

/// The frequencies of fft's results, [n], in cycles per unit of the samples' distance `d`: 0, 1, ... and then the
/// negative ones, each divided by n d. ValueError unless 1 <= n <= 2^24 and d is not 0; f32 and f64.  PyTorch:
/// fft.fftfreq.
LOCKSTEP_API Tensor fftfreq(std::int64_t n, double d = 1, TensorOptions options = {}, CallSite site = {});
/// Those of rfft's, [n/2 + 1].  PyTorch: fft.rfftfreq.
LOCKSTEP_API Tensor rfftfreq(std::int64_t n, double d = 1, TensorOptions options = {}, CallSite site = {});

struct StftOptions {
  std::optional<std::int64_t> hop_length = std::nullopt;  ///< absent: n_fft / 4. ValueError below 1
  std::optional<std::int64_t> win_length = std::nullopt;  ///< 1 to n_fft (ValueError); absent: n_fft
  /// [win_length] of x's dtype and device; absent: ones. Filled up to n_fft with zeros on both sides.
  std::optional<Tensor> window = std::nullopt;
  bool center = true;  ///< frame t is centred at t hop_length; the signal is padded by n_fft / 2 on both sides
  PadMode pad_mode = PadMode::reflect;
  bool normalized = false;  ///< divided by the root of n_fft
  bool onesided = true;     ///< n_fft/2 + 1 frequencies
};
/// rfft of windowed frames of n_fft elements, hop_length apart: real x [length] or [batch, length] to
/// [..., frequencies, frames, 2]. ShapeError where no frame fits.  PyTorch: stft (view_as_real).
LOCKSTEP_API Tensor stft(const Operand& x, std::int64_t n_fft, const StftOptions& options = {});

struct IstftOptions {
  std::optional<std::int64_t> hop_length = std::nullopt;
  std::optional<std::int64_t> win_length = std::nullopt;
  std::optional<Tensor> window = std::nullopt;
  bool center = true;
  bool normalized = false;
  bool onesided = true;
  std::optional<std::int64_t> length = std::nullopt;  ///< of the result; absent: all that the frames give
};
/// The signal of which stft made `x` [frequencies, frames, 2] or [batch, frequencies, frames, 2] (the one with the
/// least squared difference). Of two-sided spectra the first n_fft/2 + 1 frequencies are read. ValueError where the
/// squares of the windows add up to less than 1e-11 somewhere (they are computed at the call).  PyTorch: istft.
LOCKSTEP_API Tensor istft(const Operand& x, std::int64_t n_fft, const IstftOptions& options = {});

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
