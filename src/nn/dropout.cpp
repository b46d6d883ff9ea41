#include <fmt/format.h>

#include <lockstep/nn/activation.h>

#include "graph/check.h"

namespace lockstep {
inline namespace v0 {
namespace nn {

Dropout::Dropout(Module& parent, std::string name, double p) : Layer(parent, std::move(name)), p_(p) {
  if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("{}: {} is not a probability", path(), p));
}

Tensor Dropout::forward(const Operand& x) const {
  graph::check_defined("Dropout", {{"input", x}}, x.site());
  if (x.is_scalar()) graph::fail<ValueError>("Dropout", "needs a tensor operand", {{"input", x}}, "", x.site());
  const Tensor& input = x.tensor();
  if (!training() || p_ == 0) return input;
  if (p_ == 1) return zeros_like(input, x.site());
  const Tensor uniform = rand(input.shape(), {.dtype = DType::f32, .device = input.device()}, nullptr, x.site());
  return where(lt(uniform, p_), zeros_like(input, x.site()), mul(x, 1 / (1 - p_)));
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
