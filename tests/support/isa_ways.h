// In how many ways tests run a kernel of the CPU on each instruction set.
#pragma once

#include <vector>

#include "backends/cpu/isa.h"
#include "support/long_forms.h"

namespace lockstep {
inline namespace v0 {
namespace testing {

/// All of these ways, such as numbers of threads; one of them, each time another, where everything takes long and for
/// scalar code, which is as slow as the reference, but in long forms.
template <typename Way> std::vector<Way> ways_on(Isa isa, const std::vector<Way>& ways) {
  const bool is_slow = takes_long_here() || (isa == Isa::scalar && !long_forms());
  return is_slow ? std::vector<Way>{ways[drawn_index(ways.size())]} : ways;
}

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
