#include "cli/case_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

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

Tensors call_linear(Arguments& a) {
  return {linear(a[0], a[1], a.named("bias"))};
}

constexpr CaseOp kOps[] = {
    {"conv1d", kComputes, convolution<conv1d>},
    {"conv2d", kComputes, convolution<conv2d>},
    {"conv3d", kComputes, convolution<conv3d>},
    {"linear", kComputes, call_linear},
    {"matmul", kComputes, binary<matmul>},
};

}  // namespace

std::span<const CaseOp> contraction_ops() { return kOps; }

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
