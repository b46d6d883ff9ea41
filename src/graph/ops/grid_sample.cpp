// Sampling at computed coordinates, and grids of them.
#include <array>
#include <vector>

#include <fmt/format.h>

#include "graph/autocast.h"
#include "graph/ops/take.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// One axis of the input: coordinates in pixels, [N, 1, places...].
struct Coordinate {
  Tensor value;
  double size = 1;
};

// Mirrored between two ends, which are given twice as large.
Tensor reflected(const Tensor& x, double twice_low, double twice_high) {
  if (twice_low == twice_high) return x * 0.0;
  const double low = twice_low / 2;
  const double span = (twice_high - twice_low) / 2;
  const Tensor distance = abs(x - low);
  const Tensor flips = floor(distance / span);
  const Tensor rest = distance - (flips * span);
  const Tensor half = flips * 0.5;
  const Tensor even = eq(half, floor(half));
  return where(even, rest + low, (span + low) - rest);
}

// A coordinate as the padding maps it into the input; zeros leaves it.
Tensor padded(const Tensor& x, double size, const GridSampleOptions& options) {
  if (options.padding == GridPadding::zeros) return x;
  Tensor inside = x;
  if (options.padding == GridPadding::reflection) {
    inside = options.align_corners ? reflected(x, 0, 2 * (size - 1)) : reflected(x, -1, 2 * size - 1);
  }
  return clamp(inside, 0.0, size - 1);
}

// Whole coordinates of a tap: its position along the axis (in range) and whether it lies in the input.
struct Tap {
  Tensor position;
  Tensor inside;
};

Tap tap_at(const Tensor& whole, double size, std::int64_t stride, DType type) {
  Tap tap;
  tap.inside = bitwise_and(ge(whole, 0.0), le(whole, size - 1));
  const Tensor position = cast(clamp(whole, 0.0, size - 1), type);
  tap.position = stride == 1 ? position : position * Operand(stride);
  return tap;
}

// The input at one tap per axis, 0 outside.
Tensor value_at(const Tensor& x, const std::vector<Tap>& taps) {
  Tensor index = taps[0].position;
  Tensor inside = taps[0].inside;
  for (std::size_t d = 1; d < taps.size(); ++d) {
    index = index + taps[d].position;
    inside = bitwise_and(inside, taps[d].inside);
  }
  const int axes = static_cast<int>(taps.size());
  return where(inside, take_flat(x, axes, index, axes), 0.0);
}

Tensor nearest(const Tensor& x, const std::vector<Coordinate>& coordinates, const std::vector<std::int64_t>& strides,
               DType type) {
  std::vector<Tap> taps;
  for (std::size_t d = 0; d < coordinates.size(); ++d) {
    taps.push_back(tap_at(round(coordinates[d].value), coordinates[d].size, strides[d], type));
  }
  return value_at(x, taps);
}

// The corners around a point in row-major order; a weight is the product of those of x, y (and z) in this order.
Tensor linear(const Tensor& x, const std::vector<Coordinate>& coordinates, const std::vector<std::int64_t>& strides,
              DType type) {
  const std::size_t axes = coordinates.size();
  std::vector<std::array<Tap, 2>> taps(axes);
  std::vector<std::array<Tensor, 2>> weights(axes);
  for (std::size_t d = 0; d < axes; ++d) {
    const Tensor& c = coordinates[d].value;
    const Tensor below = floor(c);
    const Tensor above = below + 1.0;
    taps[d] = {tap_at(below, coordinates[d].size, strides[d], type),
               tap_at(above, coordinates[d].size, strides[d], type)};
    weights[d] = {above - c, c - below};
  }
  Tensor sum;
  for (unsigned corner = 0; corner < 1u << axes; ++corner) {
    std::vector<Tap> corner_taps;
    Tensor weight;
    for (std::size_t d = 0; d < axes; ++d) corner_taps.push_back(taps[d][corner >> (axes - 1 - d) & 1u]);
    for (std::size_t d = axes; d-- > 0;) {
      const Tensor& part = weights[d][corner >> (axes - 1 - d) & 1u];
      weight = weight.defined() ? weight * part : part;
    }
    const Tensor term = value_at(x, corner_taps) * weight;
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

// Keys' cubic convolution with a = -0.75 for a fraction t: the weights of four neighbours.
std::array<Tensor, 4> cubic_weights(const Tensor& t) {
  const double a = -0.75;
  const auto inside = [&](const Tensor& x) { return ((x * (a + 2) - (a + 3)) * x) * x + 1.0; };
  const auto outside = [&](const Tensor& x) { return ((x * a - (5 * a)) * x + (8 * a)) * x - (4 * a); };
  const Tensor rest = 1.0 - t;
  return {outside(t + 1.0), inside(t), inside(rest), outside(rest + 1.0)};
}

// Rows of four first, then the four rows; terms ascending.
Tensor cubic(const Tensor& x, const std::vector<Coordinate>& coordinates, const std::vector<std::int64_t>& strides,
             DType type, const GridSampleOptions& options) {
  std::array<std::array<Tap, 4>, 2> taps;
  std::array<std::array<Tensor, 4>, 2> weights;
  for (std::size_t d = 0; d < 2; ++d) {
    const Tensor& c = coordinates[d].value;
    const Tensor below = floor(c);
    weights[d] = cubic_weights(c - below);
    for (std::size_t k = 0; k < 4; ++k) {
      const Tensor whole = below + (static_cast<double>(k) - 1);
      taps[d][k] = tap_at(padded(whole, coordinates[d].size, options), coordinates[d].size, strides[d], type);
    }
  }
  Tensor sum;
  for (std::size_t row = 0; row < 4; ++row) {
    Tensor line;
    for (std::size_t column = 0; column < 4; ++column) {
      const Tensor term = value_at(x, {taps[0][row], taps[1][column]}) * weights[1][column];
      line = line.defined() ? line + term : term;
    }
    const Tensor term = line * weights[0][row];
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

}  // namespace

Tensor grid_sample(const Operand& a, const Operand& b, const GridSampleOptions& options) {
  const CallScope call("grid_sample", a);
  const Tensor& input = tensor_operand(a);
  const Tensor& grid = tensor_operand(b);
  const std::vector<Shown> shown{{"input", input}, {"grid", grid}};
  check_same_device(shown);
  check_same_dtype(shown);
  check_float(shown[0]);
  const int axes = input.rank() - 2;
  if ((axes != 2 && axes != 3) || grid.rank() != input.rank() || grid.shape()[0] != input.shape()[0] ||
      grid.shape()[axes + 1] != axes) {
    fail<ShapeError>("input must be [N, C, H, W] with a grid [N, h, w, 2], or [N, C, D, H, W] with [N, d, h, w, 3]",
                     shown);
  }
  if (options.mode == GridMode::bicubic && axes != 2) {
    fail<ValueError>("bicubic is for images, not volumes", shown, "use bilinear");
  }
  Shape target = input.shape();
  for (int d = 0; d < axes; ++d) {
    target[2 + d] = grid.shape()[1 + d];
    if (input.shape()[2 + d] < 1) fail<ShapeError>("the input's spatial sizes must be at least 1", shown);
  }
  check_shape(target, input.dtype());
  if (target.numel() == 0) return zeros(target, {.dtype = input.dtype(), .device = input.device()});

  const Tensor x = cast(input, wide(input.dtype()));
  const Tensor places = cast(grid, wide(grid.dtype()));
  const std::int64_t plane = input.shape().slice(2, input.rank()).numel();
  std::vector<Coordinate> coordinates;
  std::vector<std::int64_t> strides;
  std::int64_t stride = plane;
  for (int d = 0; d < axes; ++d) {
    const auto size = static_cast<double>(input.shape()[2 + d]);
    stride /= input.shape()[2 + d];
    strides.push_back(stride);
    // The grid names x first.
    const Tensor c = places.select(-1, axes - 1 - d).unsqueeze(1) + 1.0;
    const Tensor pixels = options.align_corners ? c * 0.5 * (size - 1) : (c * size - 1.0) * 0.5;
    const bool whole_taps = options.mode == GridMode::bicubic;  // these are padded tap by tap
    coordinates.push_back({whole_taps ? pixels : padded(pixels, size, options), size});
  }
  const DType type = position_type(plane);
  Tensor result;
  switch (options.mode) {
    case GridMode::nearest: result = nearest(x, coordinates, strides, type); break;
    case GridMode::bilinear: result = linear(x, coordinates, strides, type); break;
    case GridMode::bicubic: result = cubic(x, coordinates, strides, type, options); break;
  }
  return cast(result, input.dtype());
}

Tensor affine_grid(const Operand& a, const Shape& size, bool align_corners) {
  const CallScope call("affine_grid", a);
  const AutocastExchange outside(DType::f32);  // positions of pixels need their digits
  const Tensor& theta = tensor_operand(a);
  check_float({"theta", theta});
  const int axes = size.rank() - 2;
  bool fits = (axes == 2 || axes == 3) && theta.shape() == Shape{size[0], axes, axes + 1};
  for (const std::int64_t length : size) fits = fits && length >= 1 && length < (std::int64_t{1} << 31);
  if (!fits) {
    fail<ShapeError>(fmt::format("theta does not suit the size {}", size.to_string()), {{"theta", theta}},
                     "theta is [N, 2, 3] for [N, C, H, W] and [N, 3, 4] for [N, C, D, H, W]");
  }
  // Columns x, y, (z,) 1 of every place in row-major order.
  Shape places = size.slice(2, size.rank());
  check_shape(places, DType::f64);
  const DType dtype = wide(theta.dtype());
  std::vector<Tensor> columns;
  for (int d = axes - 1; d >= 0; --d) {
    std::vector<double> values;
    const auto count = static_cast<double>(places[d]);
    for (std::int64_t i = 0; i < places[d]; ++i) {
      // From -1 to 1: centres of corner pixels, or half a pixel inside their edges.
      const double twice = 2 * static_cast<double>(i);
      if (!align_corners) {
        values.push_back((twice + 1 - count) / count);
      } else {
        values.push_back(count > 1 ? (twice + 1 - count) / (count - 1) : 0);
      }
    }
    columns.push_back(table(values, d, axes, dtype, theta.device()).expand(places));
  }
  columns.push_back(full(places, 1, {.dtype = dtype, .device = theta.device()}));
  const Tensor base = stack(columns, -1).reshape({1, places.numel(), axes + 1});
  const Tensor x = cast(theta, dtype);
  const Tensor grid = matmul(base, x.transpose(1, 2));
  Shape target{size[0]};
  for (const std::int64_t length : places) target.push_back(length);
  target.push_back(axes);
  return cast(grid.reshape(target), theta.dtype());
}

}  // namespace v0
}  // namespace lockstep
