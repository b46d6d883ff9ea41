#include "server/json_body.h"

#include <fmt/format.h>

#include "core/json_excess.h"

namespace lockstep {
inline namespace v0 {
namespace server {

namespace {

constexpr std::uint64_t kMostValues = 1 << 22;

}  // namespace

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Response json_response(const Json& json) {
  return {text_of(json)};
}

Json object_of(const std::string& body, int depth) {
  if (const char* excess = json_excess(body, static_cast<std::size_t>(depth), kMostValues)) {
    throw HttpError(400, fmt::format("the request {}", excess));
  }
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) throw HttpError(400, "the request is no JSON object");
  return json;
}

Json json_within(const std::string& text) {
  if (json_excess(text, kDepth, kMostValues) != nullptr) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
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
