// What one run of a chat template may take.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

inline constexpr std::int64_t kMaxSteps = 1'000'000;
inline constexpr std::size_t kMaxText = std::size_t{16} << 20;
inline constexpr std::int64_t kMaxRange = 100'000;

/// Counts work and text of one run.
class Budget {
 public:
  void step(std::size_t count = 1);
  /// A new text of so many bytes.
  void text(std::size_t bytes);

 private:
  std::int64_t steps_ = 0;
  std::size_t text_ = 0;
};

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
