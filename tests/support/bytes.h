// Comparing memory in tests.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace testing {

/// By one call: operator== takes byte after byte, which is slow where each access is checked.
inline bool same_bytes(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
