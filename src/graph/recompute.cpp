#include "graph/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/maps.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Where nothing is narrower, what a value that is computed again may take.
constexpr int kOneOp = 1;

class Recompute {
 public:
  Recompute(const std::vector<Entry>& entries, Fusion& fusion)
      : entries_(entries), fusion_(fusion), readers_(entries.size()) {
    fusion_.recomputed.assign(entries.size(), false);
    for (std::size_t e = 0; e < entries.size(); ++e) {
      if (fusion_.group_of[e] < 0) continue;
      for (std::size_t o = 0; o < entries[e].operands.size(); ++o) {
        const int read = entries[e].operands[o].entry;
        if (read >= 0) readers_[index(read)].push_back({static_cast<int>(e), o});
      }
    }
  }

  void run() {
    bool any = false;
    for (std::size_t e = 0; e < entries_.size(); ++e) any = choose(static_cast<int>(e)) || any;
    if (!any) return;
    for (int g = 0; g < static_cast<int>(fusion_.groups.size()); ++g) drop_unused(g);
  }

 private:
  struct Reader {
    int entry;
    std::size_t operand;
  };
  /// What one group loads to compute a value again.
  struct Again {
    std::set<int> leaves;
    std::set<int> through;  ///< other values that it computes again on the way
    int cost = 0;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const Entry& entry(int e) const { return entries_[index(e)]; }
  int group_of(int e) const { return fusion_.group_of[index(e)]; }
  bool is_stored(int e) const { return entry(e).given || fusion_.stored[index(e)]; }
  std::int64_t bytes(int e) const {
    return entry(e).shape.numel() * static_cast<std::int64_t>(size_of(entry(e).dtype));
  }
  bool is_elements(int e) const {
    return !entry(e).given && form_of(*entry(e).op) == Form::elementwise && traits_of(*entry(e).op).reads_anywhere == 0;
  }
  // Nothing is stored: what reads it has its own.
  bool is_in_place(int e) const {
    return !entry(e).given && group_of(e) < 0 && !std::holds_alternative<Random>(*entry(e).op);
  }

  // Whether what computes `reader` again does so with `e`, too.
  bool is_again(int e, const Entry& reader) const {
    if (fusion_.recomputed[index(e)]) return true;
    return !is_stored(e) && is_elements(e) && size_of(entry(e).dtype) > 2 &&
           entry(e).shape.numel() * kFewer > reader.shape.numel();
  }

  const View* member_map(int g, int e) const {
    for (const Group::Member& member : fusion_.groups[index(g)].members) {
      if (member.entry == e) return &member.map;
    }
    return nullptr;
  }

  static std::optional<View> positions(const Entry& reader, const Entry::Operand& operand, const View& map) {
    if (form_of(*reader.op) == Form::rows) return operand.view;
    return compose(map, operand.view);
  }

  // Whether group g can compute e at `map`; adds what it loads for that.
  bool compute(int e, const View& map, int g, Again& again) const {
    const Entry& self = entry(e);
    if (const auto* op = std::get_if<Elementwise>(self.op)) again.cost += info_of(op->op).is_cheap ? 1 : kDearOp;
    if (again.cost > kMostAgain) return false;
    for (const Entry::Operand& operand : self.operands) {
      if (operand.entry < 0) continue;
      const int read = operand.entry;
      const std::optional<View> at = compose(map, operand.view);
      if (!at) return false;
      if (group_of(read) == g && !entry(read).given) {
        if (!same_positions(*at, *member_map(g, read))) return false;
      } else if (is_in_place(read)) {
        continue;
      } else if (is_again(read, self)) {
        again.through.insert(read);
        if (!compute(read, *at, g, again)) return false;
      } else if (is_stored(read) || group_of(read) >= 0) {
        again.leaves.insert(read);
      } else {
        return false;
      }
    }
    return true;
  }

  // The groups that read e besides its own, with what they would load. Nothing where one of them needs e in memory.
  std::optional<std::map<int, Again>> plan(int e) const {
    std::map<int, Again> result;
    for (const Reader& reader : readers_[index(e)]) {
      const Entry& self = entry(reader.entry);
      const int g = group_of(reader.entry);
      if (g == group_of(e)) continue;
      const Form form = form_of(*self.op);
      if ((form != Form::elementwise && form != Form::rows) || reads_anywhere(*self.op, reader.operand)) {
        return std::nullopt;
      }
      const View* const map = member_map(g, reader.entry);
      if (map == nullptr || fusion_.recomputed[index(reader.entry)]) return std::nullopt;
      const std::optional<View> at = positions(self, self.operands[reader.operand], *map);
      Again& again = result[g];
      again.cost = 0;
      if (!at || !compute(e, *at, g, again)) return std::nullopt;
    }
    return result;
  }

  // The entries that group g loads.
  void add_loads(int e, int g, std::set<int>& loads) const {
    for (const Entry::Operand& operand : entry(e).operands) {
      const int read = operand.entry;
      if (read < 0 || group_of(read) == g || is_in_place(read)) continue;
      if (fusion_.recomputed[index(read)]) {
        add_loads(read, g, loads);
      } else {
        loads.insert(read);
      }
    }
  }
  std::set<int> loads_of(int g) const {
    std::set<int> loads;
    for (const Group::Member& member : fusion_.groups[index(g)].members) add_loads(member.entry, g, loads);
    return loads;
  }
  bool fits(int g) const {
    std::size_t buffers = loads_of(g).size();
    for (const Group::Member& member : fusion_.groups[index(g)].members) {
      buffers += fusion_.stored[index(member.entry)] ? 1 : 0;
    }
    return buffers <= static_cast<std::size_t>(kMaxBuffers);
  }

  bool choose(int e) {
    if (group_of(e) < 0 || !fusion_.stored[index(e)] || entry(e).wanted) return false;
    if (!is_elements(e) || entry(e).dtype != DType::f32) return false;
    const std::optional<std::map<int, Again>> groups = plan(e);
    if (!groups || groups->empty()) return false;
    const std::int64_t elements = entry(e).shape.numel();
    std::int64_t before = bytes(e);
    std::int64_t after = 0;
    bool narrower = false;
    int cost = 0;
    std::set<int> newly;  // stored
    std::set<int> chosen{e};
    std::set<int> concerned{group_of(e)};
    for (const auto& [g, again] : *groups) {
      before += bytes(e);
      const std::set<int> loads = loads_of(g);
      if (fusion_.groups[index(g)].space.numel() > elements) return false;  // each element several times
      for (const int leaf : again.leaves) {
        narrower = narrower || (size_of(entry(leaf).dtype) == 2 && entry(leaf).shape.numel() == elements);
        if (!loads.contains(leaf)) after += bytes(leaf);
        if (!is_stored(leaf)) newly.insert(leaf);
      }
      cost = std::max(cost, again.cost);
      concerned.insert(g);
      for (const int value : again.through) {
        if (!fusion_.recomputed[index(value)]) chosen.insert(value);
      }
    }
    for (const int leaf : newly) {
      after += bytes(leaf);
      concerned.insert(group_of(leaf));
    }
    if (after >= before || (!narrower && cost > kOneOp)) return false;
    const auto set = [&](bool again) {
      for (const int value : chosen) fusion_.recomputed[index(value)] = again;
      fusion_.stored[index(e)] = !again;
      for (const int leaf : newly) fusion_.stored[index(leaf)] = again;
    };
    set(true);
    if (std::all_of(concerned.begin(), concerned.end(), [&](int g) { return fits(g); })) return true;
    set(false);
    return false;
  }

  // The members of group g that its computation of e takes.
  void add_used(int e, int g, std::set<int>& used) const {
    for (const Entry::Operand& operand : entry(e).operands) {
      const int read = operand.entry;
      if (read < 0) continue;
      if (group_of(read) == g) {
        used.insert(read);
      } else if (fusion_.recomputed[index(read)]) {
        add_used(read, g, used);
      }
    }
  }

  // Members that nothing in the group needs any more.
  void drop_unused(int g) {
    std::vector<Group::Member>& members = fusion_.groups[index(g)].members;
    std::set<int> used;
    std::vector<Group::Member> kept;
    for (std::size_t i = members.size(); i-- > 0;) {
      const int e = members[i].entry;
      if (!fusion_.stored[index(e)] && !used.contains(e)) continue;
      add_used(e, g, used);
      kept.push_back(std::move(members[i]));
    }
    members.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  }

  const std::vector<Entry>& entries_;
  Fusion& fusion_;
  std::vector<std::vector<Reader>> readers_;
};

}  // namespace

void choose_recomputed(const std::vector<Entry>& entries, Fusion& fusion) {
  Recompute(entries, fusion).run();
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
