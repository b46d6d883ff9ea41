#include "core/json_excess.h"

#include <vector>

namespace lockstep {
inline namespace v0 {

const char* json_excess(std::string_view text, std::size_t depth, std::uint64_t values) {
  std::vector<std::uint64_t> members;  // of what is open, so far
  std::uint64_t count = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (members.size() == depth) return "nests too deep";
      members.push_back(0);
      ++count;
    } else if ((c == '}' || c == ']') && !members.empty()) {
      members.pop_back();
    } else if (c == ':' && !members.empty()) {
      count += ++members.back();
    } else if (c == ',') {
      ++count;
    }
    if (count > values) return "has too many values";
  }
  return nullptr;
}

}  // namespace v0
}  // namespace lockstep
