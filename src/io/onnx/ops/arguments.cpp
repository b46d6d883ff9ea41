#include "io/onnx/ops/arguments.h"

#include <algorithm>
#include <set>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

int axis_of(const Call& call, std::int64_t axis, int rank) {
  call.require(axis >= -rank && axis < rank, "an axis is outside of the rank");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> axes_of(const Call& call, const std::vector<std::int64_t>& axes, int rank) {
  std::vector<int> result;
  for (const std::int64_t axis : axes) result.push_back(axis_of(call, axis, rank));
  call.require(std::set<int>(result.begin(), result.end()).size() == result.size(), "an axis is there twice");
  return result;
}

std::vector<std::int64_t> integers_or_input(const Call& call, std::string_view attribute, std::size_t i) {
  if (call.has_attribute(attribute)) return call.integers(attribute);
  return call.has(i) ? call.host_integers(i) : std::vector<std::int64_t>{};
}

std::vector<SlicedAxis> sliced_axes(const Call& call, const Shape& shape) {
  const std::vector<std::int64_t> starts = integers_or_input(call, "starts", 1);
  const std::vector<std::int64_t> ends = integers_or_input(call, "ends", 2);
  std::vector<std::int64_t> given = integers_or_input(call, "axes", 3);
  if (given.empty()) {
    for (std::size_t i = 0; i < starts.size(); ++i) given.push_back(static_cast<std::int64_t>(i));
  }
  const std::vector<int> axes = axes_of(call, given, shape.rank());
  const std::vector<std::int64_t> steps =
      call.has(4) ? call.host_integers(4) : std::vector<std::int64_t>(starts.size(), 1);
  call.require(starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size(),
               "starts, ends, axes and steps differ in length");
  std::vector<SlicedAxis> result;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    call.require(steps[i] != 0, "a step is 0");
    const std::int64_t size = shape[axes[i]];
    // Positions as NumPy has them; going down, the end may stand before the first element, which Python spells "none".
    const auto within = [&](std::int64_t at) {
      if (at < 0) at = at < -size ? -1 : at + size;
      return steps[i] < 0 ? std::clamp<std::int64_t>(at, -1, size - 1) : std::clamp<std::int64_t>(at, 0, size);
    };
    result.push_back({axes[i], within(starts[i]), within(ends[i]), steps[i]});
  }
  return result;
}

Dims dims_of(const std::vector<int>& axes) {
  Dims dims;
  for (const int axis : axes) dims.push_back(axis);
  return dims;
}

Shape shape_of(const std::vector<std::int64_t>& sizes) {
  return Shape(std::span<const std::int64_t>(sizes));
}

Tensor computable(const Tensor& x) {
  if (x.dtype() != DType::f8e4m3 && x.dtype() != DType::f8e5m2) return x;
  std::vector<float> values;
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    values.push_back(x.dtype() == DType::f8e4m3 ? to_f32(Float8E4M3{byte}) : to_f32(Float8E5M2{byte}));
  }
  return take(Tensor::from(values, {256}, x.device()), x.bitcast(DType::u8).to(DType::i64));
}

double number_or(const Call& call, std::size_t i, double fallback) {
  if (!call.has(i) || call.value(i).absent()) return fallback;
  return is_float(call.dtype_of_input(i)) ? call.host_number(i) : static_cast<double>(call.host_integer(i));
}

std::vector<std::int64_t> spatial_sizes(const Shape& shape) {
  return {shape.begin() + std::min(2, shape.rank()), shape.end()};
}

void require_of_windows(const Call& call, const std::vector<std::int64_t>& numbers) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const bool fit = std::all_of(numbers.begin(), numbers.end(),
                               [](std::int64_t number) { return -kMost < number && number < kMost; });
  call.require(fit, "a number of its windows is 2^31 or more");
}

Windows windows_of(const Call& call, std::vector<std::int64_t> kernel, const std::vector<std::int64_t>& spatial) {
  const std::size_t dims = kernel.size();
  call.require(dims == spatial.size() && dims > 0, "the kernel's rank does not fit the input's");
  require_of_windows(call, kernel);
  require_of_windows(call, spatial);
  const auto list = [&](std::string_view name, std::int64_t fallback, std::size_t size) {
    std::vector<std::int64_t> values = call.integers(name);
    if (values.empty()) values.assign(size, fallback);
    call.require(values.size() == size, "a list of strides, dilations or pads has a wrong length");
    require_of_windows(call, values);
    return values;
  };
  Windows windows{
      .kernel = std::move(kernel), .stride = list("strides", 1, dims), .dilation = list("dilations", 1, dims)};
  for (std::size_t d = 0; d < dims; ++d) {
    call.require(windows.kernel[d] > 0 && windows.stride[d] > 0 && windows.dilation[d] > 0,
                 "kernel, strides and dilations must be positive");
  }
  const std::string_view mode = call.text("auto_pad", "NOTSET");
  if (mode == "NOTSET") {
    const std::vector<std::int64_t> pads = list("pads", 0, 2 * dims);
    windows.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(dims));
    windows.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(dims), pads.end());
    return windows;
  }
  call.require(mode == "VALID" || mode == "SAME_UPPER" || mode == "SAME_LOWER", "auto_pad is unknown");
  for (std::size_t d = 0; d < dims; ++d) {
    const std::int64_t span = (windows.kernel[d] - 1) * windows.dilation[d] + 1;
    const std::int64_t outputs = (spatial[d] + windows.stride[d] - 1) / windows.stride[d];
    const std::int64_t total =
        mode == "VALID" ? 0 : std::max<std::int64_t>(0, (outputs - 1) * windows.stride[d] + span - spatial[d]);
    windows.before.push_back(mode == "SAME_LOWER" ? total - total / 2 : total / 2);
    windows.after.push_back(total - windows.before.back());
  }
  return windows;
}

Tensor pad_spatial(const Tensor& x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after,
                   double value) {
  Shape padding;  // PyTorch's order: the last dimension first
  Tensor result = x;
  bool any = false;
  for (std::size_t d = before.size(); d-- > 0;) {
    const int dim = x.rank() - static_cast<int>(before.size() - d);
    const std::int64_t size = x.shape()[dim];
    const auto cut = [size](std::int64_t by) { return by >= 0 ? 0 : by < -size ? size : -by; };
    const std::int64_t first = cut(before[d]);
    const std::int64_t last = size - cut(after[d]);
    if (first != 0 || last != size) result = result.slice(dim, {first, std::max(first, last)});
    padding.push_back(std::max<std::int64_t>(0, before[d]));
    padding.push_back(std::max<std::int64_t>(0, after[d]));
    any = any || before[d] > 0 || after[d] > 0;
  }
  return any ? pad(result, padding, value) : result;
}

Tensor plain_indices(const Tensor& indices, std::int64_t size) {
  const Tensor wide = indices.to(DType::i64);
  return where(lt(wide, 0), add(wide, size), wide);
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
