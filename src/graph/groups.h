// The entries of one kernel form a group; what groups need of each other is a graph, which stays without a cycle.
// graph/fusion.h decides what goes into which.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/entry.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// The entries of one kernel.
struct Group {
  struct Member {
    int entry = 0;
    View map;  ///< over the group's space (graph/maps.h)
  };
  int contraction = -1;     ///< the Contract entry, if this is its kernel
  bool alone = false;       ///< an irregular entry: nothing joins it
  Shape space;              ///< iteration space, in the order of tensor dimensions
  bool decided = false;     ///< whether `inner` is fixed (by a reduction or a contraction)
  std::uint32_t inner = 0;  ///< dimensions (bits) that form the rows' elements
  std::vector<Member> members;
};

/// Buffers of a kernel: a limit of the smallest devices (docs/design.md).
inline constexpr int kMaxBuffers = 12;

/// Groups in an order that respects their dependencies.
struct Fusion {
  std::vector<Group> groups;  ///< one whose values are all computed where they are read has no members
  std::vector<int> group_of;  ///< per entry; -1 for given entries and sources that are computed where they are used
  std::vector<bool> stored;   ///< per entry: wanted, or read by another group
  std::vector<bool> recomputed;  ///< per entry: other groups compute it where they read it (graph/recompute.h)
};

/// Groups while they are made: members are added by whoever has asked what that would mean.
class Groups {
 public:
  explicit Groups(const std::vector<Entry>& entries);

 protected:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  Group& group(int g) { return fusion_.groups[index(g)]; }
  int& group_of(int e) { return fusion_.group_of[index(e)]; }
  bool group_alive(int g) { return !group(g).members.empty(); }
  /// Entry e, the newest one, was added to group g.
  void joined(int e, int g);
  /// Group `from` became part of `into`.
  void merged(int from, int into);
  /// Groups that compute operands of an entry.
  std::vector<int> operand_groups(int e);
  /// Where group g computes its member e.
  const View& member_map(int g, int e);
  /// How many buffers `home`, which is group g, reads and writes.
  int buffers_of(const Group& home, int g);
  /// Whether each kernel that reads entry e computes it for itself.
  bool computed_in_place(int e);
  /// Does an operand of e, computed by another group, need group g to run first?
  bool depends_on_any_operand(int e, int g);
  /// Whether group a needs the result of group b, directly (unless that is ignored) or through others.
  bool depends(int a, int b, bool ignore_direct = false);
  /// The groups in an order that respects their dependencies.
  Fusion finish();

  const std::vector<Entry>& entries_;
  Fusion fusion_;
  std::vector<std::vector<int>> consumers_;

 private:
  void raise_newest(int g, int e);
  void sort_groups();
  void mark_stored();

  // Per group: no entry of it, or of those that it needs, is newer (some may be older than this says).
  std::vector<int> newest_;
  std::vector<std::uint32_t> visited_;  ///< by which search
  std::uint32_t searches_ = 0;
  std::vector<int> stack_;
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
