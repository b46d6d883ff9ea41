#include "backends/cpu/contraction/geometry.h"

#include <algorithm>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {  // b > 0
  const std::int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

}  // namespace

bool Group::invariant_in(int dim) const {
  if (sizes[dim] == 1) return true;
  if (strides[dim] != 0) return false;
  return std::all_of(coefficients.begin(), coefficients.end(), [&](const Shape& c) { return c[dim] == 0; });
}

void Group::simplify() {
  for (int d = sizes.rank() - 1; d >= 0; --d) {
    if (sizes[d] != 1) continue;
    sizes.erase(d);
    strides.erase(d);
    for (Shape& c : coefficients) c.erase(d);
  }
  for (int d = sizes.rank() - 2; d >= 0; --d) {
    const std::int64_t size = sizes[d + 1];
    const auto one = [&](const Shape& form) { return form[d] == form[d + 1] * size; };
    if (!one(strides) || !std::all_of(coefficients.begin(), coefficients.end(), one)) continue;
    sizes[d + 1] *= sizes[d];
    sizes.erase(d);
    strides.erase(d);
    for (Shape& c : coefficients) c.erase(d);
  }
}

std::optional<std::int64_t> Group::single_stride() const {
  Group group = *this;
  group.simplify();
  if (group.sizes.rank() > 1) return std::nullopt;
  return group.inner_stride();
}

Group group_of(const View& view, const std::vector<Bound>& bounds, const std::vector<int>& dims) {
  Group group;
  for (const int d : dims) {
    group.sizes.push_back(view.shape[d]);
    group.strides.push_back(view.strides[d]);
  }
  for (const Bound& bound : bounds) {
    Shape coefficients;
    for (const int d : dims) coefficients.push_back(bound.m[d]);
    group.coefficients.push_back(coefficients);
  }
  return group;
}

bool Geometry::stepped() const {
  return std::any_of(limits.begin(), limits.end(), [](const Limit& limit) { return limit.step != 1; });
}

bool Geometry::bounded_in_batch() const {
  return std::any_of(batch.coefficients.begin(), batch.coefficients.end(), [](const Shape& c) {
    return std::any_of(c.begin(), c.end(), [](std::int64_t m) { return m != 0; });
  });
}

Position Geometry::batch_position(std::int64_t index) const {
  Position position;
  position.address = offset;
  for (int b = 0; b < bounds(); ++b) position.coordinates[static_cast<std::size_t>(b)] = limits[b].offset;
  for (int d = batch.sizes.rank() - 1; d >= 0; --d) {
    const std::int64_t i = index % batch.sizes[d];
    index /= batch.sizes[d];
    position.address += i * batch.strides[d];
    for (int b = 0; b < bounds(); ++b) {
      position.coordinates[static_cast<std::size_t>(b)] += i * batch.coefficients[static_cast<std::size_t>(b)][d];
    }
  }
  return position;
}

std::int64_t Geometry::batch_address(std::int64_t index) const {
  std::int64_t address = offset;
  for (int d = batch.sizes.rank() - 1; d >= 0; --d) {
    address += index % batch.sizes[d] * batch.strides[d];
    index /= batch.sizes[d];
  }
  return address;
}

void Walk::seek(std::int64_t index) {
  position_ = Position{};
  const int rank = group_.sizes.rank();
  inner_ = 0;
  for (int d = rank - 1; d >= 0; --d) {
    const std::int64_t i = d > 0 ? index % group_.sizes[d] : index;
    index = d > 0 ? index / group_.sizes[d] : 0;
    index_[static_cast<std::size_t>(d)] = i;
    if (d == rank - 1) inner_ = i;
    position_.address += i * group_.strides[d];
    for (int b = 0; b < bounds_; ++b) {
      position_.coordinates[static_cast<std::size_t>(b)] += i * group_.coefficients[static_cast<std::size_t>(b)][d];
    }
  }
}

void Walk::advance(std::int64_t count) {
  const int last = group_.sizes.rank() - 1;
  inner_ += count;
  if (last < 0) return;
  position_.address += count * group_.strides[last];
  for (int b = 0; b < bounds_; ++b) {
    position_.coordinates[static_cast<std::size_t>(b)] +=
        count * group_.coefficients[static_cast<std::size_t>(b)][last];
  }
  if (inner_ == group_.sizes[last]) carry();
}

void Walk::carry() {
  int d = group_.sizes.rank() - 1;
  index_[static_cast<std::size_t>(d)] = inner_;
  for (; d > 0 && index_[static_cast<std::size_t>(d)] == group_.sizes[d]; --d) {
    // Dimension d starts over, dimension d - 1 moves by one.
    const std::int64_t size = group_.sizes[d];
    index_[static_cast<std::size_t>(d)] = 0;
    ++index_[static_cast<std::size_t>(d - 1)];
    position_.address += group_.strides[d - 1] - size * group_.strides[d];
    for (int b = 0; b < bounds_; ++b) {
      const Shape& c = group_.coefficients[static_cast<std::size_t>(b)];
      position_.coordinates[static_cast<std::size_t>(b)] += c[d - 1] - size * c[d];
    }
  }
  inner_ = index_[static_cast<std::size_t>(group_.sizes.rank() - 1)];
}

Span valid_span(const Geometry& geometry, const Group& inner, const std::int64_t* a, const std::int64_t* b,
                const std::int64_t* c, std::int64_t count) {
  Span span{0, count};
  for (int i = 0; i < geometry.bounds(); ++i) {
    const Limit& limit = geometry.limits[static_cast<std::size_t>(i)];
    const std::int64_t start = a[i] + b[i] + c[i];
    const std::int64_t m = inner.inner_coefficient(i);
    const std::int64_t end = start + m * (count - 1);
    if (std::min(start, end) >= limit.lo && std::max(start, end) < limit.hi) continue;  // most runs: no division
    if (m == 0) return {0, 0};
    if (m > 0) {
      span.first = std::max(span.first, -floor_div(start - limit.lo, m));
      span.last = std::min(span.last, -floor_div(start - limit.hi, m));
    } else {
      span.first = std::max(span.first, floor_div(start - limit.hi, -m) + 1);
      span.last = std::min(span.last, floor_div(start - limit.lo, -m) + 1);
    }
  }
  if (span.first >= span.last) return {0, 0};
  return span;
}

std::int64_t address_of(const Geometry& geometry, const Position& a, const Position& b, const Position& c,
                        bool& inside) {
  std::int64_t address = a.address + b.address + c.address;
  inside = true;
  for (int i = 0; i < geometry.bounds(); ++i) {
    const Limit& limit = geometry.limits[static_cast<std::size_t>(i)];
    const std::size_t s = static_cast<std::size_t>(i);
    const std::int64_t x = a.coordinates[s] + b.coordinates[s] + c.coordinates[s];
    if (x < limit.lo || x >= limit.hi || x % limit.step != 0) {
      inside = false;
      return 0;
    }
    if (limit.step > 1) address += limit.stride * (x / limit.step);
  }
  return address;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
