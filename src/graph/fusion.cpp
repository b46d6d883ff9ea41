#include "graph/fusion.h"

#include <algorithm>

#include "core/assert.h"
#include "core/overloaded.h"
#include "graph/maps.h"
#include "graph/recompute.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// A kernel stays small enough to compile quickly.
constexpr int kMaxMembers = 48;
// A broadcast producer that is evaluated once per row pays off from rows of this length on.
constexpr std::int64_t kHoistLength = 16;
// Otherwise it may cost this many cheap operations per element of its reader.
constexpr int kInlineCost = 2;

[[noreturn]] void fail_not_computed() {
  fail_invariant("given values and views are computed by no kernel", __FILE__, __LINE__);
}

class Fuser : private Groups {
 public:
  explicit Fuser(const std::vector<Entry>& entries) : Groups(entries) {
    stored_source_.assign(entries.size(), false);
    for (const Entry& entry : entries) {
      for (std::size_t i = 0; i < entry.operands.size(); ++i) {
        const Entry::Operand& operand = entry.operands[i];
        if (operand.entry < 0 || form_of(*entries[index(operand.entry)].op) != Form::source) continue;
        const bool in_place = operand.view.bounds.empty() && !reads_anywhere(*entry.op, i);
        if (!in_place) stored_source_[index(operand.entry)] = true;
      }
    }
  }

  Fusion run() {
    for (int e = 0; e < static_cast<int>(entries_.size()); ++e) {
      if (!entries_[index(e)].given) place(e);
    }
    return finish();
  }

 private:
  void place(int e) {
    const Entry& entry = entries_[index(e)];
    switch (form_of(*entry.op)) {
      case Form::source:
        if (entry.wanted || stored_source_[index(e)]) start_group(e);
        return;
      case Form::irregular: group(start_group(e)).alone = true; return;
      case Form::elementwise:
      case Form::rows:
      case Form::contraction: join_operands(e); return;
      case Form::given:
      case Form::view: fail_not_computed();
    }
  }

  void join_operands(int e) {
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

  int start_group(int e) {
    const Entry& entry = entries_[index(e)];
    Group fresh;
    fresh.space = entry.shape;
    View map = View::contiguous(entry.shape);
    visit_primitive(overloaded{
                        [&](const Reduce& reduce) {
                          fresh.space = entry.operands[0].view.shape;
                          fresh.decided = true;
                          fresh.inner = reduce.dims;
                          map = row_map(fresh.space, fresh.inner);
                        },
                        [&](const Contract& contract) {
                          fresh.contraction = e;
                          fresh.decided = true;
                          const int outer = contract.b.rank() + contract.m.rank();
                          for (int d = outer; d < fresh.space.rank(); ++d) fresh.inner |= 1u << d;
                        },
                        [](const OneOf<Full, Iota, Random, Elementwise, Cast, Gather, Scatter, Scan, Sort, Update,
                                       Fourier, Attend, Recur> auto&) {},
                        [](const OneOf<Data, ViewOf> auto&) { fail_not_computed(); },
                    },
                    *entry.op);
    fresh.members.push_back({e, std::move(map)});
    fusion_.groups.push_back(std::move(fresh));
    const int g = static_cast<int>(fusion_.groups.size()) - 1;
    group_of(e) = g;
    joined(e, g);
    return g;
  }

  // Whether entry e may be computed in group g, its other operands being loaded; joins it if so.
  bool join(int e, int g) {
    const Entry& entry = entries_[index(e)];
    Group& home = group(g);
    if (home.alone || (home.space.rank() == 0 && entry.shape.numel() != 1)) return false;
    if (static_cast<int>(home.members.size()) >= kMaxMembers || depends_on_any_operand(e, g)) return false;
    return visit_primitive(
        overloaded{
            [&](const OneOf<Elementwise, Cast, Gather> auto&) { return join_elements(e, g); },
            [&](const Reduce& reduce) { return join_reduction(e, g, reduce); },
            [](const OneOf<Full, Iota, Random, Contract, Scatter, Scan, Sort, Update, Fourier, Attend, Recur> auto&) {
              return false;
            },
            [](const OneOf<Data, ViewOf> auto&) -> bool { fail_not_computed(); },
        },
        *entry.op);
  }

  bool join_reduction(int e, int g, const Reduce& reduce) {
    Group& home = group(g);
    if (home.contraction >= 0 || entries_[index(e)].operands[0].view.shape != home.space) return false;
    if (home.decided && home.inner != reduce.dims) return false;
    const View full = View::contiguous(home.space);
    if (!operands_fit(e, g, full)) return false;
    if (!add_member(e, g, row_map(home.space, reduce.dims))) return false;
    home.decided = true;
    home.inner = reduce.dims;
    return true;
  }

  bool join_elements(int e, int g) {
    Group& home = group(g);
    const std::int64_t count = entries_[index(e)].shape.numel();
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
    joined(e, g);
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
    if (form_of(*entries_[index(reader)].op) == Form::rows) return operand.view;
    return compose(map, operand.view);
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
    } else {
      merged(from, into);
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
      return form_of(*entries_[index(member.entry)].op) == Form::rows;
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

  std::vector<bool> stored_source_;
};

}  // namespace

Fusion fuse(const std::vector<Entry>& entries) {
  Fusion fusion = Fuser(entries).run();
  choose_recomputed(entries, fusion);
  return fusion;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
