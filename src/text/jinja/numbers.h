// Numbers and texts, as Python reads and writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

/// int(text, base) and float(text); nothing where they raise ValueError. FormatError for integers beyond 64 bits.
std::optional<std::int64_t> parsed_integer(std::string_view text, std::int64_t base);
std::optional<double> parsed_float(std::string_view text);
/// round(value, digits).
double rounded(double value, std::int64_t digits);

/// text % values. FormatError for what Python refuses, and for more than 1,000 signs of width or precision.
std::string percent_formatted(Budget& budget, std::string_view text, const Value& values);
/// format(value, spec), of numbers and texts.
std::string formatted_by(Budget& budget, const Value& value, std::string_view spec);

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
