// The order of reductions: docs/numerics.md section 4. T is a compute type; results are not yet canonical.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace reference {

inline constexpr std::size_t kChunk = 4096;
inline constexpr std::size_t kLanes = 64;

// Overloads for every compute type: IEEE for floats, wrapping for integers.
inline float add(float a, float b) {
  return a + b;
}
inline double add(double a, double b) {
  return a + b;
}
template <typename T> T add(T a, T b) {
  return scalar::wrap_add(a, b);
}
inline float multiply(float a, float b) {
  return a * b;
}
inline double multiply(double a, double b) {
  return a * b;
}
template <typename T> T multiply(T a, T b) {
  return scalar::wrap_mul(a, b);
}
/// a * b + c rounded once.
template <typename T> T multiply_add(T a, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(a, b, c);
  } else {
    return scalar::wrap_add(scalar::wrap_mul(a, b), c);
  }
}

/// "Lanes combine by halving (32, 16, 8, 4, 2, 1: a[l] += a[l+h] where both exist)."
template <typename T, typename Combine> T combine_lanes(std::vector<T> lanes, Combine combine) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half && lane + half < lanes.size(); ++lane) {
      lanes[lane] = combine(lanes[lane], lanes[lane + half]);
    }
  }
  return lanes[0];
}

/// The results of the chunks of n elements: start(i) begins a lane with element i, accumulate(lane, i) adds element i.
/// "Chunks of 4096; in a chunk, lane l of 64 takes elements l, l+64, ... ascending, the first one starting the lane."
template <typename T, typename Start, typename Accumulate, typename Combine>
std::vector<T> reduce_chunks(std::size_t n, Start start, Accumulate accumulate, Combine combine) {
  std::vector<T> results;
  for (std::size_t chunk = 0; chunk < n; chunk += kChunk) {
    const std::size_t end = std::min(n, chunk + kChunk);
    std::vector<T> lanes;
    for (std::size_t first = chunk; first < std::min(end, chunk + kLanes); ++first) {
      T lane = start(first);
      for (std::size_t i = first + kLanes; i < end; i += kLanes) lane = accumulate(lane, i);
      lanes.push_back(lane);
    }
    results.push_back(combine_lanes(lanes, combine));
  }
  return results;
}

/// R(x, n) for n > 0: "chunk results are reduced by R again".
template <typename T, typename Start, typename Accumulate, typename Combine>
T reduce_in_order(std::size_t n, Start start, Accumulate accumulate, Combine combine) {
  std::vector<T> results = reduce_chunks<T>(n, start, accumulate, combine);
  while (results.size() > 1) {
    const std::vector<T> x = results;
    results = reduce_chunks<T>(
        x.size(), [&](std::size_t i) { return x[i]; }, [&](T lane, std::size_t i) { return combine(lane, x[i]); },
        combine);
  }
  return results[0];
}

/// "Empty: +0 for sums."
template <typename T> T sum(const std::vector<T>& x) {
  if (x.empty()) return T(0);
  return reduce_in_order<T>(
      x.size(), [&](std::size_t i) { return x[i]; }, [&](T lane, std::size_t i) { return add(lane, x[i]); },
      [](T a, T b) { return add(a, b); });
}

/// "prod: R with *", "1 for products".
template <typename T> T product(const std::vector<T>& x) {
  if (x.empty()) return T(1);
  return reduce_in_order<T>(
      x.size(), [&](std::size_t i) { return x[i]; }, [&](T lane, std::size_t i) { return multiply(lane, x[i]); },
      [](T a, T b) { return multiply(a, b); });
}

/// "fma lanes (first term the rounded product) serve sums of products inside row programs."
template <typename T> T dot(const std::vector<T>& x, const std::vector<T>& y) {
  if (x.empty()) return T(0);
  return reduce_in_order<T>(
      x.size(), [&](std::size_t i) { return multiply(x[i], y[i]); },
      [&](T lane, std::size_t i) { return multiply_add(x[i], y[i], lane); }, [](T a, T b) { return add(a, b); });
}

/// The first winner by the ordering key: "NaN (either sign) on top; +-0 and subnormals have the key of +0. Ties: lowest
/// index. NaN wins in both." x is not empty.
template <typename T> std::size_t index_of_max(const std::vector<T>& x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (scalar::max_key(x[i]) > scalar::max_key(x[best])) best = i;
  }
  return best;
}
template <typename T> std::size_t index_of_min(const std::vector<T>& x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (scalar::min_key(x[i]) < scalar::min_key(x[best])) best = i;
  }
  return best;
}

}  // namespace reference
}  // namespace v0
}  // namespace lockstep
