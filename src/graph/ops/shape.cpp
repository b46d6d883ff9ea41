// Views and what is made of them: no arithmetic, every bit is kept.
#include <algorithm>

#include <fmt/format.h>

#include "graph/gradient_rules.h"
#include "graph/make.h"
#include "graph/recording.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Reading read(const Tensor& tensor) { return reading_of(node_of(tensor)); }

Tensor view_tensor(const NodeRef& base, View view, DType dtype) {
  const Shape shape = view.shape;
  if (shape == base->shape && view.is_contiguous() && view.offset == 0) return Access::tensor(base);
  return Access::tensor(make_node(ViewOf{std::move(view)}, {base}, shape, dtype, base->device));
}

Tensor stored(const Tensor& tensor) {
  const Tensor copy = Access::tensor(
      make_node(Elementwise{.op = Op::copy}, {node_of(tensor)}, tensor.shape(), tensor.dtype(), tensor.device()));
  const Operand operand(tensor);
  const Operand* const operands[] = {&operand};
  return trace_elementwise(copy, Op::copy, operands);
}

}  // namespace graph

using namespace graph;

Tensor Tensor::reshape(const Shape& to, CallSite site) const {
  const CallScope call("reshape", site);
  check_defined({{"input", *this}});
  Shape target = to;
  int unknown = -1;
  std::int64_t known = 1;
  bool overflow = false;
  for (int d = 0; d < to.rank(); ++d) {
    if (to[d] == -1 && unknown < 0) {
      unknown = d;
    } else if (to[d] < 0) {
      fail<ShapeError>(fmt::format("{} is no shape: one size may be -1", to.to_string()), {{"input", *this}});
    } else {
      overflow = overflow || __builtin_mul_overflow(known, to[d], &known);
    }
  }
  if (unknown >= 0 && known > 0 && numel() % known == 0) target[unknown] = numel() / known;
  if (overflow || (unknown >= 0 && target[unknown] < 0) || target.numel() != numel()) {
    fail<ShapeError>(fmt::format("{} elements do not fill shape {}", numel(), to.to_string()), {{"input", *this}},
                     "the sizes' product must equal the number of elements");
  }
  check_shape(target, dtype());
  if (target == shape()) return *this;
  return recorded(change_view(*this, [&](const View& view) { return view.reshaped(target); }), "reshape", {this});
}

Tensor Tensor::flatten(int first_dim, int last_dim, CallSite site) const {
  const CallScope call("flatten", site);
  check_defined({{"input", *this}});
  if (rank() == 0) return reshape({1});
  const int first = check_dim(*this, first_dim);
  const int last = check_dim(*this, last_dim);
  if (first > last) {
    fail<ValueError>(fmt::format("first_dim {} comes after last_dim {}", first, last), {{"input", *this}});
  }
  Shape target = shape().slice(0, first);
  target.push_back(shape().slice(first, last + 1).numel());
  for (int d = last + 1; d < rank(); ++d) target.push_back(shape()[d]);
  return reshape(target);
}

Tensor Tensor::permute(const Dims& dims, CallSite site) const {
  const CallScope call("permute", site);
  check_defined({{"input", *this}});
  if (dims.size() != rank()) {
    fail<ShapeError>(fmt::format("{} lists {} of {} dimensions", dims.to_string(), dims.size(), rank()),
                     {{"input", *this}}, "list every dimension once");
  }
  if (rank() == 0) return *this;
  check_dims(*this, dims);
  Shape order;
  for (const std::int64_t dim : dims) order.push_back(dim < 0 ? dim + rank() : dim);
  return recorded(change_view(*this, [&](const View& view) { return std::optional(view.permuted(order)); }), "permute",
                  {this}, {order});
}

Tensor Tensor::transpose(int a, int b, CallSite site) const {
  const CallScope call("transpose", site);
  check_defined({{"input", *this}});
  Shape order;
  for (int d = 0; d < rank(); ++d) order.push_back(d);
  std::swap(order[check_dim(*this, a)], order[check_dim(*this, b)]);
  return permute(Dims(order));
}

Tensor Tensor::squeeze(int dim, CallSite site) const {
  const CallScope call("squeeze", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  if (shape()[d] != 1) return *this;
  Shape target = shape();
  target.erase(d);
  return reshape(target);
}

Tensor Tensor::unsqueeze(int dim, CallSite site) const {
  const CallScope call("unsqueeze", site);
  check_defined({{"input", *this}});
  if (dim < -rank() - 1 || dim > rank()) {
    fail<IndexError>(fmt::format("dimension {} does not exist in the result", dim), {{"input", *this}},
                     fmt::format("use a dimension from {} to {}", -rank() - 1, rank()));
  }
  Shape target = shape();
  target.insert(dim < 0 ? dim + rank() + 1 : dim, 1);
  return reshape(target);
}

Tensor Tensor::expand(const Shape& to, CallSite site) const {
  const CallScope call("expand", site);
  check_defined({{"input", *this}});
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
    fail<ShapeError>(fmt::format("does not expand to {}", to.to_string()), {{"input", *this}},
                     "only sizes of 1 and new leading dimensions expand");
  }
  check_shape(target, dtype());
  return recorded(change_view(*this, [&](const View& view) { return std::optional(view.expanded(target)); }), "expand",
                  {this});
}

Tensor Tensor::slice(int dim, Slice range, CallSite site) const {
  const CallScope call("slice", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  if (range.step == 0) fail<ValueError>("the step is 0", {{"input", *this}}, "use a step of 1 or -1");
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
  return recorded(
      change_view(*this, [&](const View& view) { return std::optional(view.sliced(d, start, step, count)); }), "slice",
      {this}, {{d, start, step}});
}

Tensor Tensor::narrow(int dim, std::int64_t start, std::int64_t length, CallSite site) const {
  const CallScope call("narrow", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  const std::int64_t size = shape()[d];
  const std::int64_t first = start < 0 ? start + size : start;
  if (first < 0 || length < 0 || first > size || length > size - first) {
    fail<IndexError>(fmt::format("start {} and length {} leave dimension {} of size {}", start, length, d, size),
                     {{"input", *this}}, "keep start + length within the size");
  }
  return recorded(
      change_view(*this, [&](const View& view) { return std::optional(view.sliced(d, first, 1, length)); }), "slice",
      {this}, {{d, first, 1}});
}

Tensor Tensor::select(int dim, std::int64_t index, CallSite site) const {
  const CallScope call("select", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  const std::int64_t size = shape()[d];
  if (index < -size || index >= size) {
    fail<IndexError>(fmt::format("index {} is outside dimension {} of size {}", index, d, size), {{"input", *this}});
  }
  Shape target = shape();
  target.erase(d);
  return narrow(d, index < 0 ? index + size : index, 1).reshape(target);
}

Tensor Tensor::flip(const Dims& dims, CallSite site) const {
  const CallScope call("flip", site);
  check_defined({{"input", *this}});
  if (dims.empty()) return *this;
  const std::uint32_t mask = check_dims(*this, dims);
  Tensor result = *this;
  for (int d = 0; d < rank(); ++d) {
    if ((mask >> d & 1u) != 0) result = result.slice(d, {.step = -1});
  }
  return result;
}

Tensor broadcast_to(const Operand& a, const Shape& shape) {
  const CallScope call("broadcast_to", a);
  check_defined({{"input", a}});
  if (a.is_scalar()) return full(shape, a.scalar(), {});
  return a.tensor().expand(shape);
}

Tensor contiguous(const Operand& a) {
  const CallScope call("contiguous", a);
  check_defined({{"input", a}});
  if (a.is_scalar()) return full({}, a.scalar(), {});
  const Reading reading = read(a.tensor());
  if (reading.view.is_contiguous() && reading.view.offset == 0 && reading.base->shape == reading.view.shape) {
    return a.tensor();
  }
  return stored(a.tensor());
}

}  // namespace v0
}  // namespace lockstep
