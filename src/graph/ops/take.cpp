// Elements at computed places, by gathers.
#include "graph/ops/take.h"
#include "graph/recording.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

Shape only(int dim, int rank, std::int64_t size) {
  Shape shape = Shape::filled(rank, 1);
  shape[dim] = size;
  return shape;
}

}  // namespace

Tensor table(const std::vector<std::int64_t>& values, int dim, int rank, DType dtype, Device device) {
  const Shape shape = only(dim, rank, static_cast<std::int64_t>(values.size()));
  if (dtype == DType::i64) return Tensor::from(values, shape, device);
  // Converted here: an upload of half the bytes, and no kernel.
  return Tensor::from(std::vector<std::int32_t>(values.begin(), values.end()), shape, device);
}

Tensor table(const std::vector<double>& values, int dim, int rank, DType dtype, Device device) {
  const Shape shape = only(dim, rank, static_cast<std::int64_t>(values.size()));
  if (dtype == DType::f64) return Tensor::from(values, shape, device);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape, device);
}

Tensor take_flat(const Tensor& x, int axes, const Tensor& index, int places) {
  const int leading = x.rank() - axes;
  const std::int64_t plane = x.shape().slice(leading, x.rank()).numel();
  Shape target = x.shape().slice(0, leading);
  Shape flat = target;
  Shape source = target;
  for (int d = 0; d < places; ++d) {
    const std::int64_t size = index.shape()[index.rank() - places + d];
    target.push_back(size);
    flat.push_back(d + 1 < places ? 1 : plane);
    source.push_back(d + 1 < places ? size : plane);
  }
  return gather(x.reshape(flat).expand(source), target.rank() - 1, index.expand(target));
}

Tensor take_along(const Tensor& x, int dim, const std::vector<std::int64_t>& positions) {
  Shape target = x.shape();
  target[dim] = static_cast<std::int64_t>(positions.size());
  const Tensor index = table(positions, dim, x.rank(), position_type(x.shape()[dim]), x.device());
  if (!is_recording()) return gather(x, dim, index.expand(target));
  const Tensor line = index.reshape({target[dim]});
  return recorded(gather(x, dim, index.expand(target)), "index_select", {&x, &line}, {{dim}});
}

Tensor take_grid(const Tensor& x, const std::vector<std::vector<std::int64_t>>& positions) {
  const int axes = static_cast<int>(positions.size());
  if (axes == 1) return take_along(x, x.rank() - 1, positions[0]);
  if (is_recording()) {  // axis by axis: a copy either way
    Tensor result = x;
    for (int d = 0; d < axes; ++d) {
      result = take_along(result, x.rank() - axes + d, positions[static_cast<std::size_t>(d)]);
    }
    return result;
  }
  std::int64_t plane = x.shape().slice(x.rank() - axes, x.rank()).numel();
  const DType type = position_type(plane);
  Tensor index;
  for (int d = 0; d < axes; ++d) {
    plane /= x.shape()[x.rank() - axes + d];
    std::vector<std::int64_t> offsets = positions[static_cast<std::size_t>(d)];
    for (std::int64_t& offset : offsets) offset *= plane;
    const Tensor part = table(offsets, d, axes, type, x.device());
    index = index.defined() ? add(index, part) : part;
  }
  return take_flat(x, axes, index, axes);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
