// A grammar for the JSON texts that a schema allows.
#include "text/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "core/checked.h"
#include "core/json_excess.h"
#include "text/grammar/integer_range.h"
#include "text/grammar/number_range.h"
#include "text/grammar/pattern.h"
#include "text/grammar/rules.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using SchemaJson = nlohmann::ordered_json;

constexpr int kMostSchemaDepth = 64;

// White space is optional and bounded: a model that may indent without end sometimes does.
constexpr const char* kJsonRules = R"gbnf(
space ::= " "? | "\n" [ \t]{0,20}
value ::= object | array | string | number | boolean | null
object ::= "{" space (string ":" space value space ("," space string ":" space value space)*)? "}"
array ::= "[" space (value space ("," space value space)*)? "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-CefEF] hex{3} | [dD] [0-7] hex{2}))
hex ::= [0-9a-fA-F]
)gbnf";

// Of names that stand without quotes: what excludes the signs of the syntax.
constexpr const char* kBareNames = R"gbnf([^:{}\[\],"<>\x00-\x20)gbnf";
constexpr const char* kBareSigns = ":{}[],\"<>";

constexpr const char* kBareRules = R"gbnf(
space ::= ""
value ::= object | array | string | number | boolean | null
object ::= "{{" (key ":" value ("," key ":" value)*)? "}}"
array ::= "[" (value ("," value)*)? "]"
key ::= {0}]+
string ::= {1} char* {1}
char ::= [^{2}]
)gbnf";

constexpr const char* kNumberRules = R"gbnf(
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?
boolean ::= "true" | "false"
null ::= "null"
)gbnf";

// Names of formats, and their patterns.
constexpr const char* kFormats[][2] = {
    {"date", R"(^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$)"},
    {"time", R"(^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"date-time",
     R"(^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"uuid", "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
    {"ipv4", R"(^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$)"},
    {"email", R"(^[A-Za-z0-9_%+-]+(\.[A-Za-z0-9_%+-]+)*@([A-Za-z0-9]+(-[A-Za-z0-9]+)*\.)+[A-Za-z]{2,}$)"}};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string gbnf_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += std::string("\\") + c;
    } else if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + "\"";
}

// As Jinja's dictsort orders names.
bool comes_before(const std::string& a, const std::string& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](char x, char y) { return lower(x) < lower(y); });
}

class SchemaConverter {
 public:
  explicit SchemaConverter(const SchemaJson& root) : root_(root) {}
  SchemaConverter(const SchemaJson& root, const std::string& quote) : root_(root), bare_(true), quote_(quote) {}

  std::string convert(const std::string& common) {
    const std::string root = expression(root_, "#", 0);
    return fmt::format("root ::= {}\n{}{}{}", root, rules_, common, kNumberRules + 1);
  }

 private:
  [[noreturn]] static void fail(const std::string& where, const std::string& message) {
    throw FormatError(fmt::format("JSON schema: {}: {}", where, message));
  }

  std::string new_rule(const std::string& body) {
    const std::string name = fmt::format("r-{}", count_++);
    rules_ += fmt::format("{} ::= {}\n", name, body);
    return name;
  }

  static void check_keys(const SchemaJson& schema, const std::string& where, const std::set<std::string>& known) {
    static constexpr const char* kAnnotations[] = {"title",    "description", "default", "examples",    "$schema",
                                                   "$id",      "$comment",    "$defs",   "definitions", "deprecated",
                                                   "readOnly", "writeOnly",   "type"};
    for (const auto& [key, value] : schema.items()) {
      const bool annotates = std::find(std::begin(kAnnotations), std::end(kAnnotations), key) != std::end(kAnnotations);
      if (known.count(key) == 0 && !annotates) fail(where, fmt::format("{} is not offered", in_quotes(key)));
    }
  }

  std::string expression(const SchemaJson& schema, const std::string& where, int depth) {
    if (depth > kMostSchemaDepth) fail(where, fmt::format("nests deeper than {}", kMostSchemaDepth));
    if (schema == true) return "value";
    if (!schema.is_object()) fail(where, "is no schema that allows anything");
    check_type(schema, where);
    if (schema.contains("$ref")) {
      check_keys(schema, where, {"$ref"});
      return reference(schema["$ref"], where, depth);
    }
    for (const char* key : {"anyOf", "oneOf"}) {
      if (!schema.contains(key)) continue;
      check_keys(schema, where, {key});
      return alternatives(schema[key], where + "/" + key, depth);
    }
    if (schema.contains("allOf")) {
      check_keys(schema, where, {"allOf"});
      if (!schema["allOf"].is_array() || schema["allOf"].size() != 1)
        fail(where, "allOf is offered of one schema alone");
      return expression(schema["allOf"][0], where + "/allOf/0", depth + 1);
    }
    if (schema.contains("const")) {
      check_keys(schema, where, {"const"});
      return literal(schema["const"]);
    }
    if (schema.contains("enum")) {
      check_keys(schema, where, {"enum"});
      if (!schema["enum"].is_array() || schema["enum"].empty()) fail(where, "enum is no list of values");
      std::string result;
      for (const SchemaJson& value : schema["enum"]) {
        if (!schema.contains("type") || is_of(value, schema["type"]))
          result += (result.empty() ? "(" : " | ") + literal(value);
      }
      if (result.empty()) fail(where, "no value of enum has the type");
      return result + ")";
    }
    if (!schema.contains("type")) return typed(schema, guessed_type(schema), where, depth);
    if (!schema["type"].is_array()) return typed(schema, type_name(schema["type"], where), where, depth);
    std::string result;
    for (const SchemaJson& type : schema["type"]) {
      SchemaJson one = SchemaJson::object();
      const std::string name = type_name(type, where);
      for (const auto& [key, value] : schema.items()) {
        if (belongs(key, name)) one[key] = value;
      }
      result += (result.empty() ? "(" : " | ") + typed(one, name, where, depth);
    }
    if (result.empty()) fail(where, "type is an empty list");
    return result + ")";
  }

  static std::string type_name(const SchemaJson& type, const std::string& where) {
    if (!type.is_string()) fail(where, "type is no text");
    return type.get<std::string>();
  }

  // Whether a value has the type, or one of a list.
  static bool is_of(const SchemaJson& value, const SchemaJson& type) {
    for (std::size_t i = 0; type.is_array() && i < type.size(); ++i) {
      if (is_of(value, type[i])) return true;
    }
    if (type == "integer" && value.is_number_float()) return value.get<double>() == std::floor(value.get<double>());
    return type == (value.is_number_integer() && type == "integer" ? "integer" : value.type_name());
  }

  // Whether a schema, as far as can be seen, allows nothing but values of the type.
  bool keeps_type(const SchemaJson& schema, const SchemaJson& type, int depth) const {
    const SchemaJson* const one = schema.is_string() ? target(schema) : &schema;
    if (one == nullptr || !one->is_object() || depth > kMostSchemaDepth) return false;
    for (const char* key : {"type", "$ref", "anyOf", "oneOf", "allOf", "const", "enum"}) {
      if (one->contains(key)) return key_keeps_type(key, (*one)[key], type, depth + 1);
    }
    return guessed_type(*one) == type;
  }
  bool key_keeps_type(std::string_view key, const SchemaJson& value, const SchemaJson& type, int depth) const {
    if (key == "type") return value == type;
    if (key == "$ref") return keeps_type(value, type, depth);
    if (key == "const") return is_of(value, type);
    bool all = value.is_array();
    for (std::size_t i = 0; all && i < value.size(); ++i)
      all = key == "enum" ? is_of(value[i], type) : keeps_type(value[i], type, depth);
    return all;
  }

  // A type beside keywords that have none of their own holds as well.
  void check_type(const SchemaJson& schema, const std::string& where) const {
    if (!schema.contains("type")) return;
    for (const char* key : {"$ref", "anyOf", "oneOf", "allOf", "const"}) {
      if (schema.contains(key) && !key_keeps_type(key, schema[key], schema["type"], 0))
        fail(where, fmt::format("{} allows other values than the type beside it", in_quotes(key)));
    }
  }

  static constexpr const char* kOwners[][2] = {
      {"properties", "object"}, {"required", "object"},         {"additionalProperties", "object"},
      {"items", "array"},       {"prefixItems", "array"},       {"minItems", "array"},
      {"maxItems", "array"},    {"minLength", "string"},        {"maxLength", "string"},
      {"pattern", "string"},    {"format", "string"},           {"minimum", "number"},
      {"maximum", "number"},    {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}};

  // Of a list of types, each sees the keywords that are its own.
  static bool belongs(const std::string& key, const std::string& type) {
    for (const auto& [name, owner] : kOwners) {
      if (key == name) return type == owner || (owner == std::string_view("number") && type == "integer");
    }
    return true;
  }

  static std::string guessed_type(const SchemaJson& schema) {
    for (const auto& [name, owner] : kOwners) {
      if (schema.contains(name)) return owner;
    }
    return "value";
  }

  std::string typed(const SchemaJson& schema, const std::string& type, const std::string& where, int depth) {
    if (type == "object") return object(schema, where, depth);
    if (type == "array") return array(schema, where, depth);
    if (type == "string") {
      check_keys(schema, where, {"minLength", "maxLength", "pattern", "format"});
      if (schema.contains("format")) return formatted(schema, where);
      if (schema.contains("pattern")) return patterned(schema, where);
      if (!schema.contains("minLength") && !schema.contains("maxLength")) return "string";
      return quoted(fmt::format("char{}", bounds(schema, "minLength", "maxLength", where)));
    }
    if (type == "integer" || type == "number") {
      check_keys(schema, where, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"});
      return type == "integer" ? integer(schema, where) : number(schema, where);
    }
    check_keys(schema, where, {});
    for (const char* known : {"boolean", "null", "value"}) {
      if (type == known) return type;
    }
    fail(where, fmt::format("there is no type {}", in_quotes(type)));
  }

  static std::int64_t size(const SchemaJson& schema, const char* key, std::int64_t absent, const std::string& where) {
    if (!schema.contains(key)) return absent;
    const SchemaJson& value = schema[key];
    if (!value.is_number_integer() || value < 0 || value > 2000)
      fail(where, fmt::format("{} is no number up to 2000", key));
    return value.get<std::int64_t>();
  }

  std::string patterned(const SchemaJson& schema, const std::string& where) {
    if (!schema["pattern"].is_string()) fail(where, "pattern is no text");
    if (bare_ && !schema.contains("format")) fail(where, "pattern is not offered for this model's calls");
    const auto [least, most] = range(schema, "minLength", "maxLength", where);
    const std::string name = fmt::format("pattern-{}", count_++);
    try {
      rules_ += pattern_rules(schema["pattern"].get<std::string>(), least, most, name, pattern_steps_left_);
    } catch (const FormatError& error) {
      fail(where, error.what());
    }
    return quoted(name);
  }

  // By its form alone: 30 February is a date.
  std::string formatted(const SchemaJson& schema, const std::string& where) {
    const SchemaJson& format = schema["format"];
    const auto* found =
        std::find_if(std::begin(kFormats), std::end(kFormats), [&](const auto& row) { return format == row[0]; });
    if (found == std::end(kFormats)) fail(where, fmt::format("the format {} is not offered", format.dump()));
    if (schema.contains("pattern")) fail(where, "pattern and format are not offered together");
    SchemaJson written = schema;
    written["pattern"] = (*found)[1];
    return patterned(written, where);
  }

  // The bounds of numbers are whole numbers of at most 16 digits.
  static std::optional<std::int64_t> bound(const SchemaJson& schema, const char* key, const std::string& where) {
    if (!schema.contains(key)) return std::nullopt;
    const SchemaJson& value = schema[key];
    const double number = value.is_number() ? value.get<double>() : 0.5;
    if (number != std::floor(number) || std::fabs(number) > static_cast<double>(kMostInteger)) {
      fail(where, fmt::format("{} is no integer of at most 16 digits", key));
    }
    return static_cast<std::int64_t>(number);
  }

  static std::string integer(const SchemaJson& schema, const std::string& where) {
    const auto low = bound(schema, "minimum", where), above = bound(schema, "exclusiveMinimum", where);
    const auto high = bound(schema, "maximum", where), below = bound(schema, "exclusiveMaximum", where);
    if (!low && !above && !high && !below) return "integer";
    const std::int64_t least = std::max(low.value_or(-kMostInteger), above.value_or(-kMostInteger - 1) + 1);
    const std::int64_t most = std::min(high.value_or(kMostInteger), below.value_or(kMostInteger + 1) - 1);
    if (least > most) fail(where, "no integer is within its bounds");
    return integer_range(least, most);
  }

  static std::string number(const SchemaJson& schema, const std::string& where) {
    const auto low = bound(schema, "minimum", where), above = bound(schema, "exclusiveMinimum", where);
    const auto high = bound(schema, "maximum", where), below = bound(schema, "exclusiveMaximum", where);
    if (!low && !above && !high && !below) return "number";
    NumberBound least{low.value_or(-kMostInteger)};
    NumberBound most{high.value_or(kMostInteger)};
    if (above && *above >= least.value) least = {*above, true};
    if (below && *below <= most.value) most = {*below, true};
    const std::string range = least.value > most.value ? "" : number_range(least, most);
    if (range.empty()) fail(where, "no number is within its bounds");
    return range;
  }

  // -1: no end.
  static std::pair<std::int64_t, std::int64_t> range(const SchemaJson& schema, const char* least, const char* most,
                                                     const std::string& where) {
    const std::int64_t low = size(schema, least, 0, where);
    const std::int64_t high = size(schema, most, -1, where);
    if (high >= 0 && high < low) fail(where, fmt::format("{} is above {}", least, most));
    return {low, high};
  }

  static std::string bounds(const SchemaJson& schema, const char* least, const char* most, const std::string& where) {
    const auto [low, high] = range(schema, least, most, where);
    return high < 0 ? fmt::format("{{{},}}", low) : fmt::format("{{{},{}}}", low, high);
  }

  std::string quoted(const std::string& text) const { return fmt::format("{} {} {}", quote_, text, quote_); }

  std::string literal(const SchemaJson& value) const {
    if (!bare_ || !(value.is_structured() || value.is_string())) {
      return gbnf_text(value.dump(-1, ' ', false, SchemaJson::error_handler_t::replace));
    }
    if (value.is_string()) return quoted(gbnf_text(value.get<std::string>()));
    std::string result;
    for (const auto& [name, one] : value.items()) {
      if (!result.empty()) result += "\",\" ";
      if (value.is_object()) result += gbnf_text(name + ":") + " ";
      result += literal(one) + " ";
    }
    return value.is_object() ? fmt::format("\"{{\" {}\"}}\"", result) : fmt::format("\"[\" {}\"]\"", result);
  }

  // Of a member.
  std::string name_of(const std::string& name, const std::string& where) const {
    if (!bare_) return literal(name);
    const bool clear = !name.empty() && name.find_first_of(kBareSigns) == std::string::npos;
    if (!clear) fail(where, fmt::format("{} is no name that this model's calls can have", in_quotes(name)));
    return gbnf_text(name);
  }

  std::string alternatives(const SchemaJson& list, const std::string& where, int depth) {
    if (!list.is_array() || list.empty()) fail(where, "is no list of schemas");
    std::string result;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string part = expression(list[i], fmt::format("{}/{}", where, i), depth + 1);
      result += (i == 0 ? "(" : " | ") + part;
    }
    return result + ")";
  }

  const SchemaJson* target(const SchemaJson& reference) const try {
    return &root_.at(SchemaJson::json_pointer(reference.get<std::string>().substr(1)));
  } catch (const std::exception&) {
    return nullptr;
  }

  // Rules have names, so that a schema may refer to itself.
  std::string reference(const SchemaJson& to, const std::string& where, int depth) {
    if (!to.is_string() || !to.get<std::string>().starts_with("#")) fail(where, "$ref leads out of the schema");
    const std::string path = to.get<std::string>();
    const auto known = references_.find(path);
    if (known != references_.end()) return known->second;
    const std::string name = fmt::format("ref-{}", references_.size());
    references_.emplace(path, name);
    const SchemaJson* const schema = target(to);
    if (schema == nullptr) fail(where, fmt::format("$ref: there is no {}", in_quotes(path)));
    const std::string body = expression(*schema, path, depth + 1);
    rules_ += fmt::format("{} ::= {}\n", name, body);
    return name;
  }

  std::string array(const SchemaJson& schema, const std::string& where, int depth) {
    check_keys(schema, where, {"items", "prefixItems", "minItems", "maxItems"});
    const bool tuple = schema.contains("prefixItems");
    const bool closed = schema.contains("items") ? schema["items"] == false : tuple;
    const std::int64_t least = size(schema, "minItems", 0, where);
    const std::int64_t most = size(schema, "maxItems", -1, where);
    if (most >= 0 && most < least) fail(where, "minItems is above maxItems");
    std::string items;
    std::int64_t fixed = 0;
    if (tuple) {
      if (!schema["prefixItems"].is_array()) fail(where, "prefixItems is no list of schemas");
      for (const SchemaJson& item : schema["prefixItems"]) {
        items += (fixed > 0 ? " \",\" space " : "") +
                 expression(item, fmt::format("{}/prefixItems/{}", where, fixed), depth + 1) + " space";
        ++fixed;
      }
    }
    if ((closed && least > fixed) || (most >= 0 && most < fixed)) fail(where, "so many items cannot be");
    if (closed) return fmt::format("\"[\" space {} \"]\"", items);
    const std::string item = schema.contains("items")
                                 ? new_rule(expression(schema["items"], where + "/items", depth + 1))
                                 : std::string("value");
    const auto more = [&](std::int64_t low, std::int64_t high) {
      return high < 0 ? fmt::format("(\",\" space {} space){{{},}}", item, low)
                      : fmt::format("(\",\" space {} space){{{},{}}}", item, low, high);
    };
    if (fixed > 0) {
      return fmt::format("\"[\" space {} {} \"]\"", items,
                         more(std::max<std::int64_t>(0, least - fixed), most < 0 ? -1 : most - fixed));
    }
    if (most == 0) return "\"[\" space \"]\"";
    const std::string some =
        fmt::format("{} space {}", item, more(std::max<std::int64_t>(0, least - 1), most < 0 ? -1 : most - 1));
    return least > 0 ? fmt::format("\"[\" space {} \"]\"", some) : fmt::format("\"[\" space ({})? \"]\"", some);
  }

  // Texts of a JSON string that are none of the names, written without escapes, so that no name can hide.
  std::string other_names(const std::vector<std::u32string>& names, std::size_t at) {
    std::map<char32_t, std::vector<std::u32string>> next;
    bool whole = false;
    for (const std::u32string& name : names) {
      if (name.size() == at) {
        whole = true;
      } else {
        next[name[at]].push_back(name);
      }
    }
    std::string others = bare_ ? kBareNames : R"([^"\\\x00-\x1f)";
    const std::string all = others + "]";
    std::string result;
    for (const auto& [c, longer] : next) {
      if (c < 0x20 || c == '"' || c == '\\') continue;  // such names are written with escapes alone
      const std::string escaped = fmt::format("\\U{:08x}", static_cast<std::uint32_t>(c));
      others += escaped;
      result += fmt::format("\"{}\" {} | ", escaped, other_names(longer, at + 1));
    }
    result += fmt::format("{}] {}*", others, all);
    return new_rule(whole ? result : result + " | \"\"");
  }

  std::string object(const SchemaJson& schema, const std::string& where, int depth) {
    check_keys(schema, where, {"properties", "required", "additionalProperties"});
    const SchemaJson none = SchemaJson::object();
    const SchemaJson& properties = schema.contains("properties") ? schema["properties"] : none;
    if (!properties.is_object()) fail(where, "properties is no object");
    std::set<std::string> required;
    if (schema.contains("required")) {
      if (!schema["required"].is_array()) fail(where, "required is no list");
      for (const SchemaJson& name : schema["required"]) {
        if (!name.is_string() || !properties.contains(name.get<std::string>())) {
          fail(where, fmt::format("{} is required, but no property", name.dump()));
        }
        required.insert(name.get<std::string>());
      }
    }
    SchemaJson more =
        schema.contains("additionalProperties") ? schema["additionalProperties"] : SchemaJson(properties.empty());
    // The members that may still come, from the last property back: as the first ones, and behind others.
    std::string first = "\"\"";
    std::string behind = "\"\"";
    if (more != false) {
      std::vector<std::u32string> names;
      for (const auto& [name, value] : properties.items()) {
        const std::optional<std::u32string> characters = decode_utf8(name);
        if (!characters || name.size() > 256) fail(where, "a name is no text, or long");
        names.push_back(*characters);
      }
      const std::string key = names.empty() ? (bare_ ? "key" : "string")
                              : bare_       ? other_names(names, 0)
                                            : quoted(other_names(names, 0));
      const std::string member = new_rule(
          fmt::format("{} \":\" space {} space", key, expression(more, where + "/additionalProperties", depth + 1)));
      behind = new_rule(fmt::format("(\",\" space {})*", member));
      first = new_rule(fmt::format("({} {})?", member, behind));
    }
    std::vector<std::string> names;
    for (const auto& [name, value] : properties.items()) names.push_back(name);
    if (bare_) std::stable_sort(names.begin(), names.end(), comes_before);
    for (std::size_t i = names.size(); i-- > 0;) {
      const std::string value = expression(properties[names[i]], where + "/properties/" + names[i], depth + 1);
      const std::string member = new_rule(fmt::format("{} \":\" space {} space", name_of(names[i], where), value));
      if (required.count(names[i]) > 0) {
        first = new_rule(fmt::format("{} {}", member, behind));
        behind = new_rule(fmt::format("\",\" space {} {}", member, behind));
      } else {
        first = new_rule(fmt::format("{} {} | {}", member, behind, first));
        behind = new_rule(fmt::format("(\",\" space {})? {}", member, behind));
      }
    }
    return fmt::format("\"{{\" space {} \"}}\"", first);
  }

  const SchemaJson& root_;
  bool bare_ = false;              // gbnf_of_bare_schema
  std::string quote_ = R"("\"")";  // GBNF
  std::string rules_;
  std::size_t count_ = 0;
  std::size_t pattern_steps_left_ = kMostPatternSteps;
  std::map<std::string, std::string> references_;
};

SchemaJson parsed_schema(std::string_view schema) {
  constexpr std::uint64_t kMostValues = std::uint64_t{1} << 24;
  if (const char* excess = json_excess(schema, 4 * kMostSchemaDepth, kMostValues)) {
    throw FormatError(fmt::format("JSON schema: it {}", excess));
  }
  SchemaJson json = SchemaJson::parse(schema, nullptr, false);
  if (json.is_discarded()) throw FormatError("JSON schema: it is no JSON");
  return json;
}

}  // namespace

std::string gbnf_of_json_schema(std::string_view schema) {
  return SchemaConverter(parsed_schema(schema)).convert(kJsonRules);
}

std::string gbnf_of_bare_schema(std::string_view schema, const std::string& quote, const std::string& excluded) {
  return SchemaConverter(parsed_schema(schema), quote).convert(fmt::format(kBareRules, kBareNames, quote, excluded));
}

Grammar Grammar::from_json_schema(std::string_view schema) {
  return from_gbnf(gbnf_of_json_schema(schema), "JSON schema");
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
