// Adaptive pools: windows of unequal size, chosen by the number of outputs, read through one gather.
#include <algorithm>

#include <fmt/format.h>

#include "graph/ops/pooling.h"
#include "graph/ops/take.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// Along one axis: output i covers [start[i], start[i] + length[i]).
struct Cover {
  std::int64_t size = 0, count = 0, longest = 0;
  std::vector<std::int64_t> start, length;
  bool even = false;  ///< all of one length, one after the other
};

std::vector<Cover> covers_of(const Tensor& input, int rank, const Shape& output_size) {
  if (input.rank() != rank + 1 && input.rank() != rank + 2) {
    fail<ShapeError>(fmt::format("input must have {} dimensions, or {} without a batch", rank + 2, rank + 1),
                     {{"input", input}});
  }
  const Shape counts = per_axis("output_size", output_size, rank, -1, input);
  std::vector<Cover> covers;
  for (int d = 0; d < rank; ++d) {
    Cover cover{.size = input.shape()[input.rank() - rank + d], .start = {}, .length = {}};
    cover.count = counts[d] == -1 ? cover.size : counts[d];
    if (cover.count < 1 || cover.size < 1) {
      fail<ShapeError>(fmt::format("no windows: {} elements, {} outputs", cover.size, cover.count), {{"input", input}},
                       "spatial sizes and output sizes must be at least 1 (or -1 for the input's)");
    }
    cover.even = cover.size % cover.count == 0;
    for (std::int64_t i = 0; i < cover.count; ++i) {
      const std::int64_t start = i * cover.size / cover.count;
      cover.start.push_back(start);
      cover.length.push_back(((i + 1) * cover.size + cover.count - 1) / cover.count - start);
      cover.longest = std::max(cover.longest, cover.length.back());
    }
    covers.push_back(std::move(cover));
  }
  return covers;
}

bool all_even(const std::vector<Cover>& covers) {
  return std::all_of(covers.begin(), covers.end(), [](const Cover& cover) { return cover.even; });
}

Shape kernel_of(const std::vector<Cover>& covers) {
  Shape kernel;
  for (const Cover& cover : covers) kernel.push_back(cover.longest);
  return kernel;
}

// x as [..., out..., longest...], with `missing` behind the end of shorter windows.
Tensor cover_windows(const Tensor& x, const std::vector<Cover>& covers, double missing) {
  const int axes = static_cast<int>(covers.size());
  std::int64_t stride = 1;
  for (const Cover& cover : covers) stride *= cover.size;
  const DType type = position_type(stride);
  Tensor index;
  Tensor present;
  for (int d = 0; d < axes; ++d) {
    const Cover& cover = covers[static_cast<std::size_t>(d)];
    stride /= cover.size;
    std::vector<std::int64_t> places;
    std::vector<bool> inside;
    for (std::int64_t i = 0; i < cover.count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      for (std::int64_t t = 0; t < cover.longest; ++t) {
        inside.push_back(t < cover.length[at]);
        places.push_back(std::min(cover.start[at] + t, cover.size - 1) * stride);
      }
    }
    Shape shape = Shape::filled(2 * axes, 1);
    shape[d] = cover.count;
    shape[axes + d] = cover.longest;
    const Tensor part = table(places, 0, 1, type, x.device()).reshape(shape);
    index = index.defined() ? add(index, part) : part;
    if (std::find(inside.begin(), inside.end(), false) == inside.end()) continue;
    const Tensor mask = Tensor::from(inside, shape, x.device());
    present = present.defined() ? bitwise_and(present, mask) : mask;
  }
  const Tensor windows = take_flat(x, axes, index, 2 * axes);
  return present.defined() ? where(present, windows, missing) : windows;
}

Tensor average(int rank, const Operand& a, const Shape& output_size) {
  const Tensor& input = tensor_operand(a);
  check_float({"input", input});
  const std::vector<Cover> covers = covers_of(input, rank, output_size);
  if (all_even(covers)) {
    const Shape kernel = kernel_of(covers);
    return rank == 1 ? avg_pool1d(a, kernel) : rank == 2 ? avg_pool2d(a, kernel) : avg_pool3d(a, kernel);
  }
  const Tensor x = cast(input, wide(input.dtype()));
  const Tensor windows = cover_windows(x, covers, -0.0);
  const std::uint32_t dims = last_dims(windows, covers.size());
  const Tensor total = drop_dims(reduce(ReduceOp::sum, windows, dims), dims, false);
  Tensor count;
  for (int d = 0; d < rank; ++d) {
    const std::vector<std::int64_t>& length = covers[static_cast<std::size_t>(d)].length;
    const Tensor part = table(std::vector<double>(length.begin(), length.end()), d, rank, x.dtype(), x.device());
    count = count.defined() ? mul(count, part) : part;
  }
  return cast(div(total, count), input.dtype());
}

std::vector<Axis> axes_of(const std::vector<Cover>& covers) {
  std::vector<Axis> axes;
  for (const Cover& cover : covers) {
    axes.push_back({.size = cover.size, .kernel = cover.longest, .stride = cover.longest, .output = cover.count});
  }
  return axes;
}

Tensor maximum_of(const Tensor& input, const std::vector<Cover>& covers) {
  if (all_even(covers)) return largest(input, axes_of(covers));
  return largest_tap(cover_windows(input, covers, lowest_value(input.dtype())), covers.size());
}

Tensor maximum_of(int rank, const Operand& a, const Shape& output_size) {
  const Tensor& input = tensor_operand(a);
  return maximum_of(input, covers_of(input, rank, output_size));
}

ValuesIndices maximum_and_place(int rank, const Operand& a, const Shape& output_size) {
  const Tensor& input = tensor_operand(a);
  const std::vector<Cover> covers = covers_of(input, rank, output_size);
  std::vector<WindowStarts> starts;
  for (const Cover& cover : covers) {
    starts.push_back({.size = cover.size, .taps = cover.longest, .start = cover.start, .first = cover.start});
  }
  const Tensor bare = untraced(input);
  const Tensor windows = all_even(covers) ? windows_of(bare, axes_of(covers), 0)
                                          : cover_windows(bare, covers, lowest_value(input.dtype()));
  return {maximum_of(input, covers), place_of_largest(windows, starts)};
}

}  // namespace

Tensor adaptive_avg_pool1d(const Operand& a, const Shape& size) {
  const CallScope call("adaptive_avg_pool1d", a);
  return average(1, a, size);
}
Tensor adaptive_avg_pool2d(const Operand& a, const Shape& size) {
  const CallScope call("adaptive_avg_pool2d", a);
  return average(2, a, size);
}
Tensor adaptive_avg_pool3d(const Operand& a, const Shape& size) {
  const CallScope call("adaptive_avg_pool3d", a);
  return average(3, a, size);
}
Tensor adaptive_max_pool1d(const Operand& a, const Shape& size) {
  const CallScope call("adaptive_max_pool1d", a);
  return maximum_of(1, a, size);
}
Tensor adaptive_max_pool2d(const Operand& a, const Shape& size) {
  const CallScope call("adaptive_max_pool2d", a);
  return maximum_of(2, a, size);
}
Tensor adaptive_max_pool3d(const Operand& a, const Shape& size) {
  const CallScope call("adaptive_max_pool3d", a);
  return maximum_of(3, a, size);
}
ValuesIndices adaptive_max_pool1d_with_indices(const Operand& a, const Shape& size) {
  const CallScope call("adaptive_max_pool1d_with_indices", a);
  return maximum_and_place(1, a, size);
}
ValuesIndices adaptive_max_pool2d_with_indices(const Operand& a, const Shape& size) {
  const CallScope call("adaptive_max_pool2d_with_indices", a);
  return maximum_and_place(2, a, size);
}
ValuesIndices adaptive_max_pool3d_with_indices(const Operand& a, const Shape& size) {
  const CallScope call("adaptive_max_pool3d_with_indices", a);
  return maximum_and_place(3, a, size);
}

}  // namespace v0
}  // namespace lockstep
