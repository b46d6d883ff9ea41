#include "cli/case_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

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

Tensors call_adaptive_avg_pool2d(Arguments& a) {
  return {adaptive_avg_pool2d(a[0], a.sizes("output_size", {}))};
}

constexpr CaseOp kOps[] = {
    {"adaptive_avg_pool2d", kComputes, call_adaptive_avg_pool2d},
    {"avg_pool1d", kComputes, average_pool<avg_pool1d>},
    {"avg_pool2d", kComputes, average_pool<avg_pool2d>},
    {"max_pool1d", kMoves, maximum_pool<max_pool1d>},
    {"max_pool2d", kMoves, maximum_pool<max_pool2d>},
};

}  // namespace

std::span<const CaseOp> pooling_ops() { return kOps; }

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
