#include "cli/case_ops.h"

#include <fmt/format.h>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

using Tensors = std::vector<Tensor>;

int dim_of(Arguments& a, const char* name = "dim") {
  const std::optional<int> dim = a.optional_dim(name);
  if (!dim) throw Unsupported("no dim");
  return *dim;
}

// --- families -------------------------------------------------------------------------------------------------------

template <Tensor (*op)(const Operand&)> Tensors unary(Arguments& a) {
  return {op(a[0])};
}

template <Tensor (*op)(const Operand&, const Operand&)> Tensors binary(Arguments& a) {
  return {op(a[0], a[1])};
}

template <Tensor (*op)(const Operand&, const Shape&, bool)> Tensors reduction(Arguments& a) {
  return {op(a[0], a.sizes("dim", {}), a.flag("keepdim"))};
}

template <Tensor (*op)(const Operand&, const Shape&, bool, double)> Tensors deviation(Arguments& a) {
  return {op(a[0], a.sizes("dim", {}), a.flag("keepdim"), a.real("correction", 1))};
}

template <Tensor (*op)(const Operand&, std::optional<int>, bool)> Tensors position(Arguments& a) {
  return {op(a[0], a.optional_dim("dim"), a.flag("keepdim"))};
}

template <Tensor (*op)(const Operand&, int)> Tensors along_dim(Arguments& a) {
  return {op(a[0], dim_of(a))};
}

template <Tensor (*op)(const std::vector<Tensor>&, int, CallSite)> Tensors joined(Arguments& a) {
  const std::vector<Tensor> tensors = a.all();
  return {op(tensors, a.has("dim") ? dim_of(a) : 0, {})};
}

template <Tensor (*op)(const Operand&, const Operand&, const std::optional<Tensor>&, const ConvOptions&)>
Tensors convolution(Arguments& a) {
  const Tensor input = a.has("pad") ? pad(a[0], a.sizes("pad", {})) : a[0].named("input");
  a.sizes("pad", {});
  return {op(input, a[1], a.named("bias"),
             {.stride = a.sizes("stride", {1}),
              .padding = a.sizes("padding", {0}),
              .dilation = a.sizes("dilation", {1}),
              .groups = a.integer("groups", 1)})};
}

PoolOptions pool_options(Arguments& a) {
  return {.kernel = a.sizes("kernel_size", {}),
          .stride = a.sizes("stride", {}),
          .padding = a.sizes("padding", {0}),
          .ceil_mode = a.flag("ceil_mode")};
}

// Indices are not computed: an output too few, which makes the case unsupported if its values are right.
template <Tensor (*op)(const Operand&, const PoolOptions&)> Tensors maximum_pool(Arguments& a) {
  PoolOptions options = pool_options(a);
  options.dilation = a.sizes("dilation", {1});
  a.flag("return_indices");
  return {op(a[0], options)};
}

template <Tensor (*op)(const Operand&, const PoolOptions&)> Tensors average_pool(Arguments& a) {
  PoolOptions options = pool_options(a);
  options.count_include_pad = a.flag("count_include_pad", true);
  return {op(a[0], options)};
}

// --- single ops -----------------------------------------------------------------------------------------------------

Tensors call_gelu(Arguments& a) {
  const std::string form = a.text("approximate", "none");
  if (form != "none" && form != "tanh") throw Unsupported("approximate " + form);
  return {form == "none" ? gelu(a[0]) : gelu_tanh(a[0])};
}

Tensors call_leaky_relu(Arguments& a) {
  return {leaky_relu(a[0], a.real("negative_slope", 0.01))};
}

Tensors call_clamp(Arguments& a) {
  const std::optional<double> min = a.optional_real("min");
  return {clamp(a[0], min, a.optional_real("max"))};
}

Tensors call_where(Arguments& a) {
  return {where(a[0], a[1], a[2])};
}

Tensors call_masked_fill(Arguments& a) {
  return {masked_fill(a[0], a[1], a.real("value", 0))};
}

Tensors call_norm(Arguments& a) {
  if (a.real("p", 2) != 2) throw Unsupported("p other than 2");
  return {norm(a[0], a.sizes("dim", {}), a.flag("keepdim"))};
}

Tensors call_linear(Arguments& a) {
  return {linear(a[0], a[1], a.named("bias"))};
}

Tensors call_pad(Arguments& a) {
  const std::string mode = a.text("mode", "constant");
  if (mode != "constant") throw Unsupported("mode " + mode);
  return {pad(a[0], a.sizes("pad", {}), a.real("value", 0))};
}

Tensors call_permute(Arguments& a) {
  return {a[0].permute(a.sizes("dims", {}))};
}
Tensors call_flip(Arguments& a) {
  return {a[0].flip(a.sizes("dims", {}))};
}
Tensors call_reshape(Arguments& a) {
  return {a[0].reshape(a.sizes("shape", {}))};
}
Tensors call_expand(Arguments& a) {
  return {a[0].expand(a.sizes("size", {}))};
}
Tensors call_transpose(Arguments& a) {
  const int first = dim_of(a, "dim0");
  return {a[0].transpose(first, dim_of(a, "dim1"))};
}
Tensors call_squeeze(Arguments& a) {
  return {a[0].squeeze(dim_of(a))};
}
Tensors call_unsqueeze(Arguments& a) {
  return {a[0].unsqueeze(dim_of(a))};
}
Tensors call_select(Arguments& a) {
  return {a[0].select(dim_of(a), a.integer("index"))};
}
Tensors call_narrow(Arguments& a) {
  return {a[0].narrow(dim_of(a), a.integer("start"), a.integer("length"))};
}
Tensors call_flatten(Arguments& a) {
  const int first = a.optional_dim("start_dim").value_or(0);
  return {a[0].flatten(first, a.optional_dim("end_dim").value_or(-1))};
}

Tensors call_adaptive_avg_pool2d(Arguments& a) {
  return {adaptive_avg_pool2d(a[0], a.sizes("output_size", {}))};
}

Tensors call_layer_norm(Arguments& a) {
  return {layer_norm(a[0], a.sizes("normalized_shape", {}), a.named("weight"), a.named("bias"), a.real("eps", 1e-5))};
}

Tensors call_rms_norm(Arguments& a) {
  const std::optional<Tensor> weight = a.named("weight");
  const Shape shape = a.sizes("normalized_shape", weight ? weight->shape() : Shape{});
  return {rms_norm(a[0], shape, weight, a.optional_real("eps"))};
}

Tensors call_group_norm(Arguments& a) {
  return {group_norm(a[0], a.integer("num_groups"), a.named("weight"), a.named("bias"), a.real("eps", 1e-5))};
}

// Every channel is a group of its own.
Tensors call_instance_norm(Arguments& a) {
  return {group_norm(a[0], a[0].size(1), a.named("weight"), a.named("bias"), a.real("eps", 1e-5))};
}

Tensors call_batch_norm(Arguments& a) {
  if (a.flag("training")) throw Unsupported("training");
  a.real("momentum", 0.1);  // no part in evaluation
  const std::optional<Tensor> mean = a.named("running_mean");
  const std::optional<Tensor> variance = a.named("running_var");
  if (!mean || !variance) throw Unsupported("no running statistics");
  return {batch_norm(a[0], *mean, *variance, a.named("weight"), a.named("bias"), a.real("eps", 1e-5))};
}

constexpr bool kComputes = false;
constexpr bool kMoves = true;

constexpr CaseOp kOps[] = {
    {"abs", kComputes, unary<abs>},
    {"adaptive_avg_pool2d", kComputes, call_adaptive_avg_pool2d},
    {"add", kComputes, binary<add>},
    {"all", kComputes, reduction<all>},
    {"amax", kMoves, reduction<amax>},
    {"amin", kMoves, reduction<amin>},
    {"any", kComputes, reduction<any>},
    {"argmax", kComputes, position<argmax>},
    {"argmin", kComputes, position<argmin>},
    {"avg_pool1d", kComputes, average_pool<avg_pool1d>},
    {"avg_pool2d", kComputes, average_pool<avg_pool2d>},
    {"batch_norm", kComputes, call_batch_norm},
    {"bitwise_and", kComputes, binary<bitwise_and>},
    {"bitwise_or", kComputes, binary<bitwise_or>},
    {"bitwise_xor", kComputes, binary<bitwise_xor>},
    {"cat", kMoves, joined<cat>},
    {"ceil", kComputes, unary<ceil>},
    {"clamp", kMoves, call_clamp},
    {"conv1d", kComputes, convolution<conv1d>},
    {"conv2d", kComputes, convolution<conv2d>},
    {"conv3d", kComputes, convolution<conv3d>},
    {"cos", kComputes, unary<cos>},
    {"div", kComputes, binary<div>},
    {"eq", kComputes, binary<eq>},
    {"erf", kComputes, unary<erf>},
    {"exp", kComputes, unary<exp>},
    {"expand", kMoves, call_expand},
    {"flatten", kMoves, call_flatten},
    {"flip", kMoves, call_flip},
    {"floor", kComputes, unary<floor>},
    {"ge", kComputes, binary<ge>},
    {"gelu", kComputes, call_gelu},
    {"group_norm", kComputes, call_group_norm},
    {"gt", kComputes, binary<gt>},
    {"instance_norm", kComputes, call_instance_norm},
    {"isfinite", kComputes, unary<isfinite>},
    {"isnan", kComputes, unary<isnan>},
    {"layer_norm", kComputes, call_layer_norm},
    {"le", kComputes, binary<le>},
    {"leaky_relu", kComputes, call_leaky_relu},
    {"linear", kComputes, call_linear},
    {"log", kComputes, unary<log>},
    {"log_softmax", kComputes, along_dim<log_softmax>},
    {"logical_not", kComputes, unary<logical_not>},
    {"logsumexp", kComputes, reduction<logsumexp>},
    {"lt", kComputes, binary<lt>},
    {"masked_fill", kMoves, call_masked_fill},
    {"matmul", kComputes, binary<matmul>},
    {"max_pool1d", kMoves, maximum_pool<max_pool1d>},
    {"max_pool2d", kMoves, maximum_pool<max_pool2d>},
    {"maximum", kMoves, binary<maximum>},
    {"mean", kComputes, reduction<mean>},
    {"minimum", kMoves, binary<minimum>},
    {"mul", kComputes, binary<mul>},
    {"narrow", kMoves, call_narrow},
    {"ne", kComputes, binary<ne>},
    {"neg", kMoves, unary<neg>},
    {"norm", kComputes, call_norm},
    {"pad", kMoves, call_pad},
    {"permute", kMoves, call_permute},
    {"prod", kComputes, reduction<prod>},
    {"reciprocal", kComputes, unary<reciprocal>},
    {"relu", kMoves, unary<relu>},
    {"reshape", kMoves, call_reshape},
    {"rms_norm", kComputes, call_rms_norm},
    {"round", kComputes, unary<round>},
    {"rsqrt", kComputes, unary<rsqrt>},
    {"select", kMoves, call_select},
    {"sigmoid", kComputes, unary<sigmoid>},
    {"sign", kComputes, unary<sign>},
    {"silu", kComputes, unary<silu>},
    {"sin", kComputes, unary<sin>},
    {"softmax", kComputes, along_dim<softmax>},
    {"sqrt", kComputes, unary<sqrt>},
    {"square", kComputes, unary<square>},
    {"squeeze", kMoves, call_squeeze},
    {"stack", kMoves, joined<stack>},
    {"std", kComputes, deviation<std>},
    {"sub", kComputes, binary<sub>},
    {"sum", kComputes, reduction<sum>},
    {"tanh", kComputes, unary<tanh>},
    {"transpose", kMoves, call_transpose},
    {"trunc", kComputes, unary<trunc>},
    {"unsqueeze", kMoves, call_unsqueeze},
    {"var", kComputes, deviation<var>},
    {"where", kMoves, call_where},
};

}  // namespace

const CaseOp& find_case_op(const std::string& name) {
  for (const CaseOp& op : kOps) {
    if (name == op.name) return op;
  }
  throw Unsupported(fmt::format("op {}", name));
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
