#include "text/grammar/token_texts.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace text {

std::string special_text(std::int64_t id) {
  return "\xff" + std::to_string(id) + "\xfe";
}

TokenTexts::TokenTexts(const Tokenizer& tokenizer) {
  auto tree = std::make_shared<Tree>();
  for (std::int64_t id = 0; id < tokenizer.size(); ++id) {
    std::string text = tokenizer.bytes(id);
    if (text.empty() && tokenizer.token(id)) {
      text = special_text(id);
    } else if (text.find('\xff') != std::string::npos) {
      text.clear();  // a byte that is in no text, and must not spell a special token
    }
    tree->texts.push_back(std::move(text));
    if (!tree->texts.back().empty()) tree->ids.push_back(id);
  }
  const auto text = [&](std::int64_t id) -> const std::string& { return tree->texts[static_cast<std::size_t>(id)]; };
  std::stable_sort(tree->ids.begin(), tree->ids.end(),
                   [&](std::int64_t a, std::int64_t b) { return text(a) < text(b); });
  std::vector<Tree::Node>& nodes = tree->nodes;
  std::vector<std::uint32_t> path;  // nodes of the text before
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes[path.back()].end = static_cast<std::uint32_t>(nodes.size());
  };
  std::string before;
  for (std::uint32_t i = 0; i < tree->ids.size(); ++i) {
    const std::string& own = text(tree->ids[i]);
    const auto same = static_cast<std::size_t>(
        std::mismatch(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(std::min(own.size(), before.size())),
                      before.begin())
            .first -
        own.begin());
    close(same);
    for (std::size_t at = same; at < own.size(); ++at) {
      path.push_back(static_cast<std::uint32_t>(nodes.size()));
      nodes.push_back({static_cast<unsigned char>(own[at]), static_cast<std::uint32_t>(at), 0, i, 0});
    }
    ++nodes[path.back()].count;  // of equal texts, ids stand side by side
    before = own;
  }
  close(0);
  tree_ = std::move(tree);
}

std::vector<bool> TokenTexts::Tree::allowed(GrammarMatcher& matcher, GrammarMatcher::State state) const {
  std::vector<bool> result(texts.size(), false);
  std::vector<GrammarMatcher::State> states{state};  // in front of the bytes of each depth
  for (std::uint32_t i = 0; i < nodes.size();) {
    const Node& node = nodes[i];
    const GrammarMatcher::State next = matcher.next(states[node.depth], node.byte);
    if (next == GrammarMatcher::kDead) {
      i = node.end;
      continue;
    }
    for (std::uint32_t k = 0; k < node.count; ++k) result[static_cast<std::size_t>(ids[node.first + k])] = true;
    states.resize(node.depth + 1);
    states.push_back(next);
    ++i;
  }
  return result;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
