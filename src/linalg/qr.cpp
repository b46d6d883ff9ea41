// Householder QR: in a panel one reflection after the other, two kernels each; beyond it in the compact WY form.
#include "graph/tape.h"
#include "linalg/factors.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace {

struct ReflectedPanel {
  Tensor r;  ///< [B, w, w], upper triangular
  Tensor v;  ///< [B, m, w]
  Tensor t;  ///< [B, w, w]
};

// t with H1 H2 ... = 1 - v t v^T: its inverse has v^T v above the diagonal and 1 / tau on it (Puglisi 1992).
Tensor triangle_of(const Tensor& v, const Tensor& tau) {
  const std::int64_t width = v.size(2);
  // tau is 0 where the column needs no reflection; v is 0 there.
  const Tensor diagonal = where(eq(tau, 0), 1, 1 / where(eq(tau, 0), 1, tau));
  const Tensor inverse = triu(matmul(transposed(v), v), 1) + diag_embed(diagonal);
  const Tensor one = identity(width, width, v).expand({v.size(0), width, width});
  return substitute(inverse, one, {.upper = true, .unit = false});
}

ReflectedPanel reflect_panel(const Tensor& given) {
  const std::int64_t rows = given.size(1);
  const std::int64_t width = given.size(2);
  // Squares next to underflow have lost digits; elements below their roots are nothing beside the largest, near 1.
  const double nothing = given.dtype() == DType::f64 ? 0x1p-900 : 0x1p-100;
  Tensor rest = given;  // rows and columns from t on
  std::vector<Tensor> r;
  std::vector<Tensor> vectors;
  std::vector<Tensor> taus;
  for (std::int64_t t = 0; t < width; ++t) {
    const std::int64_t under = rows - t - 1;
    const std::int64_t beside = width - t - 1;
    const Tensor top = rest.narrow(1, 0, 1);
    const Tensor lower = rest.narrow(1, 1, under);
    const Tensor below = lower.narrow(2, 0, 1);
    const Tensor products = sum(below * lower, {1}, true);  // [B, 1, w - t]: with each column, the first with itself
    const Tensor square = products.narrow(2, 0, 1);
    const Tensor alpha = top.narrow(2, 0, 1);
    const Tensor flat = lt(square, nothing);
    const Tensor length = sqrt(alpha * alpha + square);
    const Tensor beta = where(flat, alpha, where(lt(alpha, 0), length, neg(length)));
    const Tensor head = where(flat, 1, alpha - beta);
    const Tensor tau = where(flat, 0, (beta - alpha) / where(flat, 1, beta));
    const Tensor v = where(flat, 0, below / head);
    const Tensor weight = tau * (top.narrow(2, 1, beside) + products.narrow(2, 1, beside) / head);
    r.push_back(lockstep::pad(cat({beta, top.narrow(2, 1, beside) - weight}, 2), {t, 0}));
    vectors.push_back(lockstep::pad(cat({where(flat, 0, ones_like(tau)), v}, 1), {0, 0, t, 0}));
    taus.push_back(tau.squeeze(2));
    rest = lower.narrow(2, 1, beside) - v * weight;
  }
  const Tensor v = cat(vectors, 2);
  return {cat(r, 1), v, triangle_of(v, cat(taus, 1))};
}

// Of q and r of a full-rank a with m >= n; either g may be undefined. Walter and Lehmann, "Algorithmic differentiation
// of linear algebra functions" (2012).
Tensor tall_gradient(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
  Tensor middle;
  if (gr.defined()) middle = matmul(r, transposed(gr));
  if (gq.defined()) {
    const Tensor product = matmul(transposed(gq), q);
    middle = middle.defined() ? middle - product : neg(product);
  }
  const Tensor symmetric = tril(middle) + transposed(tril(middle, -1));
  Tensor right = matmul(q, symmetric);
  if (gq.defined()) right = gq + right;
  return transposed(solve_triangular(r, transposed(right), {.upper = true}));  // times r^-T
}

Tensor qr_gradient(const Tensor& a, const Qr& parts, const Tensor& gq, const Tensor& gr) {
  const std::int64_t m = a.size(-2);
  const std::int64_t n = a.size(-1);
  if (m >= n) return tall_gradient(parts.q, parts.r, gq, gr);
  // a = [x y] = q [u v]: y enters through v = q^T y alone.
  const Tensor u = parts.r.narrow(-1, 0, m);
  const Tensor y = a.narrow(-1, m, n - m);
  Tensor own = gq;
  Tensor gu;
  Tensor gy = zeros_like(y);
  if (gr.defined()) {
    const Tensor gv = gr.narrow(-1, m, n - m);
    const Tensor through = matmul(y, transposed(gv));
    own = own.defined() ? own + through : through;
    gu = gr.narrow(-1, 0, m);
    gy = matmul(parts.q, gv);
  }
  return cat({tall_gradient(parts.q, u, own, gu), gy}, -1);
}

// Both with the gradients of the reduced form, which read the values: those of a again where they need a history.
Qr traced_qr(const Qr& bare, const Tensor& a) {
  const auto parts = [a, bare] { return graph::is_tracing({&a}) ? qr(a, {.mode = QrMode::reduced}) : bare; };
  const auto rule = [&](bool of_q) {
    return [a, parts, of_q](const Tensor& g, const std::vector<bool>&, const Tensor&) {
      return std::vector<Tensor>{qr_gradient(a, parts(), of_q ? g : Tensor(), of_q ? Tensor() : g)};
    };
  };
  return {graph::traced(bare.q, {&a}, rule(true)), graph::traced(bare.r, {&a}, rule(false))};
}

}  // namespace

Reflections reflect(const Tensor& a) {
  const std::int64_t m = a.size(1);
  const std::int64_t n = a.size(2);
  const std::int64_t k = std::min(m, n);
  const Scaling scaling = scaling_of(a);
  Reflections result;
  Tensor rest = a * scaling.down;
  std::vector<Tensor> rows;
  for (std::int64_t first = 0; first < k; first += kPanel) {
    const std::int64_t width = std::min(kPanel, k - first);
    const std::int64_t beside = n - first - width;
    const ReflectedPanel panel = reflect_panel(rest.narrow(2, 0, width));
    result.panels.push_back({first, panel.v, panel.t});
    Tensor right = rest.narrow(2, width, beside);
    if (beside > 0) {
      const Tensor weights = matmul(transposed(panel.t), matmul(transposed(panel.v), right));
      right = right - matmul(panel.v, weights);
    }
    const Tensor top = cat({panel.r, right.narrow(1, 0, width)}, 2);
    rows.push_back(lockstep::pad(top, {first, 0}));
    rest = right.narrow(1, width, m - first - width);
  }
  result.r = cat(rows, 1) * scaling.up;
  return result;
}

Tensor orthogonal(const Reflections& reflections, const Tensor& like, std::int64_t columns) {
  const std::int64_t batch = like.size(0);
  const std::int64_t m = like.size(1);
  Tensor q = identity(m, columns, like).expand({batch, m, columns});
  for (auto panel = reflections.panels.rbegin(); panel != reflections.panels.rend(); ++panel) {
    const Tensor bottom = q.narrow(1, panel->first, m - panel->first);
    const Tensor weights = matmul(panel->t, matmul(transposed(panel->v), bottom));
    const Tensor changed = bottom - matmul(panel->v, weights);
    q = panel->first == 0 ? changed : cat({q.narrow(1, 0, panel->first), changed}, 1);
  }
  return q;
}

Qr qr(const Operand& operand, const QrOptions& options) {
  const LinalgScope call("linalg.qr", operand);
  const Tensor& a = matrix_operand(operand);
  const Shape batch = batch_of(a);
  const std::int64_t m = a.size(-2);
  const std::int64_t n = a.size(-1);
  const std::int64_t k = std::min(m, n);
  const bool complete = options.mode == QrMode::complete;
  const std::int64_t columns = complete ? m : k;
  const Tensor bare = flat_batch(graph::untraced(a));
  const auto empty_q = [&] { return zeros({0}, {.dtype = a.dtype(), .device = a.device()}); };
  if (bare.numel() == 0) {
    const Tensor q = identity(m, columns, a).expand({bare.size(0), m, columns});
    const Tensor r = zeros({bare.size(0), columns, n}, {.dtype = a.dtype(), .device = a.device()});
    return {options.mode == QrMode::r ? empty_q() : with_batch(q, batch), with_batch(r, batch)};
  }
  const Reflections reflections = reflect(bare);
  Tensor r = reflections.r;
  if (columns > k) r = lockstep::pad(r, {0, 0, 0, columns - k});
  Qr result{Tensor(), with_batch(r, batch)};
  const bool tracing = graph::is_tracing({&a});
  if (options.mode != QrMode::r) result.q = with_batch(orthogonal(reflections, bare, columns), batch);
  if (!tracing) {
    if (options.mode == QrMode::r) result.q = empty_q();
    return result;
  }
  check<ValueError>(options.mode != QrMode::r, "mode r has no gradient", {{"a", a}}, "use mode reduced");
  check<ValueError>(!complete || m <= n, "mode complete has a gradient only where m <= n", {{"a", a}},
                    "use mode reduced, or detach a");
  return traced_qr(result, a);
}

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
