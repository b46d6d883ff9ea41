// Metadata of a GGUF file, checked as they are read: errors name the file and the key.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/metadata.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// The metadata whose keys start with a prefix: "split.", "llama.".
class GgufFields {
 public:
  GgufFields(const io::Metadata& metadata, std::string file, std::string prefix)
      : metadata_(metadata), file_(std::move(file)), prefix_(std::move(prefix)) {}

  bool has(const std::string& key) const { return metadata_.contains(prefix_ + key); }

  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) const {
    const io::MetadataValue& value = at(key);
    std::int64_t result = 0;
    try {
      result = value.as_integer();
    } catch (const ValueError&) {
      fail(key, fmt::format("is {}, not an integer", value.kind()));
    }
    if (result < least || result > most) fail(key, fmt::format("{} is not from {} to {}", result, least, most));
    return result;
  }
  std::int64_t integer_or(const std::string& key, std::int64_t fallback, std::int64_t least, std::int64_t most) const {
    return has(key) ? integer(key, least, most) : fallback;
  }
  /// A number for each layer, where one for all of them may stand instead of a list.
  std::vector<std::int64_t> of_layers_or(const std::string& key, std::size_t layers, std::int64_t fallback,
                                         std::int64_t least, std::int64_t most) const {
    const auto found = metadata_.find(prefix_ + key);
    const bool is_list = found != metadata_.end() && (found->second.get_if<std::vector<std::int32_t>>() != nullptr ||
                                                      found->second.get_if<std::vector<std::uint32_t>>() != nullptr);
    if (!is_list) return std::vector<std::int64_t>(layers, integer_or(key, fallback, least, most));
    std::vector<std::int64_t> result;
    const auto take = [&](const auto* list) {
      if (list != nullptr) result.assign(list->begin(), list->end());
    };
    take(found->second.get_if<std::vector<std::int32_t>>());
    take(found->second.get_if<std::vector<std::uint32_t>>());
    if (result.size() != layers) fail(key, fmt::format("has {} numbers for {} layers", result.size(), layers));
    for (const std::int64_t value : result) {
      if (value < least || value > most) fail(key, fmt::format("{} is not from {} to {}", value, least, most));
    }
    return result;
  }
  double positive_or(const std::string& key, double fallback) const {
    if (!has(key)) return fallback;
    double result = 0;
    try {
      result = at(key).as_real();
    } catch (const ValueError&) {
      fail(key, fmt::format("is {}, not a number", at(key).kind()));
    }
    if (!(result > 0) || !std::isfinite(result)) fail(key, fmt::format("{} is not positive", result));
    return result;
  }
  std::string text_or(const std::string& key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    const auto* text = at(key).get_if<std::string>();
    if (text == nullptr) fail(key, fmt::format("is {}, not a text", at(key).kind()));
    return *text;
  }
  bool flag_or(const std::string& key, bool fallback) const {
    if (!has(key)) return fallback;
    const auto* flag = at(key).get_if<bool>();
    if (flag == nullptr) fail(key, fmt::format("is {}, not a truth value", at(key).kind()));
    return *flag;
  }
  [[noreturn]] void fail(const std::string& key, std::string_view message) const {
    throw FormatError(fmt::format("{}: {}{}: {}", file_, prefix_, key, message));
  }

 private:
  const io::MetadataValue& at(const std::string& key) const {
    const auto found = metadata_.find(prefix_ + key);
    if (found == metadata_.end()) fail(key, "is missing");
    return found->second;
  }

  const io::Metadata& metadata_;
  std::string file_;
  std::string prefix_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
