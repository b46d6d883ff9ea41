// Eigenvalues of symmetric matrices and singular values, by Jacobi rotations; least squares from the latter.
#include <limits>

#include "graph/tape.h"
#include "linalg/factors.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace {

Tensor symmetric_part(const Tensor& a) {
  return (a + transposed(a)) * 0.5;
}
Tensor antisymmetric_twice(const Tensor& a) {
  return a - transposed(a);
}
// x_j - x_i, and infinity on the diagonal: what is divided by it is 0 there.
Tensor differences(const Tensor& x) {
  const Tensor own = eq(numbers(x.size(-1), x).unsqueeze(1), numbers(x.size(-1), x));
  return where(own, std::numeric_limits<double>::infinity(), x.unsqueeze(-2) - x.unsqueeze(-1));
}

// Giles, "Collected matrix derivative results" (2008), 3.1; the part that symmetric changes do not see is left out.
Tensor eigh_gradient(const Eigh& parts, const Tensor& gl, const Tensor& gv) {
  const Tensor& v = parts.eigenvectors;
  Tensor middle;
  if (gl.defined()) middle = diag_embed(gl);
  if (gv.defined()) {
    const Tensor turn = matmul(transposed(v), gv) / differences(parts.eigenvalues);
    middle = middle.defined() ? middle + turn : turn;
  }
  return symmetric_part(matmul(v, matmul(middle, transposed(v))));
}

Eigh traced_eigh(const Eigh& bare, const Tensor& a) {
  const auto rule = [&](bool of_values) {
    return [a, bare, of_values](const Tensor& g, const std::vector<bool>&, const Tensor&) {
      const Eigh parts = graph::is_tracing({&a}) ? eigh(a) : bare;
      return std::vector<Tensor>{eigh_gradient(parts, of_values ? g : Tensor(), of_values ? Tensor() : g)};
    };
  };
  return {graph::traced(bare.eigenvalues, {&a}, rule(true)), graph::traced(bare.eigenvectors, {&a}, rule(false))};
}

// Of the reduced form.  PyTorch: svd_backward.
Tensor svd_gradient(const Svd& parts, const Tensor& gu, const Tensor& gs, const Tensor& gvh) {
  const Tensor& u = parts.u;
  const Tensor v = transposed(parts.vh);
  const Tensor row = parts.s.unsqueeze(-2);
  const Tensor column = parts.s.unsqueeze(-1);
  if (gs.defined()) return matmul(u * gs.unsqueeze(-2), parts.vh);
  const Tensor gaps = differences(parts.s * parts.s);
  const std::int64_t k = parts.s.size(-1);
  if (gu.defined()) {
    Tensor inner = matmul(u, antisymmetric_twice(matmul(transposed(u), gu)) / gaps * row);
    if (u.size(-2) > k) inner = inner + (gu - matmul(u, matmul(transposed(u), gu))) / row;
    return matmul(inner, parts.vh);
  }
  const Tensor gv = transposed(gvh);
  Tensor inner = matmul(column * (antisymmetric_twice(matmul(parts.vh, gv)) / gaps), parts.vh);
  if (v.size(-2) > k) inner = inner + (gvh - matmul(matmul(gvh, v), parts.vh)) / column;
  return matmul(u, inner);
}

Svd traced_svd(const Svd& bare, const Tensor& a) {
  enum class Part { u, s, vh };
  const auto rule = [&](Part part) {
    return [a, bare, part](const Tensor& g, const std::vector<bool>&, const Tensor&) {
      const Svd parts = graph::is_tracing({&a}) ? svd(a, {.full_matrices = false}) : bare;
      const auto of = [&](Part which) { return which == part ? g : Tensor(); };
      return std::vector<Tensor>{svd_gradient(parts, of(Part::u), of(Part::s), of(Part::vh))};
    };
  };
  return {graph::traced(bare.u, {&a}, rule(Part::u)), graph::traced(bare.s, {&a}, rule(Part::s)),
          graph::traced(bare.vh, {&a}, rule(Part::vh))};
}

// The first `k` along `dim` from `traced`, the others as they are.
Tensor with_rest(const Tensor& traced, const Tensor& whole, int dim) {
  const std::int64_t k = traced.size(dim);
  if (whole.size(dim) == k) return traced;
  return cat({traced, whole.narrow(dim, k, whole.size(dim) - k)}, dim);
}

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

SingularValues svd_of(const Tensor& a, bool full) {
  if (a.size(1) < a.size(2)) {
    SingularValues other = svd_of(transposed(a), full);
    return {transposed(other.vh), other.s, transposed(other.u), other.info};
  }
  const std::int64_t m = a.size(1);
  const std::int64_t n = a.size(2);
  const Scaling scaling = scaling_of(a);
  // a = q r, and the columns of r^T are turned: r^T v = y, y = (orthonormal) s. So a = (q v) s (orthonormal)^T.
  const Reflections first = reflect(a * scaling.down);
  const OneSided turned = jacobi_columns(transposed(first.r));
  const Tensor lengths = sqrt(sum(turned.w * turned.w, {1}));
  const Tensor order = argsort(lengths, 1, true);
  // Columns as good as orthogonal, the longest first: the reflections make them orthonormal whatever their lengths.
  const Reflections second = reflect(take_columns(turned.w, order));
  const Tensor signs = where(lt(second.r.diagonal(0, 1, 2), 0), -1, ones_like(lengths));
  const Tensor vh = transposed(orthogonal(second, turned.w, n) * signs.unsqueeze(1));
  const Tensor q = orthogonal(first, a, full ? m : n);
  Tensor u = matmul(q.narrow(2, 0, n), take_columns(turned.v, order));
  if (full && m > n) u = cat({u, q.narrow(2, n, m - n)}, 2);
  const Tensor s = lockstep::gather(lengths, 1, order) * scaling.up.reshape({a.size(0), 1});
  return {u, s, vh, turned.info};
}

Eigh eigh(const Operand& operand) {
  const CallScope call("linalg.eigh", operand);
  const Tensor& a = square_operand(operand);
  const Shape batch = batch_of(a);
  const Tensor bare = flat_batch(graph::untraced(a));
  Eigh result;
  if (bare.numel() == 0) {
    result = {with_batch(zeros({bare.size(0), bare.size(1)}, {.dtype = a.dtype(), .device = a.device()}), batch),
              zeros_like(graph::untraced(a))};
  } else {
    const Finite finite = finite_matrices(bare);
    const Tensor both = tril(finite.matrices) + transposed(tril(finite.matrices, -1));
    const Scaling scaling = scaling_of(both);
    const Spectrum spectrum = jacobi_eigh(both * scaling.down);
    const Tensor values = spectrum.values * scaling.up.reshape({bare.size(0), 1});
    const auto checked = [&](const Tensor& x) {
      const Tensor converged = guarded(x, spectrum.info, graph::Failure::not_converged);
      return with_batch(guarded(converged, finite.info, graph::Failure::not_finite), batch);
    };
    result = {checked(values), checked(spectrum.vectors)};
  }
  return graph::is_tracing({&a}) ? traced_eigh(result, a) : result;
}

Tensor eigvalsh(const Operand& a) {
  const CallScope call("linalg.eigvalsh", a);
  return eigh(a).eigenvalues;
}

Svd svd(const Operand& operand, const SvdOptions& options) {
  const CallScope call("linalg.svd", operand);
  const Tensor& a = matrix_operand(operand);
  const Shape batch = batch_of(a);
  const std::int64_t m = a.size(-2);
  const std::int64_t n = a.size(-1);
  const std::int64_t k = std::min(m, n);
  const Tensor bare = flat_batch(graph::untraced(a));
  if (bare.numel() == 0) {
    const std::int64_t rows = options.full_matrices ? m : k;
    const std::int64_t columns = options.full_matrices ? n : k;
    const Tensor s = zeros({bare.size(0), k}, {.dtype = a.dtype(), .device = a.device()});
    return {with_batch(identity(m, rows, a).expand({bare.size(0), m, rows}), batch), with_batch(s, batch),
            with_batch(identity(columns, n, a).expand({bare.size(0), columns, n}), batch)};
  }
  const Finite finite = finite_matrices(bare);
  const SingularValues values = svd_of(finite.matrices, options.full_matrices);
  const auto checked = [&](const Tensor& x) {
    const Tensor converged = guarded(x, values.info, graph::Failure::not_converged);
    return with_batch(guarded(converged, finite.info, graph::Failure::not_finite), batch);
  };
  const Svd result{checked(values.u), checked(values.s), checked(values.vh)};
  if (!graph::is_tracing({&a})) return result;
  const Svd reduced = traced_svd({result.u.narrow(-1, 0, k), result.s, result.vh.narrow(-2, 0, k)}, a);
  return {with_rest(reduced.u, result.u, -1), reduced.s, with_rest(reduced.vh, result.vh, -2)};
}

Tensor svdvals(const Operand& a) {
  const CallScope call("linalg.svdvals", a);
  return svd(a, {.full_matrices = false}).s;
}

Lstsq lstsq(const Operand& a_operand, const Operand& b_operand, const LstsqOptions& options) {
  const CallScope call("linalg.lstsq", a_operand);
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
