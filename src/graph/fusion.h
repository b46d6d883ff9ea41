// Which values are computed by one kernel. Groups of entries that share an iteration space; see schedule.h for the
// rules in one paragraph.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/schedule.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// The entries of one kernel.
struct Group {
  struct Member {
    int entry = 0;
    /// Over the group's space: the position in the entry's dense value that each iteration computes or uses.
    /// Stride 0 along a dimension: one value serves all its indices.
    View map;
  };
  int contraction = -1;      ///< the Contract entry, if this is its kernel
  bool alone = false;        ///< an irregular entry: nothing joins it
  Shape space;               ///< iteration space, in the order of tensor dimensions
  bool decided = false;      ///< whether `inner` is fixed (by a reduction or a contraction)
  std::uint32_t inner = 0;   ///< dimensions (bits) that form the rows' elements
  std::vector<Member> members;
};

/// Groups in an order that respects their dependencies.
struct Fusion {
  std::vector<Group> groups;
  std::vector<int> group_of;  ///< per entry; -1 for given entries and sources that are computed where they are used
  std::vector<bool> stored;   ///< per entry: wanted, or read by another group
};

Fusion fuse(const std::vector<Entry>& entries);

/// `inner` (over a shape S) read at the dense positions of S that `outer` selects: the view over outer's shape.
/// Nothing if the result is no view.
std::optional<View> compose(const View& outer, const View& inner);

/// Whether operand `position` of `op` is read at places that its kernel computes, so that it must be stored before.
bool reads_anywhere(const Primitive& op, std::size_t position);

/// Sources are recomputed by each kernel that reads them rather than stored, unless the value is wanted or is read
/// through a padded view.
bool is_source(const Primitive& op);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
