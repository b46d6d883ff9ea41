// The pieces of a whole group, for tables that are made once: a Piece takes more memory than what becomes of it, and there
// may be as many as positions, but hardly ever are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/contraction/panels.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Those of cut_pieces of the positions [0, count).
inline std::vector<Piece> all_pieces(const Group& group, int bounds, std::int64_t count, std::int64_t longest) {
  std::vector<Piece> pieces;
  Walk walk(group, bounds);
  walk.seek(0);
  for (std::int64_t at = 0; at < count; at += pieces.back().length) {
    pieces.push_back({at, std::min({walk.run(), count - at, longest}), walk.position()});
    walk.advance(pieces.back().length);
  }
  return pieces;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
