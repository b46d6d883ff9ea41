// Systems of equations, inverses and determinants, all from one LU factorisation.
#include "graph/tape.h"
#include "linalg/factors.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace {

// The gradient of x with a x = b: of b as the solution of the transposed system, of a as an outer product.
Tensor traced_solution(const Tensor& bare, const Tensor& a, const Tensor& b, bool vector) {
  if (!graph::is_tracing({&a, &b})) return bare;
  return graph::traced(
      bare, {&a, &b},
      [a, vector](const Tensor& g, const std::vector<bool>& wanted, const Tensor& x) {
        const Tensor gb = solve(transposed(a), vector ? g.unsqueeze(-1) : g);
        Tensor ga;
        if (wanted[0]) ga = neg(matmul(gb, transposed(vector ? x.unsqueeze(-1) : x)));
        return std::vector<Tensor>{ga, vector ? gb.squeeze(-1) : gb};
      },
      true);
}

ResultInfo solved(const Operand& a_operand, const Operand& b_operand, bool check_errors) {
  const Tensor& a = square_operand(a_operand);
  const Tensor& b = tensor_operand(b_operand);
  const System system = system_of(a, b);
  // The factorisation is of a's own batch, before b's makes it larger.
  const Shape own = batch_of(a);
  const Lu lu = lu_of(flat_batch(graph::untraced(a)));
  const Tensor own_info = singular_info(lu);
  Lu over = lu;
  Tensor info = own_info;
  if (own != system.batch) {
    const auto spread = [&](const Tensor& x, int kept) {
      const Tensor unflat = with_batch(x, own);
      Shape shape = system.batch;
      for (int d = x.rank() - kept; d < x.rank(); ++d) shape.push_back(x.shape()[d]);
      return flat_batch(unflat.expand(shape), kept);
    };
    over = {spread(lu.factors, 2), spread(lu.rows, 1)};
    info = spread(own_info, 0);
  }
  Tensor x = lu_solve(over, flat_batch(graph::untraced(system.b)));
  if (check_errors) x = guarded(x, info, graph::Failure::singular);
  Tensor result = with_batch(x, system.batch);
  if (system.vector) result = result.squeeze(-1);
  return {traced_solution(result, a, b, system.vector), own_info.reshape(own)};
}

ResultInfo inverse(const Operand& operand, bool check_errors) {
  const Tensor& a = square_operand(operand);
  const Shape batch = batch_of(a);
  const Tensor bare = flat_batch(graph::untraced(a));
  const Lu lu = lu_of(bare);
  const Tensor info = singular_info(lu);
  Tensor x = lu_solve(lu, identity(a.size(-1), a.size(-1), a).expand(bare.shape()));
  if (check_errors) x = guarded(x, info, graph::Failure::singular);
  Tensor result = with_batch(x, batch);
  if (graph::is_tracing({&a})) {
    result = graph::traced(
        result, {&a},
        [](const Tensor& g, const std::vector<bool>&, const Tensor& y) {
          return std::vector<Tensor>{neg(matmul(transposed(y), matmul(g, transposed(y))))};
        },
        true);
  }
  return {result, info.reshape(batch)};
}

// Whether the rows of a permutation [B, n] can be put in order by an odd number of exchanges.
Tensor is_odd(const Tensor& rows) {
  const std::int64_t n = rows.size(1);
  const Tensor inverted = gt(rows.unsqueeze(2), rows.unsqueeze(1));  // of i and j, for i < j
  const Tensor before = lt(numbers(n, rows).reshape({n, 1}), numbers(n, rows));
  const Tensor count = sum(bitwise_and(inverted, before).to(DType::i32), {1, 2});
  return eq(remainder(count, 2), 1);
}

Tensor determinant(const Lu& lu) {
  const Tensor product = prod(lu.factors.diagonal(0, 1, 2), {1});
  return where(is_odd(lu.rows), neg(product), product);
}

// The matrix of cofactors, d det / d a, from the singular values: for any rank.
Tensor cofactors_by_svd(const Tensor& a) {
  const Svd parts = svd(a, {.full_matrices = false});
  const std::int64_t n = a.size(-1);
  const Tensor own = eq(numbers(n, a).reshape({n, 1}), numbers(n, a));
  const Tensor others = prod(where(own, 1, parts.s.unsqueeze(-2)), {-1});
  const Tensor sign = (det(graph::untraced(parts.u)) * det(graph::untraced(parts.vh))).unsqueeze(-1).unsqueeze(-1);
  return matmul(parts.u * others.unsqueeze(-2), parts.vh) * sign;
}

Tensor cofactors(const Tensor& a, const Tensor& determinants) {
  const ResultInfo inverted = inv_ex(a);
  const Tensor regular = mul(determinants.unsqueeze(-1).unsqueeze(-1), transposed(inverted.result));
  const Tensor singular = ne(inverted.info, 0).unsqueeze(-1).unsqueeze(-1);
  if (!any(singular).item<bool>()) return regular;
  return where(singular, cofactors_by_svd(a), regular);
}

}  // namespace

Tensor solve(const Operand& a, const Operand& b) {
  const LinalgScope call("linalg.solve", a);
  return solved(a, b, true).result;
}
ResultInfo solve_ex(const Operand& a, const Operand& b) {
  const LinalgScope call("linalg.solve_ex", a);
  return solved(a, b, false);
}
Tensor inv(const Operand& a) {
  const LinalgScope call("linalg.inv", a);
  return inverse(a, true).result;
}
ResultInfo inv_ex(const Operand& a) {
  const LinalgScope call("linalg.inv_ex", a);
  return inverse(a, false);
}

Tensor det(const Operand& operand) {
  const LinalgScope call("linalg.det", operand);
  const Tensor& a = square_operand(operand);
  const Tensor bare = determinant(lu_of(flat_batch(graph::untraced(a)))).reshape(batch_of(a));
  if (!graph::is_tracing({&a})) return bare;
  return graph::traced(
      bare, {&a},
      [a](const Tensor& g, const std::vector<bool>&, const Tensor& value) {
        return std::vector<Tensor>{mul(g.unsqueeze(-1).unsqueeze(-1), cofactors(a, value))};
      },
      true);
}

SignLogDet slogdet(const Operand& operand) {
  const LinalgScope call("linalg.slogdet", operand);
  const Tensor& a = square_operand(operand);
  const Lu lu = lu_of(flat_batch(graph::untraced(a)));
  const Tensor diagonal = lu.factors.diagonal(0, 1, 2);
  const Tensor signs = prod(sign(diagonal), {1});
  SignLogDet result{where(is_odd(lu.rows), neg(signs), signs).reshape(batch_of(a)),
                    sum(log(abs(diagonal)), {1}).reshape(batch_of(a))};
  if (!graph::is_tracing({&a})) return result;
  result.logabs = graph::traced(result.logabs, {&a}, [a](const Tensor& g, const std::vector<bool>&, const Tensor&) {
    return std::vector<Tensor>{mul(g.unsqueeze(-1).unsqueeze(-1), transposed(inv(a)))};
  });
  return result;
}

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
