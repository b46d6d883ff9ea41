#include "io/json_fields.h"

#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "core/json_excess.h"

namespace lockstep {
inline namespace v0 {
namespace io {

using nlohmann::json;

json parse_json(std::string_view file, std::string_view text) {
  if (text.size() > kMaxJsonBytes) {
    throw FormatError(fmt::format("{}: {} bytes of JSON are more than {}", file, text.size(), kMaxJsonBytes));
  }
  // Not by a callback of the parser's, with which a list of objects takes the square of their number.
  if (json_excess(text, kMaxJsonDepth) != nullptr) {
    throw FormatError(fmt::format("{}: the JSON is nested deeper than {}", file, kMaxJsonDepth));
  }
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    // nlohmann's text reads "[json.exception.parse_error.101] parse error at line 1, column 7: syntax error ...".
    std::string_view what = error.what();
    const std::size_t start = what.find("] ");
    if (start != std::string_view::npos) what.remove_prefix(start + 2);
    throw FormatError(fmt::format("{}: not valid JSON: {}", file, in_quotes(what.substr(0, 300))));
  }
}

json parse_json(const os::FileBytes& file) {
  return parse_json(file.path, {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()});
}

JsonFields::JsonFields(const json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) {
    throw FormatError(fmt::format("{}: is {}, not an object", where_, object.type_name()));
  }
}

void JsonFields::fail(std::string_view key, std::string_view message) const {
  throw FormatError(fmt::format("{}: {}: {}", where_, key, message));
}

const json* JsonFields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const json& JsonFields::at(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) fail(key, "is missing");
  return *value;
}

std::int64_t JsonFields::integer(const char* key, std::int64_t least, std::int64_t most) const {
  const json& value = at(key);
  if (!value.is_number_integer()) fail(key, fmt::format("is {}, not an integer", value.type_name()));
  const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX);
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    fail(key, fmt::format("{} is not from {} to {}", value.dump(), least, most));
  }
  return value.get<std::int64_t>();
}

std::int64_t JsonFields::integer_or(const char* key, std::int64_t fallback, std::int64_t least,
                                    std::int64_t most) const {
  return has(key) ? integer(key, least, most) : fallback;
}

double JsonFields::real(const char* key) const {
  const json& value = at(key);
  if (!value.is_number()) fail(key, fmt::format("is {}, not a number", value.type_name()));
  if (!std::isfinite(value.get<double>())) fail(key, "is not finite");
  return value.get<double>();
}

double JsonFields::real_or(const char* key, double fallback) const {
  return has(key) ? real(key) : fallback;
}

bool JsonFields::flag_or(const char* key, bool fallback) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(key, fmt::format("is {}, neither true nor false", value->type_name()));
  return value->get<bool>();
}

std::string JsonFields::text(const char* key) const {
  const json& value = at(key);
  if (!value.is_string()) fail(key, fmt::format("is {}, not a text", value.type_name()));
  return value.get<std::string>();
}

std::string JsonFields::text_or(const char* key, std::string fallback) const {
  return has(key) ? text(key) : fallback;
}

const json& JsonFields::array(const char* key) const {
  const json& value = at(key);
  if (!value.is_array()) fail(key, fmt::format("is {}, not an array", value.type_name()));
  return value;
}

std::vector<std::string> JsonFields::texts(const char* key) const {
  std::vector<std::string> result;
  for (const json& value : array(key)) {
    if (!value.is_string()) fail(key, fmt::format("holds {}, not a text", value.type_name()));
    result.push_back(value.get<std::string>());
  }
  return result;
}

JsonFields JsonFields::object(const char* key) const {
  const json& value = at(key);
  if (!value.is_object()) fail(key, fmt::format("is {}, not an object", value.type_name()));
  return {value, where_ + ": " + key};
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
