#include "graph/fusion.h"

#include <algorithm>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Limits of the smallest devices (docs/design.md); a kernel also stays small enough to compile quickly.
constexpr int kMaxBuffers = 12;
constexpr int kMaxMembers = 48;
// A broadcast producer that is evaluated once per row pays off from rows of this length on.
constexpr std::int64_t kHoistLength = 16;
// Otherwise it may cost this many cheap operations per element of its reader.
constexpr int kInlineCost = 2;

bool is_cheap(const Primitive& op) {
  if (std::holds_alternative<Cast>(op)) return true;
  const auto* elementwise = std::get_if<Elementwise>(&op);
  return elementwise != nullptr && info_of(elementwise->op).is_cheap;
}

// Dense positions of the row values of `space`: row-major over the dimensions outside `inner`.
View row_map(const Shape& space, std::uint32_t inner) {
  Shape rows = space;
  for (int d = 0; d < rows.rank(); ++d) {
    if ((inner >> d & 1u) != 0) rows[d] = 1;
  }
  View map = View::contiguous(rows);
  map.shape = space;
  return map;
}

std::int64_t rows_of(const Shape& space, std::uint32_t inner) {
  std::int64_t rows = 1;
  for (int d = 0; d < space.rank(); ++d) {
    if ((inner >> d & 1u) == 0) rows *= space[d];
  }
  return rows;
}

bool same_positions(const View& a, const View& b) {
  return a.bounds.empty() && b.bounds.empty() && a.offset == b.offset && a.strides == b.strides;
}

class Fuser {
 public:
  explicit Fuser(const std::vector<Entry>& entries) : entries_(entries) {
    const std::size_t count = entries.size();
    fusion_.group_of.assign(count, -1);
    consumers_.resize(count);
    for (int e = 0; e < static_cast<int>(count); ++e) {
      for (const Entry::Operand& operand : entries[index(e)].operands) {
        if (operand.entry >= 0) consumers_[index(operand.entry)].push_back(e);
      }
    }
    stored_source_.assign(count, false);
    for (const Entry& entry : entries) {
      for (std::size_t i = 0; i < entry.operands.size(); ++i) {
        const Entry::Operand& operand = entry.operands[i];
        if (operand.entry < 0 || !is_source(*entries[index(operand.entry)].op)) continue;
        const bool in_place = operand.view.bounds.empty() && !reads_anywhere(*entry.op, i);
        if (!in_place) stored_source_[index(operand.entry)] = true;
      }
    }
  }

  Fusion run() {
    for (int e = 0; e < static_cast<int>(entries_.size()); ++e) {
      if (!entries_[index(e)].given) place(e);
    }
    sort_groups();
    mark_stored();
    return std::move(fusion_);
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  Group& group(int g) { return fusion_.groups[index(g)]; }
  int& group_of(int e) { return fusion_.group_of[index(e)]; }

  void place(int e) {
    const Entry& entry = entries_[index(e)];
    if (is_source(*entry.op)) {
      if (entry.wanted || stored_source_[index(e)]) start_group(e);
      return;
    }
    if (is_irregular(*entry.op)) {
      group(start_group(e)).alone = true;
      return;
    }
    std::vector<int> candidates = operand_groups(e);
    // The epilogue of a contraction first: it saves the most traffic. Then the latest group.
    std::stable_sort(candidates.begin(), candidates.end(), [&](int a, int b) {
      const bool first = group(a).contraction >= 0;
      const bool second = group(b).contraction >= 0;
      return first != second ? first : a > b;
    });
    int home = -1;
    for (const int candidate : candidates) {
      if (join(e, candidate)) {
        home = candidate;
        break;
      }
    }
    if (home < 0) home = start_group(e);
    for (const int other : candidates) {
      if (other != home && group_alive(other)) home = merge(other, home);
    }
  }

  std::vector<int> operand_groups(int e) {
    std::vector<int> groups;
    for (const Entry::Operand& operand : entries_[index(e)].operands) {
      const int g = operand.entry < 0 ? -1 : group_of(operand.entry);
      if (g >= 0 && std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    }
    return groups;
  }

  bool group_alive(int g) { return !group(g).members.empty(); }

  int start_group(int e) {
    const Entry& entry = entries_[index(e)];
    Group fresh;
    if (const auto* reduce = std::get_if<Reduce>(entry.op)) {
      fresh.space = entry.operands[0].view.shape;
      fresh.decided = true;
      fresh.inner = reduce->dims;
      fresh.members.push_back({e, row_map(fresh.space, fresh.inner)});
    } else {
      fresh.space = entry.shape;
      if (const auto* contract = std::get_if<Contract>(entry.op)) {
        fresh.contraction = e;
        fresh.decided = true;
        const int outer = contract->b.rank() + contract->m.rank();
        for (int d = outer; d < fresh.space.rank(); ++d) fresh.inner |= 1u << d;
      }
      fresh.members.push_back({e, View::contiguous(fresh.space)});
    }
    fusion_.groups.push_back(std::move(fresh));
    const int g = static_cast<int>(fusion_.groups.size()) - 1;
    group_of(e) = g;
    return g;
  }

  // Whether entry e may be computed in group g, its other operands being loaded; joins it if so.
  bool join(int e, int g) {
    const Entry& entry = entries_[index(e)];
    Group& home = group(g);
    if (home.alone || (home.space.rank() == 0 && entry.shape.numel() != 1)) return false;
    if (static_cast<int>(home.members.size()) >= kMaxMembers || depends_on_any_operand(e, g)) return false;
    if (const auto* reduce = std::get_if<Reduce>(entry.op)) {
      if (home.contraction >= 0 || entry.operands[0].view.shape != home.space) return false;
      if (home.decided && home.inner != reduce->dims) return false;
      const View full = View::contiguous(home.space);
      if (!operands_fit(e, g, full)) return false;
      if (!add_member(e, g, row_map(home.space, reduce->dims))) return false;
      group(g).decided = true;
      group(g).inner = reduce->dims;
      return true;
    }
    if (std::holds_alternative<Contract>(*entry.op)) return false;
    const std::int64_t count = entry.shape.numel();
    if (count == home.space.numel()) {
      const View full = View::contiguous(home.space);
      if (operands_fit(e, g, full)) return add_member(e, g, full);
    }
    if (home.decided && home.contraction < 0 && count == rows_of(home.space, home.inner)) {
      const View row = row_map(home.space, home.inner);
      if (operands_fit(e, g, row)) return add_member(e, g, row);
    }
    return false;
  }

  bool add_member(int e, int g, View map) {
    Group& home = group(g);
    home.members.push_back({e, std::move(map)});
    group_of(e) = g;
    if (buffers_of(home, g) > kMaxBuffers) {
      home.members.pop_back();
      group_of(e) = -1;
      return false;
    }
    return true;
  }

  // With e computed at `map` in group g: every operand in g is used at exactly the positions where it is computed,
  // and every other operand can be loaded through a view.
  bool operands_fit(int e, int g, const View& map) {
    const Entry& entry = entries_[index(e)];
    for (std::size_t i = 0; i < entry.operands.size(); ++i) {
      const Entry::Operand& operand = entry.operands[i];
      if (operand.entry < 0) continue;
      const std::optional<View> positions = positions_of(e, operand, map);
      if (!positions) return false;
      if (group_of(operand.entry) != g) continue;
      if (reads_anywhere(*entry.op, i) || !same_positions(*positions, member_map(g, operand.entry))) return false;
    }
    return true;
  }

  // Where an operand is read when its reader is computed at `map`. A reduction's operands fill the whole space.
  std::optional<View> positions_of(int reader, const Entry::Operand& operand, const View& map) {
    if (std::holds_alternative<Reduce>(*entries_[index(reader)].op)) return operand.view;
    return compose(map, operand.view);
  }

  const View& member_map(int g, int e) {
    for (const Group::Member& member : group(g).members) {
      if (member.entry == e) return member.map;
    }
    fail_invariant("an entry is a member of its group", __FILE__, __LINE__);
  }

  int buffers_of(const Group& home, int g) {
    std::vector<int> loaded;
    int stored = 0;
    for (const Group::Member& member : home.members) {
      for (const Entry::Operand& operand : entries_[index(member.entry)].operands) {
        const int source = operand.entry;
        if (source < 0 || group_of(source) == g || computed_in_place(source)) continue;
        if (std::find(loaded.begin(), loaded.end(), source) == loaded.end()) loaded.push_back(source);
      }
      const std::vector<int>& readers = consumers_[index(member.entry)];
      stored += entries_[index(member.entry)].wanted ||
                std::any_of(readers.begin(), readers.end(), [&](int r) { return group_of(r) != g; });
    }
    return static_cast<int>(loaded.size()) + stored;
  }

  bool computed_in_place(int e) {
    return !entries_[index(e)].given && group_of(e) < 0 && is_source(*entries_[index(e)].op);
  }

  // Does an operand of e, computed by another group, need group g to run first?
  bool depends_on_any_operand(int e, int g) {
    for (const int other : operand_groups(e)) {
      if (other != g && depends(other, g)) return true;
    }
    return false;
  }

  // Whether group a needs the result of group b, directly or through others.
  bool depends(int a, int b, bool ignore_direct = false) {
    visited_.assign(fusion_.groups.size(), false);
    std::vector<int> stack{a};
    while (!stack.empty()) {
      const int g = stack.back();
      stack.pop_back();
      for (const Group::Member& member : group(g).members) {
        for (const int needed : operand_groups(member.entry)) {
          if (needed == g || visited_[index(needed)]) continue;
          if (needed == b) {
            if (g == a && ignore_direct) continue;
            return true;
          }
          visited_[index(needed)] = true;
          stack.push_back(needed);
        }
      }
    }
    return false;
  }

  // Moves group `from` into `into` if that is allowed; returns the group where `into`'s members live afterwards.
  int merge(int from, int into) {
    if (group(from).alone || group(into).alone) return into;
    if (static_cast<int>(group(from).members.size() + group(into).members.size()) > kMaxMembers) return into;
    if (depends(into, from, true) || depends(from, into)) return into;
    std::optional<std::vector<View>> maps = maps_in_same_space(from, into);
    if (!maps) maps = maps_when_inlined(from, into);
    if (!maps || !cross_reads_match(from, into, *maps)) return into;

    const Group saved_from = group(from);
    const Group saved_into = group(into);
    Group& home = group(into);
    for (std::size_t i = 0; i < saved_from.members.size(); ++i) {
      home.members.push_back({saved_from.members[i].entry, (*maps)[i]});
      group_of(saved_from.members[i].entry) = into;
    }
    if (saved_from.decided && saved_from.space == home.space) {
      home.decided = true;
      home.inner = saved_from.inner;
    }
    if (saved_from.contraction >= 0) home.contraction = saved_from.contraction;
    std::sort(home.members.begin(), home.members.end(),
              [](const Group::Member& a, const Group::Member& b) { return a.entry < b.entry; });
    group(from).members.clear();
    if (buffers_of(home, into) > kMaxBuffers) {
      group(from) = saved_from;
      group(into) = saved_into;
      for (const Group::Member& member : saved_from.members) group_of(member.entry) = from;
    }
    return into;
  }

  // The maps of `from`'s members when both groups run over the same space.
  std::optional<std::vector<View>> maps_in_same_space(int from, int into) {
    const Group& moved = group(from);
    const Group& home = group(into);
    if (moved.contraction >= 0 && home.contraction >= 0) return std::nullopt;
    if (moved.decided) {
      if (moved.space != home.space) return std::nullopt;
      if (home.decided && home.inner != moved.inner) return std::nullopt;
      // An epilogue has no reductions and no row values.
      if (moved.contraction >= 0 && has_reduction(home)) return std::nullopt;
      if (home.contraction >= 0 && has_reduction(moved)) return std::nullopt;
    }
    if (moved.space.numel() != home.space.numel()) return std::nullopt;
    std::vector<View> maps;
    for (const Group::Member& member : moved.members) {
      std::optional<View> map = member.map.reshaped(home.space);
      if (!map || !loads_exist(member.entry, from, *map)) return std::nullopt;
      maps.push_back(std::move(*map));
    }
    return maps;
  }

  bool has_reduction(const Group& home) {
    return std::any_of(home.members.begin(), home.members.end(), [&](const Group::Member& member) {
      return std::holds_alternative<Reduce>(*entries_[index(member.entry)].op);
    });
  }

  // The maps when `from` is a small elementwise group whose values only `into` reads, through broadcasts: they are
  // then recomputed wherever they are used, so that must be cheap.
  std::optional<std::vector<View>> maps_when_inlined(int from, int into) {
    const Group& moved = group(from);
    if (moved.decided || moved.contraction >= 0) return std::nullopt;
    std::vector<View> maps(moved.members.size());
    int cost = 0;
    bool hoisted = true;
    for (std::size_t i = moved.members.size(); i-- > 0;) {
      const int e = moved.members[i].entry;
      if (entries_[index(e)].wanted) return std::nullopt;
      std::optional<View> map;
      for (const int reader : consumers_[index(e)]) {
        const int g = group_of(reader);
        if (g != from && g != into) return std::nullopt;
        const View* reader_map = nullptr;
        if (g == into) {
          reader_map = &member_map(into, reader);
        } else {
          for (std::size_t j = i + 1; j < moved.members.size(); ++j) {
            if (moved.members[j].entry == reader) reader_map = &maps[j];
          }
        }
        LOCKSTEP_ASSERT(reader_map != nullptr);
        for (std::size_t o = 0; o < entries_[index(reader)].operands.size(); ++o) {
          const Entry::Operand& operand = entries_[index(reader)].operands[o];
          if (operand.entry != e) continue;
          if (reads_anywhere(*entries_[index(reader)].op, o)) return std::nullopt;
          std::optional<View> positions = positions_of(reader, operand, *reader_map);
          if (!positions || !positions->bounds.empty() || positions->offset != 0) return std::nullopt;
          if (map && !same_positions(*map, *positions)) return std::nullopt;
          map = std::move(positions);
        }
      }
      if (!map || !loads_exist(e, from, *map)) return std::nullopt;
      cost += is_cheap(*entries_[index(e)].op) ? 1 : kInlineCost + 1;
      hoisted = hoisted && is_hoisted(group(into), *map);
      maps[i] = std::move(*map);
    }
    if (!hoisted && cost > kInlineCost) return std::nullopt;
    return maps;
  }

  // Whether a value at `map` is computed once per long enough row.
  static bool is_hoisted(const Group& home, const View& map) {
    std::int64_t length = 1;
    for (int d = home.space.rank() - 1; d >= 0; --d) {
      if (home.decided) {
        if ((home.inner >> d & 1u) == 0) continue;
        if (map.strides[d] != 0) return false;
      } else if (map.strides[d] != 0) {
        break;
      }
      length *= home.space[d];
    }
    return length >= kHoistLength;
  }

  bool loads_exist(int e, int own_group, const View& map) {
    for (const Entry::Operand& operand : entries_[index(e)].operands) {
      if (operand.entry < 0 || group_of(operand.entry) == own_group) continue;
      if (!positions_of(e, operand, map)) return false;
    }
    return true;
  }

  // After the merge, values read across the two groups must be read where they are computed.
  bool cross_reads_match(int from, int into, const std::vector<View>& maps) {
    const auto new_map = [&](int e) -> const View& {
      const std::vector<Group::Member>& moved = group(from).members;
      for (std::size_t i = 0; i < moved.size(); ++i) {
        if (moved[i].entry == e) return maps[i];
      }
      return member_map(into, e);
    };
    const auto reads_match = [&](int e) {
      const Entry& entry = entries_[index(e)];
      for (std::size_t i = 0; i < entry.operands.size(); ++i) {
        const Entry::Operand& operand = entry.operands[i];
        if (operand.entry < 0) continue;
        const int g = group_of(operand.entry);
        if (g != from && g != into) continue;
        if (reads_anywhere(*entry.op, i)) return false;
        const std::optional<View> positions = positions_of(e, operand, new_map(e));
        if (!positions || !same_positions(*positions, new_map(operand.entry))) return false;
      }
      return true;
    };
    const auto all_match = [&](int g) {
      const std::vector<Group::Member>& members = group(g).members;
      return std::all_of(members.begin(), members.end(), [&](const Group::Member& m) { return reads_match(m.entry); });
    };
    return all_match(from) && all_match(into);
  }

  // Kahn's algorithm, earliest group first, so that kernels run in the order of the program where they can.
  void sort_groups() {
    const std::size_t count = fusion_.groups.size();
    std::vector<int> waiting(count, 0);
    std::vector<std::vector<int>> readers(count);
    for (std::size_t g = 0; g < count; ++g) {
      std::vector<int> needed;
      for (const Group::Member& member : fusion_.groups[g].members) {
        for (const int other : operand_groups(member.entry)) {
          if (other != static_cast<int>(g)) needed.push_back(other);
        }
      }
      std::sort(needed.begin(), needed.end());
      needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
      waiting[g] = static_cast<int>(needed.size());
      for (const int other : needed) readers[index(other)].push_back(static_cast<int>(g));
    }
    std::vector<int> ready;  // a min-heap by index
    const auto later = [](int a, int b) { return a > b; };
    for (std::size_t g = 0; g < count; ++g) {
      if (waiting[g] == 0) ready.push_back(static_cast<int>(g));
    }
    std::make_heap(ready.begin(), ready.end(), later);
    std::vector<int> position(count, -1);
    std::vector<Group> sorted;
    std::size_t done = 0;
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end(), later);
      const int g = ready.back();
      ready.pop_back();
      ++done;
      if (group_alive(g)) {
        position[index(g)] = static_cast<int>(sorted.size());
        sorted.push_back(std::move(group(g)));
      }
      for (const int reader : readers[index(g)]) {
        if (--waiting[index(reader)] == 0) {
          ready.push_back(reader);
          std::push_heap(ready.begin(), ready.end(), later);
        }
      }
    }
    LOCKSTEP_ASSERT(done == count);
    fusion_.groups = std::move(sorted);
    for (int& g : fusion_.group_of) g = g < 0 ? -1 : position[index(g)];
  }

  void mark_stored() {
    fusion_.stored.assign(entries_.size(), false);
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      if (fusion_.group_of[e] < 0) continue;
      const std::vector<int>& readers = consumers_[e];
      fusion_.stored[e] = entries_[e].wanted || std::any_of(readers.begin(), readers.end(), [&](int reader) {
                            return fusion_.group_of[index(reader)] != fusion_.group_of[e];
                          });
    }
  }

  const std::vector<Entry>& entries_;
  Fusion fusion_;
  std::vector<std::vector<int>> consumers_;
  std::vector<bool> stored_source_;
  std::vector<bool> visited_;
};

}  // namespace

bool reads_anywhere(const Primitive& op, std::size_t position) {
  return std::holds_alternative<Contract>(op) || is_irregular(op) ||
         (std::holds_alternative<Gather>(op) && position == 0);
}

bool is_source(const Primitive& op) {
  return std::holds_alternative<Full>(op) || std::holds_alternative<Iota>(op) || std::holds_alternative<Random>(op);
}

std::optional<View> compose(const View& outer, const View& inner) {
  if (!outer.bounds.empty()) return std::nullopt;
  if (outer.offset == 0 && outer.shape.numel() == inner.shape.numel() &&
      outer.strides == View::contiguous(outer.shape).strides) {
    return inner.reshaped(outer.shape);
  }
  if (outer.offset != 0) return std::nullopt;
  // Each dimension of `outer` must walk along one dimension of `inner`'s shape (or stand still).
  const View dense = View::contiguous(inner.shape);
  View result;
  result.shape = outer.shape;
  result.strides = Shape::filled(outer.rank(), 0);
  result.offset = inner.offset;
  result.fill = inner.fill;
  for (const Bound& bound : inner.bounds) {
    Bound copy = bound;
    copy.m = Shape::filled(outer.rank(), 0);
    result.bounds.push_back(copy);
  }
  std::uint32_t used = 0;
  for (int d = 0; d < outer.rank(); ++d) {
    if (outer.strides[d] == 0) continue;
    int along = -1;
    for (int s = 0; s < inner.shape.rank(); ++s) {
      if (inner.shape[s] != 1 && dense.strides[s] == outer.strides[d] && outer.shape[d] <= inner.shape[s]) along = s;
    }
    if (along < 0 || (used >> along & 1u) != 0) return std::nullopt;
    used |= 1u << along;
    result.strides[d] = inner.strides[along];
    for (std::size_t b = 0; b < inner.bounds.size(); ++b) result.bounds[b].m[d] = inner.bounds[b].m[along];
  }
  return result;
}

Fusion fuse(const std::vector<Entry>& entries) { return Fuser(entries).run(); }

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
