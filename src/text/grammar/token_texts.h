// The texts of all tokens as a tree of bytes, in the order of a walk: what a grammar allows is found in one pass that
// leaves out whatever begins with a wrong byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/text/grammar.h>

#include "text/grammar/matcher.h"

namespace lockstep {
inline namespace v0 {
namespace text {

/// What a grammar reads for a special token, whose name may stand in a text, too: begins with a byte that no text has.
std::string special_text(std::int64_t id);

struct TokenTexts::Tree {
  struct Node {
    unsigned char byte = 0;
    std::uint32_t depth = 0;  ///< Of bytes in front of it.
    std::uint32_t end = 0;    ///< The first node that is not below this one.
    std::uint32_t first = 0;  ///< Tokens that end here: `count` of `ids` from here on.
    std::uint32_t count = 0;
  };
  std::vector<Node> nodes;
  std::vector<std::int64_t> ids;
  std::vector<std::string> texts;  ///< By id.

  /// By id: whether the token may come next.
  std::vector<bool> allowed(GrammarMatcher& matcher, GrammarMatcher::State state) const;
};

}  // namespace text
}  // namespace v0
}  // namespace lockstep
