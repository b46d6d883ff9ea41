#include "text/regex.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "text/regex_node.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using Node = RegexNode;

// For one search. Patterns of tokenizers need a few steps for each character.
constexpr std::uint64_t kStepsPerCharacter = 10'000;
constexpr int kMaxDepth = 2'000;

/// What is to be matched behind a node.
using Next = std::function<bool(std::size_t)>;

class Matcher {
 public:
  Matcher(std::u32string_view text, bool by_lines, std::uint64_t steps)
      : text_(text), by_lines_(by_lines), steps_(steps) {}

  bool match(const Node& node, std::size_t at, const Next& next) {
    if (steps_-- == 0) throw ValueError("a pattern of the tokenizer takes too many steps on this text");
    switch (node.kind) {
      case Node::Kind::set: return at < text_.size() && node.set.contains(text_[at]) && next(at + 1);
      case Node::Kind::sequence: return sequence(node, 0, at, next);
      case Node::Kind::alternatives:
        return std::any_of(node.children.begin(), node.children.end(),
                           [&](const Node& child) { return match(child, at, next); });
      case Node::Kind::repeat: return repeat(node, at, next);
      case Node::Kind::look_ahead:
        return match(node.children.front(), at, [](std::size_t) { return true; }) != node.negative && next(at);
      case Node::Kind::look_behind: {
        const CharacterSet& set = node.children.front().children.front().set;
        return (at > 0 && set.contains(text_[at - 1])) != node.negative && next(at);
      }
      case Node::Kind::start: return (at == 0 || (ends_line(at - 1) && at < text_.size())) && next(at);
      case Node::Kind::end: return (at == text_.size() || ends_line(at)) && next(at);
    }
    return false;
  }

 private:
  bool sequence(const Node& node, std::size_t child, std::size_t at, const Next& next) {
    if (child == node.children.size()) return next(at);
    if (child + 1 == node.children.size()) return match(node.children[child], at, next);
    return match(node.children[child], at,
                 [&, child](std::size_t end) { return sequence(node, child + 1, end, next); });
  }

  bool repeat(const Node& node, std::size_t at, const Next& next) {
    const Node& child = node.children.front();
    // Repetitions of a set need no recursion, however long the text is.
    if (child.kind == Node::Kind::set) return repeat_set(node, child.set, at, next);
    if (node.greed == Node::Greed::possessive) {
      std::uint32_t count = 0;
      for (; count < node.most; ++count) {
        std::size_t end = at;
        const bool found = match(child, at, [&](std::size_t e) {
          end = e;
          return true;
        });
        if (!found || end == at) break;
        at = end;
      }
      return (count >= node.least) && next(at);
    }
    return repeat_any(node, 0, at, next);
  }

  bool repeat_set(const Node& node, const CharacterSet& set, std::size_t at, const Next& next) {
    const std::size_t least = node.least;
    std::size_t count = 0;
    const auto fits = [&] { return count < node.most && at + count < text_.size() && set.contains(text_[at + count]); };
    if (node.greed == Node::Greed::lazy) {
      while (count < least && fits()) ++count;
      if (count < least) return false;
      for (;; ++count) {
        if (next(at + count)) return true;
        if (!fits()) return false;
      }
    }
    while (fits()) ++count;
    if (count < least) return false;
    if (node.greed == Node::Greed::possessive) return next(at + count);
    for (;; --count) {
      if (next(at + count)) return true;
      if (count == least) return false;
    }
  }

  bool repeat_any(const Node& node, std::uint32_t count, std::size_t at, const Next& next) {
    if (++depth_ > kMaxDepth) throw ValueError("a pattern of the tokenizer repeats too often on this text");
    const auto again = [&] {
      return count < node.most && match(node.children.front(), at, [&](std::size_t end) {
               return (end != at || count < node.least) && repeat_any(node, count + 1, end, next);
             });
    };
    const bool enough = count >= node.least;
    const bool result =
        node.greed == Node::Greed::lazy ? (enough && next(at)) || again() : again() || (enough && next(at));
    --depth_;
    return result;
  }

  bool ends_line(std::size_t at) const { return by_lines_ && text_[at] == U'\n'; }

  std::u32string_view text_;
  bool by_lines_;
  std::uint64_t steps_;
  int depth_ = 0;
};

}  // namespace

// Oniguruma's \w, which tokenizers' patterns are written for: joiners do not count, Latin-1's numbers do.
static bool is_regex_word(char32_t c) {
  const bool joiner = c == 0x200c || c == 0x200d;
  return (is_word(c) && !joiner) || (c <= 0xff && category(c) == Category::No);
}

bool CharacterSet::contains(char32_t c) const {
  const auto in_ranges = [&](char32_t x) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const Range& r) {
      if (x >= r.first && x <= r.last) return true;
      return no_case && r.first == r.last && fold(r.first) == fold(x);
    });
  };
  bool inside = in_ranges(c) || (no_case && in_ranges(fold(c))) || (categories != 0 && in_mask(c, categories)) ||
                (spaces && is_space(c)) || (words && is_regex_word(c)) ||
                std::any_of(parts.begin(), parts.end(), [&](const CharacterSet& part) { return part.contains(c); });
  for (const CharacterSet& other : and_with) inside = inside && other.contains(c);
  return inside != inverted;
}

Regex::Regex(std::string_view pattern, bool by_lines)
    : root_(std::make_unique<const RegexNode>(parse_regex(pattern))), by_lines_(by_lines) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Match> Regex::search(std::u32string_view text, std::size_t from) const {
  Matcher matcher(text, by_lines_, (text.size() - std::min(from, text.size()) + 100) * kStepsPerCharacter);
  for (std::size_t begin = from; begin <= text.size(); ++begin) {
    std::size_t end = begin;
    const bool found = matcher.match(*root_, begin, [&](std::size_t e) {
      end = e;
      return true;
    });
    if (found) return Match{begin, end};
  }
  return std::nullopt;
}

std::vector<Match> Regex::all(std::u32string_view text) const {
  std::vector<Match> result;
  std::size_t from = 0;
  while (from <= text.size()) {
    const std::optional<Match> found = search(text, from);
    if (!found) break;
    if (found->end == found->begin && !result.empty() && result.back().end == found->end) {
      ++from;
      continue;
    }
    result.push_back(*found);
    from = found->end;
  }
  return result;
}

std::vector<Match> all_of(std::u32string_view text, std::u32string_view what) {
  std::vector<Match> result;
  for (std::size_t at = text.find(what); at != std::u32string_view::npos; at = text.find(what, at + what.size())) {
    result.push_back({at, at + what.size()});
  }
  return result;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
