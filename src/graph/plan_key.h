// What makes two windows one plan: everything that schedule() looks at, and nothing else (parameters and buffers are
// bound per run), as words. A primitive's part is written from its fields, so that no member is forgotten; what is
// written of Shape, View and Bound takes them apart into all their members.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/view.h"
#include "graph/describe.h"
#include "graph/primitive.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

using PlanKey = std::vector<std::uint64_t>;

template <typename T>
concept SmallValue = std::is_integral_v<T> || std::is_enum_v<T>;

/// Small values that share words, each with all the bits of its type: whoever knows the types knows where they are.
class SmallValues {
 public:
  template <SmallValue T> void add(PlanKey& key, T value) {
    constexpr unsigned kBits = std::is_same_v<T, bool> ? 1 : 8 * sizeof(T);
    if (used_ + kBits > 64) end(key);
    word_ |= bits_of(value) << used_;
    used_ += kBits;
  }
  void end(PlanKey& key) {
    if (used_ > 0) key.push_back(word_);
    word_ = 0;
    used_ = 0;
  }

 private:
  template <SmallValue T> static std::uint64_t bits_of(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? 1 : 0;
    } else if constexpr (std::is_enum_v<T>) {
      return bits_of(static_cast<std::underlying_type_t<T>>(value));
    } else {
      return static_cast<std::make_unsigned_t<T>>(value);
    }
  }

  std::uint64_t word_ = 0;
  unsigned used_ = 0;  ///< bits of word_
};

// Each appends words from which its value could be read back by whoever knows the types, since sizes come before
// elements and an alternative's number before its fields. So different values have different keys, also one after the
// other.
template <SmallValue... T> void append(PlanKey& key, T... values) {
  SmallValues small;
  (small.add(key, values), ...);
  small.end(key);
}
void append(PlanKey& key, const Shape& shape);
void append(PlanKey& key, const View& view);
void append(PlanKey& key, const Primitive& primitive);

/// Equal for windows with equal entries; written without making them.
PlanKey key_of(const Window& window);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
