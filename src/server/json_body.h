// JSON in requests and answers.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json);
Response json_response(const Json& json);
inline constexpr int kDepth = 64;  // of requests

/// The object that a body holds. HttpError 400 if it is none, nests deeper than `depth`, or has some million values.
Json object_of(const std::string& body, int depth);
/// JSON within a text of a request or a model; discarded if it is none, or more than a request may be.
Json json_within(const std::string& text);

/// An object, member by member: a list in braces takes several times the code.
class Members {
 public:
  Members& add(const char* key, const char* value);
  Members& add(const char* key, const std::string& value);
  Members& add(const char* key, const Json& value);
  template <std::floating_point T> Members& add(const char* key, T value) { return number(key, double(value)); }
  template <std::integral T> Members& add(const char* key, T value) {
    if constexpr (std::is_same_v<T, bool>)
      return truth(key, value);
    else
      return number(key, static_cast<std::int64_t>(value));
  }
  /// Nothing else is to be asked of it then.
  Json take() { return std::move(json_); }
  operator Json() { return std::move(json_); }

 private:
  Members& number(const char* key, double value);
  Members& number(const char* key, std::int64_t value);
  Members& truth(const char* key, bool value);

  Json json_ = Json(Json::value_t::object);
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep
