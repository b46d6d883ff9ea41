#include "graph/slice_sums.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "graph/make.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

/// A slice along the dimensions of the whole that its strides tell, the farthest first.
struct LaidSlice {
  Tensor values;  ///< of shape `sizes`
  Shape extents, first, sizes;
};

/// What a pending update of zeros writes; undefined if `gradient` is none.
Tensor written_to_zeros(const Tensor& gradient) {
  const NodeRef& node = node_of(gradient);
  if (primitive_if<Update>(node->op) == nullptr) return {};
  const std::unique_lock<std::mutex> lock = hold_pending(node->device);
  if (!lock.owns_lock() || node->ready.load(std::memory_order_acquire)) return {};
  const auto* full = std::get_if<Full>(&node->inputs[0]->op);
  if (full == nullptr || full->value.bits != 0) return {};
  return Access::from_handle(std::make_shared<Handle>(node->inputs[1]));
}

std::optional<LaidSlice> slice_of(const Tensor& gradient) {
  const auto& update = *primitive_if<Update>(node_of(gradient)->op);
  const View& region = update.region;
  const Tensor values = written_to_zeros(gradient);
  if (!values.defined()) return std::nullopt;
  std::int64_t offset = region.offset + static_cast<std::int64_t>(update.start.bits);
  Shape order;
  for (int d = 0; d < region.rank(); ++d) {
    if (region.shape[d] == 1) continue;
    if (region.strides[d] <= 0) return std::nullopt;
    order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return region.strides[static_cast<int>(a)] > region.strides[static_cast<int>(b)];
  });
  LaidSlice slice;
  std::int64_t whole = gradient.shape().numel();  // elements that one step along the dimension before spans
  const auto add = [&](std::int64_t stride, std::int64_t size) {
    if (whole % stride != 0) return false;
    slice.extents.push_back(whole / stride);
    slice.first.push_back(offset / stride);
    slice.sizes.push_back(size);
    offset %= stride;
    whole = stride;
    return slice.first.back() + size <= slice.extents.back();
  };
  for (const std::int64_t d : order) {
    if (!add(region.strides[static_cast<int>(d)], region.shape[static_cast<int>(d)])) return std::nullopt;
  }
  if (whole > 1 && !add(1, 1)) return std::nullopt;
  for (int d = 0; d < region.rank(); ++d) {
    if (region.shape[d] == 1) order.push_back(d);
  }
  slice.values = values.permute(Dims(order)).reshape(slice.sizes);
  return slice;
}

bool overlap(const LaidSlice& a, const LaidSlice& b) {
  for (int d = 0; d < a.sizes.rank(); ++d) {
    if (a.first[d] + a.sizes[d] <= b.first[d] || b.first[d] + b.sizes[d] <= a.first[d]) return false;
  }
  return true;
}

// Nothing where they do not lie along the same dimensions, or overlap.
std::optional<std::vector<LaidSlice>> side_by_side(const std::vector<Tensor>& gradients) {
  std::vector<LaidSlice> slices;
  for (const Tensor& gradient : gradients) {
    std::optional<LaidSlice> slice = slice_of(gradient);
    if (!slice || (!slices.empty() && slice->extents != slices[0].extents)) return std::nullopt;
    for (const LaidSlice& other : slices) {
      if (overlap(*slice, other)) return std::nullopt;
    }
    slices.push_back(std::move(*slice));
  }
  return slices;
}

// Dimensions are cut into pieces that each slice has or has not, so that borders lie between groups of neighbours.
std::optional<Tensor> laid_out(const std::vector<LaidSlice>& slices) {
  const Shape& extents = slices[0].extents;
  Shape unit = extents;
  int rank = 0;
  for (int d = 0; d < extents.rank(); ++d) {
    for (const LaidSlice& slice : slices) unit[d] = std::gcd(unit[d], std::gcd(slice.first[d], slice.sizes[d]));
    rank += unit[d] == extents[d] ? 1 : 2;
  }
  if (rank > kMaxRank) return std::nullopt;
  Tensor result;
  for (const LaidSlice& slice : slices) {
    Shape cut;
    for (int d = 0; d < extents.rank(); ++d) {
      if (unit[d] != extents[d]) cut.push_back(slice.sizes[d] / unit[d]);
      cut.push_back(unit[d]);
    }
    const Tensor padded = change_view(slice.values.reshape(cut), [&](const View& view) {
      std::optional<View> whole = view;
      int at = 0;
      for (int d = 0; whole && d < extents.rank(); ++d, ++at) {
        if (unit[d] == extents[d]) continue;
        const std::int64_t before = slice.first[d] / unit[d];
        whole = whole->padded(at, before, extents[d] / unit[d] - before - slice.sizes[d] / unit[d], 0);
        ++at;
      }
      return whole;
    });
    result = result.defined() ? elementwise(Op::merge, result, padded) : padded;
  }
  return result + 0.0;  // as in a sum there is no -0
}

}  // namespace

bool is_slice(const Tensor& gradient) {
  return written_to_zeros(gradient).defined();
}

Tensor joined_slices(const std::vector<Tensor>& slices) {
  if (slices.size() < 2) return {};
  const std::optional<std::vector<LaidSlice>> parts = side_by_side(slices);
  const std::optional<Tensor> result = parts ? laid_out(*parts) : std::nullopt;
  return result ? result->reshape(slices[0].shape()) : Tensor();
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
