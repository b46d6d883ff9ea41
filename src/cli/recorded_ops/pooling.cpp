#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Shape kernel_size(Arguments& a) {
  return a.sizes("kernel_size", {});
}

PoolOptions pool_options(Arguments& a) {
  return {.stride = a.sizes("stride", {}), .padding = a.sizes("padding", {0}), .ceil_mode = a.flag("ceil_mode")};
}

template <Tensor (*values)(const Operand&, const Shape&, const PoolOptions&),
          ValuesIndices (*both)(const Operand&, const Shape&, const PoolOptions&)>
Tensors maximum_pool(Arguments& a) {
  PoolOptions options = pool_options(a);
  options.dilation = a.sizes("dilation", {1});
  if (!a.flag("return_indices")) return {values(a[0], kernel_size(a), options)};
  const ValuesIndices pooled = both(a[0], kernel_size(a), options);
  return {pooled.values, pooled.indices};
}

template <Tensor (*op)(const Operand&, const Shape&, const PoolOptions&)> Tensors average_pool(Arguments& a) {
  PoolOptions options = pool_options(a);
  options.count_include_pad = a.flag("count_include_pad", true);
  if (a.has("divisor_override")) options.divisor_override = a.integer("divisor_override");
  return {op(a[0], kernel_size(a), options)};
}

template <Tensor (*op)(const Operand&, double, const Shape&, const PoolOptions&)> Tensors norm_pool(Arguments& a) {
  const double p = a.real("norm_type", 2);
  return {op(a[0], p, kernel_size(a), pool_options(a))};
}

template <Tensor (*op)(const Operand&, const Shape&)> Tensors adaptive_average(Arguments& a) {
  return {op(a[0], a.sizes("output_size", {}))};
}

template <Tensor (*values)(const Operand&, const Shape&), ValuesIndices (*both)(const Operand&, const Shape&)>
Tensors adaptive_maximum(Arguments& a) {
  const Shape size = a.sizes("output_size", {});
  if (!a.flag("return_indices")) return {values(a[0], size)};
  const ValuesIndices pooled = both(a[0], size);
  return {pooled.values, pooled.indices};
}

template <Tensor (*op)(const Operand&, const Tensor&, const Shape&, const MaxUnpoolOptions&)>
Tensors unpooled(Arguments& a) {
  const MaxUnpoolOptions options{
      .stride = a.sizes("stride", {}), .padding = a.sizes("padding", {0}), .output_size = a.sizes("output_size", {})};
  return {op(a[0], a[1], kernel_size(a), options)};
}

constexpr RecordedOp kPoolingOps[] = {
    {"adaptive_avg_pool1d", kComputes, adaptive_average<adaptive_avg_pool1d>},
    {"adaptive_avg_pool2d", kComputes, adaptive_average<adaptive_avg_pool2d>},
    {"adaptive_avg_pool3d", kComputes, adaptive_average<adaptive_avg_pool3d>},
    {"adaptive_max_pool1d", kMoves, adaptive_maximum<adaptive_max_pool1d, adaptive_max_pool1d_with_indices>},
    {"adaptive_max_pool2d", kMoves, adaptive_maximum<adaptive_max_pool2d, adaptive_max_pool2d_with_indices>},
    {"adaptive_max_pool3d", kMoves, adaptive_maximum<adaptive_max_pool3d, adaptive_max_pool3d_with_indices>},
    {"avg_pool1d", kComputes, average_pool<avg_pool1d>},
    {"avg_pool2d", kComputes, average_pool<avg_pool2d>},
    {"avg_pool3d", kComputes, average_pool<avg_pool3d>},
    {"lp_pool1d", kComputes, norm_pool<lp_pool1d>},
    {"lp_pool2d", kComputes, norm_pool<lp_pool2d>},
    {"lp_pool3d", kComputes, norm_pool<lp_pool3d>},
    {"max_pool1d", kMoves, maximum_pool<max_pool1d, max_pool1d_with_indices>},
    {"max_pool2d", kMoves, maximum_pool<max_pool2d, max_pool2d_with_indices>},
    {"max_pool3d", kMoves, maximum_pool<max_pool3d, max_pool3d_with_indices>},
    {"max_unpool1d", kMoves, unpooled<max_unpool1d>},
    {"max_unpool2d", kMoves, unpooled<max_unpool2d>},
    {"max_unpool3d", kMoves, unpooled<max_unpool3d>},
};

}  // namespace

std::span<const RecordedOp> pooling_ops() {
  return kPoolingOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
