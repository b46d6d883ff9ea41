#include "backends/cpu/contraction/window.h"

#include <algorithm>

#include "backends/cpu/contraction/panels.h"
#include "backends/cpu/contraction/thin.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// With more rows than this, packed columns are used often enough to pay for packing. Kernel positions that are
// neighbours in memory share cache lines; other terms bring a line (and a page) of their own each time.
constexpr std::int64_t kMaxRows = 64;
constexpr std::int64_t kMaxRowsOfScatteredTerms = 16;
// Channels of larger images lie pages apart, and every tile of rows visits all of them.
constexpr std::int64_t kLargePlane = 1024;
constexpr std::int64_t kMaxRowsOfLargePlanes = 32;
constexpr std::int64_t kMaxPlanes = 1 << 16;
constexpr std::int64_t kMaxWindowTable = 1 << 19;
// Bytes of raw results that stay in cache from one block of k to the next, and of one row of them.
constexpr std::int64_t kWindowResultBytes = 256 << 10;
constexpr std::int64_t kWindowSegmentBytes = 2048;

// Planes may differ in their addresses only.
bool find_planes(const Plan& plan, WindowTable& table) {
  const Geometry& geometry = plan.column_side.geometry;
  table.planes = plan.columns / plan.n;
  Walk walk(geometry.outer, geometry.bounds());
  for (std::int64_t plane = 0; plane < table.planes; ++plane) {
    walk.seek(plane * plan.n);
    const auto& coordinates = walk.position().coordinates;
    if (std::any_of(coordinates.begin(), coordinates.end(), [](std::int64_t c) { return c != 0; })) return false;
    table.plane_address.push_back(walk.position().address);
  }
  return true;
}

}  // namespace

bool suits_windows(const Side& columns, std::int64_t rows, std::int64_t plane, std::int64_t k, std::int64_t lanes) {
  const Geometry& geometry = columns.geometry;
  const std::int64_t whole = divide_up(plane, lanes) * lanes;
  const std::int64_t most_rows = geometry.k.inner_stride() != 1 ? kMaxRowsOfScatteredTerms
                                 : plane > kLargePlane          ? kMaxRowsOfLargePlanes
                                                                : kMaxRows;
  return columns.is_plain_f32() && columns.order == Side::Order::along_outer && geometry.outer.inner_stride() == 1 &&
         (geometry.limits.empty() || columns.fill == 0) && !geometry.bounded_in_batch() && rows > kThinRows &&
         rows <= most_rows && k > 0 && k <= kMaxWindowTable && 100 * whole <= 115 * plane;
}

std::optional<WindowTable> make_window_table(const Plan& plan, std::int64_t lanes) {
  if (plan.type != ComputeType::f32 || plan.swapped || plan.columns == 0 || plan.batches == 0 ||
      plan.columns / plan.n > kMaxPlanes || !suits_windows(plan.column_side, plan.rows, plan.n, plan.k, lanes)) {
    return std::nullopt;
  }
  const Geometry& geometry = plan.column_side.geometry;
  WindowTable table;
  if (!find_planes(plan, table)) return std::nullopt;
  table.vectors = divide_up(plan.n, lanes);

  std::vector<Piece> pieces(static_cast<std::size_t>(lanes));
  const auto cut = [&](std::int64_t vector) {
    return cut_pieces(geometry.outer, geometry.bounds(), vector * lanes, std::min(lanes, plan.n - vector * lanes),
                      lanes, pieces.data());
  };
  for (std::int64_t vector = 0; vector < table.vectors; ++vector) table.loads = std::max(table.loads, cut(vector));
  if (table.loads > kMaxWindowLoads) return std::nullopt;

  std::vector<Position> classes;
  std::vector<std::uint16_t> k_class;
  if (!classify_k(geometry, plan.k, table.k_address, k_class, classes)) return std::nullopt;
  const std::int64_t per_class = table.vectors * table.loads;
  if (static_cast<std::int64_t>(classes.size()) * per_class > kMaxWindowTable) return std::nullopt;
  for (const std::uint16_t c : k_class) table.k_masks.push_back(static_cast<std::uint32_t>(c * per_class));

  table.address.resize(static_cast<std::size_t>(per_class));
  table.masks.resize(classes.size() * static_cast<std::size_t>(per_class));
  const Position batch = geometry.batch_position(0);
  for (std::int64_t vector = 0; vector < table.vectors; ++vector) {
    const int count = cut(vector);
    for (int p = 0; p < count; ++p) {
      const Piece& piece = pieces[static_cast<std::size_t>(p)];
      const auto entry = static_cast<std::size_t>(vector * table.loads + p);
      table.address[entry] = piece.position.address - piece.begin;
      for (std::size_t c = 0; c < classes.size(); ++c) {
        const Span span = valid_span(geometry, geometry.outer, batch.coordinates.data(), classes[c].coordinates.data(),
                                     piece.position.coordinates.data(), piece.length);
        const std::uint32_t lanes_with_data = ((1u << (span.last - span.first)) - 1) << (piece.begin + span.first);
        table.masks[c * static_cast<std::size_t>(per_class) + entry] = static_cast<std::uint16_t>(lanes_with_data);
      }
    }
  }
  return table;
}

WindowTiling choose_window_tiling(const Plan& plan, const WindowTable& table, std::int64_t tile_rows, int threads) {
  // Pairs of vectors are what a tile computes.
  const std::int64_t pairs = divide_up(table.vectors, 2);
  const std::int64_t row_tiles = divide_up(plan.rows, tile_rows);
  const std::int64_t pair_bytes = row_tiles * tile_rows * 2 * 64;
  const std::int64_t most = std::clamp<std::int64_t>(kWindowResultBytes / pair_bytes, 2, kWindowSegmentBytes / 128);
  const std::int64_t least_segments = divide_up(pairs, most);
  WindowTiling best;
  std::int64_t best_cost = -1;
  for (std::int64_t groups = 1; groups <= std::min<std::int64_t>(row_tiles, threads); ++groups) {
    for (std::int64_t segments = least_segments; segments <= std::min(pairs, least_segments + threads); ++segments) {
      const std::int64_t pairs_each = divide_up(pairs, segments);
      const std::int64_t tiles_each = divide_up(row_tiles, groups);
      const std::int64_t units =
          plan.batches * table.planes * divide_up(pairs, pairs_each) * divide_up(row_tiles, tiles_each);
      const std::int64_t cost = divide_up(units, threads) * pairs_each * tiles_each;
      if (best_cost >= 0 && cost >= best_cost) continue;
      best_cost = cost;
      best = {.vectors = 2 * pairs_each,
              .rows = tiles_each * tile_rows,
              .segments = divide_up(pairs, pairs_each),
              .row_groups = divide_up(row_tiles, tiles_each)};
    }
  }
  return best;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
