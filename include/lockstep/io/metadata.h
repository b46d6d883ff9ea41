// What a file says beside its tensors: named values, each of a type. Some formats have texts alone (safetensors),
// others numbers, truths and arrays (GGUF, what torch.save keeps beside a state dict).
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace io {

class MetadataValue;

/// Each scalar T, an array std::vector<T> of each, and arrays of arrays.
template <typename... T> using ScalarsAndArrays = std::variant<T..., std::vector<T>..., std::vector<MetadataValue>>;
using MetadataVariant = ScalarsAndArrays<std::string, bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                                         std::uint32_t, std::int32_t, std::uint64_t, std::int64_t, float, double>;

template <typename T, typename Variant> inline constexpr bool kIsOneOf = false;
template <typename T, typename... Types>
inline constexpr bool kIsOneOf<T, std::variant<Types...>> = (std::same_as<T, Types> || ...);

/// One value. Made of a text, a bool, a number or a vector of them without more ado: `Metadata{{"epoch", 3}}`.
class LOCKSTEP_API MetadataValue {
 public:
  MetadataValue() = default;
  MetadataValue(const char* text) : value_(std::string(text)) {}
  MetadataValue(std::string_view text) : value_(std::string(text)) {}
  /// Exactly the types of MetadataVariant, so that no number changes its type on the way.
  template <typename T>
  requires kIsOneOf<T, MetadataVariant> MetadataValue(T value) : value_(std::in_place_type<T>, std::move(value)) {}

  /// Null where the value has another type.
  template <typename T> const T* get_if() const { return std::get_if<T>(&value_); }
  // Each of these throws ValueError, saying what the value is, where it is something else.
  const std::string& as_text() const;
  bool as_bool() const;
  /// Of any integer type, within 64 bits with a sign.
  std::int64_t as_integer() const;
  /// Of any float or integer type.
  double as_real() const;

  /// For a std::visit over all types.
  const MetadataVariant& variant() const { return value_; }
  /// "text", "u32", "array of 3 f32".
  std::string kind() const;
  /// A text as it is, a number with the fewest digits that read back to it, true and false, arrays as [1, 2, 3]; of
  /// arrays at most the first `most` elements, then "... N in all".
  std::string to_string(std::size_t most = 16) const;

  LOCKSTEP_API friend bool operator==(const MetadataValue& a, const MetadataValue& b);

 private:
  MetadataVariant value_;
};

/// By name, in the order of names. A map of texts becomes one by Metadata(texts.begin(), texts.end()).
using Metadata = std::map<std::string, MetadataValue, std::less<>>;

}  // namespace io
}  // namespace v0
}  // namespace lockstep
