#include "core/view.h"

#include <algorithm>
#include <cstdlib>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace {

// A dimension of size 1 has only index 0: its coefficients do not matter, and 0 makes equal views compare equal.
std::int64_t stride_or_zero(std::int64_t size, std::int64_t stride) { return size == 1 ? 0 : stride; }

// Rewrites every affine form of `view` (strides and bounds) through `rewrite(coefficients, offset)`.
template <typename Rewrite>
void for_each_form(View& view, Rewrite rewrite) {
  rewrite(view.strides, view.offset);
  for (Bound& bound : view.bounds) rewrite(bound.m, bound.offset);
}

// Range of bound.offset + sum m[d] * i[d] over the view's indices. Empty views have no range.
std::pair<std::int64_t, std::int64_t> range_of(const Bound& bound, const Shape& shape) {
  std::int64_t low = bound.offset;
  std::int64_t high = bound.offset;
  for (int d = 0; d < shape.rank(); ++d) {
    const std::int64_t reach = bound.m[d] * (shape[d] - 1);
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

// Bounds that can never fail cost time in every kernel: drop them.
void drop_idle_bounds(View& view) {
  if (view.shape.numel() == 0) {
    view.bounds.clear();
    return;
  }
  std::erase_if(view.bounds, [&](const Bound& bound) {
    if (bound.step != 1) return false;
    const auto [low, high] = range_of(bound, view.shape);
    return low >= bound.lo && high < bound.hi;
  });
}

bool same_fill(const View& view, std::uint64_t fill) { return view.bounds.empty() || view.fill == fill; }

}  // namespace

View View::contiguous(const Shape& shape) {
  View view;
  view.shape = shape;
  view.strides = Shape::filled(shape.rank(), 0);
  std::int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    view.strides[d] = stride_or_zero(shape[d], stride);
    stride *= std::max<std::int64_t>(shape[d], 1);
  }
  return view;
}

bool View::is_contiguous() const { return bounds.empty() && strides == contiguous(shape).strides; }

std::optional<View> View::reshaped(const Shape& to) const {
  View result = *this;
  result.shape = to;
  result.strides = Shape::filled(to.rank(), 0);
  for (Bound& bound : result.bounds) bound.m = Shape::filled(to.rank(), 0);
  if (shape.numel() == 0) {
    result.bounds.clear();
    return result;
  }
  // Both shapes are cut into groups of equal element counts. Inside a group the old dimensions must be one
  // dimension in disguise (each stride = next stride * next size, in every form); the new ones then split it.
  int from = 0;
  int into = 0;
  while (from < shape.rank() || into < to.rank()) {
    const int from_start = from;
    const int into_start = into;
    std::int64_t old_count = 1;
    std::int64_t new_count = 1;
    do {
      if (old_count <= new_count && from < shape.rank()) {
        old_count *= shape[from++];
      } else if (into < to.rank()) {
        new_count *= to[into++];
      } else {
        old_count *= shape[from++];
      }
    } while (old_count != new_count);
    const auto split = [&](const Shape& old_form, Shape& new_form) {
      std::int64_t unit = 0;  // coefficient of the group's innermost index
      std::int64_t expected = 0;
      bool first = true;
      for (int d = from - 1; d >= from_start; --d) {
        if (shape[d] == 1) continue;
        if (first) {
          unit = old_form[d];
          first = false;
        } else if (old_form[d] != expected) {
          return false;
        }
        expected = old_form[d] * shape[d];
      }
      for (int d = into - 1; d >= into_start; --d) {
        new_form[d] = stride_or_zero(to[d], unit);
        unit *= to[d];
      }
      return true;
    };
    if (!split(strides, result.strides)) return std::nullopt;
    for (std::size_t b = 0; b < bounds.size(); ++b) {
      if (!split(bounds[b].m, result.bounds[b].m)) return std::nullopt;
    }
  }
  return result;
}

View View::permuted(const Shape& dims) const {
  View result = *this;
  for (int d = 0; d < rank(); ++d) result.shape[d] = shape[static_cast<int>(dims[d])];
  const auto permute = [&](Shape& form, std::int64_t&) {
    const Shape old = form;
    for (int d = 0; d < rank(); ++d) form[d] = old[static_cast<int>(dims[d])];
  };
  for_each_form(result, permute);
  return result;
}

View View::expanded(const Shape& to) const {
  View result = *this;
  const int added = to.rank() - rank();
  result.shape = to;
  for_each_form(result, [&](Shape& form, std::int64_t&) {
    const Shape old = form;
    form = Shape::filled(to.rank(), 0);
    for (int d = 0; d < rank(); ++d) form[d + added] = shape[d] == 1 ? 0 : old[d];
  });
  drop_idle_bounds(result);
  return result;
}

View View::sliced(int dim, std::int64_t start, std::int64_t step, std::int64_t size) const {
  View result = *this;
  result.shape[dim] = size;
  for_each_form(result, [&](Shape& form, std::int64_t& form_offset) {
    if (size > 0) form_offset += form[dim] * start;
    form[dim] = stride_or_zero(size, form[dim] * step);
  });
  drop_idle_bounds(result);
  return result;
}

std::optional<View> View::padded(int dim, std::int64_t before, std::int64_t after, std::uint64_t fill_bits) const {
  if (!same_fill(*this, fill_bits)) return std::nullopt;
  View result = *this;
  result.shape[dim] = shape[dim] + before + after;
  Bound bound{.offset = -before, .m = Shape::filled(rank(), 0), .lo = 0, .hi = shape[dim]};
  bound.m[dim] = 1;
  const auto shift = [&](Shape& form, std::int64_t& form_offset) { form_offset -= form[dim] * before; };
  for_each_form(result, shift);
  result.bounds.push_back(bound);
  result.fill = fill_bits;
  drop_idle_bounds(result);
  return result;
}

View View::windowed(int dim, std::int64_t kernel, std::int64_t count, std::int64_t stride,
                    std::int64_t dilation) const {
  View result = *this;
  result.shape[dim] = count;
  result.shape.push_back(kernel);
  for_each_form(result, [&](Shape& form, std::int64_t&) {
    const std::int64_t unit = form[dim];
    form[dim] = stride_or_zero(count, unit * stride);
    form.push_back(stride_or_zero(kernel, unit * dilation));
  });
  drop_idle_bounds(result);
  return result;
}

std::optional<View> View::dilated(int dim, std::int64_t step, std::uint64_t fill_bits) const {
  if (step == 1 || shape[dim] <= 1) return *this;
  if (!same_fill(*this, fill_bits)) return std::nullopt;
  for (const Bound& bound : bounds) {
    if (bound.m[dim] != 0) return std::nullopt;  // i / step inside another bound is not affine
  }
  View result = *this;
  result.shape[dim] = (shape[dim] - 1) * step + 1;
  Bound bound{.m = Shape::filled(rank(), 0), .lo = 0, .hi = result.shape[dim], .step = step, .stride = strides[dim]};
  bound.m[dim] = 1;
  result.strides[dim] = 0;
  result.bounds.push_back(bound);
  result.fill = fill_bits;
  return result;
}

std::optional<View> View::folded(int dim, int tap_dim, std::int64_t size, std::int64_t before, std::int64_t stride,
                                 std::int64_t dilation, std::uint64_t fill_bits) const {
  if (!same_fill(*this, fill_bits)) return std::nullopt;
  for (const Bound& bound : bounds) {
    if (bound.m[dim] != 0) return std::nullopt;  // the position is no affine form of the new indices
  }
  View result = *this;
  const std::int64_t count = shape[dim];
  result.shape[dim] = size;
  // position * stride = i + before - t * dilation
  Bound bound{.offset = before, .m = Shape::filled(rank(), 0), .lo = 0, .hi = (count - 1) * stride + 1, .step = stride};
  bound.m[dim] = 1;
  bound.m[tap_dim] = -dilation;
  if (stride > 1) {
    bound.stride = strides[dim];
    result.strides[dim] = 0;
  } else {
    result.offset += strides[dim] * before;
    result.strides[tap_dim] -= strides[dim] * dilation;
  }
  result.bounds.push_back(bound);
  result.fill = fill_bits;
  // Coefficients of dimensions of size 1 are 0 everywhere else.
  for (const int d : {dim, tap_dim}) {
    result.strides[d] = stride_or_zero(result.shape[d], result.strides[d]);
    result.bounds.back().m[d] = stride_or_zero(result.shape[d], result.bounds.back().m[d]);
  }
  drop_idle_bounds(result);
  return result;
}

View View::diagonal(int dim, int other, std::int64_t first, std::int64_t second, std::int64_t size) const {
  View result = sliced(dim, first, 1, size).sliced(other, second, 1, size);
  const auto join = [&](Shape& form) {
    const std::int64_t both = form[dim] + form[other];
    form.erase(std::max(dim, other));
    form.erase(std::min(dim, other));
    form.push_back(both);
  };
  result.shape.erase(std::max(dim, other));
  result.shape.erase(std::min(dim, other));
  result.shape.push_back(size);
  for_each_form(result, [&](Shape& form, std::int64_t&) { join(form); });
  drop_idle_bounds(result);
  return result;
}

std::optional<View> View::embedded(std::int64_t offset_of_diagonal, std::uint64_t fill_bits) const {
  if (!same_fill(*this, fill_bits)) return std::nullopt;
  const int row = rank() - 1;
  const int column = rank();
  View result = *this;
  const std::int64_t size = shape[row] + std::abs(offset_of_diagonal);
  result.shape[row] = size;
  result.shape.push_back(size);
  // Element k of the vector stands at row k (column k below the diagonal): that index counts it.
  for_each_form(result, [&](Shape& form, std::int64_t&) {
    form.push_back(0);
    if (offset_of_diagonal < 0) std::swap(form[row], form[column]);
  });
  Bound bound{.offset = -offset_of_diagonal, .m = Shape::filled(rank() + 1, 0), .lo = 0, .hi = 1};
  bound.m[row] = stride_or_zero(size, -1);
  bound.m[column] = stride_or_zero(size, 1);
  result.bounds.push_back(bound);
  result.fill = fill_bits;
  drop_idle_bounds(result);
  return result;
}

std::int64_t View::address(const std::int64_t* index) const {
  std::int64_t address = offset;
  for (int d = 0; d < rank(); ++d) address += strides[d] * index[d];
  for (const Bound& bound : bounds) {
    std::int64_t c = bound.offset;
    for (int d = 0; d < rank(); ++d) c += bound.m[d] * index[d];
    if (c < bound.lo || c >= bound.hi || c % bound.step != 0) return -1;
    if (bound.step > 1) address += bound.stride * (c / bound.step);
  }
  return address;
}

Shape collapse_dims(const std::vector<View*>& views, const Shape& shape, const std::vector<int>& keep,
                    std::vector<int>* first_of) {
  const auto mergeable = [&](int outer, int inner) {
    const auto fits = [&](const Shape& form) { return form[outer] == form[inner] * shape[inner]; };
    return std::all_of(views.begin(), views.end(), [&](const View* view) {
      return fits(view->strides) &&
             std::all_of(view->bounds.begin(), view->bounds.end(), [&](const Bound& b) { return fits(b.m); });
    });
  };
  // Groups of old dimensions that become one: [first, last] with the coefficients of the last (innermost) one.
  Shape collapsed;
  std::vector<int> innermost;
  if (first_of != nullptr) first_of->clear();
  bool barrier = true;
  for (int d = 0; d < shape.rank(); ++d) {
    barrier = barrier || std::find(keep.begin(), keep.end(), d) != keep.end();
    if (first_of != nullptr) first_of->push_back(collapsed.rank());
    if (shape[d] == 1) continue;
    if (!barrier && mergeable(innermost.back(), d)) {
      collapsed[collapsed.rank() - 1] *= shape[d];
      innermost.back() = d;
    } else {
      collapsed.push_back(shape[d]);
      innermost.push_back(d);
      barrier = false;
    }
  }
  for (View* view : views) {
    const auto pick = [&](Shape& form) {
      Shape picked;
      for (const int d : innermost) picked.push_back(form[d]);
      form = picked;
    };
    view->shape = collapsed;
    pick(view->strides);
    for (Bound& bound : view->bounds) pick(bound.m);
  }
  return collapsed;
}

}  // namespace v0
}  // namespace lockstep
