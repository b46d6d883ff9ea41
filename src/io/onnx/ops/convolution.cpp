// Products and convolutions.
#include <lockstep/linalg.h>
#include <lockstep/ops.h>

#include <algorithm>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"
#include "io/onnx/ops/integer_product.h"
#include "io/onnx/ops/quantized.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

std::vector<std::int64_t> kernel_of(const Call& call, const Tensor& weight) {
  std::vector<std::int64_t> kernel = spatial_sizes(weight.shape());
  if (call.has_attribute("kernel_shape"))
    call.require(call.integers("kernel_shape") == kernel, "kernel_shape is not the weight's");
  return kernel;
}

Tensor convolve(const Call& call, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  const Windows windows = windows_of(call, kernel_of(call, weight), spatial_sizes(x.shape()));
  ConvOptions options{
      .stride = shape_of(windows.stride), .dilation = shape_of(windows.dilation), .groups = call.integer("group", 1)};
  const auto negative = [](std::int64_t amount) { return amount < 0; };
  const bool crops = std::any_of(windows.before.begin(), windows.before.end(), negative) ||
                     std::any_of(windows.after.begin(), windows.after.end(), negative);
  Tensor input = x;
  if (crops) {
    input = pad_spatial(x, windows.before, windows.after, 0);
  } else {
    options.padding = shape_of(windows.before);
    options.padding_after = shape_of(windows.after);
  }
  switch (windows.dims()) {
    case 1: return conv1d(input, weight, bias, options);
    case 2: return conv2d(input, weight, bias, options);
    case 3: return conv3d(input, weight, bias, options);
    default: call.unsupported("more than 3 spatial dimensions");
  }
}

std::vector<Tensor> conv(const Call& call) {
  const Tensor bias = call.optional_input(2);
  return {convolve(call, call.input(0), call.input(1), bias.defined() ? std::optional(bias) : std::nullopt)};
}

std::vector<Tensor> conv_integer(const Call& call) {
  return {
      convolve(call, centred(call.input(0), call.optional_input(2), 1), centred_weight(call, 1, 3, 0), std::nullopt)};
}
std::vector<Tensor> matmul_integer(const Call& call) {
  return {integer_product(call, call.input(0), call.optional_input(2), 1, 3)};
}

// Inputs: x, its scale and zero point, the weight, its scales and zero points, the result's scale and zero point, a
// bias in steps of x's scale times the weight's.
std::vector<Tensor> qlinear_conv(const Call& call) {
  const Tensor x = centred(call.input(0), call.input(2), 1);
  Tensor sums = convolve(call, x, centred_weight(call, 3, 5, 0), std::nullopt);
  if (call.has(8)) sums = add(sums, along(call.input(8), sums.rank(), 1));
  const Tensor factor =
      div(mul(call.input(1).reshape({}), along(call.input(4), sums.rank(), 1)), call.input(6).reshape({}));
  const Tensor& zero = call.input(7);
  return {quantised(call, mul(sums.to(DType::f32), factor), zero.reshape({}), zero.dtype())};
}

// Of com.microsoft, as ONNX Runtime's optimiser writes it: a convolution, a sum with Z, an activation.
std::vector<Tensor> fused_conv(const Call& call) {
  Tensor y = conv(call)[0];
  if (call.has(3)) y = add(y, call.input(3));
  const std::string_view activation = call.text("activation", "");
  const std::vector<float> numbers = call.numbers("activation_params");
  if (activation == "Relu") return {relu(y)};
  if (activation == "Sigmoid") return {sigmoid(y)};
  if (activation == "Tanh") return {tanh(y)};
  if (activation == "LeakyRelu") return {leaky_relu(y, numbers.empty() ? 0.01f : numbers[0])};
  if (activation == "Clip" && numbers.size() == 2) return {clamp(y, numbers[0], numbers[1])};
  call.require(activation.empty(), "the activation's numbers are missing");
  return {y};
}
std::string check_fused_conv(const NodeFacts& node) {
  const std::string_view name = node.text("activation", "");
  const bool known =
      name.empty() || name == "Relu" || name == "Sigmoid" || name == "Tanh" || name == "LeakyRelu" || name == "Clip";
  return known ? "" : "activation=" + std::string(name);
}

Tensor transposed_convolution(const Call& call, const Tensor& x, const Tensor& weight, const Windows& windows) {
  const ConvTransposeOptions options{
      .stride = shape_of(windows.stride), .groups = call.integer("group", 1), .dilation = shape_of(windows.dilation)};
  switch (windows.dims()) {
    case 1: return conv_transpose1d(x, weight, std::nullopt, options);
    case 2: return conv_transpose2d(x, weight, std::nullopt, options);
    case 3: return conv_transpose3d(x, weight, std::nullopt, options);
    default: call.unsupported("more than 3 spatial dimensions");
  }
}

// Without padding first: padding cuts from that result, and output_padding adds to it what no tap reaches.
std::vector<Tensor> conv_transpose(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor& weight = call.input(1);
  const std::vector<std::int64_t> sizes = spatial_sizes(x.shape());
  Windows windows = windows_of(call, kernel_of(call, weight), sizes);
  const auto dims = static_cast<std::size_t>(windows.dims());
  std::vector<std::int64_t> extra = call.integers("output_padding");
  extra.resize(dims, 0);
  const std::vector<std::int64_t> wanted = call.integers("output_shape");
  require_of_windows(call, extra);
  require_of_windows(call, wanted);
  call.require(wanted.empty() || wanted.size() >= dims, "output_shape has fewer sizes than there are dimensions");
  const std::string_view mode = call.text("auto_pad", "NOTSET");
  for (std::size_t d = 0; d < dims; ++d) {
    const std::int64_t whole = (sizes[d] - 1) * windows.stride[d] + (windows.kernel[d] - 1) * windows.dilation[d] + 1;
    std::int64_t target = -1;
    if (!wanted.empty())
      target = wanted[wanted.size() - dims + d];
    else if (mode.starts_with("SAME"))
      target = sizes[d] * windows.stride[d];
    if (target >= 0) {
      const std::int64_t total = std::max<std::int64_t>(0, whole + extra[d] - target);
      windows.before[d] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      windows.after[d] = total - windows.before[d];
      if (whole + extra[d] < target) extra[d] = target - whole;
    }
    windows.before[d] = -windows.before[d];
    windows.after[d] = extra[d] - windows.after[d];
  }
  Tensor y = pad_spatial(transposed_convolution(call, x, weight, windows), windows.before, windows.after, 0);
  if (call.has(2)) {
    Shape shape = {call.input(2).numel()};
    for (std::size_t d = 0; d < dims; ++d) shape.push_back(1);
    y = add(y, call.input(2).reshape(shape));
  }
  return {y};
}

std::vector<Tensor> gemm(const Call& call) {
  Tensor a = call.input(0);
  Tensor b = call.input(1);
  if (call.integer("transA", 0) != 0) a = a.transpose(0, 1);
  if (call.integer("transB", 0) != 0) b = b.transpose(0, 1);
  const float alpha = call.number("alpha", 1);
  const float beta = call.number("beta", 1);
  const Tensor bias = call.optional_input(2);
  if (!bias.defined() || beta == 0) {
    const Tensor product = matmul(a, b);
    return {alpha == 1 ? product : mul(product, alpha)};
  }
  return {addmm(bias, a, b, {.beta = beta, .alpha = alpha})};
}

std::vector<Tensor> einsum_of(const Call& call) {
  std::string equation;
  for (const char c : call.text("equation")) {
    if (c != ' ') equation += c;
  }
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < call.inputs(); ++i) operands.push_back(call.input(i));
  return {einsum(equation, operands)};
}

std::vector<Tensor> matmul_of(const Call& call) {
  const Tensor product = matmul(call.input(0), call.input(1));
  return {product.dtype() == call.dtype_of_input(0) ? product : product.to(call.dtype_of_input(0))};
}

constexpr Operator kConvolutionOperators[] = {
    {.name = "Conv", .run = conv},
    {.name = "ConvInteger", .since = 10, .run = conv_integer},
    {.name = "QLinearConv", .since = 10, .run = qlinear_conv},
    {.domain = kMicrosoft, .name = "FusedConv", .run = fused_conv, .check = check_fused_conv},
    {.name = "ConvTranspose", .run = conv_transpose},
    {.name = "Det", .since = 11, .run = unary<linalg::det>},
    {.name = "Einsum", .since = 12, .run = einsum_of},
    {.name = "Gemm", .run = gemm},
    {.name = "MatMul", .run = matmul_of},
    {.name = "MatMulInteger", .since = 10, .run = matmul_integer},
};

}  // namespace

std::span<const Operator> convolution_operators() {
  return kConvolutionOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
