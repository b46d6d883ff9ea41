#include "backends/cpu/contraction/thin.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/contraction/all_pieces.h"
#include "backends/cpu/contraction/panels.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

bool suits_along_k(const Plan& plan) {
  const Side& side = plan.column_side;
  return side.order == Side::Order::along_k && side.geometry.limits.empty() && side.geometry.k.sizes.rank() == 1 &&
         side.geometry.k.inner_stride() == 1;
}

bool suits_thin(const Plan& plan, std::int64_t tile_rows) {
  const Side& side = plan.column_side;
  const bool is_read = side.is_plain_f32() || (side.is_half() && suits_along_k(plan)) ||
                       (side.encoding != Encoding::dense && side.order == Side::Order::along_k);
  return plan.type == ComputeType::f32 && is_read &&
         plan.rows <= std::min(kThinRowsAlongK, tile_rows) && plan.rows * plan.columns * plan.batches > 0 &&
         plan.k <= kMaxTable && plan.columns <= kMaxTable;
}

bool suits_along_outer(const Plan& plan) {
  const Side& side = plan.column_side;
  const Geometry& geometry = side.geometry;
  if (plan.rows > kThinRows || side.order != Side::Order::along_outer || geometry.bounded_in_batch()) return false;
  return geometry.limits.empty() || side.fill == 0;
}

std::uint32_t mask_of(Span span, std::int64_t stride) {
  if (span.first == span.last) return 0;
  const std::int64_t reach = (span.last - span.first - 1) * stride + 1;
  return static_cast<std::uint32_t>(((std::uint64_t{1} << reach) - 1) << (span.first * stride));
}

ThinTable table_along_k(const Plan& plan, std::int64_t lanes) {
  ThinTable table;
  table.along_k = true;
  Walk walk(plan.column_side.geometry.outer, 0);
  walk.seek(0);
  for (std::int64_t c = 0; c < plan.columns; ++c, walk.advance(1)) {
    if (c % lanes == 0) table.begin.push_back(c);
    table.address.push_back(walk.position().address);
  }
  table.begin.push_back(plan.columns);
  // The lanes of the last vector that are no columns read the last column.
  while (static_cast<std::int64_t>(table.address.size()) % lanes != 0) table.address.push_back(table.address.back());
  return table;
}

// Batches worth a copy each, terms that use an element of it, and its largest size (it stays in the second cache).
constexpr std::int64_t kCopiedBatches = 4;
constexpr std::int64_t kCopiedTerms = 4;
constexpr std::int64_t kMaxCopy = 96 << 10;

// A line alone would wait for its own sums.
std::optional<ThinWindow> window_of(const Plan& plan, const ThinTable& table) {
  if (plan.rows != 1 || table.lines < 2) return std::nullopt;
  for (const int side : {ThinWindow::kSmallSide, ThinWindow::kLargeSide}) {
    if (plan.k != side * side) continue;
    const std::int64_t* const address = table.k_address.data();
    for (int step = 1; step <= ThinWindow::kMostSteps; ++step) {
      bool found = true;
      for (int i = 0; i < side; ++i) {
        for (int j = 0; j < side; ++j) {
          const std::int64_t line = address[i % step * side] + i / step * table.line_stride;
          const std::int64_t column = address[j % step] + j / step;
          found = found && address[i * side + j] == line + column - address[0];
        }
      }
      if (found) return ThinWindow{.side = side, .step = step};
    }
  }
  return std::nullopt;
}

void find_source(ThinTable& table) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
  for (const PaddedCopy::Line& line : table.copied_lines) {
    if (line.begin == line.end) continue;
    if (line.step > ThinWindow::kMostSteps) return;
    begin = std::min(begin, line.from);
    end = std::max(end, line.from + (line.end - line.begin - 1) * line.step + 1);
  }
  if (begin >= end) return;
  table.source_begin = table.k_planes[0] + begin;
  table.source_count = end - begin;
}

// One image (or a line) whose padding is checked in all its dimensions.
std::optional<ThinTable> table_of_copy(const Plan& plan, std::int64_t lanes) {
  const Geometry& geometry = plan.column_side.geometry;
  const Group& outer = geometry.outer;
  const auto plain_outer = plain_dims(outer);
  const auto plain_k = plain_dims(geometry.k);
  if (plan.batches < kCopiedBatches || !plain_outer || *plain_outer != 0 || outer.sizes.rank() > 2 || !plain_k) {
    return std::nullopt;
  }
  ThinTable table;
  table.copy = make_padded_copy(geometry, Phases::of_outer);
  if (!table.copy) return std::nullopt;
  table.copied_lines = table.copy->lines(geometry.batch_position(0));
  table.k_planes = addresses(part(geometry.k, 0, *plain_k));
  const auto planes = static_cast<std::int64_t>(table.k_planes.size());
  if (plan.k / planes < kCopiedTerms || plan.k > kBlock || planes * table.copy->plane > kMaxCopy) return std::nullopt;
  Walk walk(outer, geometry.bounds());
  const auto address = [&](std::int64_t column) {
    walk.seek(column);
    return table.copy->address(walk.position());
  };
  table.line = outer.inner_size();
  table.lines = plan.columns / table.line;
  table.line_stride = table.lines > 1 ? address(table.line) : table.line;
  if (table.line > 1 && address(1) != 1) return std::nullopt;
  Walk terms(geometry.k, geometry.bounds());
  for (std::int64_t k = 0; k < plan.k; ++k) {
    terms.seek(k);
    table.k_address.push_back(k / (plan.k / planes) * table.copy->plane + table.copy->term_address(terms.position()));
  }
  table.window = window_of(plan, table);
  if (table.window) find_source(table);
  for (std::int64_t at = 0; at < plan.columns; at += lanes) table.begin.push_back(at);
  table.begin.push_back(plan.columns);
  return table;
}

}  // namespace

std::optional<ThinTable> make_thin_table(const Plan& plan, std::int64_t lanes, std::int64_t tile_rows) {
  if (!suits_thin(plan, tile_rows)) return std::nullopt;
  if (suits_along_k(plan)) return table_along_k(plan, lanes);
  if (!suits_along_outer(plan)) return std::nullopt;
  if (auto table = table_of_copy(plan, lanes)) return table;
  const Geometry& geometry = plan.column_side.geometry;
  ThinTable table;
  table.stride = geometry.outer.inner_stride();
  if (table.stride != 1 && table.stride != 2) return std::nullopt;  // a copy takes any, as of channels that lie last
  std::vector<Position> classes;
  if (!classify_k(geometry, plan.k, table.k_address, table.k_class, classes)) return std::nullopt;

  const std::vector<Piece> pieces = all_pieces(geometry.outer, geometry.bounds(), plan.columns, lanes);
  const auto count = static_cast<std::int64_t>(pieces.size());
  if (static_cast<std::int64_t>(classes.size()) * count > kMaxTable) return std::nullopt;
  // Short pieces waste lanes; with several rows packing them densely pays.
  if (plan.rows > 1 && count * lanes > 2 * plan.columns) return std::nullopt;

  const Position batch = geometry.batch_position(0);
  table.full = table.stride == 1;
  for (const Piece& piece : pieces) {
    table.address.push_back(piece.position.address);
    table.begin.push_back(piece.begin);
  }
  table.begin.push_back(plan.columns);
  for (const Position& k : classes) {
    for (const Piece& piece : pieces) {
      const Span span = valid_span(geometry, geometry.outer, batch.coordinates.data(), k.coordinates.data(),
                                   piece.position.coordinates.data(), piece.length);
      table.full = table.full && span.first == 0 && span.last == lanes;
      table.masks.push_back(mask_of(span, table.stride));
    }
  }
  // Few operands have subnormals: these are packed.
  if (plan.column_side.flush && !table.full) return std::nullopt;
  return table;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
