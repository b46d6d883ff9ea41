// Singular values of a matrix on the host.
#include <numeric>

#include "linalg/host.h"
#include "linalg/host_steps.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace host {
namespace {

struct TwoDiagonals {
  std::vector<double> diagonal;  ///< [n]
  std::vector<double> above;     ///< [n], the last one unused
  std::vector<double> left;      ///< [n, m]: reflection k of the rows, from k on
  std::vector<double> left_taus;
  std::vector<double> right;  ///< [n, n]: reflection k of the columns, from k + 1 on
  std::vector<double> right_taus;
};

TwoDiagonals to_two_diagonals(std::vector<double>& a, std::int64_t m, std::int64_t n) {
  const auto size = static_cast<std::size_t>(n);
  TwoDiagonals result{std::vector<double>(size),
                      std::vector<double>(size),
                      std::vector<double>(size * static_cast<std::size_t>(m)),
                      std::vector<double>(size),
                      std::vector<double>(size * size),
                      std::vector<double>(size)};
  std::vector<double> sums(size);
  for (std::int64_t k = 0; k < n; ++k) {
    const auto at = static_cast<std::size_t>(k);
    double* const v = result.left.data() + k * m;
    for (std::int64_t i = k; i < m; ++i) v[i] = a[static_cast<std::size_t>(i * n + k)];
    const Reflection rows = reflect_vector(v + k, m - k);
    result.diagonal[at] = rows.beta;
    result.left_taus[at] = rows.tau;
    const std::int64_t beside = n - k - 1;
    if (beside == 0) break;
    std::fill(sums.begin(), sums.begin() + beside, 0.0);
    for (std::int64_t i = k; i < m; ++i) add_multiple(sums.data(), v[i], a.data() + i * n + k + 1, beside);
    double* const own = a.data() + k * n + k + 1;
    add_multiple(own, -rows.tau, sums.data(), beside);
    double* const u = result.right.data() + k * n + k + 1;
    std::copy(own, own + beside, u);
    const Reflection columns = reflect_vector(u, beside);
    result.above[at] = columns.beta;
    result.right_taus[at] = columns.tau;
    for (std::int64_t i = k + 1; i < m; ++i) {
      double* const row = a.data() + i * n + k + 1;
      add_multiple(row, -(rows.tau * v[i]), sums.data(), beside);
      add_multiple(row, -(columns.tau * dot(row, u, beside)), u, beside);
    }
  }
  return result;
}

// The two diagonals on their way to one, with u^T and v^T.
class Diagonalization {
 public:
  Diagonalization(TwoDiagonals& given, Singular& result, std::int64_t m, bool with_vectors)
      : diagonal_(given.diagonal), above_(given.above), result_(result), m_(m), with_vectors_(with_vectors) {
    for (std::size_t k = 0; k < diagonal_.size(); ++k) {
      size_ = std::max(size_, std::abs(diagonal_[k]) + (k == 0 ? 0 : std::abs(above_[k - 1])));
    }
  }

  bool run() {
    const auto n = static_cast<std::int64_t>(diagonal_.size());
    std::int64_t steps = 0;
    std::size_t last = n == 0 ? 0 : static_cast<std::size_t>(n) - 1;
    while (last > 0) {
      if (negligible(last - 1)) {
        above_[last - 1] = 0;
        --last;
        continue;
      }
      if (++steps > kMostSteps * n) return false;
      std::size_t first = last - 1;
      while (first > 0 && !negligible(first - 1)) --first;
      if (!split_at_zero(first, last)) step(first, last);
    }
    return true;
  }

 private:
  bool negligible(std::size_t k) const {
    return std::abs(above_[k]) <= kEpsilon * (std::abs(diagonal_[k]) + std::abs(diagonal_[k + 1]));
  }

  // Where an element of the diagonal is nothing beside the matrix, rotations clear what stands above or beside it.
  bool split_at_zero(std::size_t first, std::size_t last) {
    for (std::size_t k = first; k <= last; ++k) {
      if (std::abs(diagonal_[k]) > kEpsilon * size_) continue;
      diagonal_[k] = 0;
      if (k == last) {
        clear_column(first, last);
      } else {
        clear_row(k, last);
      }
      return true;
    }
    return false;
  }

  // Rows k and j, j ascending: what is beside the zero in row k moves out to the right.
  void clear_row(std::size_t k, std::size_t last) {
    double moving = above_[k];
    above_[k] = 0;
    for (std::size_t j = k + 1; j <= last && moving != 0; ++j) {
      const Rotation turn = rotation_of(diagonal_[j], moving);
      diagonal_[j] = turn.r;
      if (with_vectors_) rotate_pair(result_.ut, m_, j, k, turn);
      if (j == last) break;
      moving = -turn.s * above_[j];
      above_[j] *= turn.c;
    }
  }

  // Columns j and last, j descending: what is above the zero moves out at the top.
  void clear_column(std::size_t first, std::size_t last) {
    double moving = above_[last - 1];
    above_[last - 1] = 0;
    for (std::size_t j = last; j-- > first && moving != 0;) {
      const Rotation turn = rotation_of(diagonal_[j], moving);
      diagonal_[j] = turn.r;
      if (with_vectors_) rotate_pair(result_.vh, static_cast<std::int64_t>(diagonal_.size()), j, last, turn);
      if (j == first) break;
      moving = -turn.s * above_[j - 1];
      above_[j - 1] *= turn.c;
    }
  }

  static void rotate_pair(std::vector<double>& matrix, std::int64_t width, std::size_t one, std::size_t other,
                          const Rotation& turn) {
    double* const x = matrix.data() + static_cast<std::int64_t>(one) * width;
    double* const y = matrix.data() + static_cast<std::int64_t>(other) * width;
    for (std::int64_t i = 0; i < width; ++i) {
      const double upper = x[i];
      const double lower = y[i];
      x[i] = turn.c * upper + turn.s * lower;
      y[i] = turn.c * lower - turn.s * upper;
    }
  }

  // The eigenvalue of the last two rows of B^T B that is nearer to its last element.
  double shift_of(std::size_t first, std::size_t last) const {
    const double beside = last - 1 > first ? above_[last - 2] : 0;
    const double upper = diagonal_[last - 1] * diagonal_[last - 1] + beside * beside;
    const double lower = diagonal_[last] * diagonal_[last] + above_[last - 1] * above_[last - 1];
    const double corner = diagonal_[last - 1] * above_[last - 1];
    if (corner == 0) return lower;
    const double gap = (upper - lower) * 0.5;
    const double length = std::abs(rotation_of(gap, corner).r);
    return lower - corner * (corner / (gap < 0 ? gap - length : gap + length));
  }

  void step(std::size_t first, std::size_t last) {
    // Over the first element, which is not near 0 (split_at_zero): nothing overflows and little underflows.
    const double shift = shift_of(first, last);
    double x = diagonal_[first] - shift / diagonal_[first];
    double z = above_[first];
    columns_.clear();
    rows_.clear();
    for (std::size_t k = first; k < last; ++k) {
      const Rotation column = rotation_of(x, z);
      columns_.push_back(column);
      if (k > first) above_[k - 1] = column.r;
      const double own = diagonal_[k];
      x = column.c * own + column.s * above_[k];
      above_[k] = column.c * above_[k] - column.s * own;
      z = column.s * diagonal_[k + 1];
      diagonal_[k + 1] *= column.c;
      const Rotation row = rotation_of(x, z);
      rows_.push_back(row);
      diagonal_[k] = row.r;
      const double next = diagonal_[k + 1];
      diagonal_[k + 1] = row.c * next - row.s * above_[k];
      above_[k] = row.c * above_[k] + row.s * next;
      if (k + 1 == last) break;
      x = above_[k];
      z = row.s * above_[k + 1];
      above_[k + 1] *= row.c;
    }
    if (!with_vectors_) return;
    rotate_rows(result_.vh, static_cast<std::int64_t>(diagonal_.size()), static_cast<std::int64_t>(first), columns_);
    rotate_rows(result_.ut, m_, static_cast<std::int64_t>(first), rows_);
  }

  std::vector<double>& diagonal_;
  std::vector<double>& above_;
  Singular& result_;
  std::int64_t m_;
  bool with_vectors_;
  double size_ = 0;  ///< the largest sum of |elements| of a column
  std::vector<Rotation> columns_;
  std::vector<Rotation> rows_;
};

}  // namespace

Singular singular_values(std::vector<double> a, std::int64_t m, std::int64_t n, std::int64_t columns) {
  TwoDiagonals matrix = to_two_diagonals(a, m, n);
  Singular result;
  const bool with_vectors = columns > 0;
  if (with_vectors) {
    result.ut = transposed(product_of_reflections(matrix.left, matrix.left_taus, n, 0, m, columns), m, columns);
    result.vh = transposed(product_of_reflections(matrix.right, matrix.right_taus, n - 1, 1, n, n), n, n);
  }
  result.converged = Diagonalization(matrix, result, m, with_vectors).run();
  std::vector<double>& values = matrix.diagonal;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const bool is_negative = values[k] < 0;
    values[k] = std::abs(values[k]);
    if (!with_vectors) continue;
    double* const row = result.vh.data() + static_cast<std::int64_t>(k) * n;
    double* const column = result.ut.data() + static_cast<std::int64_t>(k) * m;
    if (is_negative) negate(column, m);
    if (!leads_negative(row, n)) continue;
    negate(row, n);
    negate(column, m);
  }
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i)] > values[static_cast<std::size_t>(j)];
  });
  for (const std::int64_t i : order) result.values.push_back(values[static_cast<std::size_t>(i)]);
  if (with_vectors) {
    order_rows(result.ut, m, order);
    order_rows(result.vh, n, order);
  }
  return result;
}

}  // namespace host
}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
