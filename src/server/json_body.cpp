#include "server/json_body.h"

namespace lockstep {
inline namespace v0 {
namespace server {

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Response json_response(const Json& json) {
  return {text_of(json)};
}

Json object_of(const std::string& body, int depth) {
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

Members& Members::add(const char* key, const char* value) {
  return add(key, Json(value));
}

Members& Members::add(const char* key, const std::string& value) {
  return add(key, Json(value));
}

Members& Members::add(const char* key, const Json& value) {
  json_[key] = value;
  return *this;
}

Members& Members::number(const char* key, double value) {
  return add(key, Json(value));
}

Members& Members::number(const char* key, std::int64_t value) {
  return add(key, Json(value));
}

Members& Members::truth(const char* key, bool value) {
  return add(key, Json(value));
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
