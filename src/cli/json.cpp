#include "cli/json.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

template <typename Float> std::string shortest(Float value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[32];
  const std::to_chars_result result = std::to_chars(text, text + sizeof text, value);
  return std::string(text, result.ptr);
}

}  // namespace

std::string json(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string json(float value) {
  return shortest(value);
}
std::string json(double value) {
  return shortest(value);
}
std::string hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

JsonObject& JsonObject::add(std::string_view key, std::string_view value) {
  if (members_.size() > 1) members_ += ',';
  members_ += json(key);
  members_ += ':';
  members_ += value;
  return *this;
}

JsonArray& JsonArray::add(std::string_view value) {
  if (elements_.size() > 1) elements_ += ',';
  elements_ += value;
  return *this;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
