#include "text/jinja/strings.h"

#include <algorithm>

#include "text/jinja/limits.h"
#include "text/jinja/value.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

// The property Case_Ignorable.
bool is_case_ignorable(char32_t c) {
  const std::u32string_view signs =
      U"'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a";
  const Category kind = category(c);
  return kind == Category::Mn || kind == Category::Me || kind == Category::Cf || kind == Category::Lm ||
         kind == Category::Sk || signs.find(c) != signs.npos;
}

// A sigma behind a letter that no letter follows is a final one.
std::u32string lowered(std::u32string_view text, std::size_t begin, std::size_t end) {
  std::u32string result;
  const auto next_cased = [&](std::size_t i, std::size_t step, std::size_t stop) {
    while (i != stop && is_case_ignorable(text[i])) i += step;
    return i != stop && is_cased(text[i]);
  };
  for (std::size_t i = begin; i < end; ++i) {
    const bool sigma = text[i] == 0x3a3;
    if (sigma && next_cased(i - 1, static_cast<std::size_t>(-1), static_cast<std::size_t>(-1)) &&
        !next_cased(i + 1, 1, text.size())) {
      result += char32_t{0x3c2};
    } else {
      result += to_lower(text.substr(i, 1));
    }
  }
  return result;
}

// What stands between runs of spaces. Of the rest behind the last split (from the right: before it) only the spaces
// that touch it go.
std::vector<std::string> words_of(std::string_view text, std::int64_t most, bool from_right) {
  struct Word {
    std::size_t begin, end;
  };
  std::vector<Word> words;
  std::size_t at = 0;
  bool inside = false;
  for (const std::string& character : characters(text)) {
    const bool space = kSpaces.find(character) != std::string_view::npos;
    if (!space && !inside) words.push_back({at, at});
    inside = !space;
    at += character.size();
    if (inside) words.back().end = at;
  }
  const std::size_t splits = most < 0 ? words.size() : std::min(words.size(), static_cast<std::size_t>(most));
  const std::size_t rest = words.size() - splits;
  std::vector<std::string> parts;
  if (from_right && rest > 0) parts.emplace_back(text.substr(0, words[rest - 1].end));
  for (std::size_t i = 0; i < splits; ++i) {
    const Word& word = words[from_right ? rest + i : i];
    parts.emplace_back(text.substr(word.begin, word.end - word.begin));
  }
  if (!from_right && rest > 0) parts.emplace_back(text.substr(words[splits].begin));
  return parts;
}

// The bytes of the line's end that the text begins with; 0: none.  Python: str.splitlines
std::size_t line_end(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  for (const std::string_view end : {"\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\u0085", "\u2028", "\u2029"}) {
    if (text.starts_with(end)) return end.size();
  }
  return 0;
}

}  // namespace

std::string stripped(std::string_view text, std::string_view set, bool left, bool right) {
  const std::vector<std::string> members = characters(set);
  const auto affix = [&](bool front) -> std::size_t {
    for (const std::string& member : members) {
      if (front ? text.starts_with(member) : text.ends_with(member)) return member.size();
    }
    return 0;
  };
  while (left && !text.empty()) {
    const std::size_t size = affix(true);
    if (size == 0) break;
    text.remove_prefix(size);
  }
  while (right && !text.empty()) {
    const std::size_t size = affix(false);
    if (size == 0) break;
    text.remove_suffix(size);
  }
  return std::string(text);
}

std::vector<std::string> split(std::string_view text, const std::string* separator, std::int64_t most, bool from_right) {
  if (separator == nullptr) return words_of(text, most, from_right);
  if (separator->empty()) fail("split: the separator is empty");
  std::vector<std::string> parts;
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const std::size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
    if (at == std::string_view::npos) break;
    const std::string_view before = text.substr(0, at);
    const std::string_view behind = text.substr(at + separator->size());
    parts.emplace_back(from_right ? behind : before);
    text = from_right ? before : behind;
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  spend(8 * text.size());
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = line_end(text.substr(at));
    if (end > 0) {
      lines.emplace_back(text.substr(begin, at - begin + (keep_ends ? end : 0)));
      begin = at + end;
    }
    at += std::max<std::size_t>(end, 1);
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string upper(std::string_view text) {
  spend(4 * text.size());
  std::u32string result;
  for (const char32_t c : decode_utf8_lossy(text)) result += to_upper(c);
  return encode_utf8(result);
}

std::string lower(std::string_view text) {
  spend(4 * text.size());
  const std::u32string all = decode_utf8_lossy(text);
  return encode_utf8(lowered(all, 0, all.size()));
}

std::string title(std::string_view text) {
  const std::u32string all = decode_utf8_lossy(text);
  std::u32string result;
  bool inside = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    result += inside ? lowered(all, i, i + 1) : to_upper(all[i], true);
    inside = is_cased(all[i]);
  }
  return encode_utf8(result);
}

std::string title_of_words(std::string_view text) {
  const std::u32string all = decode_utf8_lossy(text);
  std::u32string result;
  const auto parts_words = [&](char32_t c) {
    return text::is_space(c) || (c >= 0x1c && c <= 0x1f) ||
           std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
  };
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i + 1;
    while (end < all.size() && parts_words(all[end]) == parts_words(all[i])) ++end;
    // What parts words has no case.
    const std::u32string_view word = std::u32string_view(all).substr(i, end - i);
    result += to_upper(word.front()) + lowered(word, 1, word.size());
    i = end;
  }
  return encode_utf8(result);
}

std::string capitalized(std::string_view text) {
  const std::u32string all = decode_utf8_lossy(text);
  return all.empty() ? "" : encode_utf8(to_upper(all.front(), true) + lowered(all, 1, all.size()));
}

std::string padded(std::string_view text, std::int64_t width, char32_t fill, Padding where) {
  const auto size = static_cast<std::int64_t>(characters(text).size());
  if (width <= size) return std::string(text);
  if (width > static_cast<std::int64_t>(kMaxText / 4)) fail("a text is too long");
  const std::int64_t missing = width - size;
  const std::int64_t left = where == Padding::left    ? missing
                            : where == Padding::right ? 0
                                                      : missing / 2 + (missing & width & 1);
  const auto fills = [&](std::int64_t count) {
    return encode_utf8(std::u32string(static_cast<std::size_t>(count), fill));
  };
  return fills(left) + std::string(text) + fills(missing - left);
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '\'' ? "&#39;" : c == '"' ? "&#34;" : std::string(1, c);
  }
  return result;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t count) {
  std::string result;
  std::int64_t done = 0;
  const auto more = [&] { return (count < 0 || done < count) && result.size() <= kMaxText; };
  if (from.empty()) {
    const std::vector<std::string> all = characters(text);
    for (std::size_t i = 0; i <= all.size(); ++i) {
      if (more()) {
        result += to;
        ++done;
      }
      if (i < all.size()) result += all[i];
    }
    return result;
  }
  while (more()) {
    const std::size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    result += text.substr(0, at);
    result += to;
    text = text.substr(at + from.size());
    ++done;
  }
  return result + std::string(text);
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
