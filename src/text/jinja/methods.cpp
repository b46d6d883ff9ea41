// Methods of strings and dicts, and the functions that templates find without a definition.
#include <algorithm>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "text/jinja/evaluator.h"
#include "text/jinja/numbers.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

using Method = Value (*)(Context&, const Value& self, const Arguments&);

Value text_result(Context& context, std::string text) {
  context.budget.text(text.size());
  return text;
}

Value strip_method(Context& context, const Value& self, const Arguments& a, bool left, bool right) {
  const Value set = argument(a, 0, "chars", None{});
  return text_result(context, stripped(*self.string(), set.string() ? *set.string() : std::string(kSpaces), left, right));
}
Value split_method(Context& context, const Value& self, const Arguments& a, bool from_right) {
  const Value separator = argument(a, 0, "sep", None{});
  const std::int64_t most = to_integer(argument(a, 1, "maxsplit", -1), "split");
  std::vector<Value> parts;
  for (std::string& part : split(*self.string(), separator.string() ? separator.string() : nullptr, most, from_right)) {
    parts.emplace_back(std::move(part));
  }
  context.budget.step(parts.size());
  return parts;
}
// Where to look: between the characters that the second and the third argument give, as a slice does.
struct Section {
  std::string_view text;
  std::size_t begin = 0;  ///< In characters.
  bool exists = true;
};
Section section_of(const Value& self, const Arguments& a) {
  const std::string& text = *self.string();
  if (a.positional.size() < 2) return {text};
  const std::vector<std::string> all = characters(text);
  const auto size = static_cast<std::int64_t>(all.size());
  const auto place = [&](std::size_t i, std::int64_t absent) {
    const Value given = argument(a, i, "", None{});
    const std::int64_t at = given.is_none() ? absent : to_integer(given, "a place");
    return at < 0 ? std::max<std::int64_t>(at, -size) + size : at;
  };
  const std::int64_t begin = place(1, 0), end = std::min(place(2, size), size);
  if (begin > end) return {{}, 0, false};
  const auto bytes = [&](std::int64_t count) {
    return std::accumulate(all.begin(), all.begin() + count, std::size_t{0},
                           [](std::size_t sum, const std::string& one) { return sum + one.size(); });
  };
  return {std::string_view(text).substr(bytes(begin), bytes(end) - bytes(begin)), static_cast<std::size_t>(begin)};
}
// A prefix, or one of several.
bool has_affix(const Value& self, const Arguments& a, bool at_end) {
  const Value affix = argument(a, 0, "prefix");
  const Section section = section_of(self, a);
  const auto one = [&](const Value& value) {
    const std::string part = to_text(value, at_end ? "endswith" : "startswith");
    return section.exists && (at_end ? section.text.ends_with(part) : section.text.starts_with(part));
  };
  if (affix.list()) return std::any_of(affix.list()->items.begin(), affix.list()->items.end(), one);
  return one(affix);
}
Value find_in(const Value& self, const Arguments& a, bool last, bool must) {
  const Section section = section_of(self, a);
  const std::string part = to_text(argument(a, 0, "sub"), "find");
  const std::size_t at = !section.exists ? std::string_view::npos
                         : last          ? section.text.rfind(part)
                                         : section.text.find(part);
  if (at == std::string_view::npos) {
    if (must) fail("index: the text is not there");
    return -1;
  }
  return section.begin + characters(section.text.substr(0, at)).size();
}

// {}, {0}, {name}, with !s, !r and a format behind a colon.
Value format_method(Context& context, const Value& self, const Arguments& a) {
  const std::string& text = *self.string();
  std::string result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' && text[i] != '}') {
      result += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == text[i]) {
      result += text[i++];
      continue;
    }
    const std::size_t end = text.find('}', i);
    if (text[i] == '}' || end == std::string::npos) fail("format: a brace stands alone");
    const std::string whole = text.substr(i + 1, end - i - 1);
    const std::size_t colon = std::min(whole.find(':'), whole.size());
    const std::string spec = colon < whole.size() ? whole.substr(colon + 1) : "";
    std::string field = whole.substr(0, colon);
    const bool as_repr = field.ends_with("!r"), as_text = field.ends_with("!s");
    if (as_repr || as_text) field.resize(field.size() - 2);
    if (field.find_first_of("!.[") != std::string::npos || spec.find('{') != std::string::npos)
      fail(fmt::format("format: {{{}}} is not done", whole));
    const bool numbered = !field.empty() && std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (numbered && field.size() > 4) fail("format: the text asks for more than it is given");
    const std::size_t at = field.empty() ? next++ : numbered ? std::stoul(field) : a.positional.size();
    Value value = at < a.positional.size() ? a.positional[at] : argument(a, at, field);
    if (value.is_undefined()) fail("format: the text asks for more than it is given");
    if (as_repr) value = value.repr();
    if (as_text) value = value.to_string();
    result += formatted_by(context.budget, value, spec);
    i = end;
  }
  return text_result(context, std::move(result));
}

Value pad_method(Context& context, const Value& self, const Arguments& a, Padding where) {
  const std::u32string fill = decode_utf8_lossy(to_text(argument(a, 1, "fillchar", " "), "a padding"));
  if (fill.size() != 1) fail("a padding is one character");
  return text_result(context, padded(*self.string(), to_integer(argument(a, 0, "width"), "a padding"), fill[0], where));
}

Value zfill_method(Context& context, const Value& self, const Arguments& a) {
  const std::string& text = *self.string();
  const std::int64_t width = to_integer(argument(a, 0, "width"), "zfill");
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  return text_result(context, text.substr(0, sign) + padded(text.substr(sign), width - static_cast<std::int64_t>(sign),
                                                            U'0', Padding::left));
}

// What stands before a separator, it, and what follows.
Value partition_method(const Value& self, const Arguments& a, bool last) {
  const std::string& text = *self.string();
  const std::string separator = to_text(argument(a, 0, "sep"), "partition");
  if (separator.empty()) fail("partition: the separator is empty");
  const std::size_t at = last ? text.rfind(separator) : text.find(separator);
  const bool found = at != std::string::npos;
  const std::size_t begin = found ? at : last ? 0 : text.size();
  const std::size_t end = begin + (found ? separator.size() : 0);
  List parts{.tuple = true};
  for (const auto& [from, to] : {std::pair{std::size_t{0}, begin}, {begin, end}, {end, text.size()}})
    parts.items.emplace_back(text.substr(from, to - from));
  return parts;
}

// Whether a text is not empty, and each of its characters of these kinds.
bool all_in(const Value& self, std::uint32_t mask) {
  const std::u32string text = decode_utf8_lossy(*self.string());
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char32_t c) { return in_mask(c, mask); });
}

// Letters have the case, one at least.
bool has_case(const Value& self, Category wanted) {
  const std::u32string text = decode_utf8_lossy(*self.string());
  const auto is = [&](char32_t c, Category kind) { return category(c) == kind; };
  const Category other = wanted == Category::Lu ? Category::Ll : Category::Lu;
  return std::any_of(text.begin(), text.end(), [&](char32_t c) { return is(c, wanted); }) &&
         std::none_of(text.begin(), text.end(), [&](char32_t c) { return is(c, other) || is(c, Category::Lt); });
}

struct MethodRow {
  std::string_view name;
  Method run;
};

constexpr MethodRow kStringMethods[] = {
    {"strip", [](Context& c, const Value& s, const Arguments& a) { return strip_method(c, s, a, true, true); }},
    {"lstrip", [](Context& c, const Value& s, const Arguments& a) { return strip_method(c, s, a, true, false); }},
    {"rstrip", [](Context& c, const Value& s, const Arguments& a) { return strip_method(c, s, a, false, true); }},
    {"split", [](Context& c, const Value& s, const Arguments& a) { return split_method(c, s, a, false); }},
    {"rsplit", [](Context& c, const Value& s, const Arguments& a) { return split_method(c, s, a, true); }},
    {"splitlines",
     [](Context&, const Value& s, const Arguments& a) -> Value {
       std::vector<Value> lines;
       for (std::string& line : split_lines(*s.string(), argument(a, 0, "keepends", false).truth()))
         lines.emplace_back(std::move(line));
       return lines;
     }},
    {"startswith", [](Context&, const Value& s, const Arguments& a) -> Value { return has_affix(s, a, false); }},
    {"endswith", [](Context&, const Value& s, const Arguments& a) -> Value { return has_affix(s, a, true); }},
    {"upper", [](Context& c, const Value& s, const Arguments&) { return text_result(c, upper(*s.string())); }},
    {"lower", [](Context& c, const Value& s, const Arguments&) { return text_result(c, lower(*s.string())); }},
    {"title", [](Context& c, const Value& s, const Arguments&) { return text_result(c, title(*s.string())); }},
    {"capitalize",
     [](Context& c, const Value& s, const Arguments&) { return text_result(c, capitalized(*s.string())); }},
    {"replace",
     [](Context& c, const Value& s, const Arguments& a) {
       return text_result(c, replaced(*s.string(), to_text(argument(a, 0, "old"), "replace"), to_text(argument(a, 1, "new"), "replace"),
                                      to_integer(argument(a, 2, "count", -1), "replace")));
     }},
    {"removeprefix",
     [](Context& c, const Value& s, const Arguments& a) {
       const std::string part = to_text(argument(a, 0, "prefix"), "removeprefix");
       return text_result(c, s.string()->starts_with(part) ? s.string()->substr(part.size()) : *s.string());
     }},
    {"removesuffix",
     [](Context& c, const Value& s, const Arguments& a) {
       const std::string part = to_text(argument(a, 0, "suffix"), "removesuffix");
       return text_result(c, s.string()->ends_with(part) ? s.string()->substr(0, s.string()->size() - part.size()) : *s.string());
     }},
    {"join",
     [](Context& c, const Value& s, const Arguments& a) {
       std::string text;
       bool first = true;
       for (const Value& item : elements(argument(a, 0, "iterable"))) {
         text += (std::exchange(first, false) ? "" : *s.string()) + to_text(item, "join");
       }
       return text_result(c, std::move(text));
     }},
    {"format", format_method},
    {"find", [](Context&, const Value& s, const Arguments& a) { return find_in(s, a, false, false); }},
    {"rfind", [](Context&, const Value& s, const Arguments& a) { return find_in(s, a, true, false); }},
    {"index", [](Context&, const Value& s, const Arguments& a) { return find_in(s, a, false, true); }},
    {"rindex", [](Context&, const Value& s, const Arguments& a) { return find_in(s, a, true, true); }},
    {"count",
     [](Context&, const Value& s, const Arguments& a) -> Value {
       const std::string part = to_text(argument(a, 0, "sub"), "count");
       const Section section = section_of(s, a);
       if (part.empty()) return section.exists ? characters(section.text).size() + 1 : 0;
       std::int64_t count = 0;
       for (std::size_t at = section.text.find(part); at != std::string_view::npos;
            at = section.text.find(part, at + part.size()))
         ++count;
       return count;
     }},
    {"isdigit",
     [](Context&, const Value& s, const Arguments&) -> Value {
       const std::u32string text = decode_utf8_lossy(*s.string());
       // Beside decimal digits those with a circle, a bracket or a stop, above and below.
       const auto digit = [](char32_t c) {
         const bool other =
             (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247c) || (c >= 0x2488 && c <= 0x2490) ||
             c == 0x24ea || (c >= 0x24f5 && c <= 0x24fd) || c == 0x24ff || (c >= 0x2776 && c <= 0x277e) ||
             (c >= 0x2780 && c <= 0x2788) || (c >= 0x278a && c <= 0x2792) || c == 0xb2 || c == 0xb3 || c == 0xb9 ||
             c == 0x2070 || (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
             (c >= 0x1369 && c <= 0x1371) || c == 0x19da || (c >= 0x10a40 && c <= 0x10a43) ||
             (c >= 0x10e60 && c <= 0x10e68) || (c >= 0x11052 && c <= 0x1105a) || (c >= 0x1f100 && c <= 0x1f10a);
         return other || category(c) == Category::Nd;
       };
       return !text.empty() && std::all_of(text.begin(), text.end(), digit);
     }},
    {"isdecimal", [](Context&, const Value& s, const Arguments&) -> Value { return all_in(s, mask_of(Category::Nd)); }},
    {"isalpha", [](Context&, const Value& s, const Arguments&) -> Value { return all_in(s, *category_mask("L")); }},
    {"isalnum",
     [](Context&, const Value& s, const Arguments&) -> Value {
       return all_in(s, *category_mask("L") | *category_mask("N"));
     }},
    {"isspace",
     [](Context&, const Value& s, const Arguments&) -> Value {
       return !s.string()->empty() && stripped(*s.string(), kSpaces, true, false).empty();
     }},
    {"isascii",
     [](Context&, const Value& s, const Arguments&) -> Value {
       return std::all_of(s.string()->begin(), s.string()->end(),
                          [](char c) { return static_cast<unsigned char>(c) < 0x80; });
     }},
    {"islower", [](Context&, const Value& s, const Arguments&) -> Value { return has_case(s, Category::Ll); }},
    {"isupper", [](Context&, const Value& s, const Arguments&) -> Value { return has_case(s, Category::Lu); }},
    {"partition", [](Context&, const Value& s, const Arguments& a) { return partition_method(s, a, false); }},
    {"rpartition", [](Context&, const Value& s, const Arguments& a) { return partition_method(s, a, true); }},
    {"ljust", [](Context& c, const Value& s, const Arguments& a) { return pad_method(c, s, a, Padding::right); }},
    {"rjust", [](Context& c, const Value& s, const Arguments& a) { return pad_method(c, s, a, Padding::left); }},
    {"center", [](Context& c, const Value& s, const Arguments& a) { return pad_method(c, s, a, Padding::both); }},
    {"zfill", zfill_method},
};

constexpr MethodRow kDictMethods[] = {
    {"items",
     [](Context&, const Value& s, const Arguments&) -> Value {
       std::vector<Value> pairs;
       for (const auto& [key, value] : s.dict()->items) pairs.emplace_back(List{{key, value}, true});
       return pairs;
     }},
    {"keys",
     [](Context&, const Value& s, const Arguments&) -> Value {
       std::vector<Value> keys;
       for (const auto& [key, value] : s.dict()->items) keys.push_back(key);
       return keys;
     }},
    {"values",
     [](Context&, const Value& s, const Arguments&) -> Value {
       std::vector<Value> values;
       for (const auto& [key, value] : s.dict()->items) values.push_back(value);
       return values;
     }},
    {"get",
     [](Context&, const Value& s, const Arguments& a) -> Value {
       const Value key = argument(a, 0, "key");
       const Value* found = s.dict()->find(key);
       return found ? *found : argument(a, 1, "default", None{});
     }},
};

constexpr MethodRow kListMethods[] = {
    {"index",
     [](Context&, const Value& s, const Arguments& a) -> Value {
       const auto& items = s.list()->items;
       for (std::size_t i = 0; i < items.size(); ++i) {
         if (equal(items[i], argument(a, 0, "value"))) return i;
       }
       fail("index: the value is not in the list");
     }},
    {"count",
     [](Context&, const Value& s, const Arguments& a) -> Value {
       const auto& items = s.list()->items;
       return static_cast<std::int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
         return equal(item, argument(a, 0, "value"));
       }));
     }},
};

Value range_function(Arguments a) {
  if (a.positional.empty() || a.positional.size() > 3) fail("range takes one to three numbers");
  std::int64_t start = 0, stop = to_integer(a.positional[0], "range"), step = 1;
  if (a.positional.size() > 1) {
    start = stop;
    stop = to_integer(a.positional[1], "range");
  }
  if (a.positional.size() > 2) step = to_integer(a.positional[2], "range");
  if (step == 0) fail("range: the step is 0");
  const double count = std::max(0.0, (static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step));
  if (count > static_cast<double>(kMaxRange)) fail("range: more than 100000 numbers");
  std::vector<Value> numbers;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop; i += step) numbers.emplace_back(i);
  return numbers;
}

Value dict_of(Arguments a, bool is_namespace) {
  Dict dict{.is_namespace = is_namespace};
  for (const Value& given : a.positional) {
    if (!given.dict()) fail("dict: an argument is no dict");
    for (const auto& [key, value] : given.dict()->items) dict.set(key, value);
  }
  for (auto& [key, value] : a.named) dict.set(key, std::move(value));
  return dict;
}

// Nothing at the first call, then the separator.
Value joiner(Arguments a) {
  const auto used = std::make_shared<bool>(false);
  return Function{"joiner", [used, separator = argument(a, 0, "sep", ", ")](Arguments) {
                    return std::exchange(*used, true) ? separator : Value("");
                  }};
}

}  // namespace

Value find_method(Context& context, const Value& object, const std::string& name) {
  const auto bound = [&](const MethodRow& row) -> Value {
    return Function{name, [&context, object, run = row.run](Arguments a) {
                      if (object.string()) spend(2 * object.string()->size());
                      return run(context, object, a);
                    }};
  };
  const auto among = [&](const auto& rows) -> Value {
    for (const MethodRow& row : rows) {
      if (row.name == name) return bound(row);
    }
    return {};
  };
  if (object.string()) return among(kStringMethods);
  if (object.list()) return among(kListMethods);
  if (object.dict() && !object.dict()->is_namespace) return among(kDictMethods);
  return {};
}

const std::map<std::string, Value, std::less<>>& global_functions() {
  static const std::map<std::string, Value, std::less<>> functions = {
      {"range", Function{"range", range_function}},
      {"dict", Function{"dict", [](Arguments a) { return dict_of(std::move(a), false); }}},
      {"namespace", Function{"namespace", [](Arguments a) { return dict_of(std::move(a), true); }}},
      {"joiner", Function{"joiner", joiner}},
      {"raise_exception", Function{"raise_exception",
                                   [](Arguments a) -> Value {
                                     throw ValueError("the chat template refuses the conversation: " +
                                                      argument(a, 0, "message").to_string());
                                   }}},
  };
  return functions;
}

Value argument(const Arguments& arguments, std::size_t position, std::string_view name, Value fallback) {
  if (position < arguments.positional.size()) return arguments.positional[position];
  for (const auto& [key, value] : arguments.named) {
    if (key == name) return value;
  }
  return fallback;
}
std::int64_t to_integer(const Value& value, std::string_view what) {
  if (const bool* flag = value.get<bool>()) return *flag ? 1 : 0;
  if (!value.integer()) fail(fmt::format("{}: {} is no integer", what, value.type_name()));
  return *value.integer();
}
std::string to_text(const Value& value, std::string_view what) {
  if (!value.string()) fail(fmt::format("{}: {} is no string", what, value.type_name()));
  return *value.string();
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
