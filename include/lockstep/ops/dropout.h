// Dropout in its functional forms. In training elements become 0 with probability p (where their random word is below
// floor(p * 2^32), docs/numerics.md section 8) and the others are scaled; otherwise the input is returned. Float
// tensors (DTypeError); ValueError unless 0 <= p <= 1. One draw of the generator (none in evaluation or for p = 0).
#pragma once

#include <lockstep/random.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// Each element for itself; kept ones times 1 / (1 - p).
LOCKSTEP_API Tensor dropout(const Operand& a, double p = 0.5, bool training = true, Generator* generator = nullptr);
/// Keeps mean and variance of inputs that are normal: dropped elements take selu's negative limit before all are
/// scaled and shifted.
LOCKSTEP_API Tensor alpha_dropout(const Operand& a, double p = 0.5, bool training = true,
                                  Generator* generator = nullptr);
/// Whole channels [N, C, ...] at once.  PyTorch: feature_dropout, and dropout1d, 2d and 3d of batches.
LOCKSTEP_API Tensor feature_dropout(const Operand& a, double p = 0.5, bool training = true,
                                    Generator* generator = nullptr);
LOCKSTEP_API Tensor feature_alpha_dropout(const Operand& a, double p = 0.5, bool training = true,
                                          Generator* generator = nullptr);
/// Whole channels of [N, C, L] or [C, L].
LOCKSTEP_API Tensor dropout1d(const Operand& a, double p = 0.5, bool training = true, Generator* generator = nullptr);
/// Whole channels of [N, C, H, W] or [C, H, W].
LOCKSTEP_API Tensor dropout2d(const Operand& a, double p = 0.5, bool training = true, Generator* generator = nullptr);
/// Whole channels of [N, C, D, H, W] or [C, D, H, W].
LOCKSTEP_API Tensor dropout3d(const Operand& a, double p = 0.5, bool training = true, Generator* generator = nullptr);

}  // namespace v0
}  // namespace lockstep
