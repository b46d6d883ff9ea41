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
constexpr std::int64_t kMinTermsOfWideVectors = 256;
constexpr std::int64_t kWide = 16;
constexpr std::int64_t kMinPixels = 8;
// Bytes of raw results that stay in cache from one block of k to the next.
constexpr std::int64_t kDirectResultBytes = 192 << 10;

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
  return table;
}

DirectTiling choose_direct_tiling(const Plan& plan, std::int64_t images, std::int64_t tile_rows,
                                  std::int64_t tile_columns, std::int64_t threads) {
  const std::int64_t row_tiles = divide_up(plan.n, tile_rows);
  const std::int64_t panels = divide_up(plan.columns, tile_columns);
  DirectTiling best;
  double best_cost = -1;
  for (std::int64_t column_blocks = 1; column_blocks <= std::min<std::int64_t>(panels, 4 * threads); ++column_blocks) {
    const std::int64_t panels_each = divide_up(panels, column_blocks);
    const std::int64_t most_rows = kDirectResultBytes / 4 / (panels_each * tile_columns);
    const std::int64_t least = divide_up(row_tiles, std::max<std::int64_t>(1, most_rows / tile_rows));
    for (std::int64_t row_blocks = least; row_blocks <= std::min(row_tiles, least + threads); ++row_blocks) {
      const std::int64_t tiles_each = divide_up(row_tiles, row_blocks);
      const std::int64_t units = images * divide_up(row_tiles, tiles_each) * divide_up(panels, panels_each);
      // Tiles of the longest thread; what each block reads anew counts a little.
      const auto tiles = static_cast<double>(divide_up(units, threads) * tiles_each * panels_each);
      const double read = static_cast<double>(units) * static_cast<double>(tiles_each + panels_each);
      const double cost = tiles + 0.02 * read;
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
