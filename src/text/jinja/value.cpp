#include "text/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "text/jinja/limits.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

// To look at one, or copy it.
constexpr std::size_t kUnitsOfElement = 16;

// Python's repr of a float: the shortest that reads back, with a point or an exponent.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double size = std::fabs(value);
  const bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific).ptr;
  std::string text(buffer, end);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string string_repr(std::string_view text) {
  spend(text.size());
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string result(1, quote);
  for (const char32_t c : decode_utf8_lossy(text)) {
    const Category kind = category(c);
    if (c == U'\n') {
      result += "\\n";
    } else if (c == U'\t') {
      result += "\\t";
    } else if (c == U'\r') {
      result += "\\r";
    } else if (c == U'\\' || c == static_cast<char32_t>(quote)) {
      result += '\\';
      result += encode_utf8(c);
    } else if (c != U' ' && kind >= Category::Zs) {  // not printable
      const auto code = static_cast<std::uint32_t>(c);
      result += code < 0x100     ? fmt::format("\\x{:02x}", code)
                : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                 : fmt::format("\\U{:08x}", code);
    } else {
      result += encode_utf8(c);
    }
  }
  return result + quote;
}

std::string repr_of(const Value& value) {
  spend(kUnitsOfElement);
  if (const std::string* text = value.string()) return string_repr(*text);
  if (const List* list = value.list()) {
    std::string result = list->tuple ? "(" : "[";
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      result += (i == 0 ? "" : ", ") + repr_of(list->items[i]);
    }
    if (list->tuple && list->items.size() == 1) result += ",";
    return result + (list->tuple ? ")" : "]");
  }
  if (const Dict* dict = value.dict()) {
    std::string result = "{";
    for (std::size_t i = 0; i < dict->items.size(); ++i) {
      result += (i == 0 ? "" : ", ") + repr_of(dict->items[i].first) + ": " + repr_of(dict->items[i].second);
    }
    return result + "}";
  }
  return value.is_undefined() ? "Undefined" : value.to_string();
}

void append_json_string(const std::string& text, bool ascii, std::string& result) {
  // Escapes as json.dumps does; broken UTF-8 becomes replacement characters.
  result += Json(text).dump(-1, ' ', ascii, Json::error_handler_t::replace);
}

std::string key_of_json(const Value& key) {
  if (const bool* flag = key.get<bool>()) return *flag ? "true" : "false";
  return key.is_none() ? "null" : key.to_string();
}

void append_json(const Value& value, const JsonStyle& style, int level, std::string& result) {
  spend(kUnitsOfElement);
  if (result.size() > kMaxText) fail("makes too much text");
  const auto line = [&](int at) {
    if (style.indent >= 0) result += "\n" + std::string(static_cast<std::size_t>(style.indent * at), ' ');
  };
  const std::string separator = !style.item_separator.empty() ? style.item_separator : style.indent >= 0 ? "," : ", ";
  const std::string colon = style.key_separator.empty() ? ": " : style.key_separator;
  if (const std::string* text = value.string()) {
    append_json_string(*text, style.ascii, result);
  } else if (const List* list = value.list()) {
    result += "[";
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) result += separator;
      line(level + 1);
      append_json(list->items[i], style, level + 1, result);
    }
    if (!list->items.empty()) line(level);
    result += "]";
  } else if (const Dict* dict = value.dict()) {
    const auto& items = dict->items;
    const std::vector<std::size_t> order = sorted_places(items.size(), [&](std::size_t a, std::size_t b) {
      return style.sorted && compare(items[a].first, items[b].first) < 0;
    });
    result += "{";
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) result += separator;
      line(level + 1);
      append_json_string(key_of_json(items[order[i]].first), style.ascii, result);
      result += colon;
      append_json(items[order[i]].second, style, level + 1, result);
    }
    if (!order.empty()) line(level);
    result += "}";
  } else if (const bool* flag = value.get<bool>()) {
    result += *flag ? "true" : "false";
  } else if (value.is_none()) {
    result += "null";
  } else if (value.is_number()) {
    const std::string number = value.to_string();
    result += number == "nan" ? "NaN" : number == "inf" ? "Infinity" : number == "-inf" ? "-Infinity" : number;
  } else {
    fail(fmt::format("tojson: {} is no JSON", value.type_name()));
  }
}

}  // namespace

Arguments::Arguments() = default;
Arguments::Arguments(const Arguments& other) = default;
Arguments::Arguments(Arguments&& other) noexcept = default;
Arguments::~Arguments() = default;

Value::Value() = default;
Value::Value(const Value& other) : data_(other.data_), is_markup_(other.is_markup_) {
  spend_copy();
}
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) {
  data_ = other.data_;
  is_markup_ = other.is_markup_;
  spend_copy();
  return *this;
}
void Value::spend_copy() const {
  if (string()) spend(string()->size() / 4);
}
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;
Value::Value(Undefined undefined) : data_(std::move(undefined)) {}
Value::Value(std::string value) : data_(std::move(value)) {}
Value::Value(const char* value) : data_(std::string(value)) {}
Value::Value(std::vector<Value> items) : Value(List{std::move(items)}) {}
Value::Value(Function function) : data_(std::make_shared<Function>(std::move(function))) {}
Value::Value(List list) {
  for (const Value& item : list.items) list.depth = std::max(list.depth, item.depth() + 1);
  if (list.depth > kDeepest) fail("a value is nested too deeply");
  data_ = std::make_shared<List>(std::move(list));
}
Value::Value(Dict dict) {
  for (const auto& [key, item] : dict.items) dict.depth = std::max(dict.depth, item.depth() + 1);
  if (dict.depth > kDeepest) fail("a value is nested too deeply");
  data_ = std::make_shared<Dict>(std::move(dict));
}

const Value* Dict::find(const Value& key) const {
  for (const auto& [name, value] : items) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}
const Value* Dict::find(std::string_view key) const {
  spend(items.size());
  for (const auto& [name, value] : items) {
    if (name.string() && *name.string() == key) return &value;
  }
  return nullptr;
}
void Dict::set(Value key, Value value) {
  if (key.list() || key.dict() || key.function() || key.is_undefined()) {
    fail(fmt::format("a key of a dict is {}", key.type_name()));
  }
  depth = std::max(depth, value.depth() + 1);
  if (depth > kDeepest) fail("a value is nested too deeply");
  for (auto& [name, old] : items) {
    if (!equal(name, key)) continue;
    old = std::move(value);
    return;
  }
  items.emplace_back(std::move(key), std::move(value));
}

double Value::number() const {
  if (const bool* flag = get<bool>()) return *flag ? 1 : 0;
  if (const std::int64_t* number = integer()) return static_cast<double>(*number);
  const double* number = get<double>();
  return number ? *number : 0;
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (const std::string* text = string()) return !text->empty();
  if (const List* items = list()) return !items->items.empty();
  if (const Dict* items = dict()) return items->is_namespace || !items->items.empty();
  return function() != nullptr || number() != 0;
}

std::string Value::to_string() const {
  if (const std::string* text = string()) return *text;
  if (is_undefined()) return "";
  if (is_none()) return "None";
  if (const bool* flag = get<bool>()) return *flag ? "True" : "False";
  if (const std::int64_t* number = integer()) return std::to_string(*number);
  if (const double* number = get<double>()) return float_text(*number);
  if (const Function* called = function()) return "<function " + called->name + ">";
  return repr_of(*this);
}
std::string Value::repr() const { return repr_of(*this); }

std::string_view Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (get<bool>()) return "bool";
  if (integer()) return "int";
  if (get<double>()) return "float";
  if (string()) return "str";
  if (const List* items = list()) return items->tuple ? "tuple" : "list";
  if (const Dict* items = dict()) return items->is_namespace ? "Namespace" : "dict";
  return "function";
}

bool equal(const Value& a, const Value& b) {
  spend(kUnitsOfElement);
  if (a.is_number() && b.is_number()) {
    if (a.integer() && b.integer()) return *a.integer() == *b.integer();
    return a.number() == b.number();
  }
  if (a.string() && b.string()) {
    spend(std::min(a.string()->size(), b.string()->size()) / 16);
    return *a.string() == *b.string();
  }
  if (a.list() && b.list()) {
    const auto& x = a.list()->items;
    const auto& y = b.list()->items;
    return a.list()->tuple == b.list()->tuple && std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
  }
  if (a.dict() && b.dict()) {
    if (a.dict()->items.size() != b.dict()->items.size()) return false;
    return std::all_of(a.dict()->items.begin(), a.dict()->items.end(), [&](const auto& item) {
      const Value* other = b.dict()->find(item.first);
      return other != nullptr && equal(item.second, *other);
    });
  }
  if (a.function() && b.function()) return a.function() == b.function();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b) {
  spend(kUnitsOfElement);
  const auto sign = [](auto x, auto y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.integer() && b.integer()) return sign(*a.integer(), *b.integer());
  if (a.is_number() && b.is_number()) return sign(a.number(), b.number());
  if (a.string() && b.string()) return sign(*a.string(), *b.string());  // UTF-8 sorts as its code points do
  if (a.list() && b.list()) {
    const auto& x = a.list()->items;
    const auto& y = b.list()->items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i])) return compare(x[i], y[i]);
    }
    return sign(x.size(), y.size());
  }
  fail(fmt::format("{} and {} have no order", a.type_name(), b.type_name()));
}

bool contains(const Value& container, const Value& item) {
  if (const std::string* text = container.string()) {
    if (!item.string()) fail(fmt::format("'in' of a string needs a string, not {}", item.type_name()));
    spend(text->size());
    return text->find(*item.string()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  const std::vector<Value> items = elements(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& value) { return equal(value, item); });
}

std::vector<Value> elements(const Value& value) {
  if (const List* list = value.list()) {
    spend(list->items.size() * kUnitsOfElement);
    return list->items;
  }
  std::vector<Value> result;
  if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
    for (const auto& [key, item] : dict->items) result.push_back(key);
    return result;
  }
  if (const std::string* text = value.string()) {
    for (std::string& character : characters(*text)) result.emplace_back(std::move(character));
    return result;
  }
  if (value.is_undefined()) return result;
  fail(fmt::format("{} cannot be iterated over", value.type_name()));
}

Value from_json(const Json& json, int depth) {
  if (depth > kDeepest) fail("a value is nested too deeply");
  switch (json.type()) {
    case Json::value_t::boolean: return json.get<bool>();
    case Json::value_t::number_integer: return json.get<std::int64_t>();
    case Json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      return number >> 63 ? Value(static_cast<double>(number)) : Value(static_cast<std::int64_t>(number));
    }
    case Json::value_t::number_float: return json.get<double>();
    case Json::value_t::string: return json.get<std::string>();
    case Json::value_t::array: {
      List list;
      for (const Json& item : json) list.items.push_back(from_json(item, depth + 1));
      return list;
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) dict.items.emplace_back(key, from_json(item, depth + 1));
      return dict;
    }
    default: return None{};
  }
}

std::vector<std::size_t> sorted_places(std::size_t count, const std::function<bool(std::size_t, std::size_t)>& before) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

std::string to_json(const Value& value, const JsonStyle& style) {
  std::string result;
  append_json(value, style, 0, result);
  return result;
}

std::vector<std::string> characters(std::string_view text) {
  spend(4 * text.size());
  std::vector<std::string> result;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    for (std::size_t k = 1; k < length; ++k) {
      if (i + k < text.size() && (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80) continue;
      length = 1;
    }
    result.emplace_back(text.substr(i, length));
    i += length;
  }
  return result;
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
