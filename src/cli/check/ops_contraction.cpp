#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// A probe's shape is [m, k, n].
Tensor a(Probe& p) {
  return p.x({p.size(0), p.size(1)});
}
Tensor b(Probe& p) {
  return p.x({p.size(1), p.size(2)});
}

Scales scales(Probe& p) {
  return p.variant() == 0 ? Scales{} : Scales{.beta = 2, .alpha = 3};
}

// Variants: plain; bias and padding; stride and dilation; groups.
ConvOptions conv_options(Probe& p, int dims) {
  ConvOptions options;
  if (p.variant() == 1) options.padding = Shape::filled(dims, 1);
  if (p.variant() == 2) {
    options.stride = Shape::filled(dims, 2);
    options.dilation = Shape::filled(dims, 2);
    options.padding = Shape::filled(dims, 2);
  }
  if (p.variant() == 3) {
    options.groups = 4;
    options.auto_padding = AutoPadding::same;
  }
  return options;
}
constexpr int kConvVariants = 4;
constexpr std::int64_t kOut = 8;

template <Tensor (*op)(const Operand&, const Operand&, const std::optional<Tensor>&, const ConvOptions&), int dims>
Tensors convolution(Probe& p) {
  const ConvOptions options = conv_options(p, dims);
  const Tensor input = p.x();
  Shape weight = {kOut, p.size(1) / options.groups};
  for (int d = 0; d < dims; ++d) weight.push_back(d == 0 ? 3 : 2);
  const Tensor w = p.x(weight);
  if (p.variant() == 1) return {op(input, w, p.x({kOut}), options)};
  return {op(input, w, std::nullopt, options)};
}

template <Tensor (*op)(const Operand&, const Operand&, const std::optional<Tensor>&, const ConvTransposeOptions&),
          int dims>
Tensors transposed_convolution(Probe& p) {
  ConvTransposeOptions options;
  if (p.variant() == 1) options.padding = Shape::filled(dims, 1);
  if (p.variant() == 2) {
    options.stride = Shape::filled(dims, 2);
    options.output_padding = Shape::filled(dims, 1);
    options.dilation = Shape::filled(dims, 2);
  }
  if (p.variant() == 3) options.groups = 2;
  const Tensor input = p.x();
  Shape weight = {p.size(1), 3};
  for (int d = 0; d < dims; ++d) weight.push_back(d == 0 ? 3 : 2);
  const Tensor w = p.x(weight);
  if (p.variant() == 1) return {op(input, w, p.x({3}), options)};
  return {op(input, w, std::nullopt, options)};
}

const CheckOp kContractionOps[] = {
    {"matmul", Form::matrix, 4,
     [](Probe& p) -> Tensors {
       switch (p.variant()) {
         case 0: return {matmul(a(p), b(p))};
         case 1: return {matmul(a(p), p.x({p.size(1)}))};
         case 2: return {matmul(p.x({p.size(1)}), b(p))};
         default: return {matmul(p.x({2, 1, p.size(0), p.size(1)}), p.x({3, p.size(1), p.size(2)}))};
       }
     }},
    {"mm", Form::matrix, 1, [](Probe& p) -> Tensors { return {mm(a(p), b(p))}; }},
    {"bmm", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       return {bmm(p.x({2, p.size(0), p.size(1)}), p.x({2, p.size(1), p.size(2)}))};
     }},
    {"mv", Form::matrix, 1, [](Probe& p) -> Tensors { return {mv(a(p), p.x({p.size(1)}))}; }},
    {"dot", Form::matrix, 1, [](Probe& p) -> Tensors { return {dot(p.x({p.size(1)}), p.x({p.size(1)}))}; }},
    {"vdot", Form::matrix, 1, [](Probe& p) -> Tensors { return {vdot(p.x({p.size(1)}), p.x({p.size(1)}))}; }},
    {"inner", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       return {inner(a(p), p.x({p.size(2), p.size(1)}))};
     }},
    {"outer", Form::matrix, 1, [](Probe& p) -> Tensors { return {outer(p.x({p.size(0)}), p.x({p.size(2)}))}; }},
    {"linear", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       const Tensor x = a(p);
       const Tensor weight = p.x({p.size(2), p.size(1)});
       return {p.variant() == 0 ? linear(x, weight) : linear(x, weight, p.x({p.size(2)}))};
     }},
    {"addmm", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       return {addmm(p.x({p.size(0), p.size(2)}), a(p), b(p), scales(p))};
     }},
    {"addmv", Form::matrix, 2,
     [](Probe& p) -> Tensors { return {addmv(p.x({p.size(0)}), a(p), p.x({p.size(1)}), scales(p))}; }},
    {"baddbmm", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       return {baddbmm(p.x({2, p.size(0), p.size(2)}), p.x({2, p.size(0), p.size(1)}), p.x({2, p.size(1), p.size(2)}),
                       scales(p))};
     }},
    {"addbmm", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       return {addbmm(p.x({p.size(0), p.size(2)}), p.x({2, p.size(0), p.size(1)}), p.x({2, p.size(1), p.size(2)}),
                      scales(p))};
     }},
    {"addr", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       return {addr(p.x({p.size(0), p.size(2)}), p.x({p.size(0)}), p.x({p.size(2)}), scales(p))};
     }},
    {"tensordot", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {tensordot(a(p), b(p), 1)};
       return {tensordot(p.x({p.size(1), 2, p.size(0)}), p.x({p.size(2), p.size(1), 2}), {1, 0}, {2, 1})};
     }},
    {"kron", Form::small, 1, [](Probe& p) -> Tensors { return {kron(p.x(), p.x())}; }},
    {"multi_dot", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       return {multi_dot({a(p), b(p), p.x({p.size(2), 3})})};
     }},
    {"bilinear", Form::matrix, 1,
     [](Probe& p) -> Tensors {
       return {bilinear(p.x({p.size(0), 3}), p.x({p.size(0), 5}), p.x({4, 3, 5}), p.x({4}))};
     }},
    {"einsum", Form::matrix, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {einsum("mk,kn->nm", {a(p), b(p)})};
       if (p.variant() == 1) return {einsum("mk,kn,n->m", {a(p), b(p), p.x({p.size(2)})})};
       return {einsum("bmk,kb->bm", {p.x({2, p.size(0), p.size(1)}), p.x({p.size(1), 2})})};
     }},
    {"conv1d", Form::signal, kConvVariants, convolution<conv1d, 1>},
    {"conv2d", Form::image, kConvVariants, convolution<conv2d, 2>},
    {"conv3d", Form::volume, kConvVariants, convolution<conv3d, 3>},
    {"conv_transpose1d", Form::signal, kConvVariants, transposed_convolution<conv_transpose1d, 1>},
    {"conv_transpose2d", Form::image, kConvVariants, transposed_convolution<conv_transpose2d, 2>},
    {"conv_transpose3d", Form::volume, kConvVariants, transposed_convolution<conv_transpose3d, 3>},
};

}  // namespace

std::span<const CheckOp> check_contraction_ops() {
  return kContractionOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
