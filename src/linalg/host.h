// Eigenvalues and singular values of one matrix, on the host in f64. The order of every sum is written out and nothing
// but +, -, *, / and sqrt is used, so the bits are the same on every machine; they are the specification
// (docs/numerics.md).
//
// Matrices are dense, row by row; all are finite, with the largest |element| near 1 or nothing but zeros.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace host {

/// Of a symmetric matrix [n, n]; both triangles are read.
struct Eigen {
  std::vector<double> values;   ///< [n], ascending
  std::vector<double> vectors;  ///< [n, n], a vector in each row, its leading element positive; empty if not wanted
  bool converged = true;
};
/// The values do not depend on whether vectors are wanted.
/// Householder's reduction to three diagonals, then implicit QR steps with Wilkinson's shift (Golub and Van Loan,
/// Matrix Computations, 8.3).
Eigen symmetric_eigen(std::vector<double> a, std::int64_t n, bool with_vectors);

/// a = u diag(values) vh of a matrix [m, n] with m >= n.
struct Singular {
  std::vector<double> values;  ///< [n], descending, not negative
  std::vector<double> ut;      ///< [columns, m], a column of u in each row; empty if not wanted
  std::vector<double> vh;      ///< [n, n], the leading element of each row positive; empty if not wanted
  bool converged = true;
};
/// `columns` of u: n or more, up to m; 0: neither u nor vh. The values do not depend on it.
/// Reduction to two diagonals, then implicit QR steps (Golub and Van Loan, 8.6).
Singular singular_values(std::vector<double> a, std::int64_t m, std::int64_t n, std::int64_t columns);

/// [rows, columns] to [columns, rows].
std::vector<double> transposed(const std::vector<double>& a, std::int64_t rows, std::int64_t columns);

}  // namespace host
}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
