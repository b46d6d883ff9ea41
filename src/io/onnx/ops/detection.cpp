// Operators that read a picture at places which are computed: deformed convolutions, and regions brought to one size.
#include <lockstep/ops.h>

#include <limits>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// start + step * i, in the dtype of `like`.
Tensor line(const Tensor& like, std::int64_t count, double step, double start, const Shape& shape) {
  const Tensor numbers = arange(static_cast<double>(count), {.dtype = like.dtype(), .device = like.device()});
  return (numbers * step + start).reshape(shape);
}

// Each tap of the window reads where its offset points to, between pixels; then a product with the weights.
std::vector<Tensor> deformed_convolution(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor& weight = call.input(1);
  const Tensor& offset = call.input(2);
  call.require(x.rank() == 4 && weight.rank() == 4 && offset.rank() == 4, "there are pictures [N, C, H, W] only");
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  const std::int64_t outputs = weight.size(0), kh = weight.size(2), kw = weight.size(3);
  const std::int64_t taps = kh * kw;
  const std::int64_t oh = offset.size(2), ow = offset.size(3);
  const std::int64_t groups = call.integer("group", 1);
  const std::int64_t moved_groups = call.integer("offset_group", 1);
  const Windows window = windows_of(call, {kh, kw}, {h, w});
  call.require(groups > 0 && moved_groups > 0 && c % groups == 0 && c % moved_groups == 0 && outputs % groups == 0 &&
                   offset.size(1) == moved_groups * taps * 2 && weight.size(1) * groups == c,
               "channels, groups and offsets do not fit");
  const auto tap = [&](std::size_t d, std::int64_t count, const Shape& shape) {
    return line(x, count, static_cast<double>(window.dilation[d]), 0, shape).expand({kh, kw}).reshape({taps, 1, 1});
  };
  const auto start = [&](std::size_t d, std::int64_t count, const Shape& shape) {
    return line(x, count, static_cast<double>(window.stride[d]), static_cast<double>(-window.before[d]), shape);
  };
  const Tensor moved = offset.reshape({n, moved_groups, taps, 2, oh, ow});
  // -1 to 1 between the outer edges of the picture, as grid_sample counts.
  const auto place = [&](int axis, const Tensor& from, std::int64_t size) {
    return ((moved.select(3, axis) + from) * 2.0 + 1.0) / static_cast<double>(size) - 1.0;
  };
  const Tensor rows = start(0, oh, {1, oh, 1}) + tap(0, kh, {kh, 1});
  const Tensor columns = start(1, ow, {1, 1, ow}) + tap(1, kw, {1, kw});
  const Tensor grid = stack({place(1, columns, w), place(0, rows, h)}, -1);  // [N, groups, taps, OH, OW, 2]
  Tensor read = grid_sample(x.reshape({n * moved_groups, c / moved_groups, h, w}),
                            grid.reshape({n * moved_groups, taps * oh, ow, 2}))
                    .reshape({n, moved_groups, c / moved_groups, taps, oh * ow});
  if (call.has(4)) read = read * call.input(4).reshape({n, moved_groups, 1, taps, oh * ow});
  const std::int64_t length = c / groups * taps;
  Tensor y = matmul(weight.reshape({1, groups, outputs / groups, length}), read.reshape({n, groups, length, oh * ow}))
                 .reshape({n, outputs, oh, ow});
  if (call.has(3)) y = y + call.input(3).reshape({1, outputs, 1, 1});
  return {y};
}

// Where samples of one dimension lie: the two neighbours and the share of the second; nothing where the sample is
// outside.
struct Samples {
  Tensor low, high;  ///< i64 [regions, samples]
  Tensor share;
  Tensor inside;  ///< 1 or 0
};
// The `count` parts of [begin, begin + extent), with `each` samples in each.
Samples samples_of(const Tensor& begin, const Tensor& extent, std::int64_t count, std::int64_t each,
                   std::int64_t size) {
  const Tensor middle = line(begin, count * each, 1, 0.5, {1, count * each});
  const Tensor at = begin.unsqueeze(1) + middle * (extent / static_cast<double>(count * each)).unsqueeze(1);
  const Tensor inside = bitwise_and(ge(at, -1.0), le(at, static_cast<double>(size))).to(begin.dtype());
  const Tensor held = clamp(at, 0.0, static_cast<double>(size - 1));
  const Tensor low = floor(held);
  return {low.to(DType::i64), minimum(low + 1.0, static_cast<double>(size - 1)).to(DType::i64), held - low, inside};
}

// x [R, C, H, W] at places of dimension `dim`, each weighted.
Tensor weighted(const Tensor& x, const Samples& samples, const Tensor& place, const Tensor& weight, int dim) {
  Shape shape = Shape::filled(4, 1);
  shape[0] = place.size(0);
  shape[dim] = place.size(1);
  Shape full = x.shape();
  full[dim] = shape[dim];
  return gather(x, dim, place.reshape(shape).expand(full)) * weight.reshape(shape) * samples.inside.reshape(shape);
}
Tensor low_share(const Tensor& x, const Samples& samples, int dim) {
  return weighted(x, samples, samples.low, 1.0 - samples.share, dim);
}
Tensor high_share(const Tensor& x, const Samples& samples, int dim) {
  return weighted(x, samples, samples.high, samples.share, dim);
}

// Regions [R, 4] of `pictures` [R, C, H, W], each part the average or the largest of rows x columns samples.
struct RoiParts {
  std::int64_t height = 1, width = 1;
  bool half = true;  // corners are moved by half a pixel, and regions may be smaller than one
  bool largest = false;
};
Tensor extent_of(const Tensor& corners, const RoiParts& parts, int from, int to) {
  const Tensor size = corners.select(1, to) - corners.select(1, from);
  return parts.half ? size : maximum(size, 1.0);
}
Tensor regions(const Tensor& pictures, const Tensor& corners, const RoiParts& parts, std::int64_t rows,
               std::int64_t columns) {
  const Samples down =
      samples_of(corners.select(1, 1), extent_of(corners, parts, 1, 3), parts.height, rows, pictures.size(2));
  const Samples across =
      samples_of(corners.select(1, 0), extent_of(corners, parts, 0, 2), parts.width, columns, pictures.size(3));
  const auto by_part = [&](const Tensor& all) {
    return all.unflatten(3, {parts.width, columns}).unflatten(2, {parts.height, rows});
  };
  const Tensor low = low_share(pictures, down, 2), high = high_share(pictures, down, 2);
  if (!parts.largest) {
    const Tensor between = low + high;
    return mean(by_part(low_share(between, across, 3) + high_share(between, across, 3)), {3, 5});
  }
  // The largest of the four weighted neighbours of all samples, as the specification has it, not of the samples.
  const Tensor largest = maximum(maximum(low_share(low, across, 3), high_share(low, across, 3)),
                                 maximum(low_share(high, across, 3), high_share(high, across, 3)));
  return amax(by_part(largest), {3, 5});
}

std::vector<Tensor> roi_align(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor rois = call.input(1);
  call.require(x.rank() == 4 && rois.rank() == 2 && rois.size(1) == 4,
               "there are pictures [N, C, H, W] and regions [R, 4] only");
  const RoiParts parts{.height = call.integer("output_height", 1),
                       .width = call.integer("output_width", 1),
                       .half = call.text("coordinate_transformation_mode",
                                         call.version() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel",
                       .largest = call.text("mode", "avg") == "max"};
  call.require(parts.height > 0 && parts.width > 0, "a region has parts in both dimensions");
  const std::int64_t each = call.integer("sampling_ratio", 0);
  const Tensor corners = rois * static_cast<double>(call.number("spatial_scale", 1)) - (parts.half ? 0.5 : 0.0);
  const Tensor pictures = index_select(x, 0, call.input(2).to(DType::i64));
  if (each > 0) return {regions(pictures, corners, parts, each, each)};
  // As many samples as a part has pixels: known when the regions are.
  constexpr double kMostSamples = 4096;
  const auto counts = [&](int from, int to, std::int64_t count) {
    const Tensor pixels = ceil(extent_of(corners, parts, from, to) / static_cast<double>(count));
    return read_to_host(pixels.to(DType::f32)).numbers;
  };
  const std::vector<double> rows = counts(1, 3, parts.height), columns = counts(0, 2, parts.width);
  std::vector<Tensor> results;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto row = static_cast<std::int64_t>(r);
    if (!(rows[r] > 0 && columns[r] > 0)) {
      results.push_back(zeros({1, x.size(1), parts.height, parts.width}, {.dtype = x.dtype(), .device = x.device()}));
      continue;
    }
    if (rows[r] > kMostSamples || columns[r] > kMostSamples) call.unsupported("a region of more than 4,096 samples");
    results.push_back(regions(pictures.narrow(0, row, 1), corners.narrow(0, row, 1), parts,
                              static_cast<std::int64_t>(rows[r]), static_cast<std::int64_t>(columns[r])));
  }
  if (results.empty())
    return {zeros({0, x.size(1), parts.height, parts.width}, {.dtype = x.dtype(), .device = x.device()})};
  return {cat(results, 0)};
}

std::string check_roi_align(const NodeFacts& node) {
  const std::string_view mode = node.text("mode", "avg");
  return mode == "avg" || mode == "max" ? "" : "mode=" + std::string(mode);
}

// The pixels of each of `count` parts of [first, last] (whole pixels, at least one): from [R, count], to, exclusive.
struct Bins {
  Tensor from, to;
};
Bins bins_of(const Tensor& first, const Tensor& last, std::int64_t count, std::int64_t size) {
  const Tensor begin = floor(first + 0.5).unsqueeze(1);
  const Tensor each = maximum(floor(last + 0.5).unsqueeze(1) - begin + 1.0, 1.0) / static_cast<double>(count);
  const Tensor part = line(first, count, 1, 0, {1, count});
  const auto held = [&](const Tensor& t) { return clamp(t + begin, 0.0, static_cast<double>(size)); };
  return {held(floor(part * each)), held(ceil((part + 1.0) * each))};
}
// The largest of x [R, C, ..., size] in each part of the last dimension.
Tensor largest_of(const Tensor& x, const Bins& bins) {
  const std::int64_t size = x.size(-1);
  const Tensor pixel = line(bins.from, size, 1, 0, {1, 1, size});
  const Tensor in = bitwise_and(ge(pixel, bins.from.unsqueeze(2)), lt(pixel, bins.to.unsqueeze(2)));
  Shape shape = Shape::filled(x.rank() + 1, 1);
  shape[0] = in.size(0);
  shape[x.rank() - 1] = in.size(1);
  shape[x.rank()] = size;
  const Tensor lowest = full({}, -std::numeric_limits<double>::infinity(), {.dtype = x.dtype(), .device = x.device()});
  return amax(where(in.reshape(shape), x.unsqueeze(-2), lowest), {-1});
}

// Caffe's regions: x [N, C, H, W] and [R, 5] of a picture's number and two corners. Parts without a pixel are 0.
std::vector<Tensor> max_roi_pool(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor& rois = call.input(1);
  const std::vector<std::int64_t> counts = call.required_integers("pooled_shape");
  call.require(
      x.rank() == 4 && rois.rank() == 2 && rois.size(1) == 5 && counts.size() == 2 && counts[0] > 0 && counts[1] > 0,
      "there are pictures [N, C, H, W], regions [R, 5] and a pooled_shape of two only");
  const Tensor corners = rois.narrow(1, 1, 4) * static_cast<double>(call.number("spatial_scale", 1));
  const Bins rows = bins_of(corners.select(1, 1), corners.select(1, 3), counts[0], x.size(2));
  const Bins columns = bins_of(corners.select(1, 0), corners.select(1, 2), counts[1], x.size(3));
  const Tensor pictures = index_select(x, 0, rois.select(1, 0).to(DType::i64));
  const Tensor by_columns = largest_of(pictures, columns);  // [R, C, H, parts]
  const Tensor y = largest_of(by_columns.transpose(2, 3), rows).transpose(2, 3);
  const Tensor empty = bitwise_or(le(rows.to, rows.from).unsqueeze(2), le(columns.to, columns.from).unsqueeze(1));
  return {where(empty.unsqueeze(1), zeros_like(y), y)};
}

constexpr Operator kDetectionOperators[] = {
    {.name = "DeformConv", .since = 19, .run = deformed_convolution},
    {.name = "MaxRoiPool", .run = max_roi_pool},
    {.name = "RoiAlign", .since = 10, .run = roi_align, .check = check_roi_align},
};

}  // namespace

std::span<const Operator> detection_operators() {
  return kDetectionOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
