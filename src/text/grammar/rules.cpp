#include "text/grammar/rules.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using Kind = Grammar::Rules::Kind;

constexpr std::size_t kMostSymbols = 200000;
constexpr char32_t kLast = 0x10ffff;

using ByteRange = std::pair<unsigned char, unsigned char>;

// The sequences of byte ranges that are exactly the characters of a range whose UTF-8 has `size` bytes: cut until only
// a whole run of continuation bytes follows what differs.
void byte_ranges(CharacterRange range, std::size_t size, std::vector<std::vector<ByteRange>>& result) {
  for (std::size_t i = 1; i < size; ++i) {
    const char32_t mask = (char32_t{1} << (6 * i)) - 1;
    if ((range.first & ~mask) == (range.second & ~mask)) continue;
    if ((range.first & mask) != 0) {
      byte_ranges({range.first, range.first | mask}, size, result);
      byte_ranges({(range.first | mask) + 1, range.second}, size, result);
      return;
    }
    if ((range.second & mask) != mask) {
      byte_ranges({range.first, (range.second & ~mask) - 1}, size, result);
      byte_ranges({range.second & ~mask, range.second}, size, result);
      return;
    }
  }
  const std::string low = encode_utf8(range.first);
  const std::string high = encode_utf8(range.second);
  std::vector<ByteRange>& sequence = result.emplace_back();
  for (std::size_t i = 0; i < size; ++i) {
    sequence.emplace_back(static_cast<unsigned char>(low[i]), static_cast<unsigned char>(high[i]));
  }
}

ByteSet set_of(ByteRange range) {
  ByteSet set;
  for (std::size_t byte = range.first; byte <= range.second; ++byte) set.set(byte);
  return set;
}

// Which rules derive a text of the sets of bytes that are `allowed`, in time that grows with the symbols alone.
std::vector<bool> derivable_rules(const Grammar::Rules& rules, const std::function<bool(const ByteSet&)>& allowed) {
  const std::size_t count = rules.alternatives.size();
  std::vector<bool> derivable(count, false);
  std::vector<std::uint32_t> work;
  std::vector<std::pair<std::uint32_t, std::size_t>> sequences;  // whose, and how many rules of it are left
  std::vector<std::vector<std::uint32_t>> occurrences(count);    // in these
  const auto found = [&](std::uint32_t rule) {
    if (!derivable[rule]) work.push_back(rule);
    derivable[rule] = true;
  };
  for (std::uint32_t rule = 0; rule < count; ++rule) {
    for (const std::uint32_t first : rules.alternatives[rule]) {
      std::vector<std::uint32_t> inside;
      std::uint32_t at = first;
      for (; rules.symbols[at].kind != Kind::end; ++at) {
        if (rules.symbols[at].kind == Kind::rule) {
          inside.push_back(rules.symbols[at].index);
        } else if (!allowed(rules.sets[rules.symbols[at].index])) {
          break;
        }
      }
      if (rules.symbols[at].kind != Kind::end) continue;
      if (inside.empty()) found(rule);
      for (const std::uint32_t part : inside) occurrences[part].push_back(static_cast<std::uint32_t>(sequences.size()));
      sequences.emplace_back(rule, inside.size());
    }
  }
  while (!work.empty()) {
    const std::uint32_t rule = work.back();
    work.pop_back();
    for (const std::uint32_t sequence : occurrences[rule]) {
      if (--sequences[sequence].second == 0) found(sequences[sequence].first);
    }
  }
  return derivable;
}

// Leaves out what no text ends with, e.g. a rule that always needs itself: an answer would be lost in it.
void drop_endless(Grammar::Rules& rules) {
  const std::vector<bool> ends = derivable_rules(rules, [](const ByteSet& set) { return set.any(); });
  const auto endless = [&](std::uint32_t at) {
    for (; rules.symbols[at].kind != Kind::end; ++at) {
      const bool is_rule = rules.symbols[at].kind == Kind::rule;
      if (is_rule ? !ends[rules.symbols[at].index] : rules.sets[rules.symbols[at].index].none()) return true;
    }
    return false;
  };
  for (auto& sequences : rules.alternatives) std::erase_if(sequences, endless);
}

struct LeftEdge {
  std::uint32_t to = 0;
  bool last = false;  // nothing follows: the stack does not grow
};

// From each rule to those that a text of it may begin with.
std::vector<std::vector<LeftEdge>> left_edges(const Grammar::Rules& rules) {
  const std::vector<bool> nullable = derivable_rules(rules, [](const ByteSet&) { return false; });
  std::vector<std::vector<LeftEdge>> edges(rules.alternatives.size());
  for (std::size_t rule = 0; rule < edges.size(); ++rule) {
    for (std::uint32_t at : rules.alternatives[rule]) {
      for (; rules.symbols[at].kind == Kind::rule; ++at) {
        edges[rule].push_back({rules.symbols[at].index, rules.symbols[at + 1].kind == Kind::end});
        if (!nullable[rules.symbols[at].index]) break;
      }
    }
  }
  return edges;
}

// Strongly connected components, without recursion (Kosaraju): a number for each rule.
std::vector<std::uint32_t> components_of(const std::vector<std::vector<LeftEdge>>& edges) {
  const std::size_t count = edges.size();
  std::vector<std::vector<std::uint32_t>> back(count);
  for (std::uint32_t rule = 0; rule < count; ++rule) {
    for (const LeftEdge& edge : edges[rule]) back[edge.to].push_back(rule);
  }
  std::vector<std::uint32_t> order;
  std::vector<bool> seen(count, false);
  std::vector<std::pair<std::uint32_t, std::size_t>> path;
  for (std::uint32_t start = 0; start < count; ++start) {
    if (!seen[start]) path.emplace_back(start, 0);
    seen[start] = true;
    while (!path.empty()) {
      auto& [rule, at] = path.back();
      if (at == edges[rule].size()) {
        order.push_back(rule);
        path.pop_back();
        continue;
      }
      const std::uint32_t to = edges[rule][at++].to;
      if (!seen[to]) path.emplace_back(to, 0);
      seen[to] = true;
    }
  }
  std::vector<std::uint32_t> component(count, UINT32_MAX);
  std::vector<std::uint32_t> work;
  for (std::size_t i = count; i-- > 0;) {
    if (component[order[i]] != UINT32_MAX) continue;
    work = {order[i]};
    while (!work.empty()) {
      const std::uint32_t rule = work.back();
      work.pop_back();
      if (component[rule] != UINT32_MAX) continue;
      component[rule] = order[i];
      for (const std::uint32_t from : back[rule]) {
        if (component[from] == UINT32_MAX) work.push_back(from);
      }
    }
  }
  return component;
}

bool left_recursive(const Grammar::Rules& rules) {
  const std::vector<std::vector<LeftEdge>> edges = left_edges(rules);
  const std::vector<std::uint32_t> component = components_of(edges);
  for (std::size_t rule = 0; rule < edges.size(); ++rule) {
    for (const LeftEdge& edge : edges[rule]) {
      if (!edge.last && component[edge.to] == component[rule]) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<CharacterRange> normal_ranges(std::vector<CharacterRange> ranges, bool negated) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<CharacterRange> merged;
  for (const CharacterRange& range : ranges) {
    if (!merged.empty() && range.first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, range.second);
    } else {
      merged.push_back(range);
    }
  }
  if (negated) {
    std::vector<CharacterRange> others;
    char32_t next = 0;
    for (const CharacterRange& range : merged) {
      if (range.first > next) others.emplace_back(next, range.first - 1);
      next = range.second + 1;
    }
    if (next <= kLast) others.emplace_back(next, kLast);
    merged = std::move(others);
  }
  std::vector<CharacterRange> result;
  for (const CharacterRange& range : merged) {
    const CharacterRange before{range.first, std::min<char32_t>(range.second, 0xd7ff)};
    const CharacterRange behind{std::max<char32_t>(range.first, 0xe000), range.second};
    if (before.first <= before.second) result.push_back(before);
    if (behind.first <= behind.second) result.push_back(behind);
  }
  return result;
}

std::uint32_t RulesBuilder::new_rule() {
  rules_.alternatives.emplace_back();
  return static_cast<std::uint32_t>(rules_.alternatives.size() - 1);
}

void RulesBuilder::check_room(std::size_t more) const {
  if (rules_.symbols.size() + more > kMostSymbols) {
    throw FormatError(fmt::format("{}: the grammar has more than {} symbols", file_, kMostSymbols));
  }
}

void RulesBuilder::add(std::uint32_t rule, const Sequence& sequence) {
  check_room(sequence.size() + 1);
  rules_.alternatives[rule].push_back(static_cast<std::uint32_t>(rules_.symbols.size()));
  rules_.symbols.insert(rules_.symbols.end(), sequence.begin(), sequence.end());
  rules_.symbols.push_back({});
}

RulesBuilder::Symbol RulesBuilder::bytes(const ByteSet& set) {
  const auto [found, added] = sets_.emplace(set.to_string(), static_cast<std::uint32_t>(rules_.sets.size()));
  if (added) rules_.sets.push_back(set);
  return {Kind::bytes, found->second};
}

RulesBuilder::Symbol RulesBuilder::characters(std::vector<CharacterRange> ranges, bool negated) {
  ranges = normal_ranges(std::move(ranges), negated);
  const auto known = classes_.find(ranges);
  if (known != classes_.end()) return known->second;
  ByteSet ascii;
  std::vector<std::vector<ByteRange>> sequences;
  constexpr char32_t kFirstOfSize[] = {0, 0x80, 0x800, 0x10000, kLast + 1};
  for (std::size_t size = 1; size <= 4; ++size) {
    for (const CharacterRange& range : ranges) {
      const CharacterRange part{std::max(range.first, kFirstOfSize[size - 1]),
                                std::min<char32_t>(range.second, kFirstOfSize[size] - 1)};
      if (part.first > part.second) continue;
      if (size > 1) {
        byte_ranges(part, size, sequences);
      } else {
        ascii |= set_of({static_cast<unsigned char>(part.first), static_cast<unsigned char>(part.second)});
      }
    }
  }
  Symbol result = bytes(ascii);
  if (!sequences.empty()) {
    const std::uint32_t whole = new_rule();
    if (ascii.any()) add(whole, {result});
    for (const auto& sequence : sequences) {
      Sequence symbols;
      for (const ByteRange& range : sequence) symbols.push_back(bytes(set_of(range)));
      add(whole, symbols);
    }
    result = rule(whole);
  }
  classes_.emplace(std::move(ranges), result);
  return result;
}

RulesBuilder::Sequence RulesBuilder::repeated(const Symbol& symbol, std::int64_t least, std::int64_t most) {
  Sequence result(static_cast<std::size_t>(least), symbol);
  if (most < 0) {
    const std::uint32_t more = new_rule();
    add(more, {symbol, rule(more)});
    add(more, {});
    result.push_back(rule(more));
    return result;
  }
  // x{0,3} is (x (x (x)?)?)?
  Sequence inner;
  for (std::int64_t i = least; i < most; ++i) {
    Sequence one{symbol};
    one.insert(one.end(), inner.begin(), inner.end());
    const std::uint32_t option = new_rule();
    add(option, one);
    add(option, {});
    inner = {rule(option)};
  }
  result.insert(result.end(), inner.begin(), inner.end());
  return result;
}

Grammar RulesBuilder::finish(std::uint32_t root) {
  rules_.root = root;
  drop_endless(rules_);
  if (rules_.alternatives[root].empty()) throw FormatError(fmt::format("{}: the grammar has no text", file_));
  if (left_recursive(rules_)) {
    throw FormatError(fmt::format("{}: a rule begins with itself (left recursion)", file_));
  }
  return Grammar(std::make_shared<const Grammar::Rules>(std::move(rules_)));
}

Grammar followed_by(const Grammar& first, const Grammar& second) {
  Grammar::Rules rules = *first.rules();
  const Grammar::Rules& more = *second.rules();
  if (rules.symbols.size() + more.symbols.size() > kMostSymbols) {
    throw FormatError(fmt::format("the grammar has more than {} symbols", kMostSymbols));
  }
  const auto symbols = static_cast<std::uint32_t>(rules.symbols.size());
  const auto sets = static_cast<std::uint32_t>(rules.sets.size());
  const auto count = static_cast<std::uint32_t>(rules.alternatives.size());
  for (Grammar::Rules::Symbol symbol : more.symbols) {
    if (symbol.kind != Kind::end) symbol.index += symbol.kind == Kind::rule ? count : sets;
    rules.symbols.push_back(symbol);
  }
  rules.sets.insert(rules.sets.end(), more.sets.begin(), more.sets.end());
  for (std::vector<std::uint32_t> sequences : more.alternatives) {
    for (std::uint32_t& at : sequences) at += symbols;
    rules.alternatives.push_back(std::move(sequences));
  }
  rules.alternatives.push_back({static_cast<std::uint32_t>(rules.symbols.size())});
  rules.symbols.insert(rules.symbols.end(), {{Kind::rule, rules.root}, {Kind::rule, count + more.root}, {}});
  rules.root = static_cast<std::uint32_t>(rules.alternatives.size() - 1);
  return Grammar(std::make_shared<const Grammar::Rules>(std::move(rules)));
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
