#include <lockstep/optim/clip.h>

#include <cmath>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include "graph/make.h"
#include "optim/together.h"

namespace lockstep {
inline namespace v0 {
namespace optim {
namespace {

// The norm of several vectors from their norms.
Tensor norm_of_norms(const std::vector<Tensor>& norms, double p, CallSite site) {
  DType dtype = DType::f32;
  for (const Tensor& norm : norms) {
    if (norm.dtype() == DType::f64) dtype = DType::f64;
  }
  std::vector<Tensor> together;
  for (const Tensor& norm : norms) {
    together.push_back(norm.to(dtype, site).to(norms[0].device(), site).reshape({1}, site));
  }
  if (together.size() == 1) return together[0].reshape({}, site);
  return vector_norm(cat(together, 0), p);
}

}  // namespace

Tensor clip_grad_norm(std::vector<nn::Parameter> parameters, double max_norm, ClipNormOptions options, CallSite site) {
  constexpr const char* kName = "clip_grad_norm";
  if (!(max_norm >= 0)) graph::fail<ValueError>(kName, "max_norm must not be negative", {}, "", site);
  if (!(options.norm_type > 0)) graph::fail<ValueError>(kName, "norm_type must be positive", {}, "", site);
  const NoGrad scope;
  std::vector<nn::Parameter> clipped = with_gradients(parameters);
  if (clipped.empty()) return zeros({}, {}, site);
  const std::vector<Pack> packs = pack_kinds(gradients_of(clipped), Layout::Gaps::zero, site);

  std::vector<Tensor> norms;
  for (const Pack& pack : packs) {
    norms.push_back(vector_norm(pack.flat.to(graph::wide(pack.flat.dtype()), site), options.norm_type));
  }
  const Tensor norm = norm_of_norms(norms, options.norm_type, site);
  if (options.error_if_nonfinite && !std::isfinite(norm.to(DType::f64, site).item<double>(site))) {
    graph::fail<ValueError>(kName, "the norm of the gradients is not finite", {{"norm", norm}},
                            "look for the first infinite value, or clip without error_if_nonfinite", site);
  }
  const Tensor factor = minimum(max_norm / (norm + 1e-6), 1.0);
  for (const Pack& pack : packs) {
    const DType working = graph::wide(pack.flat.dtype());
    const Tensor scaled = pack.flat.to(working, site) * factor.to(working, site).to(pack.flat.device(), site);
    set_gradients(clipped, pack, scaled.to(pack.flat.dtype(), site), site);
  }
  return norm;
}

void clip_grad_value(std::vector<nn::Parameter> parameters, double value, CallSite site) {
  if (!(value >= 0)) graph::fail<ValueError>("clip_grad_value", "the value must not be negative", {}, "", site);
  const NoGrad scope;
  std::vector<nn::Parameter> clipped = with_gradients(parameters);
  for (const Pack& pack : pack_kinds(gradients_of(clipped), Layout::Gaps::any, site)) {
    set_gradients(clipped, pack, clamp(pack.flat, -value, value), site);
  }
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
