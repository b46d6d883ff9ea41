#include <algorithm>

#include <lockstep/linalg.h>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Sizes of matrices, some beyond a panel of the factorisations; smaller where gradients need gaps between the values.
constexpr std::int64_t kLargestMatrix = 40;
constexpr std::int64_t kLargestSpectrum = 10;

std::int64_t matrix_size(Probe& p, int dim, std::int64_t largest = kLargestMatrix) {
  return std::min(p.size(dim), largest);
}

// With special values, or with none that could leave a matrix without an answer.
enum class Elements : std::uint8_t { any, ordinary };
Tensor elements(Probe& p, const Shape& shape, Elements kind) {
  return kind == Elements::any ? p.x(shape) : p.positive(shape) - 2;
}

// A batch of matrices far from singular, whose pivots are not on the diagonal.
Tensor regular(Probe& p, Elements kind) {
  const std::int64_t n = matrix_size(p, 1);
  const Tensor large = eye(n, std::nullopt, p.options()) * static_cast<double>(4 * n);
  return elements(p, {2, n, n}, kind) + (n == 0 ? large : roll(large, {1}, {1}));
}
Tensor definite(Probe& p, Elements kind) {
  const std::int64_t n = matrix_size(p, 1);
  const Tensor a = elements(p, {2, n, n}, kind);
  return a + eye(n, std::nullopt, p.options()) * static_cast<double>(8 * n);
}
// Different columns, so that no singular values or eigenvalues are equal.
Tensor generic(Probe& p, std::int64_t rows, std::int64_t columns, Elements kind = Elements::ordinary) {
  const Tensor scale =
      arange(1, static_cast<double>(columns + 1), 1, {.dtype = DType::i64, .device = p.device()}).to(p.dtype());
  return elements(p, {rows, columns}, kind) * scale + eye(rows, columns, p.options()) * (scale * scale);
}
Tensor tall(Probe& p, std::int64_t largest, Elements kind = Elements::ordinary) {
  const std::int64_t sizes[] = {matrix_size(p, 1, largest), std::min(p.size(2), largest - 2)};
  return generic(p, std::max(sizes[0], sizes[1]), std::min(sizes[0], sizes[1]), kind);
}
Tensor wide(Probe& p, std::int64_t largest, Elements kind = Elements::ordinary) {
  const std::int64_t sizes[] = {matrix_size(p, 1, largest), std::min(p.size(2), largest - 2)};
  return generic(p, std::min(sizes[0], sizes[1]), std::max(sizes[0], sizes[1]), kind);
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
       const Tensor a = regular(p, Elements::ordinary);
       return {linalg::solve(a, right_side(p, a.size(-1)))};
     }},
    {"linalg.solve_ex", Form::matrix, 2,
     [](Probe& p) {
       const Tensor a = regular(p, Elements::any);
       return both_of(linalg::solve_ex(a, right_side(p, a.size(-1))));
     }},
    {"linalg.solve_triangular", Form::matrix, 4,
     [](Probe& p) -> Tensors {
       const Tensor a = definite(p, Elements::any);
       return {linalg::solve_triangular(a, right_side(p, a.size(-1)),
                                        {.upper = p.variant() % 2 == 0, .unitriangular = p.variant() == 3})};
     }},
    {"linalg.inv", Form::matrix, 1, [](Probe& p) -> Tensors { return {linalg::inv(regular(p, Elements::ordinary))}; }},
    {"linalg.inv_ex", Form::matrix, 1, [](Probe& p) { return both_of(linalg::inv_ex(regular(p, Elements::any))); }},
    {"linalg.det", Form::matrix, 1,
     [](Probe& p) -> Tensors { return {linalg::det(regular(p, Elements::any) * 0.01)}; }},
    {"linalg.slogdet", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       const linalg::SignLogDet result = linalg::slogdet(regular(p, Elements::any));
       return {result.sign, result.logabs};
     }},
    {"linalg.cholesky", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       const Tensor a = definite(p, Elements::ordinary);
       return {linalg::cholesky((a + a.transpose(-2, -1)) * 0.5, {.upper = p.variant() == 1})};
     }},
    {"linalg.cholesky_ex", Form::matrix, 1,
     [](Probe& p) {
       const Tensor a = definite(p, Elements::any);
       return both_of(linalg::cholesky_ex((a + a.transpose(-2, -1)) * 0.5));
     }},
    {"linalg.qr", Form::matrix, 3,
     [](Probe& p) -> Tensors {
       const Tensor a =
           p.variant() == 0 ? tall(p, kLargestMatrix, Elements::any) : wide(p, kLargestMatrix, Elements::any);
       const bool complete = p.variant() == 2;
       const linalg::Qr result = linalg::qr(a, {.mode = complete ? linalg::QrMode::complete : linalg::QrMode::reduced});
       return {result.q, result.r};
     }},
    {"linalg.eigh", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       const std::int64_t n = matrix_size(p, 1, kLargestSpectrum);
       const Tensor a = generic(p, n, n);
       const linalg::Eigh result = linalg::eigh((a + a.transpose(-2, -1)) * 0.5);
       return {result.eigenvalues, result.eigenvectors};
     }},
    {"linalg.eigvalsh", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       const std::int64_t n = matrix_size(p, 1, kLargestSpectrum);
       const Tensor a = generic(p, n, n);
       return {linalg::eigvalsh((a + a.transpose(-2, -1)) * 0.5)};
     }},
    {"linalg.svd", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       const Tensor a = p.variant() == 0 ? tall(p, kLargestSpectrum) : wide(p, kLargestSpectrum);
       const linalg::Svd result = linalg::svd(a, {.full_matrices = false});
       return {result.u, result.s, result.vh};
     }},
    {"linalg.svdvals", Form::matrix, 1,
     [](Probe& p) -> Tensors { return {linalg::svdvals(tall(p, kLargestSpectrum))}; }},
    {"linalg.lstsq", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       const Tensor a = p.variant() == 0 ? tall(p, kLargestSpectrum) : wide(p, kLargestSpectrum);
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
