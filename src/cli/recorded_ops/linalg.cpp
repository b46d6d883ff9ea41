#include <lockstep/linalg.h>

#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Tensors call_slogdet(Arguments& a) {
  const linalg::SignLogDet result = linalg::slogdet(a[0]);
  return {result.sign, result.logabs};
}

Tensors call_cholesky(Arguments& a) {
  return {linalg::cholesky(a[0], {.upper = a.flag("upper")})};
}

Tensors call_solve_triangular(Arguments& a) {
  return {linalg::solve_triangular(a[0], a[1], {.upper = a.flag("upper"), .unitriangular = a.flag("unitriangular")})};
}

Tensors call_qr(Arguments& a) {
  const bool complete = a.text("mode", "reduced") == "complete";
  const linalg::Qr result = linalg::qr(a[0], {.mode = complete ? linalg::QrMode::complete : linalg::QrMode::reduced});
  return {result.q, result.r};
}

// Vectors are determined up to their signs: cases hold them without.
Tensors call_eigh(Arguments& a) {
  const linalg::Eigh result = linalg::eigh(a[0]);
  return {result.eigenvalues, abs(result.eigenvectors)};
}
Tensors call_svd(Arguments& a) {
  const linalg::Svd result = linalg::svd(a[0], {.full_matrices = false});
  return {abs(result.u), result.s, abs(result.vh)};
}

Tensors call_lstsq(Arguments& a) {
  return {linalg::lstsq(a[0], a[1]).solution};
}

constexpr RecordedOp kLinalgOps[] = {
    {"linalg.cholesky", kComputes, call_cholesky},
    {"linalg.det", kComputes, unary<linalg::det>},
    {"linalg.eigh", kComputes, call_eigh},
    {"linalg.eigvalsh", kComputes, unary<linalg::eigvalsh>},
    {"linalg.inv", kComputes, unary<linalg::inv>},
    {"linalg.lstsq", kComputes, call_lstsq},
    {"linalg.qr", kComputes, call_qr},
    {"linalg.slogdet", kComputes, call_slogdet},
    {"linalg.solve", kComputes, binary<linalg::solve>},
    {"linalg.solve_triangular", kComputes, call_solve_triangular},
    {"linalg.svd", kComputes, call_svd},
    {"linalg.svdvals", kComputes, unary<linalg::svdvals>},
};

}  // namespace

std::span<const RecordedOp> linalg_ops() {
  return kLinalgOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
