#include "cli/language.h"

#include <charconv>

#include <fmt/format.h>

#include "cli/command.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

std::vector<std::int64_t> parse_tokens(const std::string& text) {
  std::vector<std::int64_t> result;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || (next < end && *next != ',') || next + 1 == end) {
      throw UsageError(fmt::format("\"{}\" is no list of tokens such as 1,2,3", text));
    }
    result.push_back(value);
    at = next + 1;
  }
  if (result.empty()) throw UsageError("the list of tokens is empty");
  return result;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
