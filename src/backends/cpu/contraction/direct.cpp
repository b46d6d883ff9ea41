#include "backends/cpu/contraction/direct.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/contraction/plan.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// Fewer terms do not pay for transposing the results; wide vectors multiply in half the time, but transpose no faster.
constexpr std::int64_t kMinTerms = 64;
constexpr std::int64_t kMinTermsOfWideVectors = 128;
constexpr std::int64_t kWide = 16;
constexpr std::int64_t kMinPixels = 8;
// Bytes of raw results that stay in cache from one block of k to the next.
constexpr std::int64_t kDirectResultBytes = 192 << 10;
// Units of work beyond the fewest, for threads of which one comes late or has the slower core.
constexpr std::int64_t kUnitsPerThread = 4;
// What a unit costs beside its multiply-adds of whole vectors: lines of pixels that its neighbours copy, too, and rows
// of the epilogue, each so much; and of its length what others wait for at the end.
constexpr double kSegment = 400;
constexpr std::int64_t kSharedLines = 2;
constexpr double kWaiting = 0.1;

std::int64_t most_rows(std::int64_t columns) {
  return kDirectResultBytes / static_cast<std::int64_t>(sizeof(float)) / columns;
}

// How far apart `count` neighbouring rows are.
std::int64_t reach_of(const std::vector<std::int64_t>& addresses, std::int64_t count) {
  std::int64_t reach = 0;
  for (std::size_t first = 0; first < addresses.size(); ++first) {
    reach = std::max(reach, addresses[std::min(first + static_cast<std::size_t>(count), addresses.size()) - 1] -
                                addresses[first] + 1);
  }
  return reach;
}

// Planes of an image that a copy has; 0 if there is none.
std::int64_t copied_planes(const Plan& plan) {
  const Geometry& geometry = plan.row_side.geometry;
  if (geometry.bounds() == 0) return 0;
  std::int64_t planes = 1;
  for (int d = 0; d < geometry.k.sizes.rank(); ++d) planes *= is_checked(geometry.k, d) ? 1 : geometry.k.sizes[d];
  return planes;
}

}  // namespace

bool suits_direct(const Side& pixels, std::int64_t channels, std::int64_t rows_per_image, std::int64_t k,
                  std::int64_t lanes) {
  return has_images(pixels) && channels > lanes && rows_per_image >= kMinPixels && rows_per_image <= kMaxTable &&
         k >= (lanes < kWide ? kMinTerms : kMinTermsOfWideVectors) && k <= kMaxTable;
}

std::optional<DirectTable> make_direct_table(const Plan& plan, std::int64_t lanes) {
  if (plan.type != ComputeType::f32 || !plan.swapped || plan.rows == 0 ||
      !suits_direct(plan.row_side, plan.columns, plan.n, plan.k, lanes)) {
    return std::nullopt;
  }
  const Geometry& geometry = plan.row_side.geometry;
  auto images = make_images(geometry, plan.rows / plan.n, plan.n, plan.k);
  if (!images) return std::nullopt;
  DirectTable table{.images = std::move(*images), .row_address = {}};
  Walk walk(geometry.outer, geometry.bounds());
  walk.seek(0);
  for (std::int64_t row = 0; row < plan.n; ++row, walk.advance(1)) {
    const auto address = table.images.address(walk.position());
    if (!address) return std::nullopt;
    table.row_address.push_back(*address);
  }
  table.images.narrow(reach_of(table.row_address, most_rows(2 * lanes)));
  return table;
}

DirectTiling choose_direct_tiling(const Plan& plan, std::int64_t images, std::int64_t tile_rows,
                                  std::int64_t tile_columns, std::int64_t threads) {
  const std::int64_t row_tiles = divide_up(plan.n, tile_rows);
  const std::int64_t panels = divide_up(plan.columns, tile_columns);
  // In tiles, which are tile_rows x k multiply-adds of vectors for each vector of a panel.
  const double segment = kSegment / static_cast<double>(2 * tile_rows * plan.k);
  const std::int64_t shared = kSharedLines * copied_planes(plan);
  DirectTiling best;
  double best_cost = -1;
  for (std::int64_t column_blocks = 1; column_blocks <= std::min<std::int64_t>(panels, 4 * threads); ++column_blocks) {
    const std::int64_t panels_each = divide_up(panels, column_blocks);
    const std::int64_t tiles = std::max<std::int64_t>(1, most_rows(panels_each * tile_columns) / tile_rows);
    const std::int64_t least = divide_up(row_tiles, tiles);
    const std::int64_t most = threads == 1 ? least + 1 : std::max(least + threads, kUnitsPerThread * threads);
    for (std::int64_t row_blocks = least; row_blocks <= std::min(row_tiles, most); ++row_blocks) {
      const std::int64_t tiles_each = divide_up(row_tiles, row_blocks);
      const std::int64_t units = images * divide_up(row_tiles, tiles_each) * divide_up(panels, panels_each);
      // Tiles of the longest thread; what each block reads anew counts a little.
      const std::int64_t longest = divide_up(units, threads);
      const auto work = static_cast<double>(longest * tiles_each * panels_each);
      const double read = static_cast<double>(units) * static_cast<double>(tiles_each + panels_each);
      const auto segments = static_cast<double>(longest * (shared + panels_each * tile_columns));
      const double waiting = threads == 1 ? 0 : kWaiting * static_cast<double>(tiles_each * panels_each);
      const double cost = work + 0.02 * read + segment * segments + waiting;
      if (best_cost >= 0 && cost >= best_cost) continue;
      best_cost = cost;
      best = {.rows = tiles_each * tile_rows,
              .columns = panels_each * tile_columns,
              .row_blocks = divide_up(row_tiles, tiles_each),
              .column_blocks = divide_up(panels, panels_each)};
    }
  }
  return best;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
