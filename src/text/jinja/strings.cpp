#include "text/jinja/strings.h"

#include <algorithm>

#include "text/jinja/limits.h"
#include "text/jinja/value.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

bool is_blank(char c) { return kSpaces.find(c) != std::string_view::npos; }
bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

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
  std::vector<std::string> parts;
  if (separator != nullptr && separator->empty()) fail("split: the separator is empty");
  if (from_right) {
    while (true) {
      if (separator == nullptr) {
        while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
        if (text.empty()) break;
      }
      std::size_t at = std::string_view::npos;
      const bool enough = most >= 0 && static_cast<std::int64_t>(parts.size()) >= most;
      if (!enough) at = separator ? text.rfind(*separator) : text.find_last_of(kSpaces);
      if (at == std::string_view::npos) {
        parts.emplace_back(text);
        break;
      }
      parts.emplace_back(text.substr(at + (separator ? separator->size() : 1)));
      text = text.substr(0, at);
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  while (true) {
    if (separator == nullptr) {
      while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
      if (text.empty()) break;
    }
    std::size_t at = std::string_view::npos;
    const bool enough = most >= 0 && static_cast<std::int64_t>(parts.size()) >= most;
    if (!enough) at = separator ? text.find(*separator) : text.find_first_of(kSpaces);
    if (at == std::string_view::npos) {
      parts.emplace_back(text);
      break;
    }
    parts.emplace_back(text.substr(0, at));
    text = text.substr(at + (separator ? separator->size() : 1));
  }
  return parts;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of("\n\r");
    if (end == std::string_view::npos) {
      lines.emplace_back(text);
      break;
    }
    lines.emplace_back(text.substr(0, end));
    text = text.substr(end + (text.substr(end, 2) == "\r\n" ? 2 : 1));
  }
  return lines;
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return result;
}

std::string lower(std::string_view text) { return encode_utf8(to_lower(decode_utf8_lossy(text))); }

std::string title(std::string_view text) {
  std::string result = lower(text);
  bool inside = false;
  for (char& c : result) {
    if (!inside && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    inside = is_ascii_letter(c) || static_cast<unsigned char>(c) >= 0x80;
  }
  return result;
}

std::string capitalized(std::string_view text) {
  std::string result = lower(text);
  if (!result.empty()) result.replace(0, 1, upper(result.substr(0, 1)));
  return result;
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
