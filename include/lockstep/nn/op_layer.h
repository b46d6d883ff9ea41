// Layers that are one op with fixed arguments. The families' headers name them; nothing else needs this one.
#pragma once

#include <tuple>
#include <utility>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// op(x, arguments...)
template <auto op, typename... Arguments> class OpLayer : public Layer {
 public:
  OpLayer(Module& parent, std::string name, const Arguments&... arguments)
      : Layer(parent, std::move(name)), arguments_(arguments...) {}
  explicit OpLayer(const Arguments&... arguments) : OpLayer(no_parent(), {}, arguments...) {}

  Tensor forward(const Operand& x) const override {
    return std::apply([&](const Arguments&... arguments) { return op(x, arguments...); }, arguments_);
  }

 private:
  std::tuple<Arguments...> arguments_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
