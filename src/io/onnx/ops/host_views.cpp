#include "io/onnx/ops/host_views.h"

#include <algorithm>
#include <cstdlib>

#include "core/view.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

using HostValues = std::optional<std::vector<Value>>;

// Calls visit(address) for the elements of a view without bounds, in row-major order.
template <typename Visit> void for_each_element(const View& view, const Visit& visit) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(view.rank()));
  for (std::int64_t left = view.shape.numel(); left > 0; --left) {
    visit(static_cast<std::size_t>(view.address(index.data())));
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < view.shape[static_cast<int>(d)]) break;
      index[d] = 0;
    }
  }
}

HostArray read_through(const HostArray& array, const View& view) {
  HostArray result{array.dtype, view.shape, {}, {}};
  const bool floats = is_float(array.dtype);
  for_each_element(view, [&](std::size_t at) {
    if (floats) {
      result.numbers.push_back(array.numbers[at]);
    } else {
      result.integers.push_back(array.integers[at]);
    }
  });
  return result;
}

HostValues known(HostArray array) {
  return std::vector<Value>{std::move(array)};
}

// The array as a view of `target`, to which it broadcasts; nothing if it does not, or that is no shape of a small
// array.
std::optional<View> expanded(const HostArray& array, const Shape& target) {
  const int added = target.rank() - array.shape.rank();
  if (added < 0 || target.rank() > kMaxRank) return std::nullopt;
  for (int d = 0; d < target.rank(); ++d) {
    if (target[d] < 0) return std::nullopt;
    const std::int64_t size = d < added ? 1 : array.shape[d - added];
    if (size != 1 && size != target[d]) return std::nullopt;
  }
  if (!fits_host(array.dtype, target)) return std::nullopt;
  return View::contiguous(array.shape).expanded(target);
}

// What every size of 1 in one of the two makes room for in the other.
Shape joined(Shape a, const Shape& b) {
  while (a.rank() < b.rank()) a.insert(0, 1);
  for (int d = 0; d < b.rank(); ++d) {
    std::int64_t& size = a[d + a.rank() - b.rank()];
    if (size == 1) size = b[d];
  }
  return a;
}

}  // namespace

HostValues reshape_rule(const Call& call) {
  HostArray result = *call.value(0).host();
  if (result.size() == 0) return std::nullopt;
  std::vector<std::int64_t> sizes = integers_or_input(call, "shape", 1);
  if (sizes.size() > static_cast<std::size_t>(kMaxRank)) return std::nullopt;
  const bool zero_is_zero = call.integer("allowzero", 0) != 0;
  std::int64_t* open = nullptr;
  Shape others;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0 && !zero_is_zero) {
      if (d >= static_cast<std::size_t>(result.shape.rank())) return std::nullopt;
      sizes[d] = result.shape[static_cast<int>(d)];
    }
    if (sizes[d] < -1 || sizes[d] > kMaxHostElements || (sizes[d] == -1 && open != nullptr)) return std::nullopt;
    if (sizes[d] == -1) {
      open = &sizes[d];
    } else {
      others.push_back(sizes[d]);
    }
  }
  if (!fits_host(result.dtype, others)) return std::nullopt;
  const std::int64_t count = others.numel();
  const auto size = static_cast<std::int64_t>(result.size());
  if (count == 0 || (open == nullptr ? count != size : size % count != 0)) return std::nullopt;
  if (open != nullptr) *open = size / count;
  result.shape = shape_of(sizes);
  return known(std::move(result));
}

HostValues transpose_rule(const Call& call) {
  const HostArray& array = *call.value(0).host();
  if (array.size() == 0) return std::nullopt;
  const int rank = array.shape.rank();
  const std::vector<std::int64_t> given = call.integers("perm");
  if (call.has_attribute("perm") && given.size() != static_cast<std::size_t>(rank)) return std::nullopt;
  Shape order;
  for (int d = 0; d < rank; ++d) {
    std::int64_t axis = given.empty() ? rank - 1 - d : given[static_cast<std::size_t>(d)];
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || std::count(order.begin(), order.end(), axis) > 0) return std::nullopt;
    order.push_back(axis);
  }
  return known(read_through(array, View::contiguous(array.shape).permuted(order)));
}

HostValues slice_rule(const Call& call) {
  const HostArray& array = *call.value(0).host();
  if (array.size() == 0) return std::nullopt;
  View view = View::contiguous(array.shape);
  for (const SlicedAxis& part : sliced_axes(call, array.shape)) {
    const std::int64_t length = part.step > 0 ? part.stop - part.start : part.start - part.stop;
    if (length <= 0) return std::nullopt;
    const std::int64_t step = std::clamp(part.step, -kMaxHostElements, kMaxHostElements);
    view = view.sliced(part.axis, part.start, step, (length - 1) / std::abs(step) + 1);
  }
  return known(read_through(array, view));
}

HostValues expand_rule(const Call& call) {
  const HostArray& array = *call.value(0).host();
  const std::vector<std::int64_t> sizes = call.host_integers(1);
  if (array.size() == 0 || sizes.size() > static_cast<std::size_t>(kMaxRank)) return std::nullopt;
  const std::optional<View> view = expanded(array, joined(shape_of(sizes), array.shape));
  return view ? known(read_through(array, *view)) : std::nullopt;
}

HostValues where_rule(const Call& call) {
  if (call.inputs() != 3) return std::nullopt;
  const HostArray& condition = *call.value(0).host();
  const HostArray& a = *call.value(1).host();
  const HostArray& b = *call.value(2).host();
  if (condition.size() == 0 || a.size() == 0 || b.size() == 0) return std::nullopt;
  if (condition.dtype != DType::boolean || a.dtype != b.dtype || is_float(a.dtype)) return std::nullopt;
  const Shape shape = joined(joined(condition.shape, a.shape), b.shape);
  const std::optional<View> views[] = {expanded(condition, shape), expanded(a, shape), expanded(b, shape)};
  for (const std::optional<View>& view : views) {
    if (!view) return std::nullopt;
  }
  const HostArray chosen = read_through(condition, *views[0]);
  HostArray result = read_through(b, *views[2]);
  const HostArray others = read_through(a, *views[1]);
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (chosen.integers[i] != 0) result.integers[i] = others.integers[i];
  }
  return known(std::move(result));
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
