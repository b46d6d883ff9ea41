// Runs a chat template: no input, no output but its text, and limits on steps, depth and size.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "text/jinja/syntax.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

inline constexpr std::int64_t kMaxSteps = 1'000'000;
inline constexpr std::size_t kMaxText = std::size_t{16} << 20;
inline constexpr std::int64_t kMaxRange = 100'000;

/// The text of a template for the given variables. FormatError for what goes wrong in it, and where it goes beyond a
/// limit; ValueError where it calls raise_exception.
std::string render(const Block& block, const Dict& variables);

/// Counts work and text of one run.
class Budget {
 public:
  void step(std::size_t count = 1);
  /// A new text of so many bytes.
  void text(std::size_t bytes);

 private:
  std::int64_t steps_ = 0;
  std::size_t text_ = 0;
};

/// What filters and tests with names of others call.
struct Context {
  Budget& budget;
};

using Filter = Value (*)(Context&, const Value&, const Arguments&);
using Test = bool (*)(Context&, const Value&, const Arguments&);
/// Null where there is none of the name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
/// A method of a string or dict, bound to it; undefined if there is none.
Value find_method(Context& context, const Value& object, const std::string& name);
/// range, namespace, dict, raise_exception.
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
