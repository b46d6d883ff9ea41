// Filters: value | name(arguments); those of texts alone stand in text_filters.cpp.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "text/jinja/evaluator.h"
#include "text/jinja/numbers.h"
#include "text/jinja/strings.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

Value new_text(Context& context, std::string text) {
  context.budget.text(text.size());
  return text;
}

std::vector<Value> counted_elements(Context& context, const Value& value) {
  std::vector<Value> items = elements(value);
  context.budget.step(items.size());
  return items;
}

Value length(Context&, const Value& value, const Arguments&) {
  if (value.string()) return characters(*value.string()).size();
  if (value.dict()) return value.dict()->items.size();
  if (value.list()) return value.list()->items.size();
  return elements(value).size();
}

Value tojson(Context& context, const Value& value, const Arguments& a) {
  JsonStyle style;
  const Value indent = argument(a, 1, "indent", None{});
  if (!indent.is_none()) style.indent = static_cast<int>(std::clamp<std::int64_t>(to_integer(indent, "tojson"), 0, 64));
  style.ascii = argument(a, 0, "ensure_ascii", false).truth();
  style.sorted = argument(a, 3, "sort_keys", false).truth();
  const Value separators = argument(a, 2, "separators", None{});
  if (separators.list() && separators.list()->items.size() == 2) {
    style.item_separator = to_text(separators.list()->items[0], "tojson");
    style.key_separator = to_text(separators.list()->items[1], "tojson");
  }
  return new_text(context, to_json(value, style));
}

Value default_value(Context&, const Value& value, const Arguments& a) {
  const bool falsy_too = argument(a, 1, "boolean", false).truth();
  return value.is_undefined() || (falsy_too && !value.truth()) ? argument(a, 0, "default_value", "") : value;
}

Value join(Context& context, const Value& value, const Arguments& a) {
  const std::string separator = argument(a, 0, "d", "").to_string();
  const Value path = argument(a, 1, "attribute", None{});
  std::string text;
  bool first = true;
  for (const Value& item : counted_elements(context, value)) {
    const Value shown = path.string() ? attribute_of(item, *path.string()) : item;
    text += (std::exchange(first, false) ? "" : separator) + shown.to_string();
    if (text.size() > kMaxText) fail("makes too much text");
  }
  return new_text(context, std::move(text));
}

Value first(Context& context, const Value& value, const Arguments&) {
  const std::vector<Value> items = counted_elements(context, value);
  return items.empty() ? Value(Undefined{"first"}) : items.front();
}
Value last(Context& context, const Value& value, const Arguments&) {
  const std::vector<Value> items = counted_elements(context, value);
  return items.empty() ? Value(Undefined{"last"}) : items.back();
}

Value trim(Context& context, const Value& value, const Arguments& a) {
  const Value set = argument(a, 0, "chars", None{});
  return new_text(context, stripped(value.to_string(), set.string() ? *set.string() : std::string(kSpaces), true, true));
}

Value replace(Context& context, const Value& value, const Arguments& a) {
  const Value count = argument(a, 2, "count", None{});
  return new_text(context, replaced(value.to_string(), argument(a, 0, "old").to_string(), argument(a, 1, "new").to_string(),
                                    count.is_none() ? -1 : to_integer(count, "replace")));
}

void check_defined(const Value& value) {
  if (value.is_undefined()) fail(fmt::format("'{}' is undefined, and no number", value.get<Undefined>()->name));
}
Value to_int(Context&, const Value& value, const Arguments& a) {
  check_defined(value);
  const Value fallback = argument(a, 0, "default", 0);
  if (value.integer()) return value;
  std::optional<double> number;
  if (value.string()) {
    const auto integer = parsed_integer(*value.string(), to_integer(argument(a, 1, "base", 10), "int"));
    if (integer) return *integer;
    number = parsed_float(*value.string());  // "42.23" is 42
  } else if (value.is_number()) {
    number = value.number();
  }
  if (!number || !std::isfinite(*number)) return fallback;
  if (std::fabs(*number) >= 0x1p63) fail("a number is too large");
  return static_cast<std::int64_t>(*number);
}
Value to_float(Context&, const Value& value, const Arguments& a) {
  check_defined(value);
  if (value.is_number()) return value.number();
  const auto number = value.string() ? parsed_float(*value.string()) : std::nullopt;
  return number ? Value(*number) : argument(a, 0, "default", 0.0);
}

Value items(Context& context, const Value& value, const Arguments&) {
  if (value.is_undefined()) return std::vector<Value>{};
  if (!value.dict()) fail("items: the value is no dict");
  return find_method(context, value, "items").function()->call({});
}

int folded_compare(const Value& a, const Value& b, bool case_sensitive) {
  if (!case_sensitive && a.string() && b.string()) return compare(lower(*a.string()), lower(*b.string()));
  return compare(a, b);
}

// The elements with their keys in ascending order; equal ones keep theirs.
struct Keyed {
  std::vector<Value> keys;
  Value item;
};
std::vector<Keyed> sorted(Context& context, std::vector<Keyed> all, bool case_sensitive, bool reverse) {
  context.budget.step(all.size() * 16);
  const std::vector<std::size_t> order = sorted_places(all.size(), [&](std::size_t x, std::size_t y) {
    for (std::size_t i = 0; i < all[x].keys.size(); ++i) {
      const int sign = folded_compare(all[x].keys[i], all[y].keys[i], case_sensitive);
      if (sign != 0) return reverse ? sign > 0 : sign < 0;
    }
    return false;
  });
  std::vector<Keyed> result;
  for (const std::size_t place : order) result.push_back(std::move(all[place]));
  return result;
}

// By themselves, or by attributes, several with commas between.
Value sorted_by(Context& context, const std::vector<Value>& items, const Value& path, bool case_sensitive,
                bool reverse) {
  std::vector<Keyed> keyed;
  const std::string comma = ",";
  const std::vector<std::string> paths =
      path.is_none() ? std::vector<std::string>{} : split(path.to_string(), &comma, -1, false);
  for (const Value& item : items) {
    Keyed& own = keyed.emplace_back();
    own.item = item;
    if (path.is_none()) own.keys.push_back(item);
    for (const std::string& one : paths) own.keys.push_back(attribute_of(item, one));
  }
  std::vector<Value> result;
  for (Keyed& one : sorted(context, std::move(keyed), case_sensitive, reverse)) result.push_back(std::move(one.item));
  return result;
}

Value dictsort(Context& context, const Value& value, const Arguments& a) {
  const bool by_value = argument(a, 1, "by", "key").to_string() == "value";
  return sorted_by(context, elements(items(context, value, {})), by_value ? 1 : 0,
                   argument(a, 0, "case_sensitive", false).truth(), argument(a, 2, "reverse", false).truth());
}

Value sort(Context& context, const Value& value, const Arguments& a) {
  return sorted_by(context, counted_elements(context, value), argument(a, 2, "attribute", None{}),
                   argument(a, 1, "case_sensitive", false).truth(), argument(a, 0, "reverse", false).truth());
}

// (grouper, list) for each value of an attribute; the grouper as its first element has it.
Value groupby(Context& context, const Value& value, const Arguments& a) {
  const Value path = argument(a, 0, "attribute"), fallback = argument(a, 1, "default");
  const bool case_sensitive = argument(a, 2, "case_sensitive", false).truth();
  if (!path.string() && !path.integer()) fail("groupby: an attribute is missing");
  std::vector<Keyed> keyed;
  for (const Value& item : counted_elements(context, value)) {
    Keyed& own = keyed.emplace_back();
    own.item = item;
    own.keys.push_back(attribute_of(item, path.to_string()));
    if (own.keys[0].is_undefined()) own.keys[0] = fallback;
  }
  std::vector<Value> groups, members;
  Value grouper;
  const auto end_group = [&] {
    if (members.empty()) return;
    List group{.tuple = true, .is_group = true};
    group.items.push_back(grouper);
    group.items.emplace_back(std::exchange(members, {}));
    groups.emplace_back(std::move(group));
  };
  for (Keyed& own : sorted(context, std::move(keyed), case_sensitive, false)) {
    if (members.empty() || folded_compare(own.keys[0], grouper, case_sensitive) != 0) {
      end_group();
      grouper = own.keys[0];
    }
    members.push_back(std::move(own.item));
  }
  end_group();
  return groups;
}

// Lists of so many elements; the last may be filled up.
Value batch(Context& context, const Value& value, const Arguments& a) {
  const std::int64_t size = to_integer(argument(a, 0, "linecount"), "batch");
  const Value fill = argument(a, 1, "fill_with", None{});
  std::vector<Value> lists, own;
  for (Value& item : counted_elements(context, value)) {
    if (static_cast<std::int64_t>(own.size()) == size) lists.emplace_back(std::exchange(own, {}));
    own.push_back(std::move(item));
  }
  if (own.empty()) return lists;
  if (!fill.is_none() && size > 0) {
    context.budget.step(static_cast<std::size_t>(size));
    while (static_cast<std::int64_t>(own.size()) < size) own.push_back(fill);
  }
  lists.emplace_back(std::move(own));
  return lists;
}

// So many lists, the first ones longer by one where it does not come out even.
Value slice(Context& context, const Value& value, const Arguments& a) {
  const std::int64_t count = to_integer(argument(a, 0, "slices"), "slice");
  const Value fill = argument(a, 1, "fill_with", None{});
  const std::vector<Value> all = counted_elements(context, value);
  if (count == 0) fail("slice: division by zero");
  std::vector<Value> lists;
  if (count < 0) return lists;
  context.budget.step(static_cast<std::size_t>(count));
  const std::size_t lists_wanted = static_cast<std::size_t>(count), each = all.size() / lists_wanted,
                    longer = all.size() % lists_wanted;
  auto at = all.begin();
  for (std::size_t i = 0; i < lists_wanted; ++i) {
    const auto end = at + static_cast<std::ptrdiff_t>(each + (i < longer ? 1 : 0));
    std::vector<Value> own(at, end);
    if (!fill.is_none() && i >= longer) own.push_back(fill);
    lists.emplace_back(std::move(own));
    at = end;
  }
  return lists;
}

Value unique(Context& context, const Value& value, const Arguments& a) {
  const bool case_sensitive = argument(a, 0, "case_sensitive", false).truth();
  const Value path = argument(a, 1, "attribute", None{});
  std::vector<Value> kept, keys;
  for (const Value& item : counted_elements(context, value)) {
    Value key = path.string() ? attribute_of(item, *path.string()) : item;
    if (!case_sensitive && key.string()) key = lower(*key.string());
    context.budget.step(keys.size());
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key); })) continue;
    keys.push_back(key);
    kept.push_back(item);
  }
  return kept;
}

Value reverse(Context& context, const Value& value, const Arguments&) {
  std::vector<Value> reversed = counted_elements(context, value);
  std::reverse(reversed.begin(), reversed.end());
  if (!value.string()) return reversed;
  std::string text;
  for (const Value& character : reversed) text += *character.string();
  return new_text(context, std::move(text));
}

Arguments without_first(const Arguments& a, std::size_t count) {
  Arguments rest = a;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, a.positional.size())));
  return rest;
}

// select(test, ...), selectattr(path, test, ...): elements whose test holds; without a test, those that are true.
Value selected(Context& context, const Value& value, const Arguments& a, bool by_attribute, bool keep) {
  const std::size_t at = by_attribute ? 1 : 0;
  const std::string path = by_attribute ? to_text(argument(a, 0, "attribute"), "selectattr") : "";
  Test test = nullptr;
  if (a.positional.size() > at) {
    const std::string name = to_text(a.positional[at], "select");
    test = find_test(name);
    if (test == nullptr) fail(fmt::format("no test named '{}'", name));
  }
  const Arguments rest = without_first(a, at + 1);
  std::vector<Value> result;
  if (!value.truth()) return result;
  for (const Value& item : counted_elements(context, value)) {
    const Value looked_at = by_attribute ? attribute_of(item, path) : item;
    if ((test ? test(context, looked_at, rest) : looked_at.truth()) == keep) result.push_back(item);
  }
  return result;
}

// map(filter, ...) or map(attribute=path).
Value map(Context& context, const Value& value, const Arguments& a) {
  const Value path = argument(a, 99, "attribute", None{});
  std::vector<Value> result;
  if (!value.truth()) return result;
  if (path.string() || path.integer()) {
    const Value fallback = argument(a, 99, "default", Value());
    for (const Value& item : counted_elements(context, value)) {
      Value found = attribute_of(item, path.to_string());
      result.push_back(found.is_undefined() && !fallback.is_undefined() ? fallback : found);
    }
    return result;
  }
  const std::string name = to_text(argument(a, 0, "filter"), "map");
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail(fmt::format("no filter named '{}'", name));
  const Arguments rest = without_first(a, 1);
  for (const Value& item : counted_elements(context, value)) result.push_back(filter(context, item, rest));
  return result;
}

Value sum(Context& context, const Value& value, const Arguments& a) {
  const Value path = argument(a, 0, "attribute", None{});
  const Value start = argument(a, 1, "start", 0);
  double total = start.number();
  bool integers = start.integer() != nullptr;
  for (const Value& item : counted_elements(context, value)) {
    const Value number = path.string() ? attribute_of(item, *path.string()) : item;
    if (!number.is_number()) fail("sum: an element is no number");
    integers = integers && !number.get<double>();
    total += number.number();
  }
  return integers && std::fabs(total) < 0x1p53 ? Value(static_cast<std::int64_t>(total)) : Value(total);
}

Value extreme(Context& context, const Value& value, const Arguments& a, bool greatest) {
  const bool case_sensitive = argument(a, 0, "case_sensitive", false).truth();
  const Value path = argument(a, 1, "attribute", None{});
  const std::vector<Value> all = counted_elements(context, value);
  if (all.empty()) return Undefined{greatest ? "max" : "min"};
  const auto key = [&](const Value& item) { return path.is_none() ? item : attribute_of(item, path.to_string()); };
  const Value* found = &all.front();
  for (const Value& item : all) {
    const int order = folded_compare(key(item), key(*found), case_sensitive);
    if (greatest ? order > 0 : order < 0) found = &item;
  }
  return *found;
}

Value absolute(Context&, const Value& value, const Arguments&) {
  if (value.integer() && *value.integer() != INT64_MIN) return std::abs(*value.integer());
  if (const bool* flag = value.get<bool>()) return *flag ? 1 : 0;
  if (!value.is_number()) fail(fmt::format("abs: {} is no number", value.type_name()));
  return std::fabs(value.number());
}
Value round(Context&, const Value& value, const Arguments& a) {
  const std::int64_t digits = to_integer(argument(a, 0, "precision", 0), "round");
  const std::string how = argument(a, 1, "method", "common").to_string();
  if (!value.is_number()) fail(fmt::format("round: {} is no number", value.type_name()));
  if (how == "common") {
    if (value.get<double>()) return rounded(value.number(), digits);
    if (digits < 0) fail("round: a negative precision is not done");
    return to_integer(value, "round");
  }
  if (how != "ceil" && how != "floor") fail(fmt::format("round: no method {}", how));
  const double scale = std::pow(10.0, static_cast<double>(digits)), scaled = value.number() * scale;
  return (how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value indent(Context& context, const Value& value, const Arguments& a) {
  const Value width = argument(a, 0, "width", 4);
  const std::string margin = width.string() ? *width.string()
                                            : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(to_integer(width, "indent"), 0, 1024)), ' ');
  const bool first_too = argument(a, 1, "first", false).truth(), blank_too = argument(a, 2, "blank", false).truth();
  std::string text;
  bool is_first = true;
  for (const std::string& line : split_lines(value.to_string() + "\n")) {
    if (!is_first) text += "\n";
    if ((is_first ? first_too : (blank_too || !line.empty()))) text += margin;
    text += line;
    if (text.size() > kMaxText) fail("makes too much text");
    is_first = false;
  }
  return new_text(context, std::move(text));
}

Value escape(Context& context, const Value& value, const Arguments&) {
  if (value.is_markup()) return value;
  std::string text = escaped(value.to_string());
  context.budget.text(text.size());
  return Value::markup(std::move(text));
}

struct FilterRow {
  std::string_view name;
  Filter run;
};
constexpr FilterRow kFilters[] = {
    {"length", length},
    {"count", length},
    {"tojson", tojson},
    {"default", default_value},
    {"d", default_value},
    {"join", join},
    {"first", first},
    {"last", last},
    {"trim", trim},
    {"replace", replace},
    {"int", to_int},
    {"float", to_float},
    {"items", items},
    {"dictsort", dictsort},
    {"sort", sort},
    {"unique", unique},
    {"reverse", reverse},
    {"map", map},
    {"sum", sum},
    {"abs", absolute},
    {"round", round},
    {"indent", indent},
    {"escape", escape},
    {"e", escape},
    {"select", [](Context& c, const Value& v, const Arguments& a) { return selected(c, v, a, false, true); }},
    {"reject", [](Context& c, const Value& v, const Arguments& a) { return selected(c, v, a, false, false); }},
    {"selectattr", [](Context& c, const Value& v, const Arguments& a) { return selected(c, v, a, true, true); }},
    {"rejectattr", [](Context& c, const Value& v, const Arguments& a) { return selected(c, v, a, true, false); }},
    {"groupby", groupby},
    {"batch", batch},
    {"slice", slice},
    {"min", [](Context& c, const Value& v, const Arguments& a) { return extreme(c, v, a, false); }},
    {"max", [](Context& c, const Value& v, const Arguments& a) { return extreme(c, v, a, true); }},
    {"upper", [](Context& c, const Value& v, const Arguments&) { return new_text(c, upper(v.to_string())); }},
    {"lower", [](Context& c, const Value& v, const Arguments&) { return new_text(c, lower(v.to_string())); }},
    {"title", [](Context& c, const Value& v, const Arguments&) { return new_text(c, title_of_words(v.to_string())); }},
    {"capitalize",
     [](Context& c, const Value& v, const Arguments&) { return new_text(c, capitalized(v.to_string())); }},
    {"string", [](Context& c, const Value& v, const Arguments&) { return new_text(c, v.to_string()); }},
    {"safe", [](Context&, const Value& v, const Arguments&) { return Value::markup(v.to_string()); }},
    {"list", [](Context& c, const Value& v, const Arguments&) -> Value { return counted_elements(c, v); }},
    {"attr",
     [](Context& c, const Value& v, const Arguments& a) -> Value {
       const std::string name = to_text(argument(a, 0, "name"), "attr");
       // Items of a dict are none.
       if (v.dict() && !v.dict()->is_namespace) return find_method(c, v, name);
       Value found = attribute_of(v, name);
       return found.is_undefined() ? find_method(c, v, name) : found;
     }},
};

}  // namespace

Filter find_filter(std::string_view name) {
  const auto row = std::find_if(std::begin(kFilters), std::end(kFilters), [&](const FilterRow& r) { return r.name == name; });
  return row == std::end(kFilters) ? find_text_filter(name) : row->run;
}

Value attribute_of(const Value& object, const std::string& path) {
  Value value = object;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    const std::string name = path.substr(at, end - at);
    const Value* found = value.dict() ? value.dict()->find(std::string_view(name)) : nullptr;
    if (value.list() && value.list()->is_group && (name == "grouper" || name == "list")) {
      found = &value.list()->items[name == "list" ? 1 : 0];
    } else if (value.list()) {
      std::size_t index = 0;
      const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), index);
      if (error == std::errc() && rest == name.data() + name.size() && index < value.list()->items.size()) {
        found = &value.list()->items[index];
      }
    }
    Value next = found ? *found : Value(Undefined{name});
    value = std::move(next);
    at = end + 1;
  }
  return value;
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
