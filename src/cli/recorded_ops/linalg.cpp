#include <lockstep/fft.h>
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

fft::Norm norm_of(Arguments& a) {
  const std::string norm = a.text("norm", "backward");
  if (norm == "ortho") return fft::Norm::ortho;
  if (norm == "forward") return fft::Norm::forward;
  if (norm != "backward") throw Unsupported("norm " + norm);
  return fft::Norm::backward;
}

template <Tensor (*op)(const Operand&, const fft::FftOptions&)> Tensors transform(Arguments& a) {
  fft::FftOptions options;
  if (a.has("n")) options.n = a.integer("n");
  options.dim = a.optional_dim("dim").value_or(-1);
  options.norm = norm_of(a);
  return {op(a[0], options)};
}
template <Tensor (*op)(const Operand&, const fft::Fft2Options&)> Tensors transform2(Arguments& a) {
  return {op(a[0], {.norm = norm_of(a)})};
}

Tensors call_stft(Arguments& a) {
  fft::StftOptions options;
  if (a.has("hop_length")) options.hop_length = a.integer("hop_length");
  if (a.has("win_length")) options.win_length = a.integer("win_length");
  options.window = a.named("window");
  options.center = a.flag("center", true);
  options.normalized = a.flag("normalized");
  options.onesided = a.flag("onesided", true);
  return {fft::stft(a[0], a.integer("n_fft"), options)};
}
Tensors call_istft(Arguments& a) {
  fft::IstftOptions options;
  if (a.has("hop_length")) options.hop_length = a.integer("hop_length");
  if (a.has("win_length")) options.win_length = a.integer("win_length");
  if (a.has("length")) options.length = a.integer("length");
  options.window = a.named("window");
  options.center = a.flag("center", true);
  options.normalized = a.flag("normalized");
  options.onesided = a.flag("onesided", true);
  return {fft::istft(a[0], a.integer("n_fft"), options)};
}

constexpr RecordedOp kLinalgOps[] = {
    {"fft.fft", kComputes, transform<fft::fft>},
    {"fft.fft2", kComputes, transform2<fft::fft2>},
    {"fft.ifft", kComputes, transform<fft::ifft>},
    {"fft.ifft2", kComputes, transform2<fft::ifft2>},
    {"fft.irfft", kComputes, transform<fft::irfft>},
    {"fft.irfft2", kComputes, transform2<fft::irfft2>},
    {"fft.rfft", kComputes, transform<fft::rfft>},
    {"fft.rfft2", kComputes, transform2<fft::rfft2>},
    {"istft", kComputes, call_istft},
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
    {"stft", kComputes, call_stft},
};

}  // namespace

std::span<const RecordedOp> linalg_ops() {
  return kLinalgOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
