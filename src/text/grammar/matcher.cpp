#include "text/grammar/matcher.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

constexpr std::size_t kMostStacks = 10000;
// Some 20 MiB.
constexpr std::size_t kMostStates = std::size_t{1} << 16;
constexpr std::size_t kMostSteps = std::size_t{1} << 18;
constexpr std::size_t kMostNodes = std::size_t{1} << 18;

std::uint64_t key_of(std::uint32_t place, std::uint32_t below) {
  return std::uint64_t{place} << 32 | below;
}

}  // namespace

GrammarMatcher::GrammarMatcher(Grammar grammar)
    : grammar_(std::move(grammar)), rules_(grammar_.rules().get()), most_nodes_(kMostNodes) {
  forget();
  Stacks stacks;
  for (const std::uint32_t first : rules_->alternatives[rules_->root]) expand({first, kDone}, stacks);
  start_ = intern(std::move(stacks));
}

void GrammarMatcher::forget() {
  nodes_.assign(1, Node{});
  node_numbers_.clear();
  states_.assign(1, Stacks{UINT32_MAX});  // kDead: neither complete nor with a stack
  state_numbers_.clear();
  steps_.clear();
}

std::uint32_t GrammarMatcher::node(Node value) {
  const auto [found, added] =
      node_numbers_.emplace(key_of(value.place, value.below), static_cast<std::uint32_t>(nodes_.size()));
  if (added) nodes_.push_back(value);
  return found->second;
}

GrammarMatcher::State GrammarMatcher::intern(Stacks stacks) {
  std::sort(stacks.begin(), stacks.end());
  stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
  if (stacks.empty()) return kDead;
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a of numbers
  for (const std::uint32_t stack : stacks) hash = (hash ^ stack) * 1099511628211u;
  std::vector<State>& same = state_numbers_[hash];
  for (const State state : same) {
    if (states_[state] == stacks) return state;
  }
  same.push_back(static_cast<State>(states_.size()));
  states_.push_back(std::move(stacks));
  return same.back();
}

// Every stack that reads a byte next, with rules replaced by their sequences. Left recursion has been refused, so that
// stacks grow a bounded number of times; a stack that comes twice is followed once.
void GrammarMatcher::expand(Node from, Stacks& result) {
  std::vector<Node> work{from};
  std::unordered_set<std::uint64_t> seen;
  while (!work.empty()) {
    const Node at = work.back();
    work.pop_back();
    if (!seen.insert(key_of(at.place, at.below)).second) continue;
    if (seen.size() > kMostStacks) {
      throw ValueError(fmt::format("the grammar is too ambiguous: more than {} ways to go on", kMostStacks));
    }
    const Grammar::Rules::Symbol symbol = rules_->symbols[at.place];
    switch (symbol.kind) {
      case Grammar::Rules::Kind::bytes: result.push_back(node(at)); break;
      case Grammar::Rules::Kind::end:
        if (at.below == kDone) {
          result.push_back(kDone);
        } else {
          work.push_back(nodes_[at.below]);
        }
        break;
      case Grammar::Rules::Kind::rule: {
        // What ends with a rule needs not be come back to, so that repetitions do not pile up.
        const bool last = rules_->symbols[at.place + 1].kind == Grammar::Rules::Kind::end;
        const std::uint32_t below = last ? at.below : node({at.place + 1, at.below});
        for (const std::uint32_t first : rules_->alternatives[symbol.index]) work.push_back({first, below});
        break;
      }
    }
  }
}

GrammarMatcher::State GrammarMatcher::next(State state, unsigned char byte) {
  if (state == kDead) return kDead;
  const std::uint64_t step = std::uint64_t{state} << 8 | byte;
  const auto known = steps_.find(step);
  if (known != steps_.end()) return known->second;
  Stacks stacks;
  const Stacks from = states_[state];
  for (const std::uint32_t stack : from) {
    if (stack == kDone) continue;
    const Node top = nodes_[stack];
    if (rules_->sets[rules_->symbols[top.place].index].test(byte)) expand({top.place + 1, top.below}, stacks);
    if (stacks.size() > kMostStacks) {
      throw ValueError(fmt::format("the grammar is too ambiguous: more than {} ways to go on", kMostStacks));
    }
  }
  const State result = intern(std::move(stacks));
  steps_.emplace(step, result);
  return result;
}

// A stack may be as deep as the text is long: no recursion.
std::uint32_t GrammarMatcher::copied(std::uint32_t from, const std::vector<Node>& old,
                                     std::unordered_map<std::uint32_t, std::uint32_t>& done) {
  std::vector<std::uint32_t> path;
  while (from != kDone && done.find(from) == done.end()) {
    path.push_back(from);
    from = old[from].below;
  }
  std::uint32_t result = from == kDone ? kDone : done[from];
  for (std::size_t i = path.size(); i-- > 0;) {
    result = node({old[path[i]].place, result});
    done[path[i]] = result;
  }
  return result;
}

bool GrammarMatcher::full() const {
  return states_.size() >= kMostStates || steps_.size() >= kMostSteps || nodes_.size() >= most_nodes_;
}

GrammarMatcher::State GrammarMatcher::trim(State state) {
  const std::vector<Node> old = std::move(nodes_);
  const Stacks stacks = states_[state];
  forget();
  if (state == kDead) return kDead;
  std::unordered_map<std::uint32_t, std::uint32_t> done;
  Stacks kept;
  for (const std::uint32_t stack : stacks) kept.push_back(copied(stack, old, done));
  // What is left may be a deep stack, which must not be copied again at every byte.
  most_nodes_ = std::max(kMostNodes, 2 * nodes_.size());
  return intern(std::move(kept));
}

bool Grammar::matches(std::string_view text) const {
  GrammarMatcher matcher(*this);
  GrammarMatcher::State state = matcher.start();
  for (const char byte : text) {
    state = matcher.next(state, static_cast<unsigned char>(byte));
    if (matcher.full()) state = matcher.trim(state);
  }
  return state != GrammarMatcher::kDead && matcher.complete(state);
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
