// The Cholesky factor, panel by panel.
#include "graph/tape.h"
#include "linalg/factors.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace {

Tensor cholesky_panel(const Tensor& given) {
  const std::int64_t rows = given.size(1);
  const std::int64_t width = given.size(2);
  Tensor rest = given;  // rows and columns from t on
  std::vector<Tensor> columns;
  for (std::int64_t t = 0; t < width; ++t) {
    const Tensor root = sqrt(rest.narrow(1, 0, 1).narrow(2, 0, 1));
    const Tensor below = rest.narrow(2, 0, 1).narrow(1, 1, rows - t - 1) / root;
    columns.push_back(lockstep::pad(cat({root, below}, 1), {0, 0, t, 0}));
    const std::int64_t left = width - t - 1;
    rest = rest.narrow(1, 1, rows - t - 1).narrow(2, 1, left) - below * transposed(below.narrow(1, 0, left));
  }
  return cat(columns, 2);
}

ResultInfo factored(const Operand& operand, const CholeskyOptions& options, bool check_errors) {
  const Tensor& a = square_operand(operand);
  const Shape batch = batch_of(a);
  const Tensor bare = flat_batch(graph::untraced(a));
  Tensor factor = cholesky_of(options.upper ? transposed(bare) : bare);
  const Tensor info = definite_info(factor);
  if (check_errors) factor = guarded(factor, info, graph::Failure::not_positive_definite);
  Tensor result = with_batch(options.upper ? transposed(factor) : factor, batch);
  if (graph::is_tracing({&a})) {
    // Murray, "Differentiation of the Cholesky decomposition" (2016), section 3.
    result = graph::traced(
        result, {&a},
        [upper = options.upper](const Tensor& given, const std::vector<bool>&, const Tensor& value) {
          const Tensor l = upper ? transposed(value) : value;
          const Tensor g = upper ? transposed(given) : given;
          const Tensor product = matmul(transposed(l), g);
          const Tensor phi = (tril(product) + tril(product, -1)) * 0.5;
          const Tensor left = solve_triangular(transposed(l), phi, {.upper = true});
          const Tensor both = transposed(solve_triangular(transposed(l), transposed(left), {.upper = true}));
          return std::vector<Tensor>{(both + transposed(both)) * 0.5};
        },
        true);
  }
  return {result, info.reshape(batch)};
}

}  // namespace

Tensor cholesky_of(const Tensor& a) {
  const std::int64_t n = a.size(2);
  Tensor rest = a;
  std::vector<Tensor> columns;
  for (std::int64_t first = 0; first < n; first += kPanel) {
    const std::int64_t width = std::min(kPanel, n - first);
    const std::int64_t below = n - first - width;
    const Tensor panel = cholesky_panel(rest.narrow(2, 0, width));
    columns.push_back(lockstep::pad(panel, {0, 0, first, 0}));
    if (below == 0) break;
    const Tensor bottom = panel.narrow(1, width, below);
    rest = rest.narrow(1, width, below).narrow(2, width, below) - matmul(bottom, transposed(bottom));
  }
  return columns.empty() ? a : cat(columns, 2);
}

Tensor definite_info(const Tensor& factor) {
  return first_true(bitwise_not(gt(factor.diagonal(0, 1, 2), 0)));
}

Tensor cholesky(const Operand& a, const CholeskyOptions& options) {
  const LinalgScope call("linalg.cholesky", a);
  return factored(a, options, true).result;
}
ResultInfo cholesky_ex(const Operand& a, const CholeskyOptions& options) {
  const LinalgScope call("linalg.cholesky_ex", a);
  return factored(a, options, false);
}

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
