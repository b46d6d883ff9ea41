#include "server/bare_arguments.h"

#include <algorithm>

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr int kMostBareDepth = 64;

// The text up to one of `ends`, which is not taken.
std::string taken_until(const std::string& text, std::size_t& at, const char* ends) {
  const std::size_t end = std::min(text.find_first_of(ends, at), text.size());
  std::string result = text.substr(at, end - at);
  at = end;
  return result;
}

}  // namespace

Json bare_value(const std::string& text, std::size_t& at, const std::string& quote, int depth) {
  const Json failed(Json::value_t::discarded);
  if (depth > kMostBareDepth || at >= text.size()) return failed;
  if (text.compare(at, quote.size(), quote) == 0) {
    const std::size_t begin = at + quote.size();
    const std::size_t end = text.find(quote, begin);
    if (end == std::string::npos) return failed;
    at = end + quote.size();
    return text.substr(begin, end - begin);
  }
  const char opened = text[at];
  if (opened != '{' && opened != '[') return Json::parse(taken_until(text, at, ",}]"), nullptr, false);
  const char closing = opened == '{' ? '}' : ']';
  Json result(opened == '{' ? Json::value_t::object : Json::value_t::array);
  for (++at; at < text.size() && text[at] != closing;) {
    if (!result.empty() && text[at++] != ',') return failed;
    std::string name;
    if (opened == '{') {
      name = taken_until(text, at, ":");
      ++at;
    }
    Json value = bare_value(text, at, quote, depth + 1);
    if (value.is_discarded()) return failed;
    if (opened == '{') {
      result[name] = std::move(value);
    } else {
      result.push_back(std::move(value));
    }
  }
  if (at >= text.size()) return failed;
  ++at;
  return result;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
