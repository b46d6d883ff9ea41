#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Variants: plain; strided and padded; ceil mode with the padding not counted; dilated (max pools).
PoolOptions pool_options(Probe& p, int dims, bool dilates) {
  PoolOptions options{.kernel = Shape::filled(dims, 3)};
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

template <Tensor (*op)(const Operand&, const PoolOptions&), int dims, bool dilates> Tensors pool(Probe& p) {
  return {op(p.x(), pool_options(p, dims, dilates))};
}

const CheckOp kOps[] = {
    {"max_pool1d", Form::signal, 4, pool<max_pool1d, 1, true>},
    {"max_pool2d", Form::image, 4, pool<max_pool2d, 2, true>},
    {"avg_pool1d", Form::signal, 3, pool<avg_pool1d, 1, false>},
    {"avg_pool2d", Form::image, 3, pool<avg_pool2d, 2, false>},
    {"adaptive_avg_pool2d", Form::image, 2,
     [](Probe& p) -> Tensors {
       return {adaptive_avg_pool2d(p.x(), p.variant() == 0 ? Shape{1, 1} : Shape{3, 4})};
     }},
};

}  // namespace

std::span<const CheckOp> check_pooling_ops() {
  return kOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
