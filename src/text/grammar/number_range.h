// The numbers of a range as an expression of GBNF.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {
inline namespace v0 {
namespace text {

/// The end of a range.
struct NumberBound {
  std::int64_t value = 0;  ///< Within +-kMostInteger.
  bool excluded = false;
};

/// Of the numbers from `least` to `most` as JSON writes them, those without an exponent and with few digits behind the
/// point. Empty where there is none.
std::string number_range(NumberBound least, NumberBound most);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
