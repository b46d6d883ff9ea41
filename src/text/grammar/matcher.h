// Reads a text byte by byte and knows what may come next. What is open is a set of stacks; sets that come again are one
// state, whose steps are remembered, so that the reading of a long text is the walk of an automaton.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "text/grammar/rules.h"

namespace lockstep {
inline namespace v0 {
namespace text {

class GrammarMatcher {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  explicit GrammarMatcher(Grammar grammar);

  State start() const { return start_; }
  /// The state behind a further byte; kDead if no text goes on so. ValueError beyond 10,000 stacks at once.
  State next(State state, unsigned char byte);
  /// Whether what was read is a whole text.
  bool complete(State state) const { return states_[state].front() == kDone; }
  /// Whether nothing may follow.
  bool ended(State state) const { return states_[state].size() == 1 && complete(state); }
  /// What is remembered takes much memory: time to trim.
  bool full() const;
  /// Forgets the states but this one, whose number is given. Numbers from before are void.
  State trim(State state);

 private:
  /// A place in a sequence, and what to go on with behind its end: a stack, shared with others.
  struct Node {
    std::uint32_t place = 0;
    std::uint32_t below = kDone;
  };
  static constexpr std::uint32_t kDone = 0;
  using Stacks = std::vector<std::uint32_t>;  // of nodes whose place is a set of bytes, or kDone; sorted

  std::uint32_t node(Node value);
  State intern(Stacks stacks);
  void expand(Node from, Stacks& result);
  void forget();
  std::uint32_t copied(std::uint32_t node, const std::vector<Node>& old,
                       std::unordered_map<std::uint32_t, std::uint32_t>& done);

  Grammar grammar_;
  const Grammar::Rules* rules_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::uint32_t> node_numbers_;
  std::vector<Stacks> states_;
  std::unordered_map<std::uint64_t, std::vector<State>> state_numbers_;  // by hash
  std::unordered_map<std::uint64_t, State> steps_;                       // by state and byte
  std::size_t most_nodes_ = 0;
  State start_ = kDead;
};

}  // namespace text
}  // namespace v0
}  // namespace lockstep
