// What the functions of fft share: their operands, and the transforms of real signals along one dimension.
#pragma once

#include <lockstep/check.h>
#include <lockstep/fft.h>

#include "core/call.h"

namespace lockstep {
inline namespace v0 {
namespace fft {

/// Whether the last dimension of an operand is that of real and imaginary parts.
enum class Pairs : std::uint8_t { no, yes };

/// A tensor of f32 or f64 with at least `least_rank` dimensions, the pairs' not counted: DTypeError, ShapeError.
const Tensor& signal_operand(const Operand& a, Pairs pairs, int least_rank);

/// How a signal is transformed along one dimension; as FftOptions.
struct Along {
  std::optional<std::int64_t> n;
  std::int64_t dim = -1;
  Norm norm = Norm::backward;
};
/// The first n/2 + 1 frequencies of a real signal, or all n.
Tensor real_transform(const Tensor& x, const Along& along, bool onesided = true);
/// The real signal of its first n/2 + 1 frequencies.
Tensor real_inverse(const Tensor& x, const Along& along);

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
