// The memory of a frame: which tiles share a slot, and where the slots lie.
#include <algorithm>
#include <bit>

#include "backends/cpu/row/planner.h"

namespace lockstep {
inline namespace v0 {
namespace {

// Slots that lie a multiple of 4 KB apart would look alike to the processor's store buffer.
constexpr std::size_t kSlotPadding = 128;
// What the slots of a tile may take of the nearest cache, beside what it reads and writes: steps are few where tiles
// are large. Tiles are powers of two, no smaller than the second, and rows up to the third are one tile.
constexpr std::size_t kTileBytes = 16 << 10;
constexpr std::int64_t kSmallestTile = 512;
constexpr std::int64_t kWholeRow = 1024;
// What a tile of several rows of an epilogue may take of the nearest cache, with the results that it begins with; and
// the fewest elements that are worth the steps.
constexpr std::size_t kEpilogueBytes = 32 << 10;
constexpr std::size_t kLeastEpilogueBlock = 1024;

}  // namespace

std::size_t Planner::reserve(std::size_t bytes) {
  const std::size_t at = plan_.total_bytes;
  plan_.total_bytes += (bytes + 63) / 64 * 64;
  return at;
}

void Planner::assign_slots(Pass& pass) {
  std::vector<std::size_t> last_use(plan_.types.size(), 0);
  for (std::size_t s = 0; s < pass.steps.size(); ++s) {
    for_each_value_read(pass.steps[s], [&](int v) { last_use[idx(v)] = s; });
  }
  std::vector<int> slot_of(plan_.types.size(), -1);
  std::vector<bool> one_row(plan_.types.size(), false);  // read again for the next row, after the result of the last
  std::vector<std::size_t> free;
  for (std::size_t s = 0; s < pass.steps.size(); ++s) {
    Step& step = pass.steps[s];
    const auto release = [&](bool same_size_only) {
      for_each_value_read(step, [&](int v) {
        if (slot_of[idx(v)] < 0 || last_use[idx(v)] != s) return;
        if (same_size_only && (one_row[idx(v)] || size_of(plan_.types[idx(v)]) != size_of(step.type))) return;
        free.push_back(idx(slot_of[idx(v)]));
        slot_of[idx(v)] = -1;
      });
    };
    // A result may take the place of an operand that nobody needs any more, if their elements are equally long.
    release(true);
    if (step.out >= 0 && step.place.kind == Place::Kind::none) {
      if (free.empty()) free.push_back(slots_++);
      step.place = {Place::Kind::slot, free.back()};
      slot_of[idx(step.out)] = static_cast<int>(free.back());
      // Mostly what is read where it lies, or computed where it belongs, leaves its slot empty.
      const bool is_empty = (step.kind == Step::Kind::load && step.alias) || step.direct >= 0;
      if (!is_empty) filled_slots_.insert(free.back());
      free.pop_back();
      one_row[idx(step.out)] = step.one_row;
    }
    release(false);
  }
}

/// Elements that follow each other where long rows are read and written in pieces all over memory, if tiles and the
/// lanes of sums are whole numbers of them; else 0.
std::int64_t Planner::piece_of_rows() const {
  const bool one_row = plan_.layout == Layout::rows && !plan_.has_blocks() && !options_.epilogue;
  const auto has_order = [](const RowReduction& reduction) { return reduction.is_best(); };
  if (!one_row || std::any_of(plan_.reductions.begin(), plan_.reductions.end(), has_order)) return 0;
  const Access* in_pieces = nullptr;
  for (const Pass& pass : plan_.passes) {
    for (const Step& step : pass.steps) {
      if (step.kind == Step::Kind::exponentials) return 0;
      const bool reads = step.kind == Step::Kind::load;
      if (!reads && step.kind != Step::Kind::store) continue;
      const Access& access = (reads ? plan_.inputs : plan_.outputs)[idx(step.index)];
      if (access.along.rank() == 2 && access.along[1] == 1 && access.checks.empty()) in_pieces = &access;
    }
  }
  const std::int64_t piece = in_pieces == nullptr ? 0 : in_pieces->along_dims[1];
  return piece >= static_cast<std::int64_t>(kLanes) && kChunk % piece == 0 ? piece : 0;
}

void Planner::lay_out_memory() {
  std::size_t widest = 4;
  for (ComputeType type : plan_.types) widest = std::max(widest, size_of(type));
  if (options_.epilogue) {
    const std::size_t most = kEpilogueBytes / ((slots_ + 1) * widest);
    plan_.block = static_cast<std::int64_t>(std::max(most, kLeastEpilogueBlock));
  }
  if (plan_.layout == Layout::rows && plan_.tile == 0) {
    const std::size_t most = std::bit_floor(kTileBytes / (std::max<std::size_t>(filled_slots_.size(), 1) * widest));
    const std::int64_t least = plan_.sequence <= kWholeRow ? kWholeRow : kSmallestTile;
    plan_.tile = std::clamp(static_cast<std::int64_t>(most), least, kChunk);
    plan_.piece = piece_of_rows();
    plan_.tile = std::max(plan_.tile, plan_.piece);
  }
  const std::int64_t elements = plan_.has_blocks()             ? plan_.width * plan_.sequence
                                : plan_.layout == Layout::rows ? std::max(plan_.tile, plan_.block)
                                                               : plan_.width * plan_.depth;
  plan_.slot_bytes = (idx(elements) * widest + 63) / 64 * 64 + kSlotPadding;
  plan_.slots_at = reserve(slots_ * plan_.slot_bytes);
  plan_.forms_at = reserve(forms_ * sizeof(ChainForm));
  plan_.pointers_at = reserve(plan_.types.size() * sizeof(void*));
  plan_.strides_at = reserve(plan_.types.size() * sizeof(std::ptrdiff_t));
}

}  // namespace v0
}  // namespace lockstep
