// Substitution: within a block one unknown after the other, each in one kernel; between blocks by products.
#include "graph/tape.h"
#include "linalg/factors.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace {

Tensor substitute_block(const Tensor& t, const Tensor& b, Triangle triangle) {
  const std::int64_t width = t.size(1);
  std::vector<Tensor> rows(static_cast<std::size_t>(width));
  Tensor rest = b;  // of the unknowns that are left
  for (std::int64_t left = width - 1; left >= 0; --left) {
    const std::int64_t i = triangle.upper ? left : width - 1 - left;
    Tensor solved = rest.narrow(1, triangle.upper ? left : 0, 1);
    if (!triangle.unit) solved = solved / t.narrow(1, i, 1).narrow(2, i, 1);
    rows[static_cast<std::size_t>(i)] = solved;
    if (left == 0) break;
    const Tensor column = t.narrow(2, i, 1).narrow(1, triangle.upper ? 0 : i + 1, left);
    rest = rest.narrow(1, triangle.upper ? 0 : 1, left) - column * solved;
  }
  return width == 1 ? rows.front() : cat(rows, 1);
}

}  // namespace

Tensor substitute(const Tensor& t, const Tensor& b, Triangle triangle) {
  const std::int64_t n = t.size(1);
  if (n == 0 || b.size(2) == 0) return b;
  const std::int64_t blocks = (n + kPanel - 1) / kPanel;
  Tensor rest = b;
  std::vector<Tensor> parts(static_cast<std::size_t>(blocks));
  for (std::int64_t step = 0; step < blocks; ++step) {
    const std::int64_t block = triangle.upper ? blocks - 1 - step : step;
    const std::int64_t first = block * kPanel;
    const std::int64_t width = std::min(kPanel, n - first);
    // rest: the rows from `first` on (lower), or up to the end of the block (upper).
    const std::int64_t others = rest.size(1) - width;
    const Tensor own = rest.narrow(1, triangle.upper ? others : 0, width);
    const Tensor columns = t.narrow(2, first, width);
    const Tensor x = substitute_block(columns.narrow(1, first, width), own, triangle);
    parts[static_cast<std::size_t>(block)] = x;
    if (others == 0) break;
    const Tensor beside = columns.narrow(1, triangle.upper ? 0 : first + width, others);
    rest = rest.narrow(1, triangle.upper ? 0 : width, others) - matmul(beside, x);
  }
  return parts.size() == 1 ? parts.front() : cat(parts, 1);
}

Tensor solve_triangular(const Operand& a_operand, const Operand& b_operand, const TriangularOptions& options) {
  const LinalgScope call("linalg.solve_triangular", a_operand);
  const Tensor& a = square_operand(a_operand);
  const Tensor& b = tensor_operand(b_operand);
  const System system = system_of(a, b);
  const Triangle triangle{.upper = options.upper, .unit = options.unitriangular};
  const Tensor bare = with_batch(
      substitute(flat_batch(graph::untraced(system.a)), flat_batch(graph::untraced(system.b)), triangle), system.batch);
  const Tensor result = system.vector ? bare.squeeze(-1) : bare;
  if (!graph::is_tracing({&a, &b})) return result;
  return graph::traced(
      result, {&a, &b},
      [a, vector = system.vector, options](const Tensor& g, const std::vector<bool>& wanted, const Tensor& x) {
        const Tensor columns = vector ? g.unsqueeze(-1) : g;
        const Tensor gb =
            solve_triangular(transposed(a), columns, {.upper = !options.upper, .unitriangular = options.unitriangular});
        Tensor ga;
        if (wanted[0]) {
          const Tensor outer = neg(matmul(gb, transposed(vector ? x.unsqueeze(-1) : x)));
          const std::int64_t inside = options.unitriangular ? 1 : 0;
          ga = options.upper ? triu(outer, inside) : tril(outer, -inside);
        }
        return std::vector<Tensor>{ga, vector ? gb.squeeze(-1) : gb};
      },
      true);
}

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
