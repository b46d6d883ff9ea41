#include "server/marks.h"

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace server {

std::string mark_of(std::int64_t token) {
  return fmt::format("{}{}{}", kMarkBegin, token, kMarkEnd);
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

std::string without_marks(std::string text) {
  for (std::size_t at = 0; (at = text.find(kMarkBegin, at)) != std::string::npos;) {
    const std::size_t end = text.find(kMarkEnd, at);
    text.erase(at, end == std::string::npos ? end : end + kMarkEnd.size() - at);
  }
  return text;
}

std::string gbnf_of_text(const std::string& text) {
  std::string result = "\"";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (rest.starts_with(kMarkBegin)) {
      result += "\" <[";
      at += kMarkBegin.size() - 1;
    } else if (rest.starts_with(kMarkEnd)) {
      result += "]> \"";
      at += kMarkEnd.size() - 1;
    } else if (text[at] == '\n') {
      result += "\\n";
    } else {
      if (text[at] == '"' || text[at] == '\\') result += '\\';
      result += text[at];
    }
  }
  return result + "\"";
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
