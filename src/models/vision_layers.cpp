#include "models/vision_layers.h"

#include <algorithm>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace vision {

ConvNorm::ConvNorm(nn::Module& parent, std::string name, std::int64_t in, std::int64_t out,
                   const ConvNormOptions& options)
    : Layer(parent, std::move(name)),
      activation_(options.activation),
      conv(*this, "0", in, out, {options.kernel},
           {.stride = {options.stride}, .padding = {options.kernel / 2}, .groups = options.groups, .bias = false}),
      norm(*this, "1", out, options.norm) {}

Tensor ConvNorm::forward(const Operand& x) const {
  const CallScope call(x.site());
  const Tensor y = norm(conv(x));
  return activation_ == nullptr ? y : activation_(y);
}

SqueezeExcitation::SqueezeExcitation(nn::Module& parent, std::string name, std::int64_t channels, std::int64_t squeezed,
                                     Activation activation, Activation gate)
    : Layer(parent, std::move(name)),
      activation_(activation),
      gate_(gate),
      fc1(*this, "fc1", channels, squeezed, {1}),
      fc2(*this, "fc2", squeezed, channels, {1}) {}

Tensor SqueezeExcitation::forward(const Operand& x) const {
  const CallScope call(x.site());
  return gate_(fc2(activation_(fc1(mean(x, {2, 3}, true))))) * x.tensor();
}

ResidualBlock::ResidualBlock(nn::Module& parent, std::string name, bool residual)
    : Layer(parent, std::move(name)), residual_(residual) {}

Tensor ResidualBlock::forward(const Operand& x) const {
  const CallScope call(x.site());
  const Tensor y = block(x);
  return residual_ ? y + x.tensor() : y;
}

std::int64_t divisible(double channels, std::int64_t divisor) {
  const double half = static_cast<double>(divisor) / 2;
  const std::int64_t rounded = std::max(divisor, static_cast<std::int64_t>(channels + half) / divisor * divisor);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + divisor : rounded;
}

}  // namespace vision
}  // namespace models
}  // namespace v0
}  // namespace lockstep
