#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

constexpr int kKernel = 3;

// Variants: plain; strided and padded; ceil mode with the padding not counted; dilated (max pools).
PoolOptions pool_options(Probe& p, int dims, bool dilates) {
  PoolOptions options;
  if (p.variant() > 0) {
    options.stride = Shape::filled(dims, 2);
    options.padding = Shape::filled(dims, 1);
  }
  if (p.variant() == 2) {
    options.ceil_mode = true;
    options.count_include_pad = false;
  }
  if (p.variant() == 3 && dilates) options.dilation = Shape::filled(dims, 2);
  return options;
}

template <Tensor (*op)(const Operand&, const Shape&, const PoolOptions&), int dims, bool dilates>
Tensors pool(Probe& p) {
  return {op(p.x(), kKernel, pool_options(p, dims, dilates))};
}

template <ValuesIndices (*op)(const Operand&, const Shape&, const PoolOptions&), int dims>
Tensors pool_with_indices(Probe& p) {
  const ValuesIndices result = op(p.x(), kKernel, pool_options(p, dims, true));
  return {result.values, result.indices};
}

// Variants: squares; strided; ceil mode and a power that is no integer.
template <Tensor (*op)(const Operand&, double, const Shape&, const PoolOptions&), int dims> Tensors lp_pool(Probe& p) {
  constexpr double kPowers[] = {2, 1, 2.5};
  PoolOptions options;
  if (p.variant() > 0) options.stride = Shape::filled(dims, 2);
  options.ceil_mode = p.variant() == 2;
  return {op(p.x(), kPowers[p.variant()], kKernel, options)};
}

// Variants: what a pool chose, strided and padded; any positions, many of them repeated.
template <Tensor (*op)(const Operand&, const Tensor&, const Shape&, const MaxUnpoolOptions&),
          ValuesIndices (*inverse)(const Operand&, const Shape&, const PoolOptions&), int dims>
Tensors unpool(Probe& p) {
  if (p.variant() == 0) {
    const PoolOptions options{.stride = Shape::filled(dims, 2), .padding = Shape::filled(dims, 1)};
    const ValuesIndices pooled = inverse(p.x(), kKernel, options);
    Shape spatial;
    for (int d = 2; d < p.rank(); ++d) spatial.push_back(p.size(d));
    return {op(pooled.values, pooled.indices, kKernel,
               {.stride = options.stride, .padding = options.padding, .output_size = spatial})};
  }
  std::int64_t plane = 1;
  for (int d = 2; d < p.rank(); ++d) plane *= 2 * p.size(d);
  const Tensor values = p.x();
  return {op(values, p.index(p.shape(), plane), 2, {})};
}

// Variants: global; a few windows of unequal lengths; more windows than elements, one size kept.
constexpr int kAdaptiveVariants = 3;
Shape adaptive_size(Probe& p, int dims) {
  if (p.variant() == 0) return {1};
  Shape size;
  for (int d = 0; d < dims; ++d) size.push_back(p.variant() == 1 ? 3 + d : 11 - d);
  if (p.variant() == 2 && dims > 1) size[0] = -1;
  return size;
}

template <Tensor (*op)(const Operand&, const Shape&), int dims> Tensors adaptive(Probe& p) {
  return {op(p.x(), adaptive_size(p, dims))};
}
template <ValuesIndices (*op)(const Operand&, const Shape&), int dims> Tensors adaptive_with_indices(Probe& p) {
  const ValuesIndices result = op(p.x(), adaptive_size(p, dims));
  return {result.values, result.indices};
}

const CheckOp kPoolingOps[] = {
    {"max_pool1d", Form::signal, 4, pool<max_pool1d, 1, true>},
    {"max_pool2d", Form::image, 4, pool<max_pool2d, 2, true>},
    {"max_pool3d", Form::volume, 4, pool<max_pool3d, 3, true>},
    {"max_pool1d_with_indices", Form::signal, 4, pool_with_indices<max_pool1d_with_indices, 1>},
    {"max_pool2d_with_indices", Form::image, 4, pool_with_indices<max_pool2d_with_indices, 2>},
    {"max_pool3d_with_indices", Form::volume, 4, pool_with_indices<max_pool3d_with_indices, 3>},
    {"avg_pool1d", Form::signal, 3, pool<avg_pool1d, 1, false>},
    {"avg_pool2d", Form::image, 3, pool<avg_pool2d, 2, false>},
    {"avg_pool3d", Form::volume, 3, pool<avg_pool3d, 3, false>},
    {"lp_pool1d", Form::signal, 3, lp_pool<lp_pool1d, 1>},
    {"lp_pool2d", Form::image, 3, lp_pool<lp_pool2d, 2>},
    {"lp_pool3d", Form::volume, 3, lp_pool<lp_pool3d, 3>},
    {"max_unpool1d", Form::signal, 2, unpool<max_unpool1d, max_pool1d_with_indices, 1>},
    {"max_unpool2d", Form::image, 2, unpool<max_unpool2d, max_pool2d_with_indices, 2>},
    {"max_unpool3d", Form::volume, 2, unpool<max_unpool3d, max_pool3d_with_indices, 3>},
    {"adaptive_avg_pool1d", Form::signal, kAdaptiveVariants, adaptive<adaptive_avg_pool1d, 1>},
    {"adaptive_avg_pool2d", Form::image, kAdaptiveVariants, adaptive<adaptive_avg_pool2d, 2>},
    {"adaptive_avg_pool3d", Form::volume, kAdaptiveVariants, adaptive<adaptive_avg_pool3d, 3>},
    {"adaptive_max_pool1d", Form::signal, kAdaptiveVariants, adaptive<adaptive_max_pool1d, 1>},
    {"adaptive_max_pool2d", Form::image, kAdaptiveVariants, adaptive<adaptive_max_pool2d, 2>},
    {"adaptive_max_pool3d", Form::volume, kAdaptiveVariants, adaptive<adaptive_max_pool3d, 3>},
    {"adaptive_max_pool1d_with_indices", Form::signal, kAdaptiveVariants,
     adaptive_with_indices<adaptive_max_pool1d_with_indices, 1>},
    {"adaptive_max_pool2d_with_indices", Form::image, kAdaptiveVariants,
     adaptive_with_indices<adaptive_max_pool2d_with_indices, 2>},
    {"adaptive_max_pool3d_with_indices", Form::volume, kAdaptiveVariants,
     adaptive_with_indices<adaptive_max_pool3d_with_indices, 3>},
};

}  // namespace

std::span<const CheckOp> check_pooling_ops() {
  return kPoolingOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
