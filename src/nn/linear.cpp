#include <lockstep/nn/linear.h>

#include <lockstep/nn/init.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

Linear::Linear(Module& parent, std::string name, std::int64_t in_features, std::int64_t out_features,
               LinearOptions options)
    : Layer(parent, std::move(name)),
      weight(*this, "weight", uniform_init({out_features, in_features}, fan_in_bound(in_features))) {
  if (options.bias) bias = Parameter(*this, "bias", uniform_init({out_features}, fan_in_bound(in_features)));
}

Tensor Linear::forward(const Operand& x) const {
  return linear(x, weight, bias.optional());
}

Bilinear::Bilinear(Module& parent, std::string name, std::int64_t in1_features, std::int64_t in2_features,
                   std::int64_t out_features, LinearOptions options)
    : Module(parent, std::move(name)),
      weight(*this, "weight", uniform_init({out_features, in1_features, in2_features}, fan_in_bound(in1_features))) {
  if (options.bias) bias = Parameter(*this, "bias", uniform_init({out_features}, fan_in_bound(in1_features)));
}

Tensor Bilinear::forward(const Operand& a, const Operand& b) const {
  return bilinear(a, b, weight, bias.optional());
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
