#include <fmt/format.h>

#include <lockstep/nn/activation.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

Dropout::Dropout(Module& parent, std::string name, double p) : Layer(parent, std::move(name)), p_(p) {
  if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("{}: {} is not a probability", path(), p));
}

Tensor Dropout::forward(const Operand& x) const { return dropout(x, p_, training()); }

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
