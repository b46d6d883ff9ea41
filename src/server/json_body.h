// JSON in requests and answers.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {

using Json = nlohmann::ordered_json;

inline std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

inline Response json_response(const Json& json) {
  return {text_of(json)};
}

/// The object that a body holds. HttpError 400 if it is none, or nests deeper than `depth`.
inline Json object_of(const std::string& body, int depth) {
  bool too_deep = false;
  const auto callback = [&](int at, Json::parse_event_t, Json&) {
    too_deep = too_deep || at > depth;
    return at <= depth;
  };
  Json json = Json::parse(body, callback, false);
  if (!json.is_object()) throw HttpError(400, "the request is no JSON object");
  if (too_deep) throw HttpError(400, "the request nests too deep");
  return json;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
