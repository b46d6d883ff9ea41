// Views and what is made of them: no arithmetic, every bit is kept.
#include <algorithm>

#include <fmt/format.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Reading read(const Tensor& tensor) { return reading_of(node_of(tensor)); }

Tensor view_tensor(const NodeRef& base, View view, DType dtype, CallSite site) {
  const Shape shape = view.shape;
  if (shape == base->shape && view.is_contiguous() && view.offset == 0) return Access::tensor(base);
  return Access::tensor(make_node(ViewOf{std::move(view)}, {base}, shape, dtype, base->device, site));
}

Tensor stored(const Tensor& tensor, CallSite site) {
  const Tensor copy = Access::tensor(make_node(Elementwise{.op = Op::copy}, {node_of(tensor)}, tensor.shape(),
                                               tensor.dtype(), tensor.device(), site));
  const Operand operand(tensor, site);
  return trace_elementwise(copy, Op::copy, {&operand, 1});
}

}  // namespace graph

using namespace graph;

Tensor Tensor::reshape(const Shape& to, CallSite site) const {
  check_defined("reshape", {{"input", *this}}, site);
  Shape target = to;
  int unknown = -1;
  std::int64_t known = 1;
  bool overflow = false;
  for (int d = 0; d < to.rank(); ++d) {
    if (to[d] == -1 && unknown < 0) {
      unknown = d;
    } else if (to[d] < 0) {
      fail<ShapeError>("reshape", fmt::format("{} is no shape: one size may be -1", to.to_string()), {{"input", *this}}, "",
                       site);
    } else {
      overflow = overflow || __builtin_mul_overflow(known, to[d], &known);
    }
  }
  if (unknown >= 0 && known > 0 && numel() % known == 0) target[unknown] = numel() / known;
  if (overflow || (unknown >= 0 && target[unknown] < 0) || target.numel() != numel()) {
    fail<ShapeError>("reshape", fmt::format("{} elements do not fill shape {}", numel(), to.to_string()),
                     {{"input", *this}}, "the sizes' product must equal the number of elements", site);
  }
  check_shape("reshape", target, dtype(), site);
  if (target == shape()) return *this;
  return change_view(*this, site, [&](const View& view) { return view.reshaped(target); });
}

Tensor Tensor::flatten(int first_dim, int last_dim, CallSite site) const {
  check_defined("flatten", {{"input", *this}}, site);
  if (rank() == 0) return reshape({1}, site);
  const int first = check_dim("flatten", *this, first_dim, site);
  const int last = check_dim("flatten", *this, last_dim, site);
  if (first > last) {
    fail<ValueError>("flatten", fmt::format("first_dim {} comes after last_dim {}", first, last), {{"input", *this}}, "",
                     site);
  }
  Shape target = shape().slice(0, first);
  target.push_back(shape().slice(first, last + 1).numel());
  for (int d = last + 1; d < rank(); ++d) target.push_back(shape()[d]);
  return reshape(target, site);
}

Tensor Tensor::permute(const Dims& dims, CallSite site) const {
  check_defined("permute", {{"input", *this}}, site);
  if (dims.size() != rank()) {
    fail<ShapeError>("permute", fmt::format("{} lists {} of {} dimensions", dims.to_string(), dims.size(), rank()),
                     {{"input", *this}}, "list every dimension once", site);
  }
  if (rank() == 0) return *this;
  check_dims("permute", *this, dims, site);
  Shape order;
  for (const std::int64_t dim : dims) order.push_back(dim < 0 ? dim + rank() : dim);
  return change_view(*this, site, [&](const View& view) { return std::optional(view.permuted(order)); });
}

Tensor Tensor::transpose(int a, int b, CallSite site) const {
  check_defined("transpose", {{"input", *this}}, site);
  Shape order;
  for (int d = 0; d < rank(); ++d) order.push_back(d);
  std::swap(order[check_dim("transpose", *this, a, site)], order[check_dim("transpose", *this, b, site)]);
  return permute(Dims(order), site);
}

Tensor Tensor::squeeze(int dim, CallSite site) const {
  check_defined("squeeze", {{"input", *this}}, site);
  const int d = check_dim("squeeze", *this, dim, site);
  if (shape()[d] != 1) return *this;
  Shape target = shape();
  target.erase(d);
  return reshape(target, site);
}

Tensor Tensor::unsqueeze(int dim, CallSite site) const {
  check_defined("unsqueeze", {{"input", *this}}, site);
  if (dim < -rank() - 1 || dim > rank()) {
    fail<IndexError>("unsqueeze", fmt::format("dimension {} does not exist in the result", dim), {{"input", *this}},
                     fmt::format("use a dimension from {} to {}", -rank() - 1, rank()), site);
  }
  Shape target = shape();
  target.insert(dim < 0 ? dim + rank() + 1 : dim, 1);
  return reshape(target, site);
}

Tensor Tensor::expand(const Shape& to, CallSite site) const {
  check_defined("expand", {{"input", *this}}, site);
  Shape target = to;
  const int added = to.rank() - rank();
  bool fits = added >= 0;
  for (int d = 0; fits && d < to.rank(); ++d) {
    if (d < added) {
      fits = to[d] >= 0;
    } else if (to[d] == -1) {
      target[d] = shape()[d - added];
    } else {
      fits = to[d] == shape()[d - added] || (shape()[d - added] == 1 && to[d] >= 0);
    }
  }
  if (!fits) {
    fail<ShapeError>("expand", fmt::format("does not expand to {}", to.to_string()), {{"input", *this}},
                     "only sizes of 1 and new leading dimensions expand", site);
  }
  check_shape("expand", target, dtype(), site);
  return change_view(*this, site, [&](const View& view) { return std::optional(view.expanded(target)); });
}

Tensor Tensor::slice(int dim, Slice range, CallSite site) const {
  check_defined("slice", {{"input", *this}}, site);
  const int d = check_dim("slice", *this, dim, site);
  if (range.step == 0) fail<ValueError>("slice", "the step is 0", {{"input", *this}}, "use a step of 1 or -1", site);
  // Python's rules: ends are clamped, so any range is valid.
  const std::int64_t size = shape()[d];
  const std::int64_t low = range.step > 0 ? 0 : -1;
  const std::int64_t high = range.step > 0 ? size : size - 1;
  const auto clamped = [&](std::optional<std::int64_t> end, std::int64_t absent) {
    if (!end) return absent;
    return std::clamp(*end < 0 ? std::max(*end, -size - 1) + size : *end, low, high);
  };
  const std::int64_t start = clamped(range.start, range.step > 0 ? low : high);
  const std::int64_t stop = clamped(range.stop, range.step > 0 ? high : low);
  const std::int64_t distance = range.step > 0 ? stop - start : start - stop;
  // (distance - 1) / |step| + 1 without overflow for any step.
  const std::uint64_t stride = range.step > 0 ? static_cast<std::uint64_t>(range.step)
                                              : ~static_cast<std::uint64_t>(range.step) + 1;
  const std::int64_t count =
      distance <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / stride) + 1;
  const std::int64_t step = count > 1 ? range.step : 1;
  return change_view(*this, site, [&](const View& view) { return std::optional(view.sliced(d, start, step, count)); });
}

Tensor Tensor::narrow(int dim, std::int64_t start, std::int64_t length, CallSite site) const {
  check_defined("narrow", {{"input", *this}}, site);
  const int d = check_dim("narrow", *this, dim, site);
  const std::int64_t size = shape()[d];
  const std::int64_t first = start < 0 ? start + size : start;
  if (first < 0 || length < 0 || first > size || length > size - first) {
    fail<IndexError>("narrow",
                     fmt::format("start {} and length {} leave dimension {} of size {}", start, length, d, size),
                     {{"input", *this}}, "keep start + length within the size", site);
  }
  return change_view(*this, site, [&](const View& view) { return std::optional(view.sliced(d, first, 1, length)); });
}

Tensor Tensor::select(int dim, std::int64_t index, CallSite site) const {
  check_defined("select", {{"input", *this}}, site);
  const int d = check_dim("select", *this, dim, site);
  const std::int64_t size = shape()[d];
  if (index < -size || index >= size) {
    fail<IndexError>("select", fmt::format("index {} is outside dimension {} of size {}", index, d, size),
                     {{"input", *this}}, "", site);
  }
  Shape target = shape();
  target.erase(d);
  return narrow(d, index < 0 ? index + size : index, 1, site).reshape(target, site);
}

Tensor Tensor::flip(const Dims& dims, CallSite site) const {
  check_defined("flip", {{"input", *this}}, site);
  if (dims.empty()) return *this;
  const std::uint32_t mask = check_dims("flip", *this, dims, site);
  Tensor result = *this;
  for (int d = 0; d < rank(); ++d) {
    if ((mask >> d & 1u) != 0) result = result.slice(d, {.step = -1}, site);
  }
  return result;
}

Tensor broadcast_to(const Operand& a, const Shape& shape) {
  check_defined("broadcast_to", {{"input", a}}, a.site());
  if (a.is_scalar()) return full(shape, a.scalar(), {}, a.site());
  return a.tensor().expand(shape, a.site());
}

Tensor contiguous(const Operand& a) {
  check_defined("contiguous", {{"input", a}}, a.site());
  if (a.is_scalar()) return full({}, a.scalar(), {}, a.site());
  const Reading reading = read(a.tensor());
  if (reading.view.is_contiguous() && reading.view.offset == 0 && reading.base->shape == reading.view.shape) {
    return a.tensor();
  }
  return stored(a.tensor(), a.site());
}

}  // namespace v0
}  // namespace lockstep
