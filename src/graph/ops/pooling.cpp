// Pools: reductions over window views.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/elements.h"
#include "graph/ops/pooling.h"
#include "graph/ops/take.h"
#include "graph/recording.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace graph {

double lowest_value(DType dtype) {
  if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
  return lowest_of(dtype);
}

std::uint64_t lowest_bits(DType dtype) {
  return element_bits(lowest_value(dtype), dtype);
}

namespace {

// 0, 1, ... for the taps of a window, in this shape.
Tensor numbers(const Shape& shape, Device device) {
  return arange(0, static_cast<double>(shape.numel()), 1, {.dtype = DType::i32, .device = device}).reshape(shape);
}

// A tap that reaches the elements of a phase, and which window of theirs it belongs to.
struct Reach {
  std::int64_t tap = 0;
  std::int64_t window = 0;  ///< of the phase's first element; outside for windows that do not exist
};

// The elements first, first + stride, ... of an axis.
struct Phase {
  std::int64_t first = 0, count = 0;
  std::vector<Reach> reaches;
};

std::vector<Phase> phases_of(const Axis& axis) {
  std::vector<Phase> phases;
  for (std::int64_t first = 0; first < std::min(axis.stride, axis.size); ++first) {
    Phase phase{.first = first, .count = (axis.size - first - 1) / axis.stride + 1, .reaches = {}};
    for (std::int64_t tap = 0; tap < axis.kernel; ++tap) {
      const std::int64_t start = first + axis.padding - tap * axis.dilation;
      if (start % axis.stride != 0) continue;
      const std::int64_t window = start / axis.stride;
      if (window < axis.output && window + phase.count > 0) phase.reaches.push_back({tap, window});
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

// The next index in row-major order; false behind the last one.
bool advance(std::vector<std::size_t>& index, const std::vector<std::size_t>& sizes) {
  for (std::size_t d = index.size(); d-- > 0;) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

// For overlapping windows of few taps: elements whose distance is a multiple of the strides are reached by the same
// taps, whose windows stand side by side. What each tap gives is a shifted view.
Tensor by_phases(const Tensor& g, const Tensor& winner, const std::vector<Axis>& axes, const Tensor& input) {
  const int lead = g.rank() - static_cast<int>(axes.size());
  std::vector<std::vector<Phase>> phases;
  std::vector<std::size_t> counts;
  for (const Axis& axis : axes) {
    phases.push_back(phases_of(axis));
    counts.push_back(phases.back().size());
  }
  Tensor result = zeros(input.shape(), {g.dtype(), g.device()});
  std::vector<std::size_t> at(axes.size(), 0);
  do {
    View region = View::contiguous(input.shape());
    std::vector<std::size_t> taps;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const Phase& phase = phases[i][at[i]];
      region = region.sliced(lead + static_cast<int>(i), phase.first, axes[i].stride, phase.count);
      taps.push_back(phase.reaches.size());
    }
    if (std::find(taps.begin(), taps.end(), std::size_t{0}) != taps.end()) continue;
    Tensor total;
    std::vector<std::size_t> tap(axes.size(), 0);
    do {
      std::int64_t number = 0;
      Shape shift = Shape::filled(2 * static_cast<int>(axes.size()), 0);  // pad's pairs, from the last dimension on
      for (std::size_t i = 0; i < axes.size(); ++i) {
        const Phase& phase = phases[i][at[i]];
        const Reach& reach = phase.reaches[tap[i]];
        number = number * axes[i].kernel + reach.tap;
        const int pair = 2 * static_cast<int>(axes.size() - 1 - i);
        shift[pair] = -reach.window;
        shift[pair + 1] = reach.window + phase.count - axes[i].output;
      }
      const Tensor wins = eq(pad(winner, shift), number);
      const Tensor part = where(wins, pad(g, shift), 0.0);
      total = total.defined() ? total + part : part;
    } while (advance(tap, taps));
    result = region.shape == input.shape() ? total : update(result, region, total);
  } while (advance(at, counts));
  return result;
}

constexpr std::int64_t kMostTaps = 64;  // of by_phases: each is a few nodes

// g at the element that won each window, nothing at the others. Every element asks each window that has it whether its
// tap won: a sum over taps in row-major order, or a choice where windows do not overlap. No scatter.
Tensor to_winners(const Tensor& g, const Tensor& winner, const std::vector<Axis>& axes, const Tensor& input) {
  const int lead = g.rank() - static_cast<int>(axes.size());
  const Shape outer = g.shape().slice(0, lead);
  const bool apart = std::all_of(axes.begin(), axes.end(),
                                 [](const Axis& axis) { return axis.stride == axis.kernel && axis.dilation == 1; });
  if (apart) {
    // Taps beside their window's position: [..., out, kernel, out, kernel].
    Shape one = outer, taps = Shape::filled(lead, 1), joined = outer;
    Shape beyond;  // pad's pairs, from the last dimension on
    for (const Axis& axis : axes) {
      one.push_back(axis.output);
      one.push_back(1);
      taps.push_back(1);
      taps.push_back(axis.kernel);
      joined.push_back(axis.output * axis.kernel);
    }
    for (std::size_t i = axes.size(); i-- > 0;) {
      beyond.push_back(-axes[i].padding);
      beyond.push_back(axes[i].size + axes[i].padding - axes[i].output * axes[i].kernel);
    }
    const Tensor wins = eq(winner.reshape(one), numbers(taps, g.device()));
    const Tensor spread = where(wins, g.reshape(one), 0.0).reshape(joined);
    return joined == input.shape() ? spread : pad(spread, beyond);
  }
  const Tensor wide_g = cast(g, wide(g.dtype()));
  std::int64_t tap_count = 1;
  for (const Axis& axis : axes) tap_count *= axis.kernel;
  if (tap_count <= kMostTaps) {
    return cast(by_phases(wide_g, winner, axes, input), g.dtype());
  }
  Shape one = g.shape(), all = g.shape(), taps;
  for (const Axis& axis : axes) {
    one.push_back(1);
    all.push_back(axis.kernel);
    taps.push_back(axis.kernel);
  }
  const auto fold = [&](const Tensor& of, std::uint64_t fill) {
    return change_view(of.reshape(one).expand(all), [&](const View& view) {
      std::optional<View> folded = view;
      for (std::size_t i = 0; folded && i < axes.size(); ++i) {
        const int dim = lead + static_cast<int>(i);
        folded = folded->folded(dim, dim + static_cast<int>(axes.size()), axes[i].size, axes[i].padding, axes[i].stride,
                                axes[i].dilation, fill);
      }
      return folded;
    });
  };
  const Tensor wins = eq(fold(winner, 0xffffffffu), numbers(taps, g.device()));
  const Tensor parts = where(wins, fold(wide_g, 0), 0.0);
  const std::uint32_t dims = last_dims(parts, axes.size());
  const Tensor total = reduce(ReduceOp::sum, parts, dims);
  return cast(drop_dims(total, dims, false), g.dtype());
}

Tensor reduce_taps(ReduceOp op, const Tensor& windows, std::size_t axes) {
  const std::uint32_t dims = last_dims(windows, axes);
  return drop_dims(reduce(op, windows, dims), dims, false);
}

}  // namespace

namespace {

// The number (i32) of the tap that wins each window [..., out..., taps...].
Tensor winners(const Tensor& windows, std::size_t axes) {
  return cast(reduce_taps(ReduceOp::argmax, windows, axes), DType::i32);
}

}  // namespace

Tensor largest(const Tensor& input, const std::vector<Axis>& axes) {
  const Tensor bare = untraced(input);
  const Tensor windows = windows_of(bare, axes, lowest_bits(input.dtype()));
  const Tensor values = reduce_taps(ReduceOp::max, windows, axes.size());
  if (!is_tracing({&input})) return values;
  return traced(values, {&input}, [windows, bare, axes](const Tensor& g, const std::vector<bool>&, const Tensor&) {
    const Tensor winner = winners(windows, axes.size());
    return std::vector<Tensor>{to_winners(g, winner, axes, bare)};
  });
}

Tensor largest_tap(const Tensor& windows, std::size_t axes) {
  const Tensor bare = untraced(windows);
  const Tensor values = reduce_taps(ReduceOp::max, bare, axes);
  if (!is_tracing({&windows})) return values;
  return traced(values, {&windows}, [bare, axes](const Tensor& g, const std::vector<bool>&, const Tensor&) {
    Shape one = g.shape();
    for (std::size_t i = 0; i < axes; ++i) one.push_back(1);
    const Shape taps = bare.shape().slice(g.rank(), bare.rank());
    const Tensor winner = winners(bare, axes).reshape(one);
    const Tensor wins = eq(winner, numbers(taps, g.device()));
    return std::vector<Tensor>{where(wins, g.reshape(one), 0.0)};
  });
}

Tensor place_of_largest(const Tensor& windows, const std::vector<WindowStarts>& starts) {
  const int rank = static_cast<int>(starts.size());
  Tensor places;
  Tensor tap = reduce_taps(ReduceOp::argmax, windows, starts.size());
  // From the winner's number among the taps, last axis first, to its coordinates. Filling can only win at tap 0, when
  // nothing in the window is larger; the first true element is the winner then, and never stands before `first`.
  std::int64_t stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    const WindowStarts& axis = starts[static_cast<std::size_t>(d)];
    const Tensor rest = d == 0 ? Tensor() : floor_divide(tap, axis.taps);
    const Tensor own = d == 0 ? tap : tap - rest * axis.taps;
    const Tensor moved = axis.dilation == 1 ? own : own * axis.dilation;
    Tensor coordinate = moved + table(axis.start, d, rank, DType::i64, windows.device());
    if (axis.first != axis.start)
      coordinate = maximum(coordinate, table(axis.first, d, rank, DType::i64, windows.device()));
    const Tensor part = stride == 1 ? coordinate : coordinate * stride;
    places = places.defined() ? places + part : part;
    stride *= axis.size;
    tap = rest;
  }
  return places;
}

}  // namespace graph

namespace {

std::vector<Axis> axes_of(const Tensor& input, int rank, const PoolArguments& options) {
  if (input.rank() != rank + 1 && input.rank() != rank + 2) {
    fail<ShapeError>(fmt::format("input must have {} dimensions, or {} without a batch", rank + 2, rank + 1),
                     {{"input", input}});
  }
  const Shape kernel = per_axis("kernel", options.kernel, rank, 1, input);
  const Shape stride = per_axis("stride", options.stride.empty() ? kernel : options.stride, rank, 1, input);
  const Shape padding = per_axis("padding", options.padding, rank, 0, input);
  const Shape dilation = per_axis("dilation", options.dilation, rank, 1, input);
  std::vector<Axis> axes;
  for (int d = 0; d < rank; ++d) {
    Axis axis{.size = input.shape()[input.rank() - rank + d],
              .kernel = kernel[d],
              .stride = stride[d],
              .padding = padding[d],
              .dilation = dilation[d]};
    const std::int64_t reach = axis.reach();
    if (2 * axis.padding > reach) {
      fail<ValueError>(fmt::format("padding {} is more than half the kernel's reach of {}", axis.padding, reach),
                       {{"input", input}});
    }
    const std::int64_t free = axis.size + 2 * axis.padding - reach;
    if (free < 0) {
      fail<ShapeError>(
          fmt::format("a kernel that spans {} does not fit a padded input of {}", reach, axis.size + 2 * axis.padding),
          {{"input", input}});
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

// `includes`: whether padding counts in averages.
Tensor recorded_pool(Tensor result, std::string_view op, const Tensor& input, const std::vector<Axis>& axes,
                     bool includes) {
  if (!is_recording()) return result;
  Shape kernel, stride, dilation, before, after;
  for (const Axis& axis : axes) {
    kernel.push_back(axis.kernel);
    stride.push_back(axis.stride);
    dilation.push_back(axis.dilation);
    before.push_back(axis.padding);
    after.push_back(axis.after);
  }
  return recorded(std::move(result), op, {&input}, {kernel, stride, dilation, before, after, {includes ? 1 : 0}});
}

Tensor max_pool(int rank, const Operand& a, const PoolArguments& options) {
  const Tensor& input = tensor_operand(a);
  const std::vector<Axis> axes = axes_of(input, rank, options);
  return recorded_pool(largest(input, axes), "max_pool", input, axes, true);
}

ValuesIndices max_pool_with_indices(int rank, const Operand& a, const PoolArguments& options) {
  const Tensor& input = tensor_operand(a);
  const std::vector<Axis> axes = axes_of(input, rank, options);
  std::vector<WindowStarts> starts;
  for (const Axis& axis : axes) {
    WindowStarts each{.size = axis.size, .taps = axis.kernel, .dilation = axis.dilation, .start = {}, .first = {}};
    for (std::int64_t i = 0; i < axis.output; ++i) {
      const std::int64_t start = i * axis.stride - axis.padding;
      const std::int64_t skipped = start < 0 ? (-start + axis.dilation - 1) / axis.dilation : 0;
      each.start.push_back(start);
      each.first.push_back(std::min(start + skipped * axis.dilation, axis.size - 1));
    }
    starts.push_back(std::move(each));
  }
  return {largest(input, axes),
          place_of_largest(windows_of(untraced(input), axes, lowest_bits(input.dtype())), starts)};
}

// How many taps of each window fall on the input (or its padding), as a tensor that broadcasts over the output.
Tensor counts(const std::vector<Axis>& axes, bool include_pad, DType dtype, Device device) {
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
  return Tensor::from(count, shape, Device{}).to(dtype).to(device);
}

Tensor avg_pool(int rank, const Operand& a, const PoolArguments& options) {
  const Tensor& input = tensor_operand(a);
  check_float({"input", input});
  for (const std::int64_t dilation : options.dilation) {
    if (dilation != 1) fail<ValueError>("average pools have no dilation", {{"input", input}});
  }
  const std::vector<Axis> axes = axes_of(input, rank, options);
  const Tensor x = cast(input, wide(input.dtype()));
  const Tensor windows = windows_of(x, axes, 0);
  const std::uint32_t dims = last_dims(windows, axes.size());
  const Tensor total = drop_dims(reduce(ReduceOp::sum, windows, dims), dims, false);
  if (options.divisor_override) {
    if (*options.divisor_override == 0) {
      fail<ValueError>("divisor_override is 0", {{"input", input}}, "divide by something else");
    }
    return cast(div(total, *options.divisor_override), input.dtype());
  }
  double taps = 1;
  bool uniform = true;
  for (const Axis& axis : axes) {
    taps *= static_cast<double>(axis.kernel);
    uniform = uniform && axis.after <= axis.padding && (axis.padding == 0 || options.count_include_pad);
  }
  const Tensor mean =
      uniform ? div(total, taps) : div(total, counts(axes, options.count_include_pad, x.dtype(), x.device()));
  return recorded_pool(cast(mean, input.dtype()), "avg_pool", input, axes, options.count_include_pad);
}

}  // namespace

Tensor max_pool1d(const Operand& input, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("max_pool1d", input);
  return max_pool(1, input, {options, kernel});
}
Tensor max_pool2d(const Operand& input, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("max_pool2d", input);
  return max_pool(2, input, {options, kernel});
}
Tensor max_pool3d(const Operand& input, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("max_pool3d", input);
  return max_pool(3, input, {options, kernel});
}
ValuesIndices max_pool1d_with_indices(const Operand& input, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("max_pool1d_with_indices", input);
  return max_pool_with_indices(1, input, {options, kernel});
}
ValuesIndices max_pool2d_with_indices(const Operand& input, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("max_pool2d_with_indices", input);
  return max_pool_with_indices(2, input, {options, kernel});
}
ValuesIndices max_pool3d_with_indices(const Operand& input, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("max_pool3d_with_indices", input);
  return max_pool_with_indices(3, input, {options, kernel});
}
Tensor avg_pool1d(const Operand& input, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("avg_pool1d", input);
  return avg_pool(1, input, {options, kernel});
}
Tensor avg_pool2d(const Operand& input, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("avg_pool2d", input);
  return avg_pool(2, input, {options, kernel});
}
Tensor avg_pool3d(const Operand& input, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("avg_pool3d", input);
  return avg_pool(3, input, {options, kernel});
}

}  // namespace v0
}  // namespace lockstep
