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

std::vector<Cover> covers_of(const char* op, const Tensor& input, int rank, const Shape& output_size, CallSite site) {
  if (input.rank() != rank + 1 && input.rank() != rank + 2) {
    fail<ShapeError>(op, fmt::format("input must have {} dimensions, or {} without a batch", rank + 2, rank + 1),
                     {{"input", input}}, "", site);
  }
  const Shape counts = per_axis(op, "output_size", output_size, rank, -1, input, site);
  std::vector<Cover> covers;
  for (int d = 0; d < rank; ++d) {
    Cover cover{.size = input.shape()[input.rank() - rank + d], .start = {}, .length = {}};
    cover.count = counts[d] == -1 ? cover.size : counts[d];
    if (cover.count < 1 || cover.size < 1) {
      fail<ShapeError>(op, fmt::format("no windows: {} elements, {} outputs", cover.size, cover.count),
                       {{"input", input}}, "spatial sizes and output sizes must be at least 1 (or -1 for the input's)",
                       site);
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
Tensor cover_windows(const Tensor& x, const std::vector<Cover>& covers, double missing, CallSite site) {
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
    const Tensor part = table(places, 0, 1, type, x.device(), site).reshape(shape, site);
    index = index.defined() ? add(Operand(index, site), Operand(part, site)) : part;
    if (std::find(inside.begin(), inside.end(), false) == inside.end()) continue;
    const Tensor mask = Tensor::from(inside, shape, x.device(), site);
    present = present.defined() ? bitwise_and(Operand(present, site), Operand(mask, site)) : mask;
  }
  const Tensor windows = take_flat(x, axes, index, 2 * axes, site);
  return present.defined() ? where(Operand(present, site), Operand(windows, site), Operand(missing, site)) : windows;
}

Tensor average(const char* op, int rank, const Operand& a, const Shape& output_size) {
  const CallSite site = a.site();
  const Tensor& input = tensor_operand(op, a);
  check_float(op, {"input", input}, site);
  const std::vector<Cover> covers = covers_of(op, input, rank, output_size, site);
  if (all_even(covers)) {
    const Shape kernel = kernel_of(covers);
    return rank == 1 ? avg_pool1d(a, kernel) : rank == 2 ? avg_pool2d(a, kernel) : avg_pool3d(a, kernel);
  }
  const Tensor x = cast(input, wide(input.dtype()), site);
  const Tensor windows = cover_windows(x, covers, -0.0, site);
  const std::uint32_t dims = last_dims(windows, covers.size());
  const Tensor total = drop_dims(reduce(ReduceOp::sum, windows, dims, site), dims, false, site);
  Tensor count;
  for (int d = 0; d < rank; ++d) {
    const std::vector<std::int64_t>& length = covers[static_cast<std::size_t>(d)].length;
    const Tensor part = table(std::vector<double>(length.begin(), length.end()), d, rank, x.dtype(), x.device(), site);
    count = count.defined() ? mul(Operand(count, site), Operand(part, site)) : part;
  }
  return cast(div(Operand(total, site), Operand(count, site)), input.dtype(), site);
}

std::vector<Axis> axes_of(const std::vector<Cover>& covers) {
  std::vector<Axis> axes;
  for (const Cover& cover : covers) {
    axes.push_back({.size = cover.size, .kernel = cover.longest, .stride = cover.longest, .output = cover.count});
  }
  return axes;
}

Tensor maximum_of(const char* op, const Tensor& input, const std::vector<Cover>& covers, CallSite site) {
  if (all_even(covers)) return largest(op, input, axes_of(covers), site);
  return largest_tap(op, cover_windows(input, covers, lowest_value(input.dtype()), site), covers.size(), site);
}

Tensor maximum_of(const char* op, int rank, const Operand& a, const Shape& output_size) {
  const Tensor& input = tensor_operand(op, a);
  return maximum_of(op, input, covers_of(op, input, rank, output_size, a.site()), a.site());
}

ValuesIndices maximum_and_place(const char* op, int rank, const Operand& a, const Shape& output_size) {
  const CallSite site = a.site();
  const Tensor& input = tensor_operand(op, a);
  const std::vector<Cover> covers = covers_of(op, input, rank, output_size, site);
  std::vector<WindowStarts> starts;
  for (const Cover& cover : covers) {
    starts.push_back({.size = cover.size, .taps = cover.longest, .start = cover.start, .first = cover.start});
  }
  const Tensor bare = untraced(input);
  const Tensor windows = all_even(covers) ? windows_of(bare, axes_of(covers), 0, site)
                                          : cover_windows(bare, covers, lowest_value(input.dtype()), site);
  return {maximum_of(op, input, covers, site), place_of_largest(windows, starts, site)};
}

}  // namespace

Tensor adaptive_avg_pool1d(const Operand& a, const Shape& size) {
  return average("adaptive_avg_pool1d", 1, a, size);
}
Tensor adaptive_avg_pool2d(const Operand& a, const Shape& size) {
  return average("adaptive_avg_pool2d", 2, a, size);
}
Tensor adaptive_avg_pool3d(const Operand& a, const Shape& size) {
  return average("adaptive_avg_pool3d", 3, a, size);
}
Tensor adaptive_max_pool1d(const Operand& a, const Shape& size) {
  return maximum_of("adaptive_max_pool1d", 1, a, size);
}
Tensor adaptive_max_pool2d(const Operand& a, const Shape& size) {
  return maximum_of("adaptive_max_pool2d", 2, a, size);
}
Tensor adaptive_max_pool3d(const Operand& a, const Shape& size) {
  return maximum_of("adaptive_max_pool3d", 3, a, size);
}
ValuesIndices adaptive_max_pool1d_with_indices(const Operand& a, const Shape& size) {
  return maximum_and_place("adaptive_max_pool1d", 1, a, size);
}
ValuesIndices adaptive_max_pool2d_with_indices(const Operand& a, const Shape& size) {
  return maximum_and_place("adaptive_max_pool2d", 2, a, size);
}
ValuesIndices adaptive_max_pool3d_with_indices(const Operand& a, const Shape& size) {
  return maximum_and_place("adaptive_max_pool3d", 3, a, size);
}

}  // namespace v0
}  // namespace lockstep
