// How results of a program's instructions become canonical (docs/numerics.md section 1): not at all where nothing that
// takes them can tell.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

enum class Finish {
  none,
  rounded,  ///< to 16 bits, and nothing else
  flushed,  ///< no number up to the smallest normal, but any NaN
  canonical
};

struct Finishes {
  std::vector<Finish> results;  ///< of instructions, f32: loads of f16, elementwise arithmetic, casts (none: unrounded)
  std::vector<bool> bf16;  ///< results rounded to bf16 by a cast from f32: their word is the upper half of their bits
  std::vector<bool> only_to_bf16;  ///< results that nothing takes but roundings to bf16
  std::vector<bool> any_zero;      ///< values of which nothing can tell one zero from the other

  explicit Finishes(const Program& program);
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
