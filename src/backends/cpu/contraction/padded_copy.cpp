#include "backends/cpu/contraction/padded_copy.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "backends/cpu/contraction/decode.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// Source strides of the checked coordinates, or nothing where they do not follow from the dimensions.
std::optional<std::vector<std::int64_t>> source_strides(const Geometry& geometry) {
  const auto bounds = static_cast<std::size_t>(geometry.bounds());
  std::vector<std::int64_t> strides(bounds, 0);
  for (const Group* group : {&geometry.outer, &geometry.k}) {
    for (int d = 0; d < group->sizes.rank(); ++d) {
      int bound = -1;
      int count = 0;
      for (std::size_t b = 0; b < bounds; ++b) {
        if (group->coefficients[b][d] == 0) continue;
        bound = static_cast<int>(b);
        ++count;
      }
      if (count == 0) continue;
      const std::int64_t m = count == 1 ? group->coefficients[static_cast<std::size_t>(bound)][d] : 0;
      if (m == 0 || (m < 0 && group == &geometry.outer) || group->strides[d] % m != 0) return std::nullopt;
      std::int64_t& stride = strides[static_cast<std::size_t>(bound)];
      if (stride != 0 && stride != group->strides[d] / m) return std::nullopt;
      stride = group->strides[d] / m;
      if (stride <= 0) return std::nullopt;
    }
  }
  if (std::find(strides.begin(), strides.end(), 0) != strides.end()) return std::nullopt;
  return strides;
}

// Coordinates of an axis that exist in the source, counted from the first that is read.
struct Inside {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
Inside inside_of(const PaddedCopy::Axis& axis, const Position& batch) {
  // The batch's coordinates include the limit's own offset, as `first` does.
  const std::int64_t first = batch.coordinates[static_cast<std::size_t>(axis.limit)] + axis.least;
  const std::int64_t begin = std::clamp<std::int64_t>(axis.lo - first, 0, axis.size);
  return {begin, std::clamp<std::int64_t>(axis.hi - first, begin, axis.size)};
}

// From axis `a` on; `exists`: the coordinates before are in the source.
void add_lines(const PaddedCopy& copy, std::size_t a, const Position& batch, bool exists, std::int64_t from,
               std::int64_t to, std::vector<PaddedCopy::Line>& lines) {
  const PaddedCopy::Axis& axis = copy.axes[a];
  const Inside inside = inside_of(axis, batch);
  if (a + 1 < copy.axes.size()) {
    for (std::int64_t i = 0; i < axis.size; ++i) {
      add_lines(copy, a + 1, batch, exists && inside.begin <= i && i < inside.end, from + i * axis.source_stride,
                to + i % axis.phases * axis.phase_stride + i / axis.phases * axis.stride, lines);
    }
    return;
  }
  for (std::int64_t phase = 0; phase < axis.phases; ++phase) {
    const auto of_phase = [&](std::int64_t coordinates) {
      return (coordinates - phase + axis.phases - 1) / axis.phases;
    };
    PaddedCopy::Line line{.to = to + phase * axis.phase_stride,
                          .step = axis.phases * axis.source_stride,
                          .begin = of_phase(inside.begin),
                          .end = of_phase(inside.end),
                          .size = of_phase(axis.size)};
    if (!exists) line.begin = line.end = 0;
    line.from = from + phase * axis.source_stride + line.begin * line.step;
    lines.push_back(line);
  }
}

}  // namespace

bool is_checked(const Group& group, int dim) {
  return std::any_of(group.coefficients.begin(), group.coefficients.end(), [&](const Shape& c) { return c[dim] != 0; });
}

std::optional<int> plain_dims(const Group& group) {
  int plain = 0;
  while (plain < group.sizes.rank() && !is_checked(group, plain)) ++plain;
  for (int d = plain; d < group.sizes.rank(); ++d) {
    if (!is_checked(group, d)) return std::nullopt;
  }
  return plain;
}

Group part(const Group& group, int first, int last) {
  Group result;
  for (int d = first; d < last; ++d) {
    result.sizes.push_back(group.sizes[d]);
    result.strides.push_back(group.strides[d]);
  }
  for (const Shape& c : group.coefficients) {
    Shape coefficients;
    for (int d = first; d < last; ++d) coefficients.push_back(c[d]);
    result.coefficients.push_back(coefficients);
  }
  return result;
}

std::vector<std::int64_t> addresses(const Group& group) {
  std::vector<std::int64_t> result;
  const std::int64_t count = group.count();
  Walk walk(group, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    walk.seek(i);
    result.push_back(walk.position().address);
  }
  return result;
}

std::int64_t PaddedCopy::address(const Position& position, bool is_term) const {
  std::int64_t address = 0;
  for (const Axis& axis : axes) {
    const std::int64_t at = position.coordinates[static_cast<std::size_t>(axis.limit)] - (is_term ? axis.least : 0);
    address += at % axis.phases * axis.phase_stride + at / axis.phases * axis.stride;
  }
  return address;
}

std::vector<PaddedCopy::Line> PaddedCopy::lines(const Position& batch) const {
  std::vector<Line> lines;
  std::int64_t from = 0;
  for (const Axis& axis : axes) from += axis.least * axis.source_stride;
  add_lines(*this, 0, batch, true, from, 0, lines);
  return lines;
}

void write_decoded(const std::vector<PaddedCopy::Line>& lines, DType dtype, bool flush, const std::byte* from,
                   float* to) {
  const bool known = with_source_type<float>(dtype, [&](auto source) {
    using Source = decltype(source);
    const auto* const elements = reinterpret_cast<const Source*>(from);
    for (const PaddedCopy::Line& line : lines) {
      float* const at = to + line.to;
      std::fill(at, at + line.begin, 0.0f);
      const Source* const first = elements + line.from;
      const std::int64_t count = line.end - line.begin;
      if (line.step == 1) {
        for (std::int64_t i = 0; i < count; ++i) at[line.begin + i] = decode<float>(first[i], flush);
      } else {
        for (std::int64_t i = 0; i < count; ++i) at[line.begin + i] = decode<float>(first[i * line.step], flush);
      }
      std::fill(at + line.end, at + line.size, 0.0f);
    }
  });
  LOCKSTEP_ASSERT(known);
}

std::optional<PaddedCopy> make_padded_copy(const Geometry& geometry, Phases phases) {
  const auto strides = source_strides(geometry);
  if (!strides || geometry.bounds() == 0 || geometry.stepped()) return std::nullopt;
  PaddedCopy copy;
  for (int b = 0; b < geometry.bounds(); ++b) {
    const Limit& limit = geometry.limits[static_cast<std::size_t>(b)];
    std::int64_t least = 0;
    std::int64_t last = 0;
    for (const Group* group : {&geometry.outer, &geometry.k}) {
      for (int d = 0; d < group->sizes.rank(); ++d) {
        const std::int64_t reach = group->coefficients[static_cast<std::size_t>(b)][d] * (group->sizes[d] - 1);
        (reach < 0 ? least : last) += reach;
      }
    }
    std::int64_t apart = 0;
    for (const std::int64_t coefficient : geometry.outer.coefficients[static_cast<std::size_t>(b)]) {
      apart = std::gcd(apart, coefficient);
    }
    copy.axes.push_back({.limit = b,
                         .least = least,
                         .size = last - least + 1,
                         .lo = limit.lo,
                         .hi = limit.hi,
                         .source_stride = (*strides)[static_cast<std::size_t>(b)],
                         .phases = phases == Phases::one ? 1 : std::max<std::int64_t>(apart, 1)});
  }
  std::sort(copy.axes.begin(), copy.axes.end(),
            [](const PaddedCopy::Axis& a, const PaddedCopy::Axis& b) { return a.source_stride > b.source_stride; });
  copy.plane = 1;
  for (auto axis = copy.axes.rbegin(); axis != copy.axes.rend(); ++axis) {
    axis->stride = copy.plane;
    copy.plane *= (axis->size + axis->phases - 1) / axis->phases;
  }
  for (auto axis = copy.axes.rbegin(); axis != copy.axes.rend(); ++axis) {
    axis->phase_stride = copy.plane;
    copy.plane *= axis->phases;
  }
  return copy;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
