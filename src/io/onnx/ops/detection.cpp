// Operators that read a picture at places which are computed: deformed convolutions, and regions brought to one size.
#include <lockstep/ops.h>

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

// x [R, C, H, W] at the samples of dimension `dim`, between neighbours.
Tensor sampled(const Tensor& x, const Samples& samples, int dim) {
  Shape shape = Shape::filled(4, 1);
  shape[0] = samples.low.size(0);
  shape[dim] = samples.low.size(1);
  Shape full = x.shape();
  full[dim] = shape[dim];
  const auto at = [&](const Tensor& index) { return gather(x, dim, index.reshape(shape).expand(full)); };
  const Tensor share = samples.share.reshape(shape);
  return (at(samples.low) * (1.0 - share) + at(samples.high) * share) * samples.inside.reshape(shape);
}

std::vector<Tensor> roi_align(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor rois = call.input(1);
  call.require(x.rank() == 4 && rois.rank() == 2 && rois.size(1) == 4,
               "there are pictures [N, C, H, W] and regions [R, 4] only");
  const std::int64_t height = call.integer("output_height", 1);
  const std::int64_t width = call.integer("output_width", 1);
  const std::int64_t each = call.integer("sampling_ratio", 0);
  const bool half = call.text("coordinate_transformation_mode",
                              call.version() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  const double scale = static_cast<double>(call.number("spatial_scale", 1));
  const Tensor corners = rois * scale - (half ? 0.5 : 0.0);
  const auto extent = [&](int from, int to) {
    const Tensor size = corners.select(1, to) - corners.select(1, from);
    return half ? size : maximum(size, 1.0);
  };
  const Samples rows = samples_of(corners.select(1, 1), extent(1, 3), height, each, x.size(2));
  const Samples columns = samples_of(corners.select(1, 0), extent(0, 2), width, each, x.size(3));
  const Tensor pictures = index_select(x, 0, call.input(2).to(DType::i64));
  const Tensor all =
      sampled(sampled(pictures, rows, 2), columns, 3).unflatten(3, {width, each}).unflatten(2, {height, each});
  return {mean(all, {3, 5})};
}

std::string check_roi_align(const NodeFacts& node) {
  if (node.text("mode", "avg") != "avg") return "mode=" + std::string(node.text("mode", "avg"));
  return node.integer("sampling_ratio", 0) > 0 ? "" : "sampling_ratio=0: as many samples as a region is large";
}

constexpr Operator kDetectionOperators[] = {
    {.name = "DeformConv", .since = 19, .run = deformed_convolution},
    {.name = "RoiAlign", .since = 10, .run = roi_align, .check = check_roi_align},
};

}  // namespace

std::span<const Operator> detection_operators() {
  return kDetectionOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
