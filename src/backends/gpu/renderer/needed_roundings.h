// Which roundings the results of a program's instructions need to become canonical (docs/numerics.md section 1): none
// where nothing that takes them can tell. What a decision rests on is a lemma about one instruction; each is a function
// here, and tests/backends/gpu/needed_roundings_test.cpp tries it on every value of 16 bits.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

enum class Rounding {
  none,
  to_16_bits,  ///< and nothing else
  flushed,     ///< no number up to the smallest normal, but any NaN
  canonical
};

struct NeededRoundings {
  std::vector<Rounding>
      results;             ///< of instructions, f32: loads of f16, elementwise arithmetic, casts (none: unrounded)
  std::vector<bool> bf16;  ///< results rounded to bf16 by a cast from f32: their word is the upper half of their bits
  std::vector<bool> only_to_bf16;  ///< results that nothing takes but roundings to bf16
  std::vector<bool> only_to_f16;
  std::vector<bool> any_zero;      ///< values of which nothing can tell one zero from the other

  explicit NeededRoundings(const Program& program);
};

// "Small" are the numbers from 0 to the smallest normal, 2^-126, both included; "clean" is what has none of them but
// zeros. Two lemmas are about no instruction:
//   * Rounding to f16 or bf16 makes canonical: of x and of the canonical x it gives the same word.
//   * f16 is clean: its least number is 2^-24.

/// Lemma: of whatever NaN an operand is, the canonical result is the same.
bool takes_any_nan(const Instruction& step);
/// Lemma: of a small operand, the canonical result is that of its zero (exp: 1; gelu: half of it, which is small).
bool takes_small(const Instruction& step);
/// Lemma: of either zero as a float operand, the result is the same.
bool takes_any_zero(const Instruction& step);
/// Lemma: of the other zero as `operand`, a float or the bits of one, the result is the same or the other zero.
bool passes_zero(const Instruction& step, int operand);
/// Lemma: the result is an operand, but for its sign, or zero: of clean operands it is clean.
bool gives_operands(const Instruction& step);
/// Lemma: the result is clean, whatever the operands are. (Canonical by itself, but for its NaN.)
bool gives_clean(const Instruction& step);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
