#include "backends/cpu/contraction/plan.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

bool BatchMap::identity() const {
  std::int64_t expected = 1;
  for (int d = sizes.rank() - 1; d >= 0; --d) {
    if (sizes[d] == 1) continue;
    if (weights[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

std::int64_t BatchMap::operator()(std::int64_t index) const {
  std::int64_t mapped = 0;
  for (int d = sizes.rank() - 1; d >= 0; --d) {
    mapped += index % sizes[d] * weights[d];
    index /= sizes[d];
  }
  return mapped;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
