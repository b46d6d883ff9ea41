// JSON schemas for texts that are nearly JSON.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace text {

/// GBNF for the values that a schema allows, as Gemma 4 writes the arguments of calls: names of members are bare, texts
/// stand between `quote` (GBNF) without escapes, of characters `[^...]` that are not `excluded`, and there is no white
/// space. As gbnf_of_json_schema(), but without patterns, and members come in the order of their names, as in the
/// model's template. FormatError also for names with signs of the syntax.
std::string gbnf_of_bare_schema(std::string_view schema, const std::string& quote, const std::string& excluded);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
