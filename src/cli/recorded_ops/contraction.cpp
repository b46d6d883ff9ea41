#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

AutoPadding auto_padding(Arguments& a) {
  const std::string text = a.text("auto_padding", "");
  return text == "same" ? AutoPadding::same : text == "valid" ? AutoPadding::valid : AutoPadding::given;
}

template <Tensor (*op)(const Operand&, const Operand&, const std::optional<Tensor>&, const ConvOptions&)>
Tensors convolution(Arguments& a) {
  const Tensor input = a.has("pad") ? pad(a[0], a.sizes("pad", {})) : a[0].named("input");
  a.sizes("pad", {});
  return {op(input, a[1], a.named("bias"),
             {.stride = a.sizes("stride", {1}),
              .padding = a.sizes("padding", {0}),
              .dilation = a.sizes("dilation", {1}),
              .groups = a.integer("groups", 1),
              .padding_after = a.sizes("padding_after", {}),
              .auto_padding = auto_padding(a)})};
}

Tensors call_linear(Arguments& a) {
  return {linear(a[0], a[1], a.named("bias"))};
}

template <Tensor (*op)(const Operand&, const Operand&, const std::optional<Tensor>&, const ConvTransposeOptions&)>
Tensors transposed(Arguments& a) {
  return {op(a[0], a[1], a.named("bias"),
             {.stride = a.sizes("stride", {1}),
              .padding = a.sizes("padding", {0}),
              .output_padding = a.sizes("output_padding", {0}),
              .groups = a.integer("groups", 1),
              .dilation = a.sizes("dilation", {1})})};
}

template <Tensor (*op)(const Operand&, const Operand&, const Operand&, Scales)> Tensors scaled(Arguments& a) {
  return {op(a[0], a[1], a[2], {.beta = a.real("beta", 1), .alpha = a.real("alpha", 1)})};
}

Tensors call_einsum(Arguments& a) {
  return {einsum(a.text("equation", ""), a.all())};
}

Tensors call_tensordot(Arguments& a) {
  if (a.has("dims_a")) return {tensordot(a[0], a[1], Dims(a.sizes("dims_a", {})), Dims(a.sizes("dims_b", {})))};
  return {tensordot(a[0], a[1], static_cast<int>(a.integer("dims", 2)))};
}

Tensors call_bilinear(Arguments& a) {
  return {bilinear(a[0], a[1], a[2], a.named("bias"))};
}

Tensors call_multi_dot(Arguments& a) {
  return {multi_dot(a.all())};
}

constexpr RecordedOp kContractionOps[] = {
    {"addbmm", kComputes, scaled<addbmm>},
    {"addmm", kComputes, scaled<addmm>},
    {"addmv", kComputes, scaled<addmv>},
    {"addr", kComputes, scaled<addr>},
    {"baddbmm", kComputes, scaled<baddbmm>},
    {"bilinear", kComputes, call_bilinear},
    {"bmm", kComputes, binary<bmm>},
    {"conv1d", kComputes, convolution<conv1d>},
    {"conv2d", kComputes, convolution<conv2d>},
    {"conv3d", kComputes, convolution<conv3d>},
    {"conv_transpose1d", kComputes, transposed<conv_transpose1d>},
    {"conv_transpose2d", kComputes, transposed<conv_transpose2d>},
    {"conv_transpose3d", kComputes, transposed<conv_transpose3d>},
    {"dot", kComputes, binary<dot>},
    {"einsum", kComputes, call_einsum},
    {"inner", kComputes, binary<inner>},
    {"kron", kComputes, binary<kron>},
    {"linear", kComputes, call_linear},
    {"matmul", kComputes, binary<matmul>},
    {"mm", kComputes, binary<mm>},
    {"multi_dot", kComputes, call_multi_dot},
    {"mv", kComputes, binary<mv>},
    {"outer", kComputes, binary<outer>},
    {"tensordot", kComputes, call_tensordot},
    {"vdot", kComputes, binary<vdot>},
};

}  // namespace

std::span<const RecordedOp> contraction_ops() {
  return kContractionOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
