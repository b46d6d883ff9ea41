// exp(x - shift) of a row and its sum in one loop, which asks for the next row meanwhile: the middle of a softmax. Most
// of a softmax's time are exponentials, so they are where memory has the most time to bring what comes next.
#pragma once

#include <cstddef>

#include "backends/cpu/isa.h"

namespace lockstep {
inline namespace v0 {

struct ExponentialsTable {
  /// out[i] = exp(x[i] - shift), and lanes[i mod 64] += out[i]. `ahead`: n elements to ask memory for, or null.
  using Fn = void (*)(float* out, float* lanes, const float* x, float shift, const float* ahead, std::size_t n);
  Fn any = nullptr;         ///< null: no such loops
  Fn none_above = nullptr;  ///< where all x are numbers or -infinity, and none is above the shift, which is finite
};

const ExponentialsTable& exponentials_table(Isa isa);

}  // namespace v0
}  // namespace lockstep
