// JSON output, one value a line. Floats have the fewest digits that read back to the same value; NaN and infinities,
// which JSON lacks, are the strings "nan", "inf" and "-inf". Text that is not UTF-8 gets replacement characters.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace cli {

std::string json(std::string_view text);
inline std::string json(const std::string& text) {
  return json(std::string_view(text));
}
inline std::string json(const char* text) {
  return json(std::string_view(text));
}
std::string json(float value);
std::string json(double value);
template <std::same_as<bool> Bool> std::string json(Bool value) {
  return value ? "true" : "false";
}
template <std::integral Integer>
requires(!std::same_as<Integer, bool>) std::string json(Integer value) {
  return std::to_string(value);
}
/// A hash: 16 lower-case hexadecimal digits.
std::string hex(std::uint64_t hash);

/// Members in the order of the calls. `value` is JSON already.
class JsonObject {
 public:
  JsonObject& add(std::string_view key, std::string_view value);
  std::string text() const { return members_ + "}"; }

 private:
  std::string members_ = "{";
};

class JsonArray {
 public:
  JsonArray& add(std::string_view value);
  std::string text() const { return elements_ + "]"; }

 private:
  std::string elements_ = "[";
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
