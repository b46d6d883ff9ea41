// What operators share in reading their arguments: axes, lists that are attributes in one version and inputs in the
// next, and the paddings that auto_pad asks for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/shape.h>

#include "io/onnx/operator.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// The domain of ONNX Runtime's own operators.
inline constexpr std::string_view kMicrosoft = "com.microsoft";

/// A dimension that counts from the end where it is negative. ValueError outside of the rank.
int axis_of(const Call& call, std::int64_t axis, int rank);
/// The same of each; none may be there twice.
std::vector<int> axes_of(const Call& call, const std::vector<std::int64_t>& axes, int rank);
/// The attribute, if the node has it; else input `i`; else nothing.
std::vector<std::int64_t> integers_or_input(const Call& call, std::string_view attribute, std::size_t i);
/// What a Slice takes of an axis: positions from `start` on up to before `stop`, which is -1 where a slice that goes
/// down ends with the first element.
struct SlicedAxis {
  int axis = 0;
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
};
std::vector<SlicedAxis> sliced_axes(const Call& call, const Shape& shape);
Dims dims_of(const std::vector<int>& axes);
Shape shape_of(const std::vector<std::int64_t>& sizes);

/// 8-bit floats as f32, which nothing computes with otherwise; any other tensor as it is.
Tensor computable(const Tensor& x);

/// The number that is input `i`, of any dtype, or the fallback where it is left out.
double number_or(const Call& call, std::size_t i, double fallback);

/// How a window moves over the spatial dimensions: of convolutions and pools.
struct Windows {
  std::vector<std::int64_t> kernel, stride, dilation, before, after;
  int dims() const { return static_cast<int>(kernel.size()); }
};
/// ValueError if one of these is too large for what is computed of them in 64 bits.
void require_of_windows(const Call& call, const std::vector<std::int64_t>& numbers);
/// From kernel_shape (or the sizes of a weight), strides, dilations, pads and auto_pad; `spatial` are the input's
/// sizes.
Windows windows_of(const Call& call, std::vector<std::int64_t> kernel, const std::vector<std::int64_t>& spatial);
/// The sizes behind the first two.
std::vector<std::int64_t> spatial_sizes(const Shape& shape);

/// `x` with elements added (or, where negative, cut) at both ends of the spatial dimensions.
Tensor pad_spatial(const Tensor& x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after,
                   double value);

/// Indices of a dimension of `size` elements: negative ones count from the end. As i64.
Tensor plain_indices(const Tensor& indices, std::int64_t size);

/// A row of the table for a function of tensors.
template <Tensor (*Function)(const Operand&)> std::vector<Tensor> unary(const Call& call) {
  return {Function(call.input(0))};
}
template <Tensor (*Function)(const Operand&, const Operand&)> std::vector<Tensor> binary(const Call& call) {
  return {Function(call.input(0), call.input(1))};
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
