// What both reductions of host.h are made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "linalg/host.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace host {

inline constexpr double kEpsilon = 0x1p-52;
/// Steps for each value, on average, after which a reduction gives up; two or three are what they take.
inline constexpr std::int64_t kMostSteps = 60;

/// In eight lanes, which compilers can keep in vectors: element i goes to lane i mod 8, lanes combine by halving.
inline double dot(const double* x, const double* y, std::int64_t n) {
  double lanes[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int lane = 0; lane < 8; ++lane) lanes[lane] += x[i + lane] * y[i + lane];
  }
  for (; i < n; ++i) lanes[i % 8] += x[i] * y[i];
  for (int half = 4; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

/// y += factor x.
inline void add_multiple(double* y, double factor, const double* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

/// 1 - tau v v^T turns x [n] into (beta, 0, ..., 0); v, with v[0] = 1, replaces x.
struct Reflection {
  double tau = 0;
  double beta = 0;
};
inline Reflection reflect_vector(double* x, std::int64_t n) {
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  // What is left of a matrix that is not of full rank can be so small that squares lose their digits.
  const double scale = largest < 0x1p-900 ? 0x1p1000 : largest < 0x1p-400 ? 0x1p500 : 1;
  for (std::int64_t i = 0; i < n && scale != 1; ++i) x[i] *= scale;
  const double alpha = x[0];
  const double square = dot(x + 1, x + 1, n - 1);
  x[0] = 1;
  if (square == 0) {
    std::fill(x + 1, x + n, 0.0);
    return {0, alpha / scale};
  }
  const double length = std::sqrt(alpha * alpha + square);
  const double beta = alpha < 0 ? length : -length;
  const double head = alpha - beta;
  for (std::int64_t i = 1; i < n; ++i) x[i] /= head;
  return {(beta - alpha) / beta, beta / scale};
}

/// (c x + s z, c z - s x) = (r, 0).
struct Rotation {
  double c = 1;
  double s = 0;
  double r = 0;
};
inline Rotation rotation_of(double x, double z) {
  if (z == 0) return {1, 0, x};
  const double larger = std::max(std::abs(x), std::abs(z));
  const double p = x / larger;
  const double q = z / larger;
  const double length = std::sqrt(p * p + q * q);
  return {p / length, q / length, larger * length};
}

/// Rotations of rows first + i and first + i + 1, i ascending, of a matrix with `width` columns: strips of columns, so
/// that a row is still near when it is turned again.
inline void rotate_rows(std::vector<double>& matrix, std::int64_t width, std::int64_t first,
                        const std::vector<Rotation>& rotations) {
  constexpr std::int64_t kStrip = 64;
  for (std::int64_t begin = 0; begin < width; begin += kStrip) {
    const std::int64_t count = std::min(kStrip, width - begin);
    double* x = matrix.data() + first * width + begin;
    for (const Rotation& rotation : rotations) {
      double* const y = x + width;
      for (std::int64_t i = 0; i < count; ++i) {
        const double upper = x[i];
        const double lower = y[i];
        x[i] = rotation.c * upper + rotation.s * lower;
        y[i] = rotation.c * lower - rotation.s * upper;
      }
      x = y;
    }
  }
}

/// The first `columns` columns of H_0 H_1 ... of `count` reflections: reflection k acts on rows and columns from
/// k + shift on, its vector stands there in row k of `vectors`, which have `n` elements. [n, columns].
inline std::vector<double> product_of_reflections(const std::vector<double>& vectors, const std::vector<double>& taus,
                                                  std::int64_t count, std::int64_t shift, std::int64_t n,
                                                  std::int64_t columns) {
  std::vector<double> q(static_cast<std::size_t>(n * columns), 0.0);
  for (std::int64_t i = 0; i < std::min(n, columns); ++i) q[static_cast<std::size_t>(i * columns + i)] = 1;
  std::vector<double> sums(static_cast<std::size_t>(columns));
  for (std::int64_t k = count - 1; k >= 0; --k) {
    const double tau = taus[static_cast<std::size_t>(k)];
    if (tau == 0) continue;
    const std::int64_t from = k + shift;
    const std::int64_t width = columns - from;
    const double* const v = vectors.data() + k * n;
    std::fill(sums.begin(), sums.begin() + width, 0.0);
    for (std::int64_t j = from; j < n; ++j) add_multiple(sums.data(), v[j], q.data() + j * columns + from, width);
    for (std::int64_t j = from; j < n; ++j) {
      add_multiple(q.data() + j * columns + from, -(tau * v[j]), sums.data(), width);
    }
  }
  return q;
}

/// Whether the first of the largest |elements| is negative: a sign that does not hang on the way to a vector.
inline bool leads_negative(const double* x, std::int64_t n) {
  const double* const largest =
      std::max_element(x, x + n, [](double one, double other) { return std::abs(one) < std::abs(other); });
  return n > 0 && *largest < 0;
}
inline void negate(double* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = -x[i];
}

/// The rows of a matrix with `width` columns in this order; those that it does not name stay behind them.
inline void order_rows(std::vector<double>& matrix, std::int64_t width, const std::vector<std::int64_t>& order) {
  std::vector<double> result = matrix;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double* const row = matrix.data() + order[i] * width;
    std::copy(row, row + width, result.data() + static_cast<std::int64_t>(i) * width);
  }
  matrix = std::move(result);
}

}  // namespace host
}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
