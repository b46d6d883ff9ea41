// interpolate: gathers for nearest neighbours, weighted gathers along one axis after the other for the rest.
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/resample.h"
#include "graph/ops/take.h"
#include "graph/ops/windows.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

bool is_nearest(Interpolation mode) {
  return mode == Interpolation::nearest || mode == Interpolation::nearest_exact;
}

void check_mode(const Tensor& input, const InterpolateOptions& options) {
  const int rank = input.rank();
  bool fits = rank >= 3 && rank <= 5;
  switch (options.mode) {
    case Interpolation::linear: fits = rank == 3; break;
    case Interpolation::bilinear:
    case Interpolation::bicubic: fits = rank == 4; break;
    case Interpolation::trilinear: fits = rank == 5; break;
    default: break;
  }
  if (!fits) {
    fail<ShapeError>(fmt::format("an input of {} dimensions does not suit the mode", rank), {{"input", input}},
                     "linear takes [N, C, L], bilinear and bicubic [N, C, H, W], trilinear [N, C, D, H, W], "
                     "the others any of these");
  }
  const bool smooth = !is_nearest(options.mode) && options.mode != Interpolation::area;
  if (options.align_corners && !smooth) {
    fail<ValueError>("align_corners is for linear and cubic modes", {{"input", input}}, "leave it out");
  }
  if (options.antialias && options.mode != Interpolation::bilinear && options.mode != Interpolation::bicubic) {
    fail<ValueError>("antialias is for bilinear and bicubic", {{"input", input}}, "leave it out");
  }
  if (!is_nearest(options.mode)) check_float({"input", input});
}

// The output's spatial sizes, and per axis the factor that scales coordinates (0: the sizes' own ratio).
struct Sizes {
  Shape output;
  std::vector<double> factor;
};

Sizes sizes_of(const Tensor& input, const InterpolateOptions& options) {
  const int axes = input.rank() - 2;
  if (options.size.empty() == options.scale_factor.empty()) {
    fail<ValueError>("give either size or scale_factor", {{"input", input}});
  }
  Sizes sizes;
  if (!options.size.empty()) {
    if (options.recompute_scale_factor) {
      fail<ValueError>("recompute_scale_factor needs a scale_factor", {{"input", input}}, "leave it out");
    }
    sizes.output = per_axis("size", options.size, axes, 1, input);
    sizes.factor.assign(static_cast<std::size_t>(axes), 0);
  } else {
    sizes.factor = options.scale_factor;
    if (sizes.factor.size() == 1) sizes.factor.assign(static_cast<std::size_t>(axes), options.scale_factor[0]);
    bool valid = sizes.factor.size() == static_cast<std::size_t>(axes);
    for (std::size_t d = 0; valid && d < sizes.factor.size(); ++d) {
      const double output = std::floor(static_cast<double>(input.shape()[2 + static_cast<int>(d)]) * sizes.factor[d]);
      valid = sizes.factor[d] > 0 && output >= 1 && output < 0x1p31;
      if (valid) sizes.output.push_back(static_cast<std::int64_t>(output));
    }
    if (!valid) {
      fail<ValueError>(
          fmt::format("scale_factor must be one or {} positive numbers that leave at least one pixel", axes),
          {{"input", input}});
    }
    if (options.recompute_scale_factor) sizes.factor.assign(static_cast<std::size_t>(axes), 0);
  }
  for (int d = 2; d < input.rank(); ++d) {
    if (input.shape()[d] < 1) {
      fail<ShapeError>("there is nothing to interpolate between", {{"input", input}}, "spatial sizes are at least 1");
    }
  }
  return sizes;
}

// Products rounded and added with taps ascending: a chain per element, which runs over rows of outputs.
Tensor weighted_sum(const Tensor& x, int dim, const Taps& taps) {
  Tensor sum;
  for (std::size_t t = 0; t < taps.position.size(); ++t) {
    const Tensor weight = table(taps.weight[t], dim, x.rank(), x.dtype(), x.device());
    const Tensor term = mul(take_along(x, dim, taps.position[t]), weight);
    sum = sum.defined() ? add(sum, term) : term;
  }
  return sum;
}

// Many taps: a dimension of them behind the others, reduced by R (of fma). What fills shorter windows is 0 times 0.
Tensor reduced_sum(const Tensor& x, int dim, const Taps& taps) {
  const std::size_t count = taps.position.size();
  const std::size_t outputs = taps.position[0].size();
  std::vector<std::int64_t> positions;
  std::vector<double> weights;
  std::vector<bool> present;
  bool full = true;
  for (std::size_t i = 0; i < outputs; ++i) {
    for (std::size_t t = 0; t < count; ++t) {
      positions.push_back(taps.position[t][i]);
      weights.push_back(taps.weight[t][i]);
      present.push_back(weights.back() != 0);
      full = full && present.back();
    }
  }
  Shape shape = Shape::filled(x.rank() + 1, 1);
  shape[dim] = static_cast<std::int64_t>(outputs);
  shape[x.rank()] = static_cast<std::int64_t>(count);
  Shape target = x.shape();
  target[dim] = shape[dim];
  target.push_back(shape[x.rank()]);
  const Tensor index = table(positions, 0, 1, position_type(x.shape()[dim]), x.device()).reshape(shape);
  Shape source = x.shape();
  source.push_back(target[x.rank()]);
  Tensor values = gather(x.unsqueeze(-1).expand(source), dim, index.expand(target));
  if (!full) {
    const Tensor mask = Tensor::from(present, shape, x.device());
    values = where(mask, values, 0.0);
  }
  const Tensor weight = table(weights, 0, 1, x.dtype(), x.device()).reshape(shape).expand(target);
  const std::uint32_t last = 1u << x.rank();
  return drop_dims(reduce(ReduceOp::dot, values, last, &weight), last, false);
}

Tensor nearest(const Tensor& input, const Sizes& sizes, bool exact) {
  std::vector<std::vector<std::int64_t>> positions;
  for (int d = 0; d < sizes.output.rank(); ++d) {
    positions.push_back(
        nearest_positions(input.shape()[2 + d], sizes.output[d], sizes.factor[static_cast<std::size_t>(d)], exact));
  }
  return take_grid(input, positions);
}

}  // namespace

Tensor interpolate(const Operand& a, const InterpolateOptions& options) {
  const CallScope call("interpolate", a);
  const Tensor& input = tensor_operand(a);
  check_mode(input, options);
  const Sizes sizes = sizes_of(input, options);
  Shape target = input.shape().slice(0, 2);
  for (const std::int64_t size : sizes.output) target.push_back(size);
  check_shape(target, input.dtype());
  if (target.numel() == 0) return zeros(target, {.dtype = input.dtype(), .device = input.device()});
  if (is_nearest(options.mode)) return nearest(input, sizes, options.mode == Interpolation::nearest_exact);
  if (options.mode == Interpolation::area) {
    if (input.rank() == 3) return adaptive_avg_pool1d(a, sizes.output);
    return input.rank() == 4 ? adaptive_avg_pool2d(a, sizes.output) : adaptive_avg_pool3d(a, sizes.output);
  }
  const Filter filter = options.mode == Interpolation::bicubic ? Filter::cubic : Filter::linear;
  Tensor x = cast(input, wide(input.dtype()));
  for (int d = input.rank() - 1; d >= 2; --d) {
    const std::int64_t size = input.shape()[d];
    // An axis that keeps its size is copied by linear modes whatever the factor, as PyTorch's CPU does.
    if (filter == Filter::linear && !options.antialias && target[d] == size) continue;
    const double scale =
        resampling_scale(size, target[d], options.align_corners, sizes.factor[static_cast<std::size_t>(d - 2)]);
    const Taps taps = options.antialias ? antialiasing_taps(filter, size, target[d], scale)
                                        : interpolation_taps(filter, size, target[d], scale, options.align_corners);
    if (taps.identity(size)) continue;
    x = options.antialias ? reduced_sum(x, d, taps) : weighted_sum(x, d, taps);
  }
  return cast(x, input.dtype());
}

}  // namespace v0
}  // namespace lockstep
