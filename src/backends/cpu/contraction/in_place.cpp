#include "backends/cpu/contraction/in_place.h"

#include <algorithm>

#include "backends/cpu/contraction/panels.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// More columns than this pay for packing the rows.
constexpr std::int64_t kMaxColumns = 64;
// Beside rows without taps: more only where they fill vectors, as the features of an attention's values do. Pixels
// seldom do, and have better ways: the rows are weights then, which stay packed, or pixels are read where they are.
constexpr std::int64_t kMaxPixels = 32;
constexpr std::int64_t kWholeVectors = 16;
constexpr std::int64_t kMinColumns = 3;
constexpr std::int64_t kMinRows = 8;
constexpr std::int64_t kMinRun = 4;

}  // namespace

bool suits_in_place(const Side& rows, const Side& columns, std::int64_t row_count, std::int64_t column_count,
                    std::int64_t k) {
  const Group& terms = rows.geometry.k;
  const std::int64_t stride = terms.inner_stride();
  // Lanes over one or two columns would lie idle: the thin way lays them over the rows.
  const bool is_thin = column_count < kMinColumns && row_count <= kMaxTable && k <= kMaxTable;
  if (is_thin && rows.geometry.limits.empty() && stride == 1 && terms.sizes.rank() == 1) return false;
  const bool are_features = columns.geometry.limits.empty() && column_count % kWholeVectors == 0;
  const std::int64_t most = rows.geometry.limits.empty() && !are_features ? kMaxPixels : kMaxColumns;
  return rows.is_plain_f32() && !rows.flush && (rows.fill == 0 || rows.geometry.limits.empty()) &&
         !rows.geometry.stepped() && column_count <= most && row_count >= std::max(kMinRows, column_count / 2) &&
         k >= 2 * kBlock && (stride == 1 || stride == 2) && terms.inner_size() >= kMinRun &&
         rows.geometry.bounds() <= 3;
}

std::optional<InPlaceTable> make_in_place_table(const Side& side, const Side& columns, std::int64_t row_count,
                                                std::int64_t column_count, std::int64_t k) {
  const Geometry& geometry = side.geometry;
  if (!suits_in_place(side, columns, row_count, column_count, k)) return std::nullopt;
  InPlaceTable table;
  Group rows = geometry.outer;
  Group terms = geometry.k;
  if (geometry.bounds() == 0) {
    table.k_per_plane = k;
    table.row_address = addresses(rows);
  } else {
    table.copy = make_padded_copy(geometry);
    const auto plain_rows = plain_dims(rows);
    const auto plain_terms = plain_dims(terms);
    if (!table.copy || !plain_rows || !plain_terms) return std::nullopt;
    const auto is_reversed = [](const PaddedCopy::Axis& axis) { return axis.least != 0; };
    if (std::any_of(table.copy->axes.begin(), table.copy->axes.end(), is_reversed)) return std::nullopt;
    // In the copy, checked dimensions walk along its axes.
    for (Group* group : {&rows, &terms}) {
      for (int d = 0; d < group->sizes.rank(); ++d) {
        if (!is_checked(*group, d)) continue;
        group->strides[d] = 0;
        for (const PaddedCopy::Axis& axis : table.copy->axes) {
          group->strides[d] += group->coefficients[static_cast<std::size_t>(axis.limit)][d] * axis.stride;
        }
      }
    }
    table.row_planes = addresses(part(rows, 0, *plain_rows));
    table.k_planes = addresses(part(terms, 0, *plain_terms));
    const std::vector<std::int64_t> taps = addresses(part(rows, *plain_rows, rows.sizes.rank()));
    for (std::size_t p = 0; p < table.row_planes.size(); ++p) {
      for (const std::int64_t tap : taps) {
        table.row_address.push_back(static_cast<std::int64_t>(p) * table.copy->plane + tap);
      }
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
  return k_planes * static_cast<std::int64_t>(table.row_planes.size()) * table.copy->plane;
}

void copy_padded(const InPlaceTable& table, const Position& batch, const float* data, std::int64_t k_plane_begin,
                 std::int64_t k_plane_end, CopyFunction copy_lines, float* to) {
  const std::vector<PaddedCopy::Line> lines = table.copy->lines(batch);
  for (std::int64_t k = k_plane_begin; k < k_plane_end; ++k) {
    for (const std::int64_t row : table.row_planes) {
      copy_lines({.lines = lines.data(),
                  .count = lines.size(),
                  .from = data + table.k_planes[static_cast<std::size_t>(k)] + row,
                  .to = to});
      to += table.copy->plane;
    }
  }
}

std::int64_t cut_runs(const InPlaceTable& table, std::int64_t k_begin, std::int64_t count, std::int64_t first_plane,
                      InPlaceRun* runs) {
  const std::int64_t planes = table.copy ? padded_size(table, 1) : 0;
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
