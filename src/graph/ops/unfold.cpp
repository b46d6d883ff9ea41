// Windows as columns and back: unfold copies through a window view, fold sums a view of the columns over the taps.
#include <fmt/format.h>

#include "graph/ops/windows.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor Tensor::unfold(int dim, std::int64_t size, std::int64_t step, CallSite site) const {
  check_defined("unfold", {{"input", *this}}, site);
  if (rank() == 0) return unsqueeze(0, site).unfold(0, size, step, site);
  const int d = check_dim("unfold", *this, dim, site);
  if (size < 0 || step < 1) {
    fail<ValueError>("unfold", fmt::format("no windows of {} elements in steps of {}", size, step), {{"input", *this}},
                     "use a step of at least 1", site);
  }
  if (size > shape()[d]) {
    fail<ShapeError>("unfold", fmt::format("a window of {} does not fit dimension {} of size {}", size, d, shape()[d]),
                     {{"input", *this}}, "use a smaller window", site);
  }
  const std::int64_t count = (shape()[d] - size) / step + 1;
  Shape target = shape();
  target[d] = count;
  target.push_back(size);
  check_shape("unfold", target, dtype(), site);
  return change_view(*this, site, [&](const View& view) {
    return std::optional(view.windowed(d, size, count, count > 1 ? step : 1, 1));
  });
}

namespace {

// The windows over an image of these sizes. ShapeError if there is none.
std::vector<Axis> axes_over(const char* op, const Shape& sizes, const Shape& kernel_size, const UnfoldOptions& options,
                            const Tensor& input, CallSite site) {
  const Shape kernel = per_axis(op, "kernel", kernel_size, 2, 1, input, site);
  const Shape dilation = per_axis(op, "dilation", options.dilation, 2, 1, input, site);
  const Shape padding = per_axis(op, "padding", options.padding, 2, 0, input, site);
  const Shape stride = per_axis(op, "stride", options.stride, 2, 1, input, site);
  std::vector<Axis> axes;
  for (int d = 0; d < 2; ++d) {
    Axis axis{
        .size = sizes[d], .kernel = kernel[d], .stride = stride[d], .padding = padding[d], .dilation = dilation[d]};
    axis.after = axis.padding;
    std::int64_t whole = 0;
    if (__builtin_add_overflow(axis.size, 2 * axis.padding, &whole) || whole < axis.reach()) {
      fail<ShapeError>(op,
                       fmt::format("a kernel that spans {} does not fit a padded size of {}", axis.reach(),
                                   axis.size + 2 * axis.padding),
                       {{"input", input}}, "use a smaller kernel or more padding", site);
    }
    axis.output = (whole - axis.reach()) / axis.stride + 1;
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

Tensor unfold(const Operand& a, const Shape& kernel, const UnfoldOptions& options) {
  const char* const op = "unfold";
  const Tensor& input = tensor_operand(op, a);
  const CallSite site = a.site();
  if (input.rank() != 3 && input.rank() != 4) {
    fail<ShapeError>(op, "input must be [N, C, H, W] or [C, H, W]", {{"input", input}}, "", site);
  }
  const Tensor x = input.rank() == 3 ? input.unsqueeze(0, site) : input;
  const std::vector<Axis> axes = axes_over(op, x.shape().slice(2, 4), kernel, options, input, site);
  const Tensor taps_first = windows_of(x, axes, 0, site).permute({0, 1, 4, 5, 2, 3}, site);
  const Shape s = taps_first.shape();
  Shape target{s[0], s[1] * s[2] * s[3], s[4] * s[5]};
  if (input.rank() == 3) target.erase(0);
  return taps_first.reshape(target, site);
}

Tensor fold(const Operand& a, const Shape& output_size, const Shape& kernel, const UnfoldOptions& options) {
  const char* const op = "fold";
  const Tensor& input = tensor_operand(op, a);
  const CallSite site = a.site();
  check_float(op, {"input", input}, site);
  const Shape sizes = per_axis(op, "output_size", output_size, 2, 1, input, site);
  const std::vector<Axis> axes = axes_over(op, sizes, kernel, options, input, site);
  const std::int64_t taps = axes[0].kernel * axes[1].kernel;
  const std::int64_t positions = axes[0].output * axes[1].output;
  const bool fits = (input.rank() == 2 || input.rank() == 3) && input.shape()[input.rank() - 2] % taps == 0 &&
                    input.shape()[input.rank() - 1] == positions;
  if (!fits) {
    fail<ShapeError>(op, fmt::format("input must be [N, C * {}, {}] or without N", taps, positions), {{"input", input}},
                     "the sizes, kernel, padding, dilation and stride are those of the unfold that it undoes", site);
  }
  const Tensor x = cast(input.rank() == 2 ? input.unsqueeze(0, site) : input, wide(input.dtype()), site);
  const std::int64_t channels = x.shape()[1] / taps;
  const Tensor columns =
      x.reshape({x.shape()[0], channels, axes[0].kernel, axes[1].kernel, axes[0].output, axes[1].output}, site)
          .permute({0, 1, 4, 5, 2, 3}, site);
  const Tensor windows = change_view(columns, site, [&](const View& view) {
    std::optional<View> folded = view;
    for (int i = 0; folded && i < 2; ++i) {
      const Axis& axis = axes[static_cast<std::size_t>(i)];
      folded = folded->folded(2 + i, 4 + i, axis.size, axis.padding, axis.stride, axis.dilation, 0);
    }
    return folded;
  });
  const std::uint32_t dims = last_dims(windows, 2);
  const Tensor image = drop_dims(reduce(ReduceOp::sum, windows, dims, site), dims, false, site);
  return cast(input.rank() == 2 ? image.squeeze(0, site) : image, input.dtype(), site);
}

}  // namespace v0
}  // namespace lockstep
