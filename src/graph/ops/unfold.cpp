// Windows as columns and back: unfold copies through a window view, fold sums a view of the columns over the taps.
#include <fmt/format.h>

#include "graph/ops/windows.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor Tensor::unfold(int dim, std::int64_t size, std::int64_t step, CallSite site) const {
  const CallScope call("unfold", site);
  check_defined({{"input", *this}});
  if (rank() == 0) return unsqueeze(0).unfold(0, size, step);
  const int d = check_dim(*this, dim);
  if (size < 0 || step < 1) {
    fail<ValueError>(fmt::format("no windows of {} elements in steps of {}", size, step), {{"input", *this}},
                     "use a step of at least 1");
  }
  if (size > shape()[d]) {
    fail<ShapeError>(fmt::format("a window of {} does not fit dimension {} of size {}", size, d, shape()[d]),
                     {{"input", *this}}, "use a smaller window");
  }
  const std::int64_t count = (shape()[d] - size) / step + 1;
  Shape target = shape();
  target[d] = count;
  target.push_back(size);
  check_shape(target, dtype());
  return change_view(
      *this, [&](const View& view) { return std::optional(view.windowed(d, size, count, count > 1 ? step : 1, 1)); });
}

namespace {

// The windows over an image of these sizes. ShapeError if there is none.
std::vector<Axis> axes_over(const Shape& sizes, const Shape& kernel_size, const UnfoldOptions& options,
                            const Tensor& input) {
  const Shape kernel = per_axis("kernel", kernel_size, 2, 1, input);
  const Shape dilation = per_axis("dilation", options.dilation, 2, 1, input);
  const Shape padding = per_axis("padding", options.padding, 2, 0, input);
  const Shape stride = per_axis("stride", options.stride, 2, 1, input);
  std::vector<Axis> axes;
  for (int d = 0; d < 2; ++d) {
    Axis axis{
        .size = sizes[d], .kernel = kernel[d], .stride = stride[d], .padding = padding[d], .dilation = dilation[d]};
    axis.after = axis.padding;
    std::int64_t whole = 0;
    if (__builtin_add_overflow(axis.size, 2 * axis.padding, &whole) || whole < axis.reach()) {
      fail<ShapeError>(fmt::format("a kernel that spans {} does not fit a padded size of {}", axis.reach(),
                                   axis.size + 2 * axis.padding),
                       {{"input", input}}, "use a smaller kernel or more padding");
    }
    axis.output = (whole - axis.reach()) / axis.stride + 1;
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

Tensor unfold(const Operand& a, const Shape& kernel, const UnfoldOptions& options) {
  const CallScope call("unfold", a);
  const Tensor& input = tensor_operand(a);
  if (input.rank() != 3 && input.rank() != 4) {
    fail<ShapeError>("input must be [N, C, H, W] or [C, H, W]", {{"input", input}});
  }
  const Tensor x = input.rank() == 3 ? input.unsqueeze(0) : input;
  const std::vector<Axis> axes = axes_over(x.shape().slice(2, 4), kernel, options, input);
  const Tensor taps_first = windows_of(x, axes, 0).permute({0, 1, 4, 5, 2, 3});
  const Shape s = taps_first.shape();
  Shape target{s[0], s[1] * s[2] * s[3], s[4] * s[5]};
  if (input.rank() == 3) target.erase(0);
  return taps_first.reshape(target);
}

Tensor fold(const Operand& a, const Shape& output_size, const Shape& kernel, const UnfoldOptions& options) {
  const CallScope call("fold", a);
  const Tensor& input = tensor_operand(a);
  check_float({"input", input});
  const Shape sizes = per_axis("output_size", output_size, 2, 1, input);
  const std::vector<Axis> axes = axes_over(sizes, kernel, options, input);
  const std::int64_t taps = axes[0].kernel * axes[1].kernel;
  const std::int64_t positions = axes[0].output * axes[1].output;
  const bool fits = (input.rank() == 2 || input.rank() == 3) && input.shape()[input.rank() - 2] % taps == 0 &&
                    input.shape()[input.rank() - 1] == positions;
  if (!fits) {
    fail<ShapeError>(fmt::format("input must be [N, C * {}, {}] or without N", taps, positions), {{"input", input}},
                     "the sizes, kernel, padding, dilation and stride are those of the unfold that it undoes");
  }
  const Tensor x = cast(input.rank() == 2 ? input.unsqueeze(0) : input, wide(input.dtype()));
  const std::int64_t channels = x.shape()[1] / taps;
  const Tensor columns =
      x.reshape({x.shape()[0], channels, axes[0].kernel, axes[1].kernel, axes[0].output, axes[1].output})
          .permute({0, 1, 4, 5, 2, 3});
  const Tensor windows = change_view(columns, [&](const View& view) {
    std::optional<View> folded = view;
    for (int i = 0; folded && i < 2; ++i) {
      const Axis& axis = axes[static_cast<std::size_t>(i)];
      folded = folded->folded(2 + i, 4 + i, axis.size, axis.padding, axis.stride, axis.dilation, 0);
    }
    return folded;
  });
  const std::uint32_t dims = last_dims(windows, 2);
  const Tensor image = drop_dims(reduce(ReduceOp::sum, windows, dims), dims, false);
  return cast(input.rank() == 2 ? image.squeeze(0) : image, input.dtype());
}

}  // namespace v0
}  // namespace lockstep
