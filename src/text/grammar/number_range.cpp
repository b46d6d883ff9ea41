#include "text/grammar/number_range.h"

#include <fmt/format.h>

#include "text/grammar/integer_range.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

constexpr const char* kFraction = R"(("." [0-9]{1,16})?)";
constexpr const char* kZeros = R"(("." "0"{1,16})?)";
constexpr const char* kMore = R"("." "0"{0,15} [1-9] [0-9]{0,15})";  // than the digits before it

void add(std::string& alternatives, const std::string& one) {
  alternatives += (alternatives.empty() ? "" : " | ") + one;
}

// Of 0 and above, by the digits before the point: those of the least number, those between, those of the largest.
std::string magnitudes(NumberBound least, NumberBound most) {
  std::string result;
  if (least.value > most.value) return result;
  if (least.value == most.value) {
    return least.excluded || most.excluded ? "" : fmt::format("\"{}\" {}", least.value, kZeros);
  }
  add(result, fmt::format("\"{}\" {}", least.value, least.excluded ? kMore : kFraction));
  if (most.value - least.value > 1) {
    add(result, fmt::format("{} {}", integer_range(least.value + 1, most.value - 1), kFraction));
  }
  if (!most.excluded) add(result, fmt::format("\"{}\" {}", most.value, kZeros));
  return result;
}

}  // namespace

std::string number_range(NumberBound least, NumberBound most) {
  const NumberBound zero;
  std::string result;
  if (least.value < 0) {
    const NumberBound nearest =
        most.value < 0 || (most.value == 0 && most.excluded) ? NumberBound{-most.value, most.excluded} : zero;
    const std::string below = magnitudes(nearest, {-least.value, least.excluded});
    if (!below.empty()) add(result, fmt::format("\"-\" ({})", below));
  }
  if (most.value >= 0) {
    const std::string above = magnitudes(least.value < 0 ? zero : least, most);
    if (!above.empty()) add(result, above);
  }
  return result.empty() ? result : "(" + result + ")";
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
