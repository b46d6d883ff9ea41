#include <algorithm>

#include <lockstep/linalg.h>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Sizes of matrices, some beyond a panel of the factorisations; those that are rotated are smaller.
constexpr std::int64_t kLargestMatrix = 40;
constexpr std::int64_t kLargestRotated = 10;

std::int64_t matrix_size(Probe& p, int dim, std::int64_t largest = kLargestMatrix) {
  return std::min(p.size(dim), largest);
}

// A batch of matrices far from singular, whose pivots are not on the diagonal.
Tensor regular(Probe& p) {
  const std::int64_t n = matrix_size(p, 1);
  const Tensor large = eye(n, std::nullopt, p.options()) * static_cast<double>(4 * n);
  return p.x({2, n, n}) + (n == 0 ? large : roll(large, {1}, {1}));
}
Tensor definite(Probe& p) {
  const std::int64_t n = matrix_size(p, 1);
  const Tensor a = p.x({2, n, n});
  return a + eye(n, std::nullopt, p.options()) * static_cast<double>(8 * n);
}
// Different columns, so that no singular values or eigenvalues are equal.
Tensor generic(Probe& p, std::int64_t rows, std::int64_t columns) {
  const Tensor scale =
      arange(1, static_cast<double>(columns + 1), 1, {.dtype = DType::i64, .device = p.device()}).to(p.dtype());
  return p.x({rows, columns}) * scale + eye(rows, columns, p.options()) * (scale * scale);
}
Tensor tall(Probe& p, std::int64_t largest) {
  return generic(p, matrix_size(p, 1, largest), std::min(p.size(2), largest - 2));
}
Tensor wide(Probe& p, std::int64_t largest) {
  return generic(p, std::min(p.size(2), largest - 2), matrix_size(p, 1, largest));
}
Tensor right_side(Probe& p, std::int64_t rows) {
  return p.variant() == 0 ? p.x({rows, 3}) : p.x({rows});
}

Tensors both_of(const linalg::ResultInfo& result) {
  return {result.result, result.info};
}

const CheckOp kLinalgOps[] = {
    {"linalg.solve", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       const Tensor a = regular(p);
       return {linalg::solve(a, right_side(p, a.size(-1)))};
     }},
    {"linalg.solve_ex", Form::matrix, 2,
     [](Probe& p) {
       const Tensor a = regular(p);
       return both_of(linalg::solve_ex(a, right_side(p, a.size(-1))));
     }},
    {"linalg.solve_triangular", Form::matrix, 4,
     [](Probe& p) -> Tensors {
       const Tensor a = definite(p);
       return {linalg::solve_triangular(a, right_side(p, a.size(-1)),
                                        {.upper = p.variant() % 2 == 0, .unitriangular = p.variant() == 3})};
     }},
    {"linalg.inv", Form::matrix, 1, [](Probe& p) -> Tensors { return {linalg::inv(regular(p))}; }},
    {"linalg.inv_ex", Form::matrix, 1, [](Probe& p) { return both_of(linalg::inv_ex(regular(p))); }},
    {"linalg.det", Form::matrix, 1, [](Probe& p) -> Tensors { return {linalg::det(regular(p) * 0.01)}; }},
    {"linalg.slogdet", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       const linalg::SignLogDet result = linalg::slogdet(regular(p));
       return {result.sign, result.logabs};
     }},
    {"linalg.cholesky", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       const Tensor a = definite(p);
       return {linalg::cholesky((a + a.transpose(-2, -1)) * 0.5, {.upper = p.variant() == 1})};
     }},
    {"linalg.cholesky_ex", Form::matrix, 1,
     [](Probe& p) {
       const Tensor a = definite(p);
       return both_of(linalg::cholesky_ex((a + a.transpose(-2, -1)) * 0.5));
     }},
    {"linalg.qr", Form::matrix, 3,
     [](Probe& p) -> Tensors {
       const Tensor a = p.variant() == 0 ? tall(p, kLargestMatrix) : wide(p, kLargestMatrix);
       const bool complete = p.variant() == 2;
       const linalg::Qr result = linalg::qr(a, {.mode = complete ? linalg::QrMode::complete : linalg::QrMode::reduced});
       return {result.q, result.r};
     }},
    {"linalg.eigh", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       const std::int64_t n = matrix_size(p, 1, kLargestRotated);
       const Tensor a = generic(p, n, n);
       const linalg::Eigh result = linalg::eigh((a + a.transpose(-2, -1)) * 0.5);
       return {result.eigenvalues, result.eigenvectors};
     }},
    {"linalg.eigvalsh", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       const std::int64_t n = matrix_size(p, 1, kLargestRotated);
       const Tensor a = generic(p, n, n);
       return {linalg::eigvalsh((a + a.transpose(-2, -1)) * 0.5)};
     }},
    {"linalg.svd", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       const Tensor a = p.variant() == 0 ? tall(p, kLargestRotated) : wide(p, kLargestRotated);
       const linalg::Svd result = linalg::svd(a, {.full_matrices = false});
       return {result.u, result.s, result.vh};
     }},
    {"linalg.svdvals", Form::matrix, 1,
     [](Probe& p) -> Tensors { return {linalg::svdvals(tall(p, kLargestRotated))}; }},
    {"linalg.lstsq", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       const Tensor a = p.variant() == 0 ? tall(p, kLargestRotated) : wide(p, kLargestRotated);
       return {linalg::lstsq(a, p.x({a.size(0), 2})).solution};
     }},
};

}  // namespace

std::span<const CheckOp> check_linalg_ops() {
  return kLinalgOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
