#include "backends/cpu/contraction/panels.h"

#include <algorithm>
#include <memory>

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

bool same_coordinates(const Position& a, const Position& b, int bounds) {
  return std::equal(a.coordinates.begin(), a.coordinates.begin() + bounds, b.coordinates.begin());
}

}  // namespace

int cut_pieces(const Group& group, int bounds, std::int64_t begin, std::int64_t count, std::int64_t longest,
               Piece* pieces) {
  Walk walk(group, bounds);
  walk.seek(begin);
  int used = 0;
  for (std::int64_t at = 0; at < count;) {
    Piece& piece = pieces[used++];
    piece.begin = at;
    piece.length = std::min({walk.run(), count - at, longest});
    piece.position = walk.position();
    walk.advance(piece.length);
    at += piece.length;
  }
  return used;
}

void prepare_k_block(const Geometry& geometry, std::int64_t k_begin, std::int64_t k_count, PackWorkspace& workspace) {
  const int bounds = geometry.bounds();
  Walk walk(geometry.k, bounds);
  walk.seek(k_begin);
  constexpr std::uint16_t kUnknown = 0xffff;
  int count = 0;
  int last = -1;
  for (std::int64_t i = 0; i < k_count; ++i, walk.advance(1)) {
    const Position& position = walk.position();
    workspace.k_address[i] = position.address;
    // Classes repeat with a period (the kernel window): guess the one that came next the last time.
    int found = last >= 0 && workspace.next_class[last] != kUnknown ? workspace.next_class[last] : 0;
    if (found >= count || !same_coordinates(workspace.classes[found], position, bounds)) {
      found = 0;
      while (found < count && !same_coordinates(workspace.classes[found], position, bounds)) ++found;
      if (found == count) {
        workspace.classes[count] = position;
        workspace.next_class[count++] = kUnknown;
      }
    }
    if (last >= 0) workspace.next_class[last] = static_cast<std::uint16_t>(found);
    workspace.k_class[i] = static_cast<std::uint16_t>(found);
    last = found;
  }
  workspace.class_count = count;
}

bool classify_k(const Geometry& geometry, std::int64_t k_count, std::vector<std::int64_t>& k_address,
                std::vector<std::uint16_t>& k_class, std::vector<Position>& classes) {
  constexpr std::size_t kMaxClasses = 1024;
  const auto workspace = std::make_unique<PackWorkspace>();
  for (std::int64_t k = 0; k < k_count; k += kBlock) {
    const std::int64_t count = std::min(kBlock, k_count - k);
    prepare_k_block(geometry, k, count, *workspace);
    std::vector<std::uint16_t> renamed;
    for (int c = 0; c < workspace->class_count; ++c) {
      const Position& position = workspace->classes[c];
      const auto found = std::find_if(classes.begin(), classes.end(), [&](const Position& other) {
        return same_coordinates(other, position, geometry.bounds());
      });
      renamed.push_back(static_cast<std::uint16_t>(found - classes.begin()));
      if (found == classes.end()) classes.push_back(position);
    }
    if (classes.size() > kMaxClasses) return false;
    for (std::int64_t i = 0; i < count; ++i) {
      k_address.push_back(workspace->k_address[i]);
      k_class.push_back(renamed[workspace->k_class[i]]);
    }
  }
  return true;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
