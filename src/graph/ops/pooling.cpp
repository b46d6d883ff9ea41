// Pools: reductions over window views.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// One spatial dimension of a pool.
struct Axis {
  std::int64_t size, kernel, stride, padding, dilation, output, after;
};

Shape per_axis(const char* op, const char* what, const Shape& given, int rank, std::int64_t least, const Tensor& input,
               CallSite site) {
  Shape result = given.rank() == 1 ? Shape::filled(rank, given[0]) : given;
  bool valid = result.rank() == rank;
  for (const std::int64_t value : result) valid = valid && value >= least && value < (std::int64_t{1} << 31);
  if (!valid) {
    fail<ValueError>(op, fmt::format("{} {} must be one or {} values of at least {}", what, given.to_string(), rank, least),
                     {{"input", input}}, "", site);
  }
  return result;
}

std::vector<Axis> axes_of(const char* op, const Tensor& input, int rank, const PoolOptions& options, CallSite site) {
  if (input.rank() != rank + 1 && input.rank() != rank + 2) {
    fail<ShapeError>(op, fmt::format("input must have {} dimensions, or {} without a batch", rank + 2, rank + 1),
                     {{"input", input}}, "", site);
  }
  const Shape kernel = per_axis(op, "kernel", options.kernel, rank, 1, input, site);
  const Shape stride = per_axis(op, "stride", options.stride.empty() ? kernel : options.stride, rank, 1, input, site);
  const Shape padding = per_axis(op, "padding", options.padding, rank, 0, input, site);
  const Shape dilation = per_axis(op, "dilation", options.dilation, rank, 1, input, site);
  std::vector<Axis> axes;
  for (int d = 0; d < rank; ++d) {
    Axis axis{input.shape()[input.rank() - rank + d], kernel[d], stride[d], padding[d], dilation[d], 0, 0};
    if (2 * axis.padding > axis.kernel) {
      fail<ValueError>(op, fmt::format("padding {} is more than half the kernel {}", axis.padding, axis.kernel),
                       {{"input", input}}, "", site);
    }
    const std::int64_t reach = axis.dilation * (axis.kernel - 1) + 1;
    const std::int64_t free = axis.size + 2 * axis.padding - reach;
    if (free < 0) {
      fail<ShapeError>(op, fmt::format("a kernel that spans {} does not fit a padded input of {}", reach,
                                       axis.size + 2 * axis.padding),
                       {{"input", input}}, "", site);
    }
    axis.output = free / axis.stride + 1;
    if (options.ceil_mode && free % axis.stride != 0 && axis.output * axis.stride < axis.size + axis.padding) {
      ++axis.output;  // a last window that starts inside the input or its left padding
    }
    axis.after = std::max<std::int64_t>(0, (axis.output - 1) * axis.stride + reach - axis.size - axis.padding);
    axes.push_back(axis);
  }
  return axes;
}

// x as [..., out..., kernel...] with `fill` around it.
Tensor windows_of(const Tensor& x, const std::vector<Axis>& axes, std::uint64_t fill, CallSite site) {
  const int first = x.rank() - static_cast<int>(axes.size());
  return change_view(x, site, [&](const View& view) {
    std::optional<View> result = view;
    for (std::size_t i = 0; result && i < axes.size(); ++i) {
      const Axis& axis = axes[i];
      if (axis.padding > 0 || axis.after > 0) {
        result = result->padded(first + static_cast<int>(i), axis.padding, axis.after, fill);
      }
    }
    for (std::size_t i = 0; result && i < axes.size(); ++i) {
      const Axis& axis = axes[i];
      result = result->windowed(first + static_cast<int>(i), axis.kernel, axis.output, axis.stride, axis.dilation);
    }
    return result;
  });
}

std::uint32_t last_dims(const Tensor& windows, std::size_t count) {
  const int rank = windows.rank();
  return ((1u << rank) - 1u) & ~((1u << (rank - static_cast<int>(count))) - 1u);
}

const Tensor& checked(const char* op, const Operand& input) {
  check_defined(op, {{"input", input}}, input.site());
  if (input.is_scalar()) fail<ValueError>(op, "needs a tensor operand", {{"input", input}}, "", input.site());
  return input.tensor();
}

std::uint64_t lowest_bits(DType dtype) {
  if (is_float(dtype)) return element_bits(-std::numeric_limits<double>::infinity(), dtype);
  if (dtype == DType::boolean || dtype == DType::u8 || dtype == DType::u32) return 0;
  return std::uint64_t{1} << (8 * size_of(dtype) - 1);
}

Tensor max_pool(const char* op, int rank, const Operand& a, const PoolOptions& options) {
  const Tensor& input = checked(op, a);
  const std::vector<Axis> axes = axes_of(op, input, rank, options, a.site());
  const Tensor windows = windows_of(input, axes, lowest_bits(input.dtype()), a.site());
  const std::uint32_t dims = last_dims(windows, axes.size());
  return drop_dims(reduce(ReduceOp::max, windows, dims, a.site()), dims, false, a.site());
}

// How many taps of each window fall on the input (or its padding), as a tensor that broadcasts over the output.
Tensor counts(const std::vector<Axis>& axes, bool include_pad, DType dtype, Device device, CallSite site) {
  std::vector<std::int64_t> count{1};
  Shape shape;
  for (const Axis& axis : axes) {
    std::vector<std::int64_t> next;
    for (const std::int64_t outer : count) {
      for (std::int64_t i = 0; i < axis.output; ++i) {
        const std::int64_t start = i * axis.stride - axis.padding;
        const std::int64_t stop = std::min(start + axis.kernel, axis.size + axis.padding);
        const std::int64_t inside = std::min(stop, axis.size) - std::max<std::int64_t>(start, 0);
        next.push_back(outer * (include_pad ? stop - start : std::max<std::int64_t>(inside, 0)));
      }
    }
    count = std::move(next);
    shape.push_back(axis.output);
  }
  return Tensor::from(count, shape, Device{}, site).to(dtype, site).to(device, site);
}

Tensor avg_pool(const char* op, int rank, const Operand& a, const PoolOptions& options) {
  const CallSite site = a.site();
  const Tensor& input = checked(op, a);
  check_float(op, {"input", input}, site);
  for (const std::int64_t dilation : options.dilation) {
    if (dilation != 1) fail<ValueError>(op, "average pools have no dilation", {{"input", input}}, "", site);
  }
  const std::vector<Axis> axes = axes_of(op, input, rank, options, site);
  const Tensor x = cast(input, wide(input.dtype()), site);
  const Tensor windows = windows_of(x, axes, 0, site);
  const std::uint32_t dims = last_dims(windows, axes.size());
  const Tensor total = drop_dims(reduce(ReduceOp::sum, windows, dims, site), dims, false, site);
  double taps = 1;
  bool uniform = true;
  for (const Axis& axis : axes) {
    taps *= static_cast<double>(axis.kernel);
    uniform = uniform && axis.after <= axis.padding && (axis.padding == 0 || options.count_include_pad);
  }
  const Tensor mean = uniform ? div(total, Operand(taps, site))
                              : div(total, Operand(counts(axes, options.count_include_pad, x.dtype(), x.device(), site), site));
  return cast(mean, input.dtype(), site);
}

}  // namespace

Tensor max_pool1d(const Operand& input, const PoolOptions& options) { return max_pool("max_pool1d", 1, input, options); }
Tensor max_pool2d(const Operand& input, const PoolOptions& options) { return max_pool("max_pool2d", 2, input, options); }
Tensor avg_pool1d(const Operand& input, const PoolOptions& options) { return avg_pool("avg_pool1d", 1, input, options); }
Tensor avg_pool2d(const Operand& input, const PoolOptions& options) { return avg_pool("avg_pool2d", 2, input, options); }

Tensor adaptive_avg_pool2d(const Operand& a, const Shape& output_size) {
  const char* const op = "adaptive_avg_pool2d";
  const CallSite site = a.site();
  const Tensor& input = checked(op, a);
  check_float(op, {"input", input}, site);
  const Shape target = per_axis(op, "output_size", output_size, 2, 1, input, site);
  if (input.rank() != 3 && input.rank() != 4) {
    fail<ShapeError>(op, "input must be [N, C, H, W] or [C, H, W]", {{"input", input}}, "", site);
  }
  const int first = input.rank() - 2;
  const std::int64_t height = input.shape()[first];
  const std::int64_t width = input.shape()[first + 1];
  if (target == Shape{1, 1}) return mean(Operand(input, site), {-2, -1}, true);
  if (height % target[0] == 0 && width % target[1] == 0) {
    return avg_pool(op, 2, a, {.kernel = {height / target[0], width / target[1]}});
  }
  // Windows of unequal size: row i covers [floor(i H / h), ceil((i + 1) H / h)).
  const auto range = [](std::int64_t i, std::int64_t size, std::int64_t count) {
    const std::int64_t start = i * size / count;
    return std::pair(start, ((i + 1) * size + count - 1) / count - start);
  };
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < target[0]; ++i) {
    std::vector<Tensor> cells;
    const auto [top, tall] = range(i, height, target[0]);
    for (std::int64_t j = 0; j < target[1]; ++j) {
      const auto [left, wide_count] = range(j, width, target[1]);
      const Tensor window = input.narrow(first, top, tall, site).narrow(first + 1, left, wide_count, site);
      cells.push_back(mean(Operand(window, site), {-2, -1}, true));
    }
    rows.push_back(cat(cells, -1, site));
  }
  return cat(rows, -2, site);
}

}  // namespace v0
}  // namespace lockstep
