#include "server/marks.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace server {

namespace {

struct Mark {
  std::int64_t token = 0;
  std::size_t end = 0;  // behind it
};

// The one that begins there; of no token where a text has but such a character.
Mark mark_at(std::string_view text, std::size_t at) {
  const std::string_view common = kMarkZero.substr(0, 2);
  std::int64_t token = 0;
  for (std::size_t end = at + kMarkBegin.size(); token < 100'000'000; end += kMarkZero.size()) {
    const std::string_view sign = text.substr(std::min(end, text.size()), kMarkZero.size());
    if (sign == kMarkEnd) return {token, end + kMarkEnd.size()};
    const int digit = sign.size() == kMarkZero.size() && sign.starts_with(common) ? sign.back() - kMarkZero.back() : -1;
    if (digit < 0 || digit > 9) break;
    token = 10 * token + digit;
  }
  return {-1, at + kMarkBegin.size()};
}

}  // namespace

std::string mark_of(std::int64_t token) {
  std::string mark(kMarkBegin);
  for (const char digit : std::to_string(token)) {
    mark += kMarkZero;
    mark.back() = static_cast<char>(mark.back() + (digit - '0'));
  }
  return mark.append(kMarkEnd);
}

std::string with_marks(const std::string& text, const text::Tokenizer& tokenizer, std::set<std::int64_t>& marks) {
  std::string marked;
  std::size_t done = 0;
  for (const std::int64_t id : tokenizer.encode(text, {.add_special_tokens = false})) {
    const std::string name = tokenizer.token(id).value_or("");
    if (name.empty() || !tokenizer.bytes(id).empty()) continue;
    const std::size_t at = text.find(name, done);
    if (at == std::string::npos) continue;  // one for what is unknown
    marked += text.substr(done, at - done) + mark_of(id);
    done = at + name.size();
    marks.insert(id);
  }
  return marked + text.substr(done);
}

std::string without_marks(std::string text, const std::set<std::int64_t>* marks) {
  for (std::size_t at = 0; (at = text.find(kMarkBegin, at)) != std::string::npos;) {
    const Mark mark = mark_at(text, at);
    if (marks == nullptr || marks->contains(mark.token)) {
      text.erase(at, mark.end - at);
    } else {
      at = mark.end;
    }
  }
  return text;
}

std::string gbnf_of_text(const std::string& text) {
  std::string result = "\"";
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, kMarkBegin.size(), kMarkBegin) == 0) {
      const Mark mark = mark_at(text, at);
      result += fmt::format("\" <[{}]> \"", mark.token);
      at = mark.end - 1;
    } else if (text[at] == '\n') {
      result += "\\n";
    } else {
      if (text[at] == '"' || text[at] == '\\') result += '\\';
      result += text[at];
    }
  }
  return result + "\"";
}

std::string gbnf_until(const std::string& text, const std::string& then, bool may_end) {
  if (text.starts_with(kMarkBegin)) {
    return fmt::format("text-0 ::= [^\\ufdd0]* ({} {}){}\n", gbnf_of_text(text), then, may_end ? "?" : "");
  }
  // The automaton of Knuth, Morris and Pratt, as rules.
  const std::u32string open = text::decode_utf8(text).value();
  std::vector<std::size_t> back(open.size(), 0);
  for (std::size_t i = 1, k = 0; i < open.size(); ++i) {
    while (k > 0 && open[i] != open[k]) k = back[k - 1];
    if (open[i] == open[k]) ++k;
    back[i] = k;
  }
  const auto step = [&](std::size_t state, char32_t c) {
    while (state > 0 && open[state] != c) state = back[state - 1];
    return open[state] == c ? state + 1 : 0;
  };
  std::string rules;
  for (std::size_t state = 0; state < open.size(); ++state) {
    std::string others = "[^";
    std::string own;
    std::u32string seen;
    for (const char32_t c : open) {
      if (seen.find(c) != std::u32string::npos) continue;
      seen += c;
      const std::string written = fmt::format("\\U{:08x}", static_cast<std::uint32_t>(c));
      others += written;
      const std::size_t next = step(state, c);
      own += fmt::format(" | \"{}\" {}", written, next == open.size() ? then : fmt::format("text-{}", next));
    }
    rules += fmt::format("text-{} ::= {}] text-0{}{}\n", state, others, own, may_end ? " | \"\"" : "");
  }
  return rules;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
