#include <lockstep/nn/activation.h>

#include <fmt/format.h>

#include <lockstep/check.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

PReLU::PReLU(Module& parent, std::string name, std::int64_t parameters, double init)
    : Layer(parent, std::move(name)), weight(*this, "weight", full({parameters}, init)) {}

Tensor SwiGLU::forward(const Operand& x) const {
  const CallScope call("SwiGLU", x);
  const Tensor& both = tensor_operand(x);
  const std::int64_t size = both.size(dim_);
  if (size % 2 != 0) {
    fail<ShapeError>(fmt::format("dimension {} must have an even size", dim_), {{"input", x}});
  }
  return swiglu(both.narrow(dim_, 0, size / 2), both.narrow(dim_, size / 2, size / 2));
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
