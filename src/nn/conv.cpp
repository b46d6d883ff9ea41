#include <lockstep/nn/conv.h>

#include <fmt/format.h>

#include <lockstep/nn/init.h>

namespace lockstep {
inline namespace v0 {
namespace nn {
namespace {

Shape weight_shape(const std::string& path, int spatial_dims, std::int64_t in_channels, std::int64_t out_channels,
                   const Shape& kernel, std::int64_t groups) {
  if (kernel.rank() != 1 && kernel.rank() != spatial_dims) {
    throw ValueError(fmt::format("{}: kernel {} must have one value or {}", path, kernel.to_string(), spatial_dims));
  }
  if (groups < 1 || in_channels % groups != 0 || out_channels % groups != 0) {
    throw ValueError(fmt::format("{}: {} groups do not divide {} input and {} output channels", path, groups,
                                 in_channels, out_channels));
  }
  Shape shape{out_channels, in_channels / groups};
  for (int d = 0; d < spatial_dims; ++d) shape.push_back(kernel.rank() == 1 ? kernel[0] : kernel[d]);
  return shape;
}

}  // namespace

ConvLayer::ConvLayer(Module& parent, std::string name, int spatial_dims, std::int64_t in_channels,
                     std::int64_t out_channels, const Shape& kernel, const ConvLayerOptions& options)
    : Layer(parent, std::move(name)),
      options_{.stride = options.stride,
               .padding = options.padding,
               .dilation = options.dilation,
               .groups = options.groups} {
  const Shape shape = weight_shape(path(), spatial_dims, in_channels, out_channels, kernel, options.groups);
  const double bound = fan_in_bound(shape.slice(1, shape.rank()).numel());
  weight = Parameter(*this, "weight", uniform_init(shape, bound));
  if (options.bias) bias = Parameter(*this, "bias", uniform_init({out_channels}, bound));
}

Conv1d::Conv1d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
               const Shape& kernel, const ConvLayerOptions& options)
    : ConvLayer(parent, std::move(name), 1, in_channels, out_channels, kernel, options) {}

Tensor Conv1d::forward(const Operand& x) const {
  return conv1d(x, weight, bias.optional(), options_);
}

Conv2d::Conv2d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
               const Shape& kernel, const ConvLayerOptions& options)
    : ConvLayer(parent, std::move(name), 2, in_channels, out_channels, kernel, options) {}

Tensor Conv2d::forward(const Operand& x) const {
  return conv2d(x, weight, bias.optional(), options_);
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
