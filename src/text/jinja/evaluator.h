// Runs a chat template: no input, no output but its text, and limits on steps, depth and size.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "text/jinja/limits.h"
#include "text/jinja/syntax.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

/// The text of a template for the given variables. FormatError for what goes wrong in it, and where it goes beyond a
/// limit; ValueError where it calls raise_exception.
std::string render(const Block& block, const Dict& variables);

/// What filters and tests with names of others call.
struct Context {
  Budget& budget;
};

using Filter = Value (*)(Context&, const Value&, const Arguments&);
using Test = bool (*)(Context&, const Value&, const Arguments&);
/// Null where there is none of the name.
Filter find_filter(std::string_view name);
Filter find_text_filter(std::string_view name);
Test find_test(std::string_view name);
/// A method of a string or dict, bound to it; undefined if there is none.
Value find_method(Context& context, const Value& object, const std::string& name);
/// range, namespace, dict, joiner, raise_exception.
const std::map<std::string, Value, std::less<>>& global_functions();
/// object.name and object[name] for filters.
Value attribute_of(const Value& object, const std::string& path);

// Arguments of filters, methods and functions.
Value argument(const Arguments& arguments, std::size_t position, std::string_view name, Value fallback = {});
std::int64_t to_integer(const Value& value, std::string_view what);
std::string to_text(const Value& value, std::string_view what);

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
