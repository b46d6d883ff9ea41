// The integers of a range as an expression of GBNF.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {
inline namespace v0 {
namespace text {

/// Their magnitudes have at most 16 digits.
inline constexpr std::int64_t kMostInteger = 9'999'999'999'999'999;

/// Of the integers from `least` to `most`, both within +-kMostInteger and in this order, as JSON writes them: "-" and
/// digits without a zero in front; -0 is not among them.
std::string integer_range(std::int64_t least, std::int64_t most);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
