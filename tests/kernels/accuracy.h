// How far a function of the kernel texts is from the truth, in units in the last place of the exact result.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "kernels/scalar.h"

namespace lockstep::test {

struct Accuracy {
  double max_ulp = 0;
  double mean_ulp = 0;
  double worst_input = 0;
  std::uint64_t compared = 0;
  std::uint64_t special_mismatches = 0;  ///< infinities, NaN, zeros and their signs
  double mismatch_input = 0;
};

inline bool same_bits(float a, float b) {
  return BITS(a) == BITS(b);
}
inline bool same_bits(double a, double b) {
  return BITS64(a) == BITS64(b);
}

/// Adds one comparison. `exact` is the result in a wider type; T is float or double.
template <typename T, typename Wide> void compare(Accuracy& accuracy, T input, T result, Wide exact) {
  const T rounded = scalar::canonical(static_cast<T>(exact));
  if (std::isnan(exact) || !std::isfinite(rounded) || !std::isfinite(result) || rounded == 0 || result == 0) {
    // A result of exactly the smallest normal may go either way by half an ulp; the zero of its sign is right then.
    const bool at_the_edge =
        std::abs(exact) > 0 && rounded * result == 0 && std::signbit(rounded) == std::signbit(result) &&
        std::abs(std::abs(exact) / std::numeric_limits<T>::min() - 1) < 4 * std::numeric_limits<T>::epsilon();
    if (!same_bits(result, rounded) && !at_the_edge) {
      ++accuracy.special_mismatches;
      accuracy.mismatch_input = static_cast<double>(input);
    }
    return;
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);  // subnormal doubles share one ulp
  const auto ulp = std::ldexp(Wide(1), exponent - std::numeric_limits<T>::digits);
  const auto error = static_cast<double>(std::abs(static_cast<Wide>(result) - exact) / ulp);
  accuracy.mean_ulp += (error - accuracy.mean_ulp) / static_cast<double>(++accuracy.compared);
  if (error > accuracy.max_ulp) {
    accuracy.max_ulp = error;
    accuracy.worst_input = static_cast<double>(input);
  }
}

/// A row of the table in docs/numerics.md.
inline void print(const std::string& name, const Accuracy& accuracy) {
  std::printf("| %-12s | %.4f | %.4f | worst at %.17g | %llu results |\n", name.c_str(), accuracy.max_ulp,
              accuracy.mean_ulp, accuracy.worst_input, static_cast<unsigned long long>(accuracy.compared));
}

/// A well-mixed 64-bit word for each i.
inline std::uint64_t mix(std::uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15U;
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9U;
  i = (i ^ (i >> 27)) * 0x94d049bb133111ebU;
  return i ^ (i >> 31);
}

}  // namespace lockstep::test
