// Tests: value is name(arguments).
#include <algorithm>
#include <cmath>

#include "text/jinja/evaluator.h"
#include "text/jinja/strings.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

struct TestRow {
  std::string_view name;
  Test run;
};

Value other(const Arguments& a) { return argument(a, 0, "other"); }
std::int64_t remainder(const Value& value, std::int64_t divisor) {
  if (divisor == 0) fail("divisibleby: division by zero");
  return divisor == -1 ? 0 : to_integer(value, "a test of numbers") % divisor;
}
bool is_sequence(const Value& value) {
  return value.string() || value.list() || value.is_undefined() || (value.dict() && !value.dict()->is_namespace);
}
// The very object; of numbers and strings, an equal one of the same type.
bool is_same(const Value& a, const Value& b) {
  if (a.list() || b.list()) return a.list() == b.list();
  if (a.dict() || b.dict()) return a.dict() == b.dict();
  return a.type_name() == b.type_name() && equal(a, b);
}

constexpr TestRow kTests[] = {
    {"defined", [](Context&, const Value& v, const Arguments&) { return !v.is_undefined(); }},
    {"undefined", [](Context&, const Value& v, const Arguments&) { return v.is_undefined(); }},
    {"none", [](Context&, const Value& v, const Arguments&) { return v.is_none(); }},
    {"string", [](Context&, const Value& v, const Arguments&) { return v.is_string(); }},
    {"mapping", [](Context&, const Value& v, const Arguments&) { return v.dict() && !v.dict()->is_namespace; }},
    {"sequence", [](Context&, const Value& v, const Arguments&) { return is_sequence(v); }},
    {"iterable", [](Context&, const Value& v, const Arguments&) { return is_sequence(v); }},
    {"number", [](Context&, const Value& v, const Arguments&) { return v.is_number(); }},
    {"integer", [](Context&, const Value& v, const Arguments&) { return v.integer() != nullptr; }},
    {"float", [](Context&, const Value& v, const Arguments&) { return v.get<double>() != nullptr; }},
    {"boolean", [](Context&, const Value& v, const Arguments&) { return v.get<bool>() != nullptr; }},
    {"true", [](Context&, const Value& v, const Arguments&) { return v.get<bool>() && v.truth(); }},
    {"false", [](Context&, const Value& v, const Arguments&) { return v.get<bool>() && !v.truth(); }},
    {"callable", [](Context&, const Value& v, const Arguments&) { return v.function() != nullptr; }},
    {"escaped", [](Context&, const Value& v, const Arguments&) { return v.is_markup(); }},
    {"odd", [](Context&, const Value& v, const Arguments&) { return remainder(v, 2) != 0; }},
    {"even", [](Context&, const Value& v, const Arguments&) { return remainder(v, 2) == 0; }},
    {"divisibleby", [](Context&, const Value& v,
                       const Arguments& a) { return remainder(v, to_integer(other(a), "divisibleby")) == 0; }},
    {"lower",
     [](Context&, const Value& v, const Arguments&) {
       return lower(v.to_string()) == v.to_string() && upper(v.to_string()) != v.to_string();
     }},
    {"upper",
     [](Context&, const Value& v, const Arguments&) {
       return upper(v.to_string()) == v.to_string() && lower(v.to_string()) != v.to_string();
     }},
    {"in", [](Context&, const Value& v, const Arguments& a) { return contains(other(a), v); }},
    {"sameas", [](Context&, const Value& v, const Arguments& a) { return is_same(v, other(a)); }},
    {"filter",
     [](Context&, const Value& v, const Arguments&) { return v.string() && find_filter(*v.string()) != nullptr; }},
    {"test",
     [](Context&, const Value& v, const Arguments&) { return v.string() && find_test(*v.string()) != nullptr; }},
    {"eq", [](Context&, const Value& v, const Arguments& a) { return equal(v, other(a)); }},
    {"equalto", [](Context&, const Value& v, const Arguments& a) { return equal(v, other(a)); }},
    {"==", [](Context&, const Value& v, const Arguments& a) { return equal(v, other(a)); }},
    {"ne", [](Context&, const Value& v, const Arguments& a) { return !equal(v, other(a)); }},
    {"!=", [](Context&, const Value& v, const Arguments& a) { return !equal(v, other(a)); }},
    {"lt", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) < 0; }},
    {"lessthan", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) < 0; }},
    {"<", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) < 0; }},
    {"le", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) <= 0; }},
    {"<=", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) <= 0; }},
    {"gt", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) > 0; }},
    {"greaterthan", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) > 0; }},
    {">", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) > 0; }},
    {"ge", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) >= 0; }},
    {">=", [](Context&, const Value& v, const Arguments& a) { return compare(v, other(a)) >= 0; }},
};

}  // namespace

Test find_test(std::string_view name) {
  const auto row = std::find_if(std::begin(kTests), std::end(kTests), [&](const TestRow& r) { return r.name == name; });
  return row == std::end(kTests) ? nullptr : row->run;
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
