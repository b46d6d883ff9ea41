// Linear algebra on matrices [..., m, n]: leading dimensions are batches. f32 and f64 (DTypeError names the cast for
// others). The algorithms are fixed (docs/numerics.md), so bits are the same on every device and whatever else is in
// the batch: LU with partial pivoting, Cholesky's and Householder's factors are compositions of the library's ops;
// eigenvalues and singular values are computed on the host in f64, at the call, which waits for the matrices. Gradients
// are PyTorch's and have gradients.
//
// With u the unit roundoff (f32 6e-8, f64 1.1e-16) and |.| the Frobenius norm, the errors stated are tested bounds for
// matrices of up to a few hundred rows.
//
// A matrix for which there is no answer is a LinalgError that names it: thrown at the call by what computes at the
// call, else, as an IndexError is, when the result or what depends on it is read. The _ex functions return `info`
// instead and throw nothing. NaN and infinities spread to the results of their own matrix, except where they are said
// to be errors. Empty matrices and batches are fine.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace linalg {

/// x with a x = b.  a [..., n, n]; b [..., n, k], or [..., n] where it is 1-d or has a's shape without its last
/// dimension; batches broadcast. |b - a x| <= 16 n u |a| |x|. LinalgError: a is singular (a pivot is exactly 0).
/// PyTorch: linalg.solve.
LOCKSTEP_API Tensor solve(const Operand& a, const Operand& b);

/// `info` i64 [...]: 0, or the number from 1 of what failed first. The values where it is not 0 mean nothing.
struct ResultInfo {
  Tensor result;
  Tensor info;
};
/// solve that reports the first pivot that is 0.  PyTorch: linalg.solve_ex.
LOCKSTEP_API ResultInfo solve_ex(const Operand& a, const Operand& b);

struct TriangularOptions {
  bool upper = true;           ///< which triangle of a is read
  bool unitriangular = false;  ///< the diagonal counts as ones and is not read
};
/// x with a x = b for a triangular a; the other triangle is not read. Zeros on the diagonal give infinities and NaN.
/// PyTorch: linalg.solve_triangular, whose `upper` has no default.
LOCKSTEP_API Tensor solve_triangular(const Operand& a, const Operand& b, const TriangularOptions& options = {});

/// The inverse of a [..., n, n]. |a inv(a) - 1| <= 16 n u |a| |inv(a)|. LinalgError: singular.  PyTorch: linalg.inv.
LOCKSTEP_API Tensor inv(const Operand& a);
/// inv that reports the first pivot that is 0.  PyTorch: linalg.inv_ex.
LOCKSTEP_API ResultInfo inv_ex(const Operand& a);
/// The determinant [...] of a [..., n, n]; of an empty matrix 1. The product of the pivots, which can overflow. Its
/// gradient holds for singular matrices too (and reads whether there are any).  PyTorch: linalg.det.
LOCKSTEP_API Tensor det(const Operand& a);

/// A determinant as its sign and the logarithm of its absolute value.
struct SignLogDet {
  Tensor sign;    ///< -1, 0 or 1
  Tensor logabs;  ///< log |det|, -inf of a singular matrix
};
/// The sign and the logarithm of the magnitude of det, which do not overflow. The gradient at a singular matrix is a
/// LinalgError.  PyTorch: linalg.slogdet.
LOCKSTEP_API SignLogDet slogdet(const Operand& a);

struct CholeskyOptions {
  bool upper = false;  ///< the transposed factor, from the upper triangle
};
/// L lower triangular with a = L L^T; the other triangle of a is not read. |a - L L^T| <= 4 n u |a|. LinalgError: a is
/// not positive definite, or has a NaN.  The gradient is symmetric.  PyTorch: linalg.cholesky.
LOCKSTEP_API Tensor cholesky(const Operand& a, const CholeskyOptions& options = {});
/// `info`: the order of the first leading minor that is not positive.  PyTorch: linalg.cholesky_ex.
LOCKSTEP_API ResultInfo cholesky_ex(const Operand& a, const CholeskyOptions& options = {});

enum class QrMode : std::uint8_t {
  reduced,   ///< q [..., m, k], r [..., k, n] with k = min(m, n)
  complete,  ///< q [..., m, m], r [..., m, n]
  r,         ///< r of reduced; q is empty
};
struct QrOptions {
  QrMode mode = QrMode::reduced;
};
/// The factors of qr().
struct Qr {
  Tensor q;
  Tensor r;
};
/// a = q r, by Householder reflections with LAPACK's signs. |a - q r| <= 4 n u |a|, |q^T q - 1| <= 8 n u. Gradients of
/// `reduced` (for m < n the first m columns must be independent), and of `complete` where m <= n.  PyTorch: linalg.qr.
LOCKSTEP_API Qr qr(const Operand& a, const QrOptions& options = {});

/// What eigh() gives.
struct Eigh {
  Tensor eigenvalues;   ///< [..., n], ascending
  Tensor eigenvectors;  ///< [..., n, n]: columns, orthonormal
};
/// Of the symmetric a [..., n, n], of which the lower triangle is read. |a v - v w| <= 16 n u |a|, |v^T v - 1| <= 16 n
/// u. Of each vector the first of the largest |elements| is positive. Computes at the call. LinalgError: NaN or
/// infinities in a. The gradient is symmetric; that of eigenvectors is infinite or NaN where eigenvalues are equal.
/// PyTorch: linalg.eigh.
LOCKSTEP_API Eigh eigh(const Operand& a);
/// The same eigenvalues alone, several times faster.  PyTorch: linalg.eigvalsh.
LOCKSTEP_API Tensor eigvalsh(const Operand& a);

struct SvdOptions {
  bool full_matrices = true;  ///< u and vh square; their further columns and rows have no gradient
};
/// The factors of svd().
struct Svd {
  Tensor u;   ///< [..., m, m] or [..., m, k], k = min(m, n)
  Tensor s;   ///< [..., k], descending, not negative
  Tensor vh;  ///< [..., n, n] or [..., k, n]
};
/// a = u diag(s) vh. |a - u s vh| <= 16 n u |a|, u and vh are orthonormal within 16 n u, n the larger size. Of each
/// row of vh (m < n: of each column of u) the first of the largest |elements| is positive. Computes at the call.
/// LinalgError: NaN or infinities in a. Gradients of u and vh are infinite or NaN where singular values are equal or,
/// unless a is square, 0.  PyTorch: linalg.svd.
LOCKSTEP_API Svd svd(const Operand& a, const SvdOptions& options = {});
/// The same singular values alone, several times faster.  PyTorch: linalg.svdvals.
LOCKSTEP_API Tensor svdvals(const Operand& a);

struct LstsqOptions {
  /// Singular values up to rcond times the largest count as 0; absent: the dtype's epsilon times max(m, n).
  std::optional<double> rcond = std::nullopt;
};
/// What lstsq() gives.
struct Lstsq {
  Tensor solution;         ///< [..., n, k], or [..., n] for a vector b
  Tensor residuals;        ///< [..., k]: the squared lengths of b - a x; empty unless m > n
  Tensor rank;             ///< i64 [...]
  Tensor singular_values;  ///< [..., min(m, n)]
};
/// The shortest x that minimises |a x - b|, by the SVD, for any rank.  a [..., m, n], b [..., m, k] or [..., m] as in
/// solve. Computes at the call. LinalgError: NaN or infinities in a. Only the solution has gradients; they hold where
/// the rank does not change.  NumPy: linalg.lstsq (PyTorch: driver="gelsd"), but residuals do not depend on the rank.
LOCKSTEP_API Lstsq lstsq(const Operand& a, const Operand& b, const LstsqOptions& options = {});

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
