#include "backends/cpu/contraction/lines.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/contraction/all_pieces.h"
#include "backends/cpu/contraction/panels.h"
#include "backends/cpu/contraction/plan.h"
#include "backends/cpu/contraction/thin.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

constexpr std::int64_t kMaxChannels = 32;
// Fewer terms do not pay for the copy, unless many channels share it.
constexpr std::int64_t kMinLineTerms = 16;
constexpr std::int64_t kMinLineProducts = 256;
// Bytes of raw results that stay in cache from one block of k to the next.
constexpr std::int64_t kLineResultBytes = 128 << 10;

std::int64_t most_vectors(std::int64_t rows, std::int64_t lanes) {
  return std::max<std::int64_t>(1, kLineResultBytes / (rows * lanes * static_cast<std::int64_t>(sizeof(float))));
}

// How far apart the pixels of `count` neighbouring vectors are.
std::int64_t reach_of(const std::vector<LineVector>& vectors, std::int64_t count) {
  std::int64_t reach = 0;
  for (std::size_t first = 0; first < vectors.size(); ++first) {
    const LineVector& last = vectors[std::min(first + static_cast<std::size_t>(count), vectors.size()) - 1];
    reach = std::max(reach, last.address + last.count - vectors[first].address);
  }
  return reach;
}

// Lanes that are loaded for a line, beside its pixels.
bool fills_vectors(std::int64_t line, std::int64_t lanes) {
  return 4 * divide_up(line, lanes) * lanes <= 5 * line;
}

}  // namespace

bool suits_lines(const Side& pixels, std::int64_t channels, std::int64_t pixels_per_image, std::int64_t k,
                 std::int64_t lanes, std::int64_t tile_columns) {
  const Geometry& geometry = pixels.geometry;
  return has_images(pixels) && (geometry.bounds() > 0 || geometry.outer.inner_stride() == 1) && channels > kThinRows &&
         channels <= kMaxChannels && channels % tile_columns != 0 &&
         (k >= kMinLineTerms || k * channels >= kMinLineProducts) && k <= kMaxTable &&
         pixels_per_image <= kMaxTable && fills_vectors(std::min(geometry.outer.inner_size(), pixels_per_image), lanes);
}

std::optional<LineTable> make_line_table(const Plan& plan, std::int64_t lanes, std::int64_t tile_columns) {
  if (plan.type != ComputeType::f32 || plan.swapped || plan.columns == 0 ||
      !suits_lines(plan.column_side, plan.rows, plan.n, plan.k, lanes, tile_columns)) {
    return std::nullopt;
  }
  const Geometry& geometry = plan.column_side.geometry;
  auto images = make_images(geometry, plan.columns / plan.n, plan.n, plan.k, Phases::of_outer);
  if (!images) return std::nullopt;
  LineTable table{.images = std::move(*images), .vectors = {}};
  Walk walk(geometry.outer, geometry.bounds());
  for (const Piece& piece : all_pieces(geometry.outer, geometry.bounds(), plan.n, lanes)) {
    walk.seek(piece.begin + piece.length - 1);
    const auto first = table.images.address(piece.position);
    const auto last = table.images.address(walk.position());
    if (!first || !last || *last - *first != piece.length - 1) return std::nullopt;
    table.vectors.push_back({.address = *first, .column = piece.begin, .count = piece.length});
  }
  table.images.narrow(reach_of(table.vectors, most_vectors(plan.rows, lanes)));
  return table;
}

std::int64_t choose_line_segment(const LineTable& table, std::int64_t rows, std::int64_t lanes, std::int64_t images,
                                 std::int64_t threads) {
  const auto vectors = static_cast<std::int64_t>(table.vectors.size());
  const std::int64_t least = divide_up(vectors, most_vectors(rows, lanes));
  // As many units as keep all threads busy to the end.
  std::int64_t segments = least;
  while (images * segments % threads != 0 && segments < std::min(vectors, least + threads)) ++segments;
  return divide_up(vectors, segments);
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
