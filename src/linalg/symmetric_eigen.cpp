// Eigenvalues of a symmetric matrix on the host.
#include <numeric>

#include "linalg/host.h"
#include "linalg/host_steps.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace host {
namespace {

struct ThreeDiagonals {
  std::vector<double> diagonal;  ///< [n]
  std::vector<double> beside;    ///< [n], the last one unused
  std::vector<double> vectors;   ///< reflection k in row k, from column k + 1 on
  std::vector<double> taus;
};

// a -= v w^T + w v^T is done to a row just before the row is used for the next reflection: one pass over a for each.
ThreeDiagonals to_three_diagonals(std::vector<double>& a, std::int64_t n) {
  const auto size = static_cast<std::size_t>(n);
  ThreeDiagonals result{std::vector<double>(size), std::vector<double>(size), std::vector<double>(size * size),
                        std::vector<double>(size)};
  std::vector<double> w(size);
  std::vector<double> next(size);
  const double* before = nullptr;  // the reflection before
  const auto bring_up_to_date = [&](std::int64_t row, std::int64_t from) {
    if (before == nullptr) return;
    double* const elements = a.data() + row * n;
    const double left = before[row];
    const double right = w[static_cast<std::size_t>(row)];
    for (std::int64_t j = from; j < n; ++j) elements[j] -= left * w[static_cast<std::size_t>(j)] + right * before[j];
  };
  for (std::int64_t k = 0; k < n; ++k) {
    bring_up_to_date(k, k);
    const double* const row = a.data() + k * n;
    const auto at = static_cast<std::size_t>(k);
    result.diagonal[at] = row[k];
    if (k + 1 == n) break;
    double* const v = result.vectors.data() + k * n;
    std::copy(row + k + 1, row + n, v + k + 1);
    const std::int64_t left = n - k - 1;
    const Reflection reflection = reflect_vector(v + k + 1, left);
    result.beside[at] = reflection.beta;
    result.taus[at] = reflection.tau;
    double* const product = next.data() + k + 1;
    std::fill(product, product + left, 0.0);
    for (std::int64_t j = k + 1; j < n; ++j) {
      bring_up_to_date(j, k + 1);
      add_multiple(product, v[j], a.data() + j * n + k + 1, left);
    }
    for (std::int64_t j = 0; j < left; ++j) product[j] *= reflection.tau;
    add_multiple(product, -0.5 * reflection.tau * dot(product, v + k + 1, left), v + k + 1, left);
    std::swap(w, next);
    before = v;
  }
  return result;
}

// One step on rows first to last, which hang together. Wilkinson's shift: the eigenvalue of the last two rows that is
// nearer to the last element.
void qr_step(std::vector<double>& diagonal, std::vector<double>& beside, std::size_t first, std::size_t last,
             std::vector<Rotation>& rotations) {
  const double corner = beside[last - 1];
  const double gap = (diagonal[last - 1] - diagonal[last]) * 0.5;
  const double length = std::abs(rotation_of(gap, corner).r);
  const double shift = diagonal[last] - corner * (corner / (gap < 0 ? gap - length : gap + length));
  rotations.clear();
  double x = diagonal[first] - shift;
  double z = beside[first];
  for (std::size_t k = first; k < last; ++k) {
    const Rotation turn = rotation_of(x, z);
    rotations.push_back(turn);
    if (k > first) beside[k - 1] = turn.r;
    const double term = turn.s * (diagonal[k + 1] - diagonal[k]) + 2 * turn.c * beside[k];
    diagonal[k] += turn.s * term;
    diagonal[k + 1] -= turn.s * term;
    beside[k] = turn.c * term - beside[k];
    x = beside[k];
    if (k + 1 < last) {
      z = turn.s * beside[k + 1];
      beside[k + 1] *= turn.c;
    }
  }
}

}  // namespace

std::vector<double> transposed(const std::vector<double>& a, std::int64_t rows, std::int64_t columns) {
  std::vector<double> result(a.size());
  constexpr std::int64_t kTile = 16;
  for (std::int64_t top = 0; top < rows; top += kTile) {
    for (std::int64_t left = 0; left < columns; left += kTile) {
      for (std::int64_t i = top; i < std::min(top + kTile, rows); ++i) {
        for (std::int64_t j = left; j < std::min(left + kTile, columns); ++j) {
          result[static_cast<std::size_t>(j * rows + i)] = a[static_cast<std::size_t>(i * columns + j)];
        }
      }
    }
  }
  return result;
}

Eigen symmetric_eigen(std::vector<double> a, std::int64_t n, bool with_vectors) {
  ThreeDiagonals matrix = to_three_diagonals(a, n);
  Eigen result;
  if (with_vectors) {
    a = product_of_reflections(matrix.vectors, matrix.taus, n - 2, 1, n, n);
    result.vectors = transposed(a, n, n);
  }
  std::vector<double>& diagonal = matrix.diagonal;
  std::vector<double>& beside = matrix.beside;
  // Below this, next to elements near 1, there is nothing but the underflow of products.
  constexpr double kNothing = 0x1p-400;
  const auto negligible = [&](std::size_t k) {
    return std::abs(beside[k]) <= std::max(kEpsilon * (std::abs(diagonal[k]) + std::abs(diagonal[k + 1])), kNothing);
  };
  std::vector<Rotation> rotations;
  std::int64_t steps = 0;
  std::size_t last = n == 0 ? 0 : static_cast<std::size_t>(n) - 1;
  while (last > 0) {
    if (negligible(last - 1)) {
      --last;
      continue;
    }
    if (++steps > kMostSteps * n) {
      result.converged = false;
      break;
    }
    std::size_t first = last - 1;
    while (first > 0 && !negligible(first - 1)) --first;
    qr_step(diagonal, beside, first, last, rotations);
    if (with_vectors) rotate_rows(result.vectors, n, static_cast<std::int64_t>(first), rotations);
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    return diagonal[static_cast<std::size_t>(i)] < diagonal[static_cast<std::size_t>(j)];
  });
  for (const std::int64_t i : order) result.values.push_back(diagonal[static_cast<std::size_t>(i)]);
  if (with_vectors) {
    order_rows(result.vectors, n, order);
    for (double* row = result.vectors.data(); row != result.vectors.data() + n * n; row += n) {
      if (leads_negative(row, n)) negate(row, n);
    }
  }
  return result;
}

}  // namespace host
}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
