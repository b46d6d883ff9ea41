// Max pools undone: values go back to the places that the indices name.
#include <fmt/format.h>

#include "graph/ops/windows.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

Tensor max_unpool(int rank, const Operand& a, const Tensor& indices, const Shape& kernel_size,
                  const MaxUnpoolOptions& options) {
  const Tensor& input = tensor_operand(a);
  const std::vector<Shown> shown{{"input", input}, {"indices", indices}};
  check_same_device(shown);
  if (indices.dtype() != DType::i64) {
    fail<DTypeError>("the indices must be i64", shown, "use those of max_pool with indices");
  }
  if ((input.rank() != rank + 1 && input.rank() != rank + 2) || indices.shape() != input.shape()) {
    fail<ShapeError>(fmt::format("input and indices must have one shape of {} dimensions, or {} without a batch",
                                 rank + 2, rank + 1),
                     shown);
  }
  const Shape& output_size = options.output_size;
  const int leading = input.rank() - rank;
  const Shape kernel = per_axis("kernel", kernel_size, rank, 1, input);
  const Shape stride = per_axis("stride", options.stride.empty() ? kernel : options.stride, rank, 1, input);
  const Shape padding = per_axis("padding", options.padding, rank, 0, input);
  Shape sizes;
  for (int d = 0; d < rank; ++d) {
    const std::int64_t told = (input.shape()[leading + d] - 1) * stride[d] - 2 * padding[d] + kernel[d];
    sizes.push_back(told);
    if (output_size.empty()) continue;
    // Any size that pools to the input's.
    const bool fits =
        output_size.rank() == rank && output_size[d] > told - stride[d] && output_size[d] < told + stride[d];
    if (!fits) {
      fail<ShapeError>(fmt::format("output_size {} does not pool to the input", output_size.to_string()), shown,
                       fmt::format("size {} of the spatial ones must be from {} to {}", d, told - stride[d] + 1,
                                   told + stride[d] - 1));
    }
    sizes[d] = output_size[d];
  }
  Shape target = input.shape().slice(0, leading);
  Shape flat = target;
  Shape values = target;
  for (const std::int64_t size : sizes) {
    if (size < 1) fail<ShapeError>(fmt::format("the output would be {}", sizes.to_string()), shown);
    target.push_back(size);
  }
  check_shape(target, input.dtype());
  flat.push_back(sizes.numel());
  values.push_back(input.shape().slice(leading, input.rank()).numel());
  const Tensor empty = zeros(flat, {.dtype = input.dtype(), .device = input.device()});
  return scatter(ScatterOp::set, empty, leading, indices.reshape(values), input.reshape(values), true).reshape(target);
}

}  // namespace

Tensor max_unpool1d(const Operand& a, const Tensor& indices, const Shape& kernel, const MaxUnpoolOptions& options) {
  const CallScope call("max_unpool1d", a);
  return max_unpool(1, a, indices, kernel, options);
}
Tensor max_unpool2d(const Operand& a, const Tensor& indices, const Shape& kernel, const MaxUnpoolOptions& options) {
  const CallScope call("max_unpool2d", a);
  return max_unpool(2, a, indices, kernel, options);
}
Tensor max_unpool3d(const Operand& a, const Tensor& indices, const Shape& kernel, const MaxUnpoolOptions& options) {
  const CallScope call("max_unpool3d", a);
  return max_unpool(3, a, indices, kernel, options);
}

}  // namespace v0
}  // namespace lockstep
