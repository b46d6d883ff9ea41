#include <lockstep/io/metadata.h>

#include <type_traits>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

template <typename T> struct IsArray : std::false_type {};
template <typename T> struct IsArray<std::vector<T>> : std::true_type {};

template <typename T> std::string scalar_name() {
  if constexpr (std::is_same_v<T, std::string>) return "text";
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_same_v<T, MetadataValue>) return "arrays";
  if constexpr (std::is_arithmetic_v<T>) {
    const char* kind = std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "i" : "u";
    return fmt::format("{}{}", kind, 8 * sizeof(T));
  }
}

template <typename T> std::string scalar_text(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) return value;
  if constexpr (std::is_same_v<T, MetadataValue>) return value.to_string();
  if constexpr (std::is_arithmetic_v<T>) return fmt::format("{}", value);
}

[[noreturn]] void fail_kind(const MetadataValue& value, const char* wanted) {
  throw ValueError(
      fmt::format("the metadata value {} is {}, not {}", in_quotes(value.to_string(4)), value.kind(), wanted));
}

}  // namespace

const std::string& MetadataValue::as_text() const {
  if (const auto* text = get_if<std::string>()) return *text;
  fail_kind(*this, "a text");
}

bool MetadataValue::as_bool() const {
  if (const auto* value = get_if<bool>()) return *value;
  fail_kind(*this, "a bool");
}

std::int64_t MetadataValue::as_integer() const {
  return std::visit(
      [this]<typename T>(const T& value) -> std::int64_t {
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
        }
        fail_kind(*this, "an integer of 64 bits");
      },
      value_);
}

double MetadataValue::as_real() const {
  return std::visit(
      [this]<typename T>(const T& value) -> double {
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) return static_cast<double>(value);
        fail_kind(*this, "a number");
      },
      value_);
}

std::string MetadataValue::kind() const {
  return std::visit(
      []<typename T>(const T& value) {
        if constexpr (IsArray<T>()) {
          return fmt::format("array of {} {}", value.size(), scalar_name<typename T::value_type>());
        } else {
          return scalar_name<T>();
        }
      },
      value_);
}

std::string MetadataValue::to_string(std::size_t most) const {
  return std::visit(
      [most]<typename T>(const T& value) {
        if constexpr (IsArray<T>()) {
          using Element = typename T::value_type;
          std::string text = "[";
          for (std::size_t i = 0; i < value.size() && i < most; ++i) {
            const Element& element = value[i];
            text += (i > 0 ? ", " : "") + scalar_text(element);
          }
          if (value.size() > most) text += fmt::format(", ... {} in all", value.size());
          return text + "]";
        } else {
          return scalar_text(value);
        }
      },
      value_);
}

bool operator==(const MetadataValue& a, const MetadataValue& b) {
  return a.value_ == b.value_;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
