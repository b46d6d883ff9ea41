#include "backends/cpu/contraction/in_place.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/contraction/panels.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// More columns than this pay for packing the rows.
constexpr std::int64_t kMaxColumns = 64;
constexpr std::int64_t kMaxColumnsWithoutTaps = 32;
constexpr std::int64_t kMinColumns = 3;
constexpr std::int64_t kMinRows = 8;
constexpr std::int64_t kMinRun = 4;

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
      if (m <= 0 || group->strides[d] % m != 0) return std::nullopt;
      std::int64_t& stride = strides[static_cast<std::size_t>(bound)];
      if (stride != 0 && stride != group->strides[d] / m) return std::nullopt;
      stride = group->strides[d] / m;
      if (stride <= 0) return std::nullopt;
    }
  }
  if (std::find(strides.begin(), strides.end(), 0) != strides.end()) return std::nullopt;
  return strides;
}

bool is_checked(const Group& group, int dim) {
  return std::any_of(group.coefficients.begin(), group.coefficients.end(), [&](const Shape& c) { return c[dim] != 0; });
}

// Dimensions before the first checked one; nothing if plain ones follow.
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

}  // namespace

bool suits_in_place(const Side& rows, std::int64_t row_count, std::int64_t column_count, std::int64_t k) {
  const Group& terms = rows.geometry.k;
  const std::int64_t stride = terms.inner_stride();
  // Lanes over one or two columns would lie idle: the thin way lays them over the rows.
  const bool is_thin = column_count < kMinColumns && row_count <= kMaxTable && k <= kMaxTable;
  if (is_thin && rows.geometry.limits.empty() && stride == 1 && terms.sizes.rank() == 1) return false;
  const std::int64_t most = rows.geometry.limits.empty() ? kMaxColumnsWithoutTaps : kMaxColumns;
  return rows.is_plain_f32() && !rows.flush && (rows.fill == 0 || rows.geometry.limits.empty()) &&
         !rows.geometry.stepped() && column_count <= most && row_count >= std::max(kMinRows, column_count / 2) &&
         k >= 2 * kBlock && (stride == 1 || stride == 2) && terms.inner_size() >= kMinRun &&
         rows.geometry.bounds() <= 3;
}

std::optional<InPlaceTable> make_in_place_table(const Side& side, std::int64_t row_count, std::int64_t column_count,
                                                std::int64_t k) {
  const Geometry& geometry = side.geometry;
  if (!suits_in_place(side, row_count, column_count, k)) return std::nullopt;
  InPlaceTable table;
  Group rows = geometry.outer;
  Group terms = geometry.k;
  if (geometry.bounds() == 0) {
    table.k_per_plane = k;
    table.row_address = addresses(rows);
  } else {
    const auto strides = source_strides(geometry);
    const auto plain_rows = plain_dims(rows);
    const auto plain_terms = plain_dims(terms);
    if (!strides || !plain_rows || !plain_terms) return std::nullopt;
    std::vector<int> order(strides->size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return (*strides)[static_cast<std::size_t>(a)] > (*strides)[static_cast<std::size_t>(b)];
    });
    for (const int b : order) {
      const Limit& limit = geometry.limits[static_cast<std::size_t>(b)];
      std::int64_t last = 0;
      for (const Group* group : {&rows, &terms}) {
        for (int d = 0; d < group->sizes.rank(); ++d) {
          last += group->coefficients[static_cast<std::size_t>(b)][d] * (group->sizes[d] - 1);
        }
      }
      table.axes.push_back({.first = limit.offset,
                            .size = last + 1,
                            .lo = limit.lo,
                            .hi = limit.hi,
                            .source_stride = (*strides)[static_cast<std::size_t>(b)]});
      table.axis_of_limit.push_back(b);
    }
    table.plane = 1;
    for (std::size_t a = table.axes.size(); a-- > 0;) {
      table.axes[a].stride = table.plane;
      table.plane *= table.axes[a].size;
    }
    // In the copy, checked dimensions walk along its axes.
    for (Group* group : {&rows, &terms}) {
      for (int d = 0; d < group->sizes.rank(); ++d) {
        if (!is_checked(*group, d)) continue;
        group->strides[d] = 0;
        for (std::size_t a = 0; a < table.axes.size(); ++a) {
          const auto b = static_cast<std::size_t>(table.axis_of_limit[a]);
          group->strides[d] += group->coefficients[b][d] * table.axes[a].stride;
        }
      }
    }
    table.row_planes = addresses(part(rows, 0, *plain_rows));
    table.k_planes = addresses(part(terms, 0, *plain_terms));
    const std::vector<std::int64_t> taps = addresses(part(rows, *plain_rows, rows.sizes.rank()));
    for (std::size_t p = 0; p < table.row_planes.size(); ++p) {
      for (const std::int64_t tap : taps) table.row_address.push_back(static_cast<std::int64_t>(p) * table.plane + tap);
    }
    terms = part(terms, *plain_terms, terms.sizes.rank());
    table.k_per_plane = terms.count();
  }
  table.run = terms.inner_size();
  table.run_stride = terms.inner_stride();
  if (table.run < kMinRun || terms.count() / table.run > kMaxTable) return std::nullopt;
  table.run_address = addresses(part(terms, 0, terms.sizes.rank() - 1));
  return table;
}

std::int64_t padded_size(const InPlaceTable& table, std::int64_t k_planes) {
  return k_planes * static_cast<std::int64_t>(table.row_planes.size()) * table.plane;
}

namespace {

// One plane from axis `a` on; `inside`: the coordinates before are.
void copy_axis(const InPlaceTable& table, std::size_t a, const std::int64_t* shifts, const float* from, float* to) {
  const InPlaceTable::Axis& axis = table.axes[a];
  const std::int64_t first = axis.first + shifts[a];
  // Coordinates [begin, end) of the copy exist in the source.
  const std::int64_t begin = std::clamp<std::int64_t>(axis.lo - first, 0, axis.size);
  const std::int64_t end = std::clamp<std::int64_t>(axis.hi - first, begin, axis.size);
  std::fill_n(to, begin * axis.stride, 0.0f);
  std::fill_n(to + end * axis.stride, (axis.size - end) * axis.stride, 0.0f);
  if (a + 1 < table.axes.size()) {
    for (std::int64_t i = begin; i < end; ++i) {
      copy_axis(table, a + 1, shifts, from + i * axis.source_stride, to + i * axis.stride);
    }
  } else if (axis.source_stride == 1) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  } else {
    for (std::int64_t i = begin; i < end; ++i) to[i] = from[i * axis.source_stride];
  }
}

}  // namespace

void copy_padded(const InPlaceTable& table, const Position& batch, const float* data, std::int64_t k_plane_begin,
                 std::int64_t k_plane_end, float* to) {
  std::int64_t shifts[kMaxBounds];
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    // The batch's coordinates include the limit's own offset.
    shifts[a] = batch.coordinates[static_cast<std::size_t>(table.axis_of_limit[a])] - table.axes[a].first;
  }
  for (std::int64_t k = k_plane_begin; k < k_plane_end; ++k) {
    for (const std::int64_t row : table.row_planes) {
      copy_axis(table, 0, shifts, data + table.k_planes[static_cast<std::size_t>(k)] + row, to);
      to += table.plane;
    }
  }
}

std::int64_t cut_runs(const InPlaceTable& table, std::int64_t k_begin, std::int64_t count, std::int64_t first_plane,
                      InPlaceRun* runs) {
  const std::int64_t planes = static_cast<std::int64_t>(table.row_planes.size()) * table.plane;
  std::int64_t used = 0;
  for (std::int64_t k = k_begin; k < k_begin + count;) {
    const std::int64_t plane = k / table.k_per_plane;
    const std::int64_t within = k % table.k_per_plane;
    const std::int64_t start = within % table.run;
    const std::int64_t length = std::min(table.run - start, k_begin + count - k);
    runs[used++] = {.address = (plane - first_plane) * planes +
                               table.run_address[static_cast<std::size_t>(within / table.run)] +
                               start * table.run_stride,
                    .length = length};
    k += length;
  }
  return used;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
