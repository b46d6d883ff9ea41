#include <lockstep/nn/activation.h>

#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {
namespace nn {

PReLU::PReLU(Module& parent, std::string name, std::int64_t parameters, double init)
    : Layer(parent, std::move(name)), weight(*this, "weight", full({parameters}, init)) {}

Tensor SwiGLU::forward(const Operand& x) const {
  const Tensor& both = graph::tensor_operand("SwiGLU", x);
  const std::int64_t size = both.size(dim_, x.site());
  if (size % 2 != 0) {
    graph::fail<ShapeError>("SwiGLU", fmt::format("dimension {} must have an even size", dim_), {{"input", x}}, "",
                            x.site());
  }
  return swiglu(Operand(both.narrow(dim_, 0, size / 2, x.site()), x.site()),
                both.narrow(dim_, size / 2, size / 2, x.site()));
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
