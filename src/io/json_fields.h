// JSON files that users download (config.json, tokenizer.json): parsed with limits, read field by field with errors
// that name the file and the field. Never part of the public API.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {

inline constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{256} << 20;
inline constexpr std::size_t kMaxJsonDepth = 64;

/// Throws FormatError for a text that is too long, no JSON, or nested deeper than kMaxJsonDepth.
nlohmann::json parse_json(std::string_view file, std::string_view text);
nlohmann::json parse_json(const os::FileBytes& file);

/// An object of a JSON file. Refers to it. What is null counts as absent. Every function throws FormatError naming the
/// file and the field where a value is missing, has another type or lies outside its range.
class JsonFields {
 public:
  /// `where` names the object: "config.json", "config.json: rope_parameters".
  JsonFields(const nlohmann::json& object, std::string where);

  const std::string& where() const { return where_; }
  /// Null if absent.
  const nlohmann::json* find(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  const nlohmann::json& at(const char* key) const;

  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) const;
  std::int64_t integer_or(const char* key, std::int64_t fallback, std::int64_t least, std::int64_t most) const;
  /// Finite.
  double real(const char* key) const;
  double real_or(const char* key, double fallback) const;
  bool flag_or(const char* key, bool fallback) const;
  std::string text(const char* key) const;
  std::string text_or(const char* key, std::string fallback) const;
  std::vector<std::string> texts(const char* key) const;
  JsonFields object(const char* key) const;
  /// The whole object.
  const nlohmann::json& at_object() const { return *object_; }
  /// The elements of an array.
  const nlohmann::json& array(const char* key) const;

  [[noreturn]] void fail(std::string_view key, std::string_view message) const;

 private:
  const nlohmann::json* object_;
  std::string where_;
};

}  // namespace io
}  // namespace v0
}  // namespace lockstep
