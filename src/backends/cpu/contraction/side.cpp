#include "backends/cpu/contraction/side.h"

#include <algorithm>
#include <cstdlib>

#include "core/assert.h"
#include "core/elements.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// The view's bounds with duplicates (pads of pads) intersected, so that each coordinate is checked once.
std::vector<Bound> merged_bounds(const View& view) {
  std::vector<Bound> merged;
  for (const Bound& bound : view.bounds) {
    const auto twin = std::find_if(merged.begin(), merged.end(), [&](const Bound& other) {
      return other.m == bound.m && other.step == 1 && bound.step == 1;
    });
    if (twin == merged.end()) {
      merged.push_back(bound);
      continue;
    }
    // o' + x in [lo', hi') in terms of the first one's coordinate o + x.
    const std::int64_t shift = twin->offset - bound.offset;
    twin->lo = std::max(twin->lo, bound.lo + shift);
    twin->hi = std::min(twin->hi, bound.hi + shift);
  }
  return merged;
}

// How much a vector load along a dimension brings: its share of a 16-element run, less for gathers.
double run_score(std::int64_t stride, std::int64_t size) {
  const double share = static_cast<double>(std::min<std::int64_t>(size, 16)) / 16;
  const std::int64_t distance = std::abs(stride);
  if (distance == 1 || distance == 0) return share * (stride == -1 ? 0.3 : 1.0);
  return share * (stride == 2 ? 0.7 : 0.15);
}

Side::Order order_of(const Geometry& geometry, Encoding encoding) {
  if (encoding != Encoding::dense) {
    const bool lines = geometry.limits.empty() && geometry.k.inner_stride() == 1;
    return lines ? Side::Order::along_k : Side::Order::by_element;
  }
  if (geometry.stepped()) return Side::Order::by_element;
  const double outer = run_score(geometry.outer.inner_stride(), geometry.outer.inner_size());
  const double k = run_score(geometry.k.inner_stride(), geometry.k.inner_size());
  return outer >= 0.8 * k ? Side::Order::along_outer : Side::Order::along_k;
}

}  // namespace

bool may_hold_subnormals(const Input& operand) {
  return !operand.canonical && zeroes_subnormals(operand.dtype);
}

Side make_side(const Input& operand, const std::vector<int>& batch, const std::vector<int>& outer,
               const std::vector<int>& k) {
  const std::vector<Bound> bounds = merged_bounds(operand.view);
  LOCKSTEP_ASSERT(bounds.size() <= static_cast<std::size_t>(kMaxBounds));
  Side side;
  side.slot = operand.slot;
  side.dtype = operand.dtype;
  side.flush = may_hold_subnormals(operand);
  side.fill = operand.view.fill;
  side.geometry.offset = operand.view.offset;
  for (const Bound& b : bounds) {
    side.geometry.limits.push_back({.offset = b.offset, .lo = b.lo, .hi = b.hi, .step = b.step, .stride = b.stride});
  }
  side.geometry.batch = group_of(operand.view, bounds, batch);
  side.geometry.outer = group_of(operand.view, bounds, outer);
  side.geometry.k = group_of(operand.view, bounds, k);
  side.geometry.outer.simplify();
  side.geometry.k.simplify();
  side.encoding = operand.encoding;
  side.order = order_of(side.geometry, side.encoding);
  return side;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
