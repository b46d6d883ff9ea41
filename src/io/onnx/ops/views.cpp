// Operators that arrange elements: shapes, pieces, padding, tiles.
#include <lockstep/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/onnx/model.h"
#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

std::vector<Tensor> reshape(const Call& call) {
  const Tensor& x = call.input(0);
  std::vector<std::int64_t> sizes = integers_or_input(call, "shape", 1);
  const bool zero_is_zero = call.integer("allowzero", 0) != 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    call.require(sizes[d] >= -1, "a size is below -1");
    if (sizes[d] != 0 || zero_is_zero) continue;
    call.require(d < static_cast<std::size_t>(x.rank()), "a size of 0 stands for none of the input's");
    sizes[d] = x.shape()[static_cast<int>(d)];
  }
  call.require(std::count(sizes.begin(), sizes.end(), -1) <= 1, "two sizes are -1");
  return {x.reshape(shape_of(sizes))};
}

std::vector<Tensor> flatten(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t axis = call.integer("axis", 1);
  call.require(axis >= -x.rank() && axis <= x.rank(), "the axis is outside of the rank");
  const int split = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
  return {x.reshape({x.shape().slice(0, split).numel(), x.shape().slice(split, x.rank()).numel()})};
}

std::vector<Tensor> squeeze(const Call& call) {
  const Tensor& x = call.input(0);
  const std::vector<int> axes = axes_of(call, integers_or_input(call, "axes", 1), x.rank());
  for (const int axis : axes)
    call.require(x.shape()[axis] == 1, "a dimension that is squeezed has a size other than 1");
  const bool all = !call.has_attribute("axes") && !call.has(1);
  return {all ? x.squeeze() : axes.empty() ? x : x.squeeze(dims_of(axes))};
}

std::vector<Tensor> unsqueeze(const Call& call) {
  const Tensor& x = call.input(0);
  const std::vector<std::int64_t> given = integers_or_input(call, "axes", 1);
  std::vector<int> axes = axes_of(call, given, x.rank() + static_cast<int>(given.size()));
  std::sort(axes.begin(), axes.end());
  Shape shape = x.shape();
  for (const int axis : axes) shape.insert(axis, 1);
  return {x.reshape(shape)};
}

std::vector<Tensor> transpose(const Call& call) {
  const Tensor& x = call.input(0);
  Dims dims;
  if (call.has_attribute("perm")) {
    for (const std::int64_t axis : call.integers("perm")) dims.push_back(axis_of(call, axis, x.rank()));
  } else {
    for (int d = x.rank(); d-- > 0;) dims.push_back(d);
  }
  return {x.permute(dims)};
}

std::vector<Tensor> concat(const Call& call) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < call.inputs(); ++i) tensors.push_back(call.input(i));
  call.require(!tensors.empty(), "has no inputs");
  const std::int64_t axis = call.version() < 4 ? call.integer("axis", 1) : call.integer("axis");
  return {cat(tensors, axis_of(call, axis, tensors.front().rank()))};
}

std::vector<Tensor> split(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  std::vector<std::int64_t> sizes = integers_or_input(call, "split", 1);
  if (sizes.empty()) {
    const std::int64_t parts = call.integer("num_outputs", static_cast<std::int64_t>(call.outputs()));
    call.require(parts >= 1 && parts <= (1 << 20), "the number of parts is out of range");
    const std::int64_t size = x.shape()[axis];
    const std::int64_t each = (size + parts - 1) / parts;
    for (std::int64_t i = 0, left = size; i < parts; ++i, left -= each)
      sizes.push_back(std::clamp<std::int64_t>(left, 0, each));
  }
  return x.split(sizes, axis);
}

std::vector<Tensor> slice(const Call& call) {
  Tensor x = call.input(0);
  for (const SlicedAxis& part : sliced_axes(call, x.shape())) {
    const bool down = part.step < 0;
    Slice range{.start = part.start, .stop = part.stop, .step = part.step};
    if (down && part.stop < 0) range.stop = std::nullopt;
    if (down ? part.start <= part.stop : part.start >= part.stop) range = {.start = 0, .stop = 0};
    x = x.slice(part.axis, range);
  }
  return {x};
}

std::vector<Tensor> expand(const Call& call) {
  const Tensor& x = call.input(0);
  Shape target = shape_of(call.host_integers(1));
  while (target.rank() < x.rank()) target.insert(0, 1);
  const int offset = target.rank() - x.rank();
  for (int d = 0; d < x.rank(); ++d) {
    if (target[d + offset] == 1) target[d + offset] = x.shape()[d];
  }
  return {x.expand(target)};
}

std::vector<Tensor> tile_of(const Call& call) {
  const Tensor& x = call.input(0);
  if (call.version() >= 6) {
    const Shape counts = shape_of(call.host_integers(1));
    call.require(counts.rank() == x.rank(), "repeats has not one number for each dimension");
    return {x.repeat(counts)};
  }
  Shape counts = Shape::filled(x.rank(), 1);
  counts[axis_of(call, call.host_integer(2), x.rank())] = call.host_integer(1);
  return {x.repeat(counts)};
}

// Where the elements of a padded dimension come from.
std::vector<std::int64_t> padded_places(const Call& call, std::string_view mode, std::int64_t size, std::int64_t before,
                                        std::int64_t after) {
  std::vector<std::int64_t> places;
  call.require(size > 0, "an empty dimension is padded with its own elements");
  constexpr std::int64_t kLeast = -(std::int64_t{1} << 62), kMost = 1 << 24;
  const auto fits = [](std::int64_t padding) { return kLeast < padding && padding < kMost; };
  call.require(fits(before) && fits(after), "the padding is too large");
  for (std::int64_t i = -before; i < size + after; ++i) {
    if (mode == "edge") {
      places.push_back(std::clamp<std::int64_t>(i, 0, size - 1));
    } else if (mode == "wrap") {
      places.push_back(((i % size) + size) % size);
    } else {
      const std::int64_t period = std::max<std::int64_t>(1, 2 * (size - 1));
      const std::int64_t at = ((i % period) + period) % period;
      places.push_back(at < size ? at : period - at);
    }
  }
  return places;
}

std::vector<Tensor> pad_of(const Call& call) {
  Tensor x = call.input(0);
  const std::string_view mode = call.text("mode", "constant");
  const bool old = call.version() < 11;
  std::vector<std::int64_t> pads =
      old ? call.integers(call.has_attribute("pads") ? "pads" : "paddings") : call.host_integers(1);
  std::vector<int> axes;
  if (call.has(3)) {
    axes = axes_of(call, call.host_integers(3), x.rank());
  } else {
    for (int d = 0; d < x.rank(); ++d) axes.push_back(d);
  }
  call.require(pads.size() == 2 * axes.size(), "pads has not two numbers for each dimension");
  std::vector<std::int64_t> before(static_cast<std::size_t>(x.rank()), 0);
  std::vector<std::int64_t> after = before;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    before[static_cast<std::size_t>(axes[i])] = pads[i];
    after[static_cast<std::size_t>(axes[i])] = pads[i + axes.size()];
  }
  if (mode == "constant") return {pad_spatial(x, before, after, old ? call.number("value", 0) : number_or(call, 2, 0))};
  call.require(mode == "reflect" || mode == "edge" || mode == "wrap", "the mode is unknown");
  for (int d = 0; d < x.rank(); ++d) {
    const std::int64_t first = before[static_cast<std::size_t>(d)];
    const std::int64_t last = after[static_cast<std::size_t>(d)];
    if (first == 0 && last == 0) continue;
    const std::vector<std::int64_t> places = padded_places(call, mode, x.shape()[d], first, last);
    const auto count = static_cast<std::int64_t>(places.size());
    x = index_select(x, d, Tensor::from(places, {count}, call.device()));
  }
  return {x};
}

// The side of the blocks of x [N, C, H, W]; products of it with sizes of x are numbers.
std::int64_t block_of(const Call& call, const Tensor& x) {
  constexpr std::int64_t kMostBlock = std::int64_t{1} << 15, kMostSize = std::int64_t{1} << 32;
  const std::int64_t b = call.integer("blocksize");
  const bool fits = std::all_of(x.shape().begin(), x.shape().end(), [](std::int64_t size) { return size < kMostSize; });
  call.require(x.rank() == 4 && b > 0 && b <= kMostBlock && fits, "the blocks are out of range");
  return b;
}

std::vector<Tensor> depth_to_space(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t b = block_of(call, x);
  const Shape& s = x.shape();
  call.require(s[1] % (b * b) == 0, "the channels are no blocks");
  const std::int64_t c = s[1] / (b * b);
  const Tensor blocks = call.text("mode", "DCR") == "CRD"
                            ? x.reshape({s[0], c, b, b, s[2], s[3]}).permute({0, 1, 4, 2, 5, 3})
                            : x.reshape({s[0], b, b, c, s[2], s[3]}).permute({0, 3, 4, 1, 5, 2});
  return {blocks.reshape({s[0], c, s[2] * b, s[3] * b})};
}

std::vector<Tensor> space_to_depth(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t b = block_of(call, x);
  const Shape& s = x.shape();
  call.require(s[2] % b == 0 && s[3] % b == 0, "the picture is no blocks");
  const Tensor parts = x.reshape({s[0], s[1], s[2] / b, b, s[3] / b, b});
  const Tensor ordered =
      call.text("mode", "DCR") == "CRD" ? parts.permute({0, 1, 3, 5, 2, 4}) : parts.permute({0, 3, 5, 1, 2, 4});
  return {ordered.reshape({s[0], s[1] * b * b, s[2] / b, s[3] / b})};
}

std::vector<Tensor> range(const Call& call) {
  const DType dtype = call.dtype_of_input(0);
  const double start = number_or(call, 0, 0);
  const double limit = number_or(call, 1, 0);
  const double step = number_or(call, 2, 1);
  call.require(step != 0, "the step is 0");
  const double count = std::max(0.0, std::ceil((limit - start) / step));
  call.require(count < 0x1p40, "there are too many numbers");
  const Tensor places = arange(count, {.dtype = DType::i64, .device = call.device()});
  if (!is_float(dtype)) return {add(mul(places, step), start).to(dtype)};
  return {add(mul(places.to(dtype), step), start)};
}

std::vector<Tensor> eye_like(const Call& call) {
  const Shape& shape = call.shape(0);
  call.require(shape.rank() == 2, "the input is no matrix");
  const DType dtype = call.dtype("dtype", call.dtype_of_input(0));
  const TensorOptions whole{.dtype = DType::i64, .device = call.device()};
  const Tensor rows = arange(static_cast<double>(shape[0]), whole).reshape({shape[0], 1});
  const Tensor columns = arange(static_cast<double>(shape[1]), whole);
  return {eq(sub(columns, rows), static_cast<double>(call.integer("k", 0))).to(dtype)};
}

std::vector<Tensor> triangle(const Call& call) {
  const std::int64_t k = call.has(1) ? call.host_integer(1) : 0;
  // Beyond both sides nothing changes any more.
  const std::int64_t most =
      call.shape(0).rank() < 2 ? 0 : call.shape(0)[call.shape(0).rank() - 2] + call.shape(0).back() + 1;
  const std::int64_t diagonal = std::clamp(k, -most, most);
  return {call.integer("upper", 1) != 0 ? triu(call.input(0), diagonal) : tril(call.input(0), diagonal)};
}

std::vector<Tensor> center_crop_pad(const Call& call) {
  const Tensor& x = call.input(0);
  const std::vector<std::int64_t> target = call.host_integers(1);
  std::vector<int> axes = axes_of(call, call.integers("axes"), x.rank());
  if (axes.empty()) {
    for (int d = 0; d < x.rank(); ++d) axes.push_back(d);
  }
  call.require(axes.size() == target.size(), "there is not one size for each axis");
  std::vector<std::int64_t> before(static_cast<std::size_t>(x.rank()), 0);
  std::vector<std::int64_t> after = before;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t more = target[i] - x.shape()[axes[i]];
    const std::int64_t first = more > 0 ? more / 2 : -(-more / 2);
    before[static_cast<std::size_t>(axes[i])] = first;
    after[static_cast<std::size_t>(axes[i])] = more - first;
  }
  return {pad_spatial(x, before, after, 0)};
}

constexpr Operator kViewOperators[] = {
    {.name = "Reshape", .run = reshape, .narrow = NarrowInputs::kept},
    {.name = "Flatten", .run = flatten, .narrow = NarrowInputs::kept},
    {.name = "Squeeze", .run = squeeze, .narrow = NarrowInputs::kept},
    {.name = "Unsqueeze", .run = unsqueeze, .narrow = NarrowInputs::kept},
    {.name = "Transpose", .run = transpose, .narrow = NarrowInputs::kept},
    {.name = "Concat", .run = concat},
    {.name = "Split", .since = 2, .run = split},
    {.name = "Slice", .run = slice},
    {.name = "Expand", .since = 8, .run = expand},
    {.name = "Tile", .run = tile_of},
    {.name = "Pad", .run = pad_of, .narrow = NarrowInputs::kept},
    {.name = "DepthToSpace", .run = depth_to_space},
    {.name = "SpaceToDepth", .run = space_to_depth},
    {.name = "Range", .since = 11, .run = range},
    {.name = "EyeLike", .since = 9, .run = eye_like},
    {.name = "Trilu", .since = 14, .run = triangle},
    {.name = "CenterCropPad", .since = 18, .run = center_crop_pad},
};

}  // namespace

std::span<const Operator> view_operators() {
  return kViewOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
