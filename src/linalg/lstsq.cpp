// Least squares by the singular values.
#include <limits>

#include "graph/tape.h"
#include "linalg/matrices.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace {

// Golub and Pereyra (1973), for x = pinv b.
std::vector<Tensor> lstsq_gradient(const Tensor& a, const Tensor& b, const Tensor& pinv, const Tensor& x,
                                   const Tensor& g) {
  const Tensor gb = matmul(transposed(pinv), g);
  const Tensor residual = b - matmul(a, x);
  const Tensor outside = g - matmul(transposed(a), gb);  // of a's row space
  const Tensor ga = matmul(residual, transposed(matmul(pinv, gb))) +
                    matmul(matmul(transposed(pinv), x), transposed(outside)) - matmul(gb, transposed(x));
  return {ga, gb};
}

}  // namespace

Lstsq lstsq(const Operand& a_operand, const Operand& b_operand, const LstsqOptions& options) {
  const LinalgScope call("linalg.lstsq", a_operand);
  const Tensor& a = matrix_operand(a_operand);
  const Tensor& b = tensor_operand(b_operand);
  const System system = system_of(a, b);
  const std::int64_t m = a.size(-2);
  const std::int64_t n = a.size(-1);
  const double epsilon = a.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
  const double rcond = options.rcond.value_or(epsilon * static_cast<double>(std::max(m, n)));
  check<ValueError>(rcond >= 0, "rcond must not be negative");
  const Tensor bare_a = graph::untraced(system.a);
  const Tensor bare_b = graph::untraced(system.b);
  const Svd parts = svd(graph::untraced(a), {.full_matrices = false});
  const Tensor kept = parts.s.size(-1) == 0
                          ? gt(parts.s, 0)
                          : bitwise_and(gt(parts.s, amax(parts.s, {-1}, true) * rcond), gt(parts.s, 0));
  const Tensor inverse = where(kept, 1 / where(kept, parts.s, 1), 0);
  const Tensor right = inverse.unsqueeze(-1) * matmul(transposed(parts.u), bare_b);
  const Tensor x = matmul(transposed(parts.vh), right);
  Lstsq result;
  result.rank = sum(kept.to(DType::i64), {-1});
  result.singular_values = parts.s;
  if (m > n) {
    const Tensor residual = bare_b - matmul(bare_a, x);
    result.residuals = sum(residual * residual, {-2});
  } else {
    result.residuals = zeros({0}, {.dtype = a.dtype(), .device = a.device()});
  }
  result.solution = system.vector ? x.squeeze(-1) : x;
  if (!graph::is_tracing({&a, &b})) return result;
  const Tensor pinv = matmul(transposed(parts.vh) * inverse.unsqueeze(-2), transposed(parts.u));
  result.solution = graph::traced(
      result.solution, {&a, &b},
      [a, b, pinv, rcond, vector = system.vector](const Tensor& given, const std::vector<bool>&, const Tensor& value) {
        const auto columns = [&](const Tensor& t) { return vector ? t.unsqueeze(-1) : t; };
        const auto pseudo_inverse = [&] {
          if (!graph::is_tracing({&a, &b})) return pinv;
          return lstsq(a, identity(a.size(-2), a.size(-2), a), {.rcond = rcond}).solution;
        };
        std::vector<Tensor> g = lstsq_gradient(a, columns(b), pseudo_inverse(), columns(value), columns(given));
        if (vector) g[1] = g[1].squeeze(-1);
        return g;
      },
      true);
  return result;
}

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
