#include "graph/groups.h"

#include <algorithm>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Groups::Groups(const std::vector<Entry>& entries) : entries_(entries) {
  const std::size_t count = entries.size();
  fusion_.group_of.assign(count, -1);
  consumers_.resize(count);
  for (int e = 0; e < static_cast<int>(count); ++e) {
    for (const Entry::Operand& operand : entries[index(e)].operands) {
      if (operand.entry >= 0) consumers_[index(operand.entry)].push_back(e);
    }
  }
}

std::vector<int> Groups::operand_groups(int e) {
  std::vector<int> groups;
  for (const Entry::Operand& operand : entries_[index(e)].operands) {
    const int g = operand.entry < 0 ? -1 : group_of(operand.entry);
    if (g >= 0 && std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
  }
  return groups;
}

const View& Groups::member_map(int g, int e) {
  for (const Group::Member& member : group(g).members) {
    if (member.entry == e) return member.map;
  }
  fail_invariant("an entry is a member of its group", __FILE__, __LINE__);
}

int Groups::buffers_of(const Group& home, int g) {
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

bool Groups::computed_in_place(int e) {
  return !entries_[index(e)].given && group_of(e) < 0 && form_of(*entries_[index(e)].op) == Form::source;
}

bool Groups::depends_on_any_operand(int e, int g) {
  for (const Entry::Operand& operand : entries_[index(e)].operands) {
    const int other = operand.entry < 0 ? -1 : group_of(operand.entry);
    if (other >= 0 && other != g && depends(other, g)) return true;
  }
  return false;
}

void Groups::joined(int e, int g) {
  newest_.resize(fusion_.groups.size(), -1);
  raise_newest(g, e);
}

void Groups::merged(int from, int into) {
  const int newest = std::max(newest_[index(from)], newest_[index(into)]);
  newest_[index(into)] = -1;  // those that needed `from` need `into` now
  raise_newest(into, newest);
}

void Groups::raise_newest(int g, int e) {
  stack_.assign(1, g);
  while (!stack_.empty()) {
    const int raised = stack_.back();
    stack_.pop_back();
    if (newest_[index(raised)] >= e) continue;
    newest_[index(raised)] = e;
    for (const Group::Member& member : group(raised).members) {
      for (const int reader : consumers_[index(member.entry)]) {
        if (group_of(reader) >= 0) stack_.push_back(group_of(reader));
      }
    }
  }
}

// Who reads an entry is newer. So a group whose entries, with those of all that it needs, are older than b's does not
// need b; that ends most searches at once.
bool Groups::depends(int a, int b, bool ignore_direct) {
  const int oldest = group(b).members.front().entry;
  visited_.resize(fusion_.groups.size(), 0);
  ++searches_;
  stack_.assign(1, a);
  while (!stack_.empty()) {
    const int g = stack_.back();
    stack_.pop_back();
    if (newest_[index(g)] < oldest) continue;
    for (const Group::Member& member : group(g).members) {
      for (const Entry::Operand& operand : entries_[index(member.entry)].operands) {
        const int needed = operand.entry < 0 ? -1 : group_of(operand.entry);
        if (needed < 0 || needed == g || visited_[index(needed)] == searches_) continue;
        if (needed == b) {
          if (g == a && ignore_direct) continue;
          return true;
        }
        visited_[index(needed)] = searches_;
        stack_.push_back(needed);
      }
    }
  }
  return false;
}

Fusion Groups::finish() {
  sort_groups();
  mark_stored();
  return std::move(fusion_);
}

// Kahn's algorithm, earliest group first, so that kernels run in the order of the program where they can.
void Groups::sort_groups() {
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

void Groups::mark_stored() {
  fusion_.stored.assign(entries_.size(), false);
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    if (fusion_.group_of[e] < 0) continue;
    const std::vector<int>& readers = consumers_[e];
    fusion_.stored[e] = entries_[e].wanted || std::any_of(readers.begin(), readers.end(), [&](int reader) {
                          return fusion_.group_of[index(reader)] != fusion_.group_of[e];
                        });
  }
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
