// Transposed convolutions (docs/numerics.md section 6): zeros between the input's elements do not exist.
//
// Write u = output position + padding. Along one dimension the tap t of the input position i lands on
// u = i * stride + t * dilation, so a phase u mod stride sees only the taps with t * dilation = u (mod stride): every
// `period`-th tap from the phase's first one on. A phase is thus an ordinary convolution at stride 1 with these taps,
// and phases with as many taps (with dilation 1: at most two kinds of them) are further rows of one contraction. The
// phases are then interleaved. Taps beyond the input's ends are products with +0, as in a padded convolution.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/autograd.h>

#include "graph/autocast.h"
#include "graph/gradient_rules.h"
#include "graph/numerics.h"
#include "graph/ops/convolution.h"
#include "graph/recording.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// Neighbouring phases of one dimension that are computed by one contraction.
struct Phases {
  std::int64_t count = 1;
  std::int64_t first_tap = 0;  ///< of the first phase; each next phase starts one tap later
  std::int64_t period = 1;     ///< taps of a phase are this far apart in the weight
  std::int64_t taps = 0;       ///< 0: nothing lands on these outputs
  std::int64_t shift = 0;      ///< input position of the first tap at u = phase
  std::int64_t reach = 1;      ///< input positions between neighbouring taps
};

// One spatial dimension.
struct TransposedAxis {
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t stride = 1;
  std::int64_t first = 0;  ///< the first computed u / stride
  std::int64_t steps = 0;  ///< computed values of u / stride
  std::int64_t skip = 0;   ///< computed outputs before the first one asked for
  std::vector<Phases> phases;
};

TransposedAxis make_axis(std::int64_t input, std::int64_t output, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation) {
  TransposedAxis axis{.input = input, .output = output, .stride = stride};
  axis.first = padding / stride;
  axis.skip = padding - axis.first * stride;
  axis.steps = (axis.skip + output + stride - 1) / stride;
  const std::int64_t step = std::gcd(stride, dilation);
  const std::int64_t period = stride / step;
  // By phase, the first of its taps; those from `kernel` on do not exist.
  std::vector<Phases> by_phase(static_cast<std::size_t>(stride), Phases{});
  for (std::int64_t tap = 0; tap < std::min(period, kernel); ++tap) {
    by_phase[static_cast<std::size_t>(tap * dilation % stride)] = {.count = 1,
                                                                   .first_tap = tap,
                                                                   .period = period,
                                                                   .taps = (kernel - tap + period - 1) / period,
                                                                   .shift = -(tap * dilation / stride),
                                                                   .reach = dilation / step};
  }
  for (const Phases& phase : by_phase) {
    Phases* last = axis.phases.empty() ? nullptr : &axis.phases.back();
    const bool same = last != nullptr && phase.taps == last->taps && phase.shift == last->shift &&
                      (phase.taps == 0 || phase.first_tap == last->first_tap + last->count);
    if (same) {
      ++last->count;
    } else {
      axis.phases.push_back(phase);
    }
  }
  return axis;
}

class Transposed {
 public:
  Transposed(ConvOperands operands, std::vector<TransposedAxis> axes, std::int64_t groups)
      : operands_(std::move(operands)), axes_(std::move(axes)), groups_(groups) {
    batch_ = operands_.input.shape()[0];
    channels_ = operands_.input.shape()[1] / groups_;
    out_channels_ = operands_.weight.shape()[1];
  }

  Tensor run() {
    std::vector<const Phases*> chosen;
    const Tensor joined = join(chosen);  // [N, O, phases..., steps...]
    const int rank = static_cast<int>(axes_.size());
    Dims order{0, 1};
    Shape interleaved{batch_, groups_ * out_channels_};
    for (int d = 0; d < rank; ++d) {
      order.push_back(2 + rank + d);
      order.push_back(2 + d);
      interleaved.push_back(axis(d).steps * axis(d).stride);
    }
    Tensor y = joined.permute(order).reshape(interleaved);
    for (int d = 0; d < rank; ++d) y = y.narrow(2 + d, axis(d).skip, axis(d).output);
    return y;
  }

 private:
  const TransposedAxis& axis(int d) const { return axes_[static_cast<std::size_t>(d)]; }

  // All phases of the dimensions from chosen.size() on, for the chosen phases of those before.
  Tensor join(std::vector<const Phases*>& chosen) {
    if (chosen.size() == axes_.size()) return compute(chosen);
    const int dim = static_cast<int>(chosen.size());
    std::vector<Tensor> parts;
    for (const Phases& phases : axis(dim).phases) {
      chosen.push_back(&phases);
      parts.push_back(join(chosen));
      chosen.pop_back();
    }
    return parts.size() == 1 ? parts[0] : cat(parts, 2 + dim);
  }

  // One contraction: [N, O, counts..., steps...], with bias, in the dtype of the result.
  Tensor compute(const std::vector<const Phases*>& phases) {
    const int rank = static_cast<int>(axes_.size());
    Contract primitive;
    primitive.b = {batch_, groups_};
    primitive.m = {out_channels_};
    primitive.k = {channels_};
    Shape shape{batch_, groups_ * out_channels_};
    for (int d = 0; d < rank; ++d) {
      const Phases& p = *phases[static_cast<std::size_t>(d)];
      primitive.m.push_back(p.count);
      primitive.n.push_back(axis(d).steps);
      primitive.k.push_back(p.taps);
      shape.push_back(p.count);
    }
    for (int d = 0; d < rank; ++d) shape.push_back(axis(d).steps);
    const Reading filters = taps_of_weight(phases);
    const Reading columns = windows_of_input(phases);
    primitive.a_view = repeated(filters.view, 0, {batch_});
    primitive.b_view = columns.view;
    Tensor y = contract(std::move(primitive), filters, columns, operands_.input.dtype());
    y = with_bias(y.reshape(shape), operands_.bias);
    return cast(y, returned(operands_.input.dtype()));
  }

  // The weight as [G, O/G, counts..., C/G, taps...].
  Reading taps_of_weight(const std::vector<const Phases*>& phases) const {
    const int rank = static_cast<int>(axes_.size());
    return reading_as(operands_.weight, [&](const View& view) -> std::optional<View> {
      Shape split{groups_, channels_, out_channels_};
      for (int d = 0; d < rank; ++d) split.push_back(operands_.weight.shape()[2 + d]);
      std::optional<View> result = view.reshaped(split);
      if (!result) return std::nullopt;
      for (int d = 0; d < rank; ++d) {
        const Phases& p = *phases[static_cast<std::size_t>(d)];
        const std::int64_t used = p.taps == 0 ? 0 : p.count + p.period * (p.taps - 1);
        *result = result->sliced(3 + d, p.first_tap, 1, used);
        *result = result->windowed(3 + d, p.taps, p.count, 1, p.period);
      }
      Shape order{0, 2};
      for (int d = 0; d < rank; ++d) order.push_back(3 + d);
      order.push_back(1);
      for (int d = 0; d < rank; ++d) order.push_back(3 + rank + d);
      return result->permuted(order);
    });
  }

  // The input as [N, G, C/G, taps..., steps...]; later taps see earlier elements.
  Reading windows_of_input(const std::vector<const Phases*>& phases) const {
    const int rank = static_cast<int>(axes_.size());
    return reading_as(operands_.input, [&](const View& view) -> std::optional<View> {
      Shape split{batch_, groups_, channels_};
      for (int d = 0; d < rank; ++d) split.push_back(axis(d).input);
      std::optional<View> result = view.reshaped(split);
      for (int d = 0; result && d < rank; ++d) {
        const Phases& p = *phases[static_cast<std::size_t>(d)];
        const std::int64_t taps = std::max<std::int64_t>(p.taps, 1);
        const std::int64_t lowest = axis(d).first + p.shift - p.reach * (taps - 1);
        const std::int64_t highest = axis(d).first + p.shift + axis(d).steps - 1;
        result = result->padded(3 + d, -lowest, highest + 1 - axis(d).input, 0);
      }
      if (!result) return std::nullopt;
      for (int d = 0; d < rank; ++d) {
        const Phases& p = *phases[static_cast<std::size_t>(d)];
        *result = result->windowed(3 + d, p.taps, axis(d).steps, 1, p.reach);
        if (p.taps > 1) *result = result->sliced(result->rank() - 1, p.taps - 1, -1, p.taps);
      }
      Shape order{0, 1, 2};
      for (int d = 0; d < rank; ++d) order.push_back(3 + rank + d);
      for (int d = 0; d < rank; ++d) order.push_back(3 + d);
      return result->permuted(order);
    });
  }

  const ConvOperands operands_;
  const std::vector<TransposedAxis> axes_;
  const std::int64_t groups_;
  std::int64_t batch_ = 0;
  std::int64_t channels_ = 0;      ///< per group
  std::int64_t out_channels_ = 0;  ///< per group
};

// In fast numerics: one contraction over windows of the input, between whose elements there are stride - 1 zeros, with
// the last tap first. `output`: sizes.
Tensor transposed_channels_last(const Tensor& input, const Tensor& weight, const Shape& output,
                                const Windows& windows) {
  const int rank = output.rank();
  const Shape kernel = weight.shape().slice(2, rank + 2);
  const Reading rows = reading_as(input, [&](const View& view) -> std::optional<View> {
    std::optional<View> result = view;
    for (int d = 0; result && d < rank; ++d) {
      const std::int64_t reach = windows.dilation[d] * (kernel[d] - 1);
      const std::int64_t before = reach - windows.before[d];
      result = result->dilated(2 + d, windows.stride[d], 0);
      if (result) result = result->padded(2 + d, before, output[d] + reach - before - result->shape[2 + d], 0);
    }
    if (!result) return std::nullopt;
    for (int d = 0; d < rank; ++d) {
      result = result->windowed(2 + d, kernel[d], output[d], 1, windows.dilation[d]);
      if (kernel[d] > 1) result = result->sliced(result->rank() - 1, kernel[d] - 1, -1, kernel[d]);
    }
    Shape order{0};
    for (int d = 0; d < rank; ++d) order.push_back(2 + d);
    order.push_back(1);
    for (int d = 0; d < rank; ++d) order.push_back(2 + rank + d);
    return result->permuted(order);
  });
  const Reading filters = reading_as(weight, [&](const View& view) -> std::optional<View> {
    Shape order{0};
    for (int d = 0; d < rank; ++d) order.push_back(2 + d);
    order.push_back(1);
    return view.permuted(order);
  });
  Contract primitive;
  primitive.m = {input.shape()[0]};
  primitive.n = {weight.shape()[1]};
  primitive.k = {weight.shape()[0]};
  for (int d = 0; d < rank; ++d) {
    primitive.m.push_back(output[d]);
    primitive.k.push_back(kernel[d]);
  }
  primitive.a_view = rows.view;
  primitive.b_view = filters.view;
  return channels_first(contract(std::move(primitive), rows, filters, input.dtype()));
}

Tensor transposed(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                  const std::vector<TransposedAxis>& axes, const Windows& windows, std::int64_t groups) {
  const Tensor y = [&] {
    const NoGrad scope;
    if (is_fast_convolution(input, groups)) {
      Shape output;
      for (const TransposedAxis& axis : axes) output.push_back(axis.output);
      const Tensor sums = with_bias(transposed_channels_last(input, weight, output, windows), bias);
      return cast(sums, returned(input.dtype()));
    }
    return Transposed({.input = input, .weight = weight, .bias = bias}, axes, groups).run();
  }();
  const Tensor* const addend = bias ? &*bias : nullptr;
  if (!is_tracing({&input, &weight, addend})) return y;
  std::vector<const Tensor*> operands{&input, &weight};
  if (bias) operands.push_back(addend);
  const Numerics numerics = numerics_of(input.dtype());
  return traced(y, operands, [=](const Tensor& upstream, const std::vector<bool>& wanted, const Tensor&) {
    const InnerNumerics inner(numerics);
    const Tensor g = cast(upstream, wide(upstream.dtype()));
    const Tensor slope = numerics == Numerics::fast ? cast(upstream, input.dtype()) : g;
    std::vector<Tensor> gradients(wanted.size());
    if (wanted[0]) {
      gradients[0] =
          convolve(slope, cast(weight, slope.dtype()), input.shape().slice(2, input.rank()), windows, groups);
    }
    if (wanted[1]) {
      gradients[1] = conv_weight_gradient(cast(input, slope.dtype()), slope, weight.shape(), windows, groups);
    }
    if (bias && wanted[2]) {
      Shape channels = Shape::filled(g.rank() - 1, 1);
      channels[0] = g.shape()[1];
      gradients[2] = sum_to(g, channels).reshape({g.shape()[1]});
    }
    return gradients;
  });
}

Tensor conv_transpose(int rank, const Operand& x, const Operand& w, const std::optional<Tensor>& bias,
                      const ConvTransposeOptions& options) {
  ConvOperands operands = check_convolution(rank, x, w, bias);
  const std::vector<Shown>& shown = operands.shown;
  const Shape stride = spatial("stride", options.stride, rank, 1, shown);
  const Shape padding = spatial("padding", options.padding, rank, 0, shown);
  const Shape output_padding = spatial("output_padding", options.output_padding, rank, 0, shown);
  const Shape dilation = spatial("dilation", options.dilation, rank, 1, shown);
  const std::int64_t groups = options.groups;
  const std::int64_t channels = operands.input.shape()[1];
  const std::int64_t group_channels = operands.weight.shape()[1];
  if (groups < 1 || operands.weight.shape()[0] != channels || channels % groups != 0) {
    fail<ShapeError>(fmt::format("{} input channels and {} groups do not fit a weight of {} channels", channels, groups,
                                 operands.weight.shape()[0]),
                     shown, "weight is [in_channels, out_channels / groups, kernel...]");
  }
  if (bias && bias->shape() != Shape{groups * group_channels}) {
    fail<ShapeError>(fmt::format("bias must have shape [{}]", groups * group_channels), shown);
  }
  std::vector<TransposedAxis> axes;
  Shape shape{operands.input.shape()[0], groups * group_channels};
  for (int d = 0; d < rank; ++d) {
    const std::int64_t size = operands.input.shape()[2 + d];
    const std::int64_t kernel = operands.weight.shape()[2 + d];
    if (output_padding[d] >= std::max(stride[d], dilation[d])) {
      fail<ValueError>(fmt::format("output_padding {} is not smaller than the stride {} or the dilation {}",
                                   output_padding[d], stride[d], dilation[d]),
                       shown, "it chooses among the sizes that a strided convolution would map to this input");
    }
    const std::int64_t output =
        (size - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel - 1) + output_padding[d] + 1;
    if (size < 1 || kernel < 1 || output < 1) {
      fail<ShapeError>(fmt::format("spatial dimension {} would have {} elements", d, output), shown,
                       "use a larger input or less padding");
    }
    axes.push_back(make_axis(size, output, kernel, stride[d], padding[d], dilation[d]));
    shape.push_back(output);
  }
  check_shape(shape, operands.input.dtype());
  Tensor y = transposed(operands.input, operands.weight, operands.bias, axes, {stride, dilation, padding}, groups);
  if (numerics_of(operands.input.dtype()) == Numerics::exact) {
    y = recorded(y, "conv_transpose", {&operands.input, &operands.weight, pointer_to(operands.bias)},
                 {stride, dilation, padding, output_padding, {groups}});
  }
  return operands.unbatched ? y.squeeze(0) : y;
}

}  // namespace

namespace graph {

Tensor conv_input_gradient(const Tensor& g, const Tensor& weight, const Shape& input_shape, const Windows& windows,
                           std::int64_t groups) {
  std::vector<TransposedAxis> axes;
  for (int d = 0; d + 2 < g.rank(); ++d) {
    axes.push_back(make_axis(g.shape()[2 + d], input_shape[2 + d], weight.shape()[2 + d], windows.stride[d],
                             windows.before[d], windows.dilation[d]));
  }
  return transposed(g, weight, std::nullopt, axes, windows, groups);
}

}  // namespace graph

Tensor conv_transpose1d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias,
                        const ConvTransposeOptions& options) {
  const CallScope call("conv_transpose1d", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), conv_transpose1d, input, weight, bias, options);
  return conv_transpose(1, input, weight, bias, options);
}
Tensor conv_transpose2d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias,
                        const ConvTransposeOptions& options) {
  const CallScope call("conv_transpose2d", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), conv_transpose2d, input, weight, bias, options);
  return conv_transpose(2, input, weight, bias, options);
}
Tensor conv_transpose3d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias,
                        const ConvTransposeOptions& options) {
  const CallScope call("conv_transpose3d", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), conv_transpose3d, input, weight, bias, options);
  return conv_transpose(3, input, weight, bias, options);
}

}  // namespace v0
}  // namespace lockstep
