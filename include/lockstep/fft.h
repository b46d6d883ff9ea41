// Discrete Fourier transforms of any length. There are no complex dtypes: a complex tensor is one of pairs, [..., 2]
// with the real and the imaginary part (PyTorch: view_as_real). f32 and f64 (DTypeError names the cast for others).
//
// Transforms are products with matrices of roots of unity (radices up to 64, mixed; Bluestein's algorithm where a prime
// factor is larger than 128), so their bits are the same on every device and gradients are those of the compositions.
// Roots are made on the host in f64 and rounded once. Errors against the exact transform, as the length of the
// difference relative to the length of the result: below 1e-6 in f32 and 2e-15 in f64, with Bluestein's algorithm twice
// that (tested up to 2^20 elements).
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
  /// result, absent: 2 (size - 1). ValueError below 1.
  std::optional<std::int64_t> n = std::nullopt;
  /// The dimension that is transformed, the pairs' not counted: -1 is the last but one of a complex tensor.
  int dim = -1;
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
  Norm norm = Norm::backward;
};
/// Over the last two dimensions (not counting the pairs'): fft along each.  PyTorch: fft.fft2, ifft2, rfft2, irfft2.
LOCKSTEP_API Tensor fft2(const Operand& x, const Fft2Options& options = {});
LOCKSTEP_API Tensor ifft2(const Operand& x, const Fft2Options& options = {});
LOCKSTEP_API Tensor rfft2(const Operand& x, const Fft2Options& options = {});
/// The last dimension of the result has 2 (size - 1) elements.
LOCKSTEP_API Tensor irfft2(const Operand& x, const Fft2Options& options = {});

struct StftOptions {
  std::optional<std::int64_t> hop_length = std::nullopt;  ///< absent: n_fft / 4
  std::optional<std::int64_t> win_length = std::nullopt;  ///< absent: n_fft, or the window's length
  std::optional<Tensor> window = std::nullopt;  ///< [win_length] real; absent: ones. Filled up to n_fft with zeros
  bool center = true;                           ///< frame t is centred at t hop_length, the signal is padded
  PadMode pad_mode = PadMode::reflect;
  bool normalized = false;  ///< divided by the root of n_fft
  bool onesided = true;     ///< n_fft/2 + 1 frequencies
};
/// rfft of windowed frames of n_fft elements, hop_length apart: x [length] or [batch, length] to
/// [..., frequencies, frames, 2].  PyTorch: stft(view_as_real).
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
/// least squared difference). Of two-sided spectra the first n_fft/2 + 1 frequencies are read. ValueError where windows leave an element without weight (computes the window).  PyTorch:
/// istft.
LOCKSTEP_API Tensor istft(const Operand& x, std::int64_t n_fft, const IstftOptions& options = {});

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
