#include <lockstep/nn/dropout.h>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

DropoutLayer::DropoutLayer(Module& parent, std::string name, double p) : Layer(parent, std::move(name)), p_(p) {
  if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("{}: {} is not a probability", path(), p));
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
