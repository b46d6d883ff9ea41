// The factorisations, of batches [B, m, n] without history and without checks. Right-looking and in panels: kPanel
// columns are eliminated one by one, each in a few kernels, and the rest of the matrix is updated by a product.
#pragma once

#include "linalg/matrices.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {

/// LU with partial pivoting: the first of the largest |candidates|.
struct Lu {
  Tensor factors;  ///< [B, n, n]: U, and below the diagonal L without its ones
  Tensor rows;     ///< i64 [B, n]: which row of the matrix each row of L U is
};
Lu lu_of(const Tensor& a);
/// Number of the first pivot that is 0, i64 [B].
Tensor singular_info(const Lu& lu);
/// x [B, n, k] with a x = b.
Tensor lu_solve(const Lu& lu, const Tensor& b);

struct Triangle {
  bool upper = false;
  bool unit = false;
};
/// x with t x = b by substitution; the other triangle of t is not read.
Tensor substitute(const Tensor& t, const Tensor& b, Triangle triangle);

/// L of the lower triangle of a, with zeros above.
Tensor cholesky_of(const Tensor& a);
/// Number of the first diagonal element of L that is not positive.
Tensor definite_info(const Tensor& factor);

/// Reflections H = 1 - v t v^T of panels of columns.
struct Reflections {
  struct Panel {
    std::int64_t first = 0;  ///< row and column where it begins
    Tensor v;                ///< [B, m - first, w]
    Tensor t;                ///< [B, w, w], upper triangular
  };
  std::vector<Panel> panels;
  Tensor r;  ///< [B, min(m, n), n]
};
Reflections reflect(const Tensor& a);
/// The first `columns` columns of the product of the reflections, [B, m, columns].
Tensor orthogonal(const Reflections& reflections, const Tensor& like, std::int64_t columns);

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
