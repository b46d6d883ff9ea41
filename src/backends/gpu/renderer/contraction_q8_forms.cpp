// Which products with packed weights are made of tiles, in which parts, and by which shape of workgroup
// (contraction_q8_tiles.h).
#include <algorithm>
#include <limits>

#include "backends/gpu/renderer/contraction_q8_tiles.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

// Teams along rows, columns and k; fragments of a team. As many teams as registers allow: an instruction of tensor
// cores takes long, and other teams have to fill that time.
constexpr TeamForm kTeamForms[] = {
    {4, 4, 1, 2, 4, 1}, {2, 4, 2, 2, 2, 1}, {2, 2, 4, 2, 2, 1}, {2, 2, 2, 2, 2, 1}, {1, 2, 4, 2, 4, 1},
    {1, 2, 4, 2, 2, 1}, {1, 2, 4, 1, 4, 1}, {1, 2, 4, 1, 2, 1}, {2, 2, 1, 2, 4, 1}, {1, 4, 1, 1, 2, 1},
};

// Of a unit, for a step of k: multiplying an output is 1, beside taking weights apart, bringing rows to shared memory,
// and the second-level cache, which gives a byte to each unit in the time of so many multiplications.
double cost_of(const TeamForm& form, const Geometry& geometry, const TileWeights& weights, const RenderLimits& limits) {
  constexpr double kTakenApart = 14;
  constexpr double kRow = 5;
  constexpr double kParted = 1.15;  ///< sums of parts of k are added
  constexpr double kByte = 38;
  constexpr double kBeginning = 512;  ///< of k, until there is something to multiply
  const std::int64_t tiles = over(geometry.rows, form.rows()) * over(geometry.columns, form.columns());
  const double multiplied = form.rows() * form.columns() * (form.teams_k > 1 ? kParted : 1) +
                            kTakenApart * form.columns() + kRow * form.rows();
  const double read = kByte * (form.rows() + form.columns() * weights.piece.bytes() / PackedPiece::kElements);
  const std::int64_t stage = std::int64_t{form.teams_k} * kBlock;
  const double length = kBeginning + static_cast<double>(over(geometry.length, stage) * stage);
  const int teams = form.threads() * form.groups_per_unit / kTeam;
  const double waiting = teams >= 16 ? 1 : teams >= 8 ? 1.4 : 2.2;
  return static_cast<double>(over(tiles, limits.units)) * std::max(multiplied * waiting, read) * length;
}

}  // namespace

std::int64_t first_byte_of(const Side& b) {
  const EncodingInfo& info = info_of(b.input->encoding);
  return b.view.offset / static_cast<std::int64_t>(info.elements) * static_cast<std::int64_t>(info.bytes);
}

TileWeights::TileWeights(Encoding encoding_of, std::int64_t first_byte)
    : encoding(encoding_of),
      piece(encoding),
      groups(order::kQ8Block / group_size(encoding)),
      has_factors(piece.factor(0, 0) != "1"),
      has_offset(has_offsets(encoding)),
      has_shares(piece.share(0, 0) != "1"),
      is_aligned(piece.bytes() % 16 == 0 && first_byte % 16 == 0),
      vectors(static_cast<int>(over(piece.bytes() + (is_aligned ? 0 : 15), 16)) | 1) {}

bool has_whole_pieces(const Side& b, const Geometry& geometry) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 24;  // bytes of a tile's columns are 32-bit numbers
  return geometry.batches == 1 && geometry.length > 0 && geometry.length <= kLongest && geometry.length % kBlock == 0 &&
         has_whole_blocks(b, geometry);
}

TiledProduct::TiledProduct(const ContractionKernel& kernel, const Geometry& geometry, const Side& b,
                           const TileWeights& weights, const RenderLimits& limits)
    : kernel_(kernel),
      geometry_(geometry),
      limits_(limits),
      weights_(weights),
      piece_(weights.piece),
      pieces_(geometry.length / kBlock),
      blocks_(geometry.length / order::kQ8Block),
      first_byte_(first_byte_of(b)),
      column_bytes_(piece_.bytes() * pieces_),
      index_(geometry.wide ? "LONG" : "int"),
      a_("a", kernel.a, geometry.a, geometry, true),
      b_(b) {}

Rendered TiledProduct::render_parts(
    int tile_rows, std::int64_t row_bytes,
    const std::function<void(Rendered&, std::int64_t first, std::int64_t count)>& append) const {
  constexpr std::int64_t kMostRowBytes = std::int64_t{512} << 20;
  const std::int64_t most = std::max<std::int64_t>(kMostRowBytes / row_bytes / tile_rows, 1) * tile_rows;
  const std::int64_t part = std::min(over(geometry_.rows, tile_rows) * tile_rows, most);
  Rendered rendered;
  rendered.scratch_bytes = static_cast<std::size_t>(part * row_bytes);
  for (std::int64_t first = 0; first < geometry_.rows; first += part) {
    append(rendered, first, std::min(part, geometry_.rows - first));
  }
  return rendered;
}

std::vector<SharedArray> TeamForm::shared(const TileWeights& weights) const {
  // Totals of all outputs where teams part k, else what each team writes next.
  const int results = (teams_k > 1 ? rows() : threads() / kTeam * kFragmentRows) * result_stride();
  return {{ComputeType::i32, "span", teams_k * columns() * weights.vectors * 4 + 4},
          {ComputeType::i32, "tile_b", teams_k * columns() * kBlock / 4},
          {ComputeType::f32, "factors", teams_k * factor_words(weights)},
          {ComputeType::i32, "tile_a", 2 * row_words(weights)},
          {ComputeType::f32, "results", results}};
}

std::optional<TeamForm> team_form(const Geometry& geometry, const TileWeights& weights, const RenderLimits& limits) {
  std::optional<TeamForm> best;
  double least = std::numeric_limits<double>::infinity();
  for (const TeamForm& form : kTeamForms) {
    KernelText text;
    text.shared = form.shared(weights);
    if (shared_bytes_of(text) > limits.shared_bytes) continue;
    const double cost = cost_of(form, geometry, weights, limits);
    if (cost >= least) continue;
    least = cost;
    best = form;
  }
  return best;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
