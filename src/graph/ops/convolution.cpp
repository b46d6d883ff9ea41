// Convolutions: contractions of window views over the input, groups as batch (docs/numerics.md section 6). Nothing is
// copied but what the kernel packs; k runs over (channel, kernel positions).
#include "graph/ops/convolution.h"
#include "graph/autocast.h"
#include "graph/numerics.h"
#include "graph/recording.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/autograd.h>

#include "backends/backend.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Shape spatial(const char* what, const Shape& given, int rank, std::int64_t least, const std::vector<Shown>& shown) {
  Shape result = given;
  if (given.rank() == 1) result = Shape::filled(rank, given[0]);
  bool valid = result.rank() == rank;
  for (const std::int64_t value : result) valid = valid && value >= least && value < (std::int64_t{1} << 31);
  if (!valid) {
    fail<ValueError>(fmt::format("{} {} must be one or {} values of at least {}", what, given.to_string(), rank, least),
                     shown);
  }
  return result;
}

ConvOperands check_convolution(int rank, const Operand& input, const Operand& weight,
                               const std::optional<Tensor>& bias) {
  ConvOperands result;
  result.shown = {{"input", input}, {"weight", weight}};
  if (bias) result.shown.emplace_back("bias", *bias);
  check_operands(result.shown);
  result.input = input.tensor();
  result.weight = weight.tensor();
  result.bias = bias;
  const int given = result.input.rank();
  if (result.weight.rank() != rank + 2 || (given != rank + 2 && given != rank + 1)) {
    fail<ShapeError>(fmt::format("input must have {} dimensions (or {} without a batch) and weight {}", rank + 2,
                                 rank + 1, rank + 2),
                     result.shown);
  }
  result.unbatched = given == rank + 1;
  if (result.unbatched) result.input = result.input.unsqueeze(0);
  return result;
}

namespace {

// `input` [N, C, ...] as windows [N, G, C/G, out..., kernel...]; around the input there are zeros.
Reading windows_of(const Tensor& input, const Shape& kernel, const Shape& output, const Windows& windows,
                   std::int64_t groups, const Shape& order) {
  const int rank = kernel.rank();
  return reading_as(input, [&](const View& view) -> std::optional<View> {
    Shape split{input.shape()[0], groups, input.shape()[1] / groups};
    for (int d = 0; d < rank; ++d) split.push_back(input.shape()[d + 2]);
    std::optional<View> result = view.reshaped(split);
    for (int d = 0; result && d < rank; ++d) {
      const std::int64_t reach = (output[d] - 1) * windows.stride[d] + windows.dilation[d] * (kernel[d] - 1) + 1;
      const std::int64_t after = std::max<std::int64_t>(0, reach - input.shape()[d + 2] - windows.before[d]);
      if (windows.before[d] > 0 || after > 0) result = result->padded(3 + d, windows.before[d], after, 0);
    }
    if (!result) return std::nullopt;
    for (int d = 0; d < rank; ++d) {
      result = result->windowed(3 + d, kernel[d], output[d], windows.stride[d], windows.dilation[d]);
    }
    return result->permuted(order);
  });
}

Shape range(int first, int count) {
  Shape dims;
  for (int d = 0; d < count; ++d) dims.push_back(first + d);
  return dims;
}

Shape joined(std::initializer_list<Shape> parts) {
  Shape result;
  for (const Shape& part : parts) {
    for (const std::int64_t value : part) result.push_back(value);
  }
  return result;
}

// Channels last, as tensor cores take them: out [N, out..., O], seen as [N, O, out...].
Tensor convolve_channels_last(const Tensor& input, const Tensor& weight, const Shape& output, const Windows& windows) {
  const int rank = output.rank();
  const std::int64_t batch = input.shape()[0];
  const Shape kernel = weight.shape().slice(2, rank + 2);
  // [1, N, out..., C, kernel...]
  const Reading rows =
      windows_of(input, kernel, output, windows, 1, joined({{1, 0}, range(3, rank), {2}, range(3 + rank, rank)}));
  const Reading filters = reading_as(weight, [&](const View& view) -> std::optional<View> {
    const std::optional<View> split = view.reshaped(joined({{1}, weight.shape()}));
    if (!split) return std::nullopt;
    return split->permuted(joined({{0}, range(2, rank + 1), {1}}));
  });
  Contract primitive;
  primitive.b = {1};
  primitive.m = joined({{batch}, output});
  primitive.n = {weight.shape()[0]};
  primitive.k = joined({{weight.shape()[1]}, kernel});
  primitive.a_view = rows.view;
  primitive.b_view = filters.view;
  const Tensor y = contract(std::move(primitive), rows, filters, input.dtype());
  return channels_first(y.reshape(joined({{batch}, output, {weight.shape()[0]}})));
}

// k = (channel, kernel positions), in the weight's order.
Tensor convolve_untraced(const Tensor& input, const Tensor& weight, const Shape& output, const Windows& windows,
                         std::int64_t groups) {
  if (is_fast_convolution(input, groups)) return convolve_channels_last(input, weight, output, windows);
  const int rank = output.rank();
  const std::int64_t batch = input.shape()[0];
  const std::int64_t out_channels = weight.shape()[0];
  const Shape kernel = weight.shape().slice(2, rank + 2);
  const Reading columns =
      windows_of(input, kernel, output, windows, groups, joined({{0, 1, 2}, range(3 + rank, rank), range(3, rank)}));
  const Reading filters = reading_as(weight, [&](const View& view) {
    return view.reshaped(joined({{groups, out_channels / groups, weight.shape()[1]}, kernel}));
  });
  Contract primitive;
  primitive.b = {batch, groups};
  primitive.m = {out_channels / groups};
  primitive.n = output;
  primitive.k = joined({{weight.shape()[1]}, kernel});
  primitive.a_view = repeated(filters.view, 0, {batch});
  primitive.b_view = columns.view;
  return contract(std::move(primitive), filters, columns, input.dtype())
      .reshape(joined({{batch, out_channels}, output}));
}

// k = (batch, output positions).
Tensor weight_gradient_untraced(const Tensor& g, const Tensor& input, const Shape& weight_shape, const Windows& windows,
                                std::int64_t groups) {
  const int rank = g.rank() - 2;
  const Shape kernel = weight_shape.slice(2, rank + 2);
  const Shape output = g.shape().slice(2, rank + 2);
  const std::int64_t batch = g.shape()[0];
  const std::int64_t channels = weight_shape[0] / groups;
  // [G, N, out..., C/G, kernel...]
  const Reading columns =
      windows_of(input, kernel, output, windows, groups, joined({{1, 0}, range(3, rank), {2}, range(3 + rank, rank)}));
  const Reading outputs = reading_as(g, [&](const View& view) -> std::optional<View> {
    const std::optional<View> split = view.reshaped(joined({{batch, groups, channels}, output}));
    if (!split) return std::nullopt;
    return split->permuted(joined({{1, 2, 0}, range(3, rank)}));
  });
  Contract primitive;
  primitive.b = {groups};
  primitive.m = {channels};
  primitive.n = joined({{weight_shape[1]}, kernel});
  primitive.k = joined({{batch}, output});
  primitive.a_view = outputs.view;
  primitive.b_view = columns.view;
  return contract(std::move(primitive), outputs, columns, g.dtype()).reshape(weight_shape);
}

}  // namespace

bool is_fast_convolution(const Tensor& input, std::int64_t groups) {
  if (numerics_of(input.dtype()) != Numerics::fast) return false;
  const std::string missing = backend_of(input.device()).missing_for_fast_convolutions();
  check<DeviceError>(missing.empty(), fmt::format("fast numerics on {}: {}", input.device().to_string(), missing), {},
                     "Numerics::blocked or exact, which every device has, for this op");
  return groups == 1;
}

Tensor channels_first(const Tensor& y) {
  const int rank = y.rank();
  return y.permute(Dims(joined({{0, rank - 1}, range(1, rank - 2)})));
}

Tensor convolve(const Tensor& input, const Tensor& weight, const Shape& output, const Windows& windows,
                std::int64_t groups) {
  const Numerics numerics = numerics_of(input.dtype());
  const Tensor y = [&] {
    const NoGrad scope;
    const Tensor sums = convolve_untraced(input, weight, output, windows, groups);
    return numerics == Numerics::fast ? cast(sums, input.dtype()) : sums;
  }();
  if (!is_tracing({&input, &weight})) return y;
  return traced(y, {&input, &weight}, [=](const Tensor& g, const std::vector<bool>& wanted, const Tensor&) {
    const InnerNumerics inner(numerics);
    const Tensor slope = as_multiplied(g, input.dtype(), numerics);
    std::vector<Tensor> gradients(2);
    if (wanted[0]) {
      gradients[0] = conv_input_gradient(slope, cast(weight, slope.dtype()), input.shape(), windows, groups);
    }
    if (wanted[1]) {
      gradients[1] = conv_weight_gradient(slope, cast(input, slope.dtype()), weight.shape(), windows, groups);
    }
    return gradients;
  });
}

Tensor conv_weight_gradient(const Tensor& g, const Tensor& input, const Shape& weight_shape, const Windows& windows,
                            std::int64_t groups) {
  const Tensor result = [&] {
    const NoGrad scope;
    return weight_gradient_untraced(g, input, weight_shape, windows, groups);
  }();
  if (!is_tracing({&g, &input})) return result;
  const Numerics numerics = numerics_of(g.dtype());
  return traced(result, {&g, &input}, [=](const Tensor& h, const std::vector<bool>& wanted, const Tensor&) {
    const InnerNumerics inner(numerics);
    std::vector<Tensor> gradients(2);
    if (wanted[0]) {
      gradients[0] = convolve(input, h, g.shape().slice(2, g.rank()), windows, groups);
    }
    if (wanted[1]) gradients[1] = conv_input_gradient(g, h, input.shape(), windows, groups);
    return gradients;
  });
}

Tensor with_bias(const Tensor& y, const std::optional<Tensor>& bias) {
  if (!bias) return y;
  Shape shape = Shape::filled(y.rank() - 1, 1);
  shape[0] = bias->numel();
  return add(y, cast(*bias, y.dtype()).reshape(shape));
}

}  // namespace graph

using namespace graph;

namespace {

// Elements around one spatial dimension.
struct Margin {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

// The padding of each spatial dimension, from the three ways to ask for it.
std::vector<Margin> margins(const ConvOptions& options, const Shape& kernel, const Shape& stride, const Shape& dilation,
                            const std::vector<Shown>& shown) {
  const int rank = kernel.rank();
  std::vector<Margin> result(static_cast<std::size_t>(rank));
  if (options.auto_padding == AutoPadding::valid) return result;
  if (options.auto_padding == AutoPadding::same) {
    for (int d = 0; d < rank; ++d) {
      if (stride[d] != 1) {
        fail<ValueError>("padding \"same\" needs a stride of 1", shown, "pad explicitly");
      }
      const std::int64_t total = dilation[d] * (kernel[d] - 1);
      result[static_cast<std::size_t>(d)] = {total / 2, total - total / 2};
    }
    return result;
  }
  const Shape before = spatial("padding", options.padding, rank, 0, shown);
  const Shape after =
      options.padding_after.empty() ? before : spatial("padding_after", options.padding_after, rank, 0, shown);
  for (int d = 0; d < rank; ++d) result[static_cast<std::size_t>(d)] = {before[d], after[d]};
  return result;
}

Tensor convolution(int rank, const Operand& x, const Operand& w, const std::optional<Tensor>& bias,
                   const ConvOptions& options) {
  ConvOperands operands = check_convolution(rank, x, w, bias);
  const std::vector<Shown>& shown = operands.shown;
  const Tensor& weight = operands.weight;
  const Shape stride = spatial("stride", options.stride, rank, 1, shown);
  const Shape dilation = spatial("dilation", options.dilation, rank, 1, shown);
  const Shape kernel = weight.shape().slice(2, rank + 2);
  const std::vector<Margin> margin = margins(options, kernel, stride, dilation, shown);
  const Tensor input = operands.input;
  const std::int64_t groups = options.groups;
  const std::int64_t batch = input.shape()[0];
  const std::int64_t channels = input.shape()[1];
  const std::int64_t out_channels = weight.shape()[0];
  const std::int64_t group_channels = weight.shape()[1];
  if (groups < 1 || out_channels % groups != 0 || group_channels * groups != channels) {
    fail<ShapeError>(fmt::format("{} input channels, {} output channels and {} groups do not fit a weight with {} "
                                 "channels per group",
                                 channels, out_channels, groups, group_channels),
                     shown, "weight is [out_channels, in_channels / groups, kernel...]");
  }
  if (bias && bias->shape() != Shape{out_channels}) {
    fail<ShapeError>(fmt::format("bias must have shape [{}]", out_channels), shown);
  }
  Shape output;
  for (int d = 0; d < rank; ++d) {
    const Margin& around = margin[static_cast<std::size_t>(d)];
    const std::int64_t taps = kernel[d];
    const std::int64_t padded = input.shape()[d + 2] + around.before + around.after;
    const std::int64_t reach = taps > 0 ? dilation[d] * (taps - 1) + 1 : 0;
    if (taps < 1 || padded < reach) {
      fail<ShapeError>(fmt::format("a kernel that spans {} does not fit a padded input of {} in spatial dimension {}",
                                   reach, padded, d),
                       shown, "use a larger input, more padding or a smaller kernel");
    }
    output.push_back((padded - reach) / stride[d] + 1);
  }
  Shape shape{batch, out_channels};
  for (const std::int64_t size : output) shape.push_back(size);
  check_shape(shape, accumulated(input.dtype()));
  Shape before;
  for (const Margin& around : margin) before.push_back(around.before);
  Tensor y = convolve(input, weight, output, {stride, dilation, before}, groups);
  y = with_bias(y, bias);
  y = cast(y, returned(input.dtype()));
  Shape after;
  for (const Margin& around : margin) after.push_back(around.after);
  if (numerics_of(input.dtype()) == Numerics::exact) {
    y = recorded(y, "conv", {&input, &weight, pointer_to(bias)}, {stride, dilation, before, after, {groups}});
  }
  return operands.unbatched ? y.squeeze(0) : y;
}

}  // namespace

Tensor conv1d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias,
              const ConvOptions& options) {
  const CallScope call("conv1d", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), conv1d, input, weight, bias, options);
  return convolution(1, input, weight, bias, options);
}
Tensor conv2d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias,
              const ConvOptions& options) {
  const CallScope call("conv2d", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), conv2d, input, weight, bias, options);
  return convolution(2, input, weight, bias, options);
}
Tensor conv3d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias,
              const ConvOptions& options) {
  const CallScope call("conv3d", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), conv3d, input, weight, bias, options);
  return convolution(3, input, weight, bias, options);
}

}  // namespace v0
}  // namespace lockstep
