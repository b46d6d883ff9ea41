#include <lockstep/nn/conv.h>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/nn/init.h>

namespace lockstep {
inline namespace v0 {
namespace nn {
namespace {

// [first, second / groups, kernel...], where `first` are the output channels, or for transposed convolutions the input
// channels.
Shape weight_shape(const std::string& path, int spatial_dims, std::int64_t first, std::int64_t second,
                   const Shape& kernel, std::int64_t groups) {
  if (kernel.rank() != 1 && kernel.rank() != spatial_dims) {
    throw ValueError(fmt::format("{}: kernel {} must have one value or {}", path, kernel.to_string(), spatial_dims));
  }
  if (groups < 1 || first % groups != 0 || second % groups != 0) {
    throw ValueError(fmt::format("{}: {} groups do not divide {} and {} channels", path, groups, first, second));
  }
  Shape shape{first, second / groups};
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
               .groups = options.groups,
               .auto_padding = options.auto_padding},
      padding_mode_(options.padding_mode) {
  const Shape shape = weight_shape(path(), spatial_dims, out_channels, in_channels, kernel, options.groups);
  const double bound = fan_in_bound(shape.slice(1, shape.rank()).numel());
  weight = Parameter(*this, "weight", uniform_init(shape, bound));
  if (options.bias) bias = Parameter(*this, "bias", uniform_init({out_channels}, bound));
  if (!padding_mode_) return;
  if (options.auto_padding != AutoPadding::given ||
      (options.padding.rank() != 1 && options.padding.rank() != spatial_dims)) {
    throw ValueError(fmt::format("{}: a padding_mode needs amounts of padding, one or {}", path(), spatial_dims));
  }
  for (int d = spatial_dims; d-- > 0;) {
    const std::int64_t amount = options.padding.rank() == 1 ? options.padding[0] : options.padding[d];
    around_.push_back(amount);
    around_.push_back(amount);
  }
  options_.padding = {0};
}

Tensor ConvLayer::padded(const Operand& x) const {
  const Tensor& input = tensor_operand(x);
  return padding_mode_ ? pad(x, around_, *padding_mode_) : input;
}

Conv1d::Conv1d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
               const Shape& kernel, const ConvLayerOptions& options)
    : ConvLayer(parent, std::move(name), 1, in_channels, out_channels, kernel, options) {}

Tensor Conv1d::forward(const Operand& x) const {
  const CallScope call("conv1d", x);
  return conv1d(padded(x), weight, bias.optional(), options_);
}

Conv2d::Conv2d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
               const Shape& kernel, const ConvLayerOptions& options)
    : ConvLayer(parent, std::move(name), 2, in_channels, out_channels, kernel, options) {}

Tensor Conv2d::forward(const Operand& x) const {
  const CallScope call("conv2d", x);
  return conv2d(padded(x), weight, bias.optional(), options_);
}

Conv3d::Conv3d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
               const Shape& kernel, const ConvLayerOptions& options)
    : ConvLayer(parent, std::move(name), 3, in_channels, out_channels, kernel, options) {}

Tensor Conv3d::forward(const Operand& x) const {
  const CallScope call("conv3d", x);
  return conv3d(padded(x), weight, bias.optional(), options_);
}

ConvTransposeLayer::ConvTransposeLayer(Module& parent, std::string name, int spatial_dims, std::int64_t in_channels,
                                       std::int64_t out_channels, const Shape& kernel,
                                       const ConvTransposeLayerOptions& options)
    : Layer(parent, std::move(name)),
      options_{.stride = options.stride,
               .padding = options.padding,
               .output_padding = options.output_padding,
               .groups = options.groups,
               .dilation = options.dilation} {
  const Shape shape = weight_shape(path(), spatial_dims, in_channels, out_channels, kernel, options.groups);
  // PyTorch counts the fan-in from dimension 1 here too, though these are the output channels.
  const double bound = fan_in_bound(shape.slice(1, shape.rank()).numel());
  weight = Parameter(*this, "weight", uniform_init(shape, bound));
  if (options.bias) bias = Parameter(*this, "bias", uniform_init({out_channels}, bound));
}

ConvTranspose1d::ConvTranspose1d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
                                 const Shape& kernel, const ConvTransposeLayerOptions& options)
    : ConvTransposeLayer(parent, std::move(name), 1, in_channels, out_channels, kernel, options) {}

Tensor ConvTranspose1d::forward(const Operand& x) const {
  return conv_transpose1d(x, weight, bias.optional(), options_);
}

ConvTranspose2d::ConvTranspose2d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
                                 const Shape& kernel, const ConvTransposeLayerOptions& options)
    : ConvTransposeLayer(parent, std::move(name), 2, in_channels, out_channels, kernel, options) {}

Tensor ConvTranspose2d::forward(const Operand& x) const {
  return conv_transpose2d(x, weight, bias.optional(), options_);
}

ConvTranspose3d::ConvTranspose3d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
                                 const Shape& kernel, const ConvTransposeLayerOptions& options)
    : ConvTransposeLayer(parent, std::move(name), 3, in_channels, out_channels, kernel, options) {}

Tensor ConvTranspose3d::forward(const Operand& x) const {
  return conv_transpose3d(x, weight, bias.optional(), options_);
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
