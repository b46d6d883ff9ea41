#include "support/random_numbers.h"

#include <cmath>

namespace lockstep {
inline namespace v0 {
namespace testing {
namespace {

double unit(std::mt19937_64& random) {
  const double number = static_cast<double>(random()) * 0x1p-64;
  return number < 1.0 ? number : 1.0 - 0x1p-53;
}

}  // namespace

double uniform_number(std::mt19937_64& random, double low, double high) {
  return unit(random) * (high - low) + low;
}

// Marsaglia's polar method; the second number of each pair is left.
double normal_number(std::mt19937_64& random) {
  for (;;) {
    const double x = 2.0 * unit(random) - 1.0;
    const double y = 2.0 * unit(random) - 1.0;
    const double square = x * x + y * y;
    if (square > 1.0 || square == 0.0) continue;
    return y * std::sqrt(-2.0 * std::log(square) / square);
  }
}

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
