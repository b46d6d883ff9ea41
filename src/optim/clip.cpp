#include <lockstep/optim/clip.h>

#include <cmath>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "graph/make.h"
#include "optim/clip_factor.h"
#include "optim/together.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

Tensor norm_of_norms(const std::vector<Tensor>& norms, double p) {
  DType dtype = DType::f32;
  for (const Tensor& norm : norms) {
    if (norm.dtype() == DType::f64) dtype = DType::f64;
  }
  std::vector<Tensor> together;
  for (const Tensor& norm : norms) {
    together.push_back(norm.to(dtype).to(norms[0].device()).reshape({1}));
  }
  if (together.size() == 1) return together[0].reshape({});
  return vector_norm(cat(together, 0), p);
}

Tensor clip_factor(const Tensor& norm, double max_norm) {
  return minimum(max_norm / (norm + 1e-6), 1.0);
}

Tensor clip_grad_norm(std::vector<nn::Parameter> parameters, double max_norm, ClipNormOptions options, CallSite site) {
  const CallScope call("clip_grad_norm", site);
  if (!(max_norm >= 0)) fail<ValueError>("max_norm must not be negative");
  if (!(options.norm_type > 0)) fail<ValueError>("norm_type must be positive");
  const NoGrad scope;
  std::vector<nn::Parameter> clipped = with_gradients(parameters);
  if (clipped.empty()) return zeros({}, {});
  const std::vector<Pack> packs = pack_kinds(gradients_of(clipped), Layout::Gaps::zero);

  std::vector<Tensor> norms;
  for (const Pack& pack : packs) {
    norms.push_back(vector_norm(pack.flat.to(graph::wide(pack.flat.dtype())), options.norm_type));
  }
  const Tensor norm = norm_of_norms(norms, options.norm_type);
  if (options.error_if_nonfinite && !std::isfinite(norm.to(DType::f64).item<double>())) {
    fail<ValueError>("the norm of the gradients is not finite", {{"norm", norm}},
                     "look for the first infinite value, or clip without error_if_nonfinite");
  }
  const Tensor factor = clip_factor(norm, max_norm);
  for (const Pack& pack : packs) {
    const DType working = graph::wide(pack.flat.dtype());
    const Tensor scaled = pack.flat.to(working) * factor.to(working).to(pack.flat.device());
    set_gradients(clipped, pack, scaled.to(pack.flat.dtype()));
  }
  return norm;
}

void clip_grad_value(std::vector<nn::Parameter> parameters, double value, CallSite site) {
  const CallScope call("clip_grad_value", site);
  if (!(value >= 0)) fail<ValueError>("the value must not be negative");
  const NoGrad scope;
  std::vector<nn::Parameter> clipped = with_gradients(parameters);
  for (const Pack& pack : pack_kinds(gradients_of(clipped), Layout::Gaps::any)) {
    set_gradients(clipped, pack, clamp(pack.flat, -value, value));
  }
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
