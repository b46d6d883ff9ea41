#include "text/grammar/integer_range.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

std::string any_digits(std::size_t count) {
  return count == 0 ? "" : fmt::format("[0-9]{{{}}}", count);
}

// Digits of one length, from `low` to `high`.
std::string digits_between(std::string_view low, std::string_view high) {
  if (low.empty()) return "\"\"";
  const bool all = low.find_first_not_of('0') == low.npos && high.find_first_not_of('9') == high.npos;
  if (all) return any_digits(low.size());
  const std::size_t rest = low.size() - 1;
  if (low.front() == high.front()) {
    return fmt::format("\"{}\" {}", low.front(), digits_between(low.substr(1), high.substr(1)));
  }
  const std::string nines(rest, '9');
  const std::string zeros(rest, '0');
  std::string result = fmt::format("(\"{}\" {}", low.front(), digits_between(low.substr(1), nines));
  const char after = static_cast<char>(low.front() + 1);
  const char before = static_cast<char>(high.front() - 1);
  if (after <= before) result += fmt::format(" | [{}-{}] {}", after, before, any_digits(rest));
  return result + fmt::format(" | \"{}\" {})", high.front(), digits_between(zeros, high.substr(1)));
}

// Of 0 and above: one alternative for each number of digits.
std::string magnitudes(std::int64_t least, std::int64_t most) {
  std::string result;
  while (least <= most) {
    const std::string low = std::to_string(least);
    const std::int64_t longest = std::stoll(std::string(low.size(), '9'));
    const std::string high = std::to_string(std::min(longest, most));
    result += (result.empty() ? "" : " | ") + digits_between(low, high);
    least = longest + 1;
  }
  return result;
}

}  // namespace

std::string integer_range(std::int64_t least, std::int64_t most) {
  std::string result;
  if (least < 0) result += fmt::format("\"-\" ({})", magnitudes(std::max<std::int64_t>(1, -most), -least));
  if (most >= 0) result += (result.empty() ? "" : " | ") + magnitudes(std::max<std::int64_t>(0, least), most);
  return "(" + result + ")";
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
