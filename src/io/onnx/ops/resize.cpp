// Resize and Upsample: one axis after the other, each with a table of source positions and weights that the host makes
// in f64. Nearest neighbours keep their bits; others are sums over the taps in their order. GridSample and AffineGrid.
#include <lockstep/ops.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

struct Axis {
  int dim = 0;
  std::int64_t input = 0;
  std::int64_t output = 0;
  double scale = 1;
  double roi_start = 0;
  double roi_end = 1;
};

// Where output position `y` lies in the input.
double source(const Call& call, const Axis& axis, double y, std::string_view mode) {
  const double in = static_cast<double>(axis.input);
  const double out = axis.scale * in;
  if (mode == "asymmetric") return y / axis.scale;
  if (mode == "align_corners") return out == 1 ? 0 : y * (in - 1) / (out - 1);
  if (mode == "pytorch_half_pixel") return axis.output == 1 ? -0.5 : (y + 0.5) / axis.scale - 0.5;
  if (mode == "half_pixel") return (y + 0.5) / axis.scale - 0.5;
  if (mode == "half_pixel_symmetric") {
    const double adjustment = static_cast<double>(axis.output) / out;
    return in / 2 * (1 - adjustment) + (y + 0.5) / axis.scale - 0.5;
  }
  if (mode == "tf_crop_and_resize") {
    const double width = axis.roi_end - axis.roi_start;
    const double at = out == 1 ? width * (in - 1) / 2 : y * width * (in - 1) / (out - 1);
    return at + axis.roi_start * (in - 1);
  }
  call.unsupported("coordinate_transformation_mode=" + std::string(mode));
}

double nearest_place(const Call& call, double x, std::string_view mode) {
  if (mode == "round_prefer_floor") return std::ceil(x - 0.5);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  call.unsupported("nearest_mode=" + std::string(mode));
}

double filter(double x, bool cubic, double a) {
  x = std::abs(x);
  if (!cubic) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The taps of all output positions: `places` and `weights` are [taps][output].
struct Table {
  std::vector<std::vector<std::int64_t>> places;
  std::vector<std::vector<double>> weights;
  std::vector<bool> outside;  // of the input: tf_crop_and_resize gives them a value of their own
};

Table table_of(const Call& call, const Axis& axis, bool cubic, std::string_view mode) {
  const double a = call.number("cubic_coeff_a", -0.75f);
  const bool excludes = call.integer("exclude_outside", 0) != 0;
  const bool antialias = call.integer("antialias", 0) != 0 && axis.scale < 1;
  const double shrink = antialias ? axis.scale : 1;
  const auto reach = static_cast<std::int64_t>(std::ceil((cubic ? 2 : 1) / shrink));
  const std::int64_t taps = 2 * reach;
  Table table{.places = std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(taps)),
              .weights = std::vector<std::vector<double>>(static_cast<std::size_t>(taps))};
  for (std::int64_t y = 0; y < axis.output; ++y) {
    const double x = source(call, axis, static_cast<double>(y), mode);
    table.outside.push_back(x < 0 || x > static_cast<double>(axis.input - 1));
    const auto first = static_cast<std::int64_t>(std::floor(x)) - reach + 1;
    std::vector<double> weights;
    for (std::int64_t k = 0; k < taps; ++k) {
      const std::int64_t place = first + k;
      const bool dropped = excludes && (place < 0 || place >= axis.input);
      weights.push_back(dropped ? 0 : filter((static_cast<double>(place) - x) * shrink, cubic, a));
    }
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::int64_t k = 0; k < taps; ++k) {
      const auto at = static_cast<std::size_t>(k);
      table.places[at].push_back(std::clamp<std::int64_t>(first + k, 0, axis.input - 1));
      table.weights[at].push_back(antialias || excludes ? weights[at] / total : weights[at]);
    }
  }
  return table;
}

Tensor places_tensor(const Call& call, const std::vector<std::int64_t>& places) {
  return Tensor::from(places, {static_cast<std::int64_t>(places.size())}, call.device());
}

Tensor along(const Axis& axis, const Tensor& list, int rank) {
  Shape shape = Shape::filled(rank, 1);
  shape[axis.dim] = axis.output;
  return list.reshape(shape);
}

Tensor resize_axis(const Call& call, const Tensor& x, const Axis& axis, std::string_view kind, std::string_view mode) {
  if (kind == "nearest") {
    std::vector<std::int64_t> places;
    const std::string_view rounding = call.text("nearest_mode", call.version() < 11 ? "floor" : "round_prefer_floor");
    for (std::int64_t y = 0; y < axis.output; ++y) {
      const double at = nearest_place(call, source(call, axis, static_cast<double>(y), mode), rounding);
      places.push_back(static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(axis.input - 1))));
    }
    // By a whole factor, as most models do it: copies of neighbours need no index that is looked up and checked.
    const std::int64_t factor = axis.output / axis.input;
    bool repeats = axis.output > 0 && axis.output % axis.input == 0;
    for (std::size_t y = 0; y < places.size() && repeats; ++y) {
      repeats = places[y] == static_cast<std::int64_t>(y) / factor;
    }
    if (repeats) return repeat_interleave(x, factor, axis.dim);
    return index_select(x, axis.dim, places_tensor(call, places));
  }
  const Table table = table_of(call, axis, kind == "cubic", mode);
  Tensor result;
  for (std::size_t k = 0; k < table.places.size(); ++k) {
    const Tensor weights = Tensor::from(table.weights[k], {axis.output}, Device{}).to(x.dtype()).to(call.device());
    const Tensor part =
        mul(index_select(x, axis.dim, places_tensor(call, table.places[k])), along(axis, weights, x.rank()));
    result = result.defined() ? add(result, part) : part;
  }
  if (mode != "tf_crop_and_resize") return result;
  const Tensor outside = Tensor::from(std::vector<bool>(table.outside), {axis.output}, call.device());
  return where(along(axis, outside, x.rank()), full_like(result, call.number("extrapolation_value", 0)), result);
}

// The axes that change, from scales or sizes.
std::vector<Axis> axes_to_resize(const Call& call, std::size_t scales_input, std::size_t sizes_input) {
  const Shape& shape = call.shape(0);
  std::vector<int> dims = axes_of(call, call.integers("axes"), shape.rank());
  if (dims.empty()) {
    for (int d = 0; d < shape.rank(); ++d) dims.push_back(d);
  }
  std::vector<double> scales;
  std::vector<std::int64_t> sizes;
  if (call.has_attribute("scales")) {
    const std::vector<float> stated = call.numbers("scales");
    scales.assign(stated.begin(), stated.end());
  } else if (call.has(scales_input) && call.shape(scales_input).numel() > 0) {
    scales = call.host_numbers(scales_input);
  } else if (call.has(sizes_input)) {
    sizes = call.host_integers(sizes_input);
  }
  call.require(scales.size() == dims.size() || sizes.size() == dims.size(),
               "there is not one scale or size for each axis");
  const std::string_view policy = call.text("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  for (std::size_t i = 0; i < sizes.size() && policy != "stretch"; ++i) {
    const double scale = static_cast<double>(sizes[i]) / static_cast<double>(shape[dims[i]]);
    common = i == 0 ? scale : policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
  }
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    Axis axis{.dim = dims[i], .input = shape[dims[i]]};
    call.require(axis.input > 0, "an empty dimension is resized");
    if (!scales.empty()) {
      call.require(scales[i] > 0, "a scale is not positive");
      axis.scale = scales[i];
      axis.output = static_cast<std::int64_t>(std::floor(static_cast<double>(axis.input) * axis.scale));
    } else {
      axis.scale = common != 0 ? common : static_cast<double>(sizes[i]) / static_cast<double>(axis.input);
      axis.output = common != 0 ? static_cast<std::int64_t>(std::floor(common * static_cast<double>(axis.input) + 0.5))
                                : sizes[i];
    }
    call.require(axis.output >= 0 && axis.output < (std::int64_t{1} << 24), "a size is out of range");
    axes.push_back(axis);
  }
  return axes;
}

Tensor resized(const Call& call, std::vector<Axis> axes, std::string_view mode) {
  const std::string_view kind = call.text("mode", "nearest");
  Tensor x = call.input(0);
  const DType dtype = x.dtype();
  if (kind != "nearest" && !is_float(dtype)) x = x.to(DType::f32);
  for (const Axis& axis : axes) {
    const bool same = axis.output == axis.input && axis.scale == 1 && mode != "tf_crop_and_resize";
    if (!same) x = resize_axis(call, x, axis, kind, mode);
  }
  return x.dtype() == dtype
             ? x
             : clamp(round(x), dtype == DType::u8 ? 0.0 : -0x1p31, dtype == DType::u8 ? 255.0 : 0x1p31).to(dtype);
}

std::vector<Tensor> resize_of(const Call& call) {
  if (call.version() < 11) return {resized(call, axes_to_resize(call, 1, 99), "asymmetric")};
  const std::string_view mode = call.text("coordinate_transformation_mode", "half_pixel");
  std::vector<Axis> axes = axes_to_resize(call, 2, 3);
  if (mode == "tf_crop_and_resize") {
    const std::vector<double> roi = call.host_numbers(1);
    call.require(roi.size() == 2 * axes.size(), "roi has not two numbers for each axis");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      axes[i].roi_start = roi[i];
      axes[i].roi_end = roi[i + axes.size()];
    }
  }
  return {resized(call, std::move(axes), mode)};
}

std::vector<Tensor> upsample_of(const Call& call) {
  return {resized(call, axes_to_resize(call, 1, 99), "asymmetric")};
}

std::string check_resize(const NodeFacts& node) {
  for (const std::string_view known : {"nearest", "linear", "cubic", "bilinear"}) {
    if (node.text("mode", "nearest") == known) return "";
  }
  return "mode=" + std::string(node.text("mode", "nearest"));
}

std::vector<Tensor> grid_sample_of(const Call& call) {
  const std::string_view mode = call.text("mode", "linear");
  const std::string_view padding = call.text("padding_mode", "zeros");
  GridSampleOptions options{.align_corners = call.integer("align_corners", 0) != 0};
  options.mode = mode == "nearest"                      ? GridMode::nearest
                 : mode == "cubic" || mode == "bicubic" ? GridMode::bicubic
                                                        : GridMode::bilinear;
  options.padding = padding == "border"       ? GridPadding::border
                    : padding == "reflection" ? GridPadding::reflection
                                              : GridPadding::zeros;
  return {grid_sample(call.input(0), call.input(1), options)};
}

std::vector<Tensor> affine_grid_of(const Call& call) {
  return {affine_grid(call.input(0), shape_of(call.host_integers(1)), call.integer("align_corners", 0) != 0)};
}

constexpr Operator kResizeOperators[] = {
    {.name = "Resize", .since = 10, .run = resize_of, .check = check_resize},
    {.name = "Upsample", .since = 7, .until = 9, .run = upsample_of, .check = check_resize},
    {.name = "GridSample", .since = 16, .run = grid_sample_of},
    {.name = "AffineGrid", .since = 20, .run = affine_grid_of},
};

}  // namespace

std::span<const Operator> resize_operators() {
  return kResizeOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
