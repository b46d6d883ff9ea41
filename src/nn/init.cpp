#include <lockstep/nn/init.h>

#include <cmath>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

Tensor uniform_init(const Shape& shape, double bound) {
  return rand(shape) * (2 * bound) - bound;
}

double fan_in_bound(std::int64_t fan_in) {
  return fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
