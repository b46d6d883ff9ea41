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

/// Counts work and text of one run: that of the thread, as long as it lives.
class Budget {
 public:
  Budget();
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(std::size_t count = 1);
  /// A new text of so many bytes.
  void text(std::size_t bytes);

 private:
  friend void spend(std::size_t units);
  Budget* outer_;
  std::int64_t used_ = 0;  // in units
  std::size_t text_ = 0;
};

inline constexpr std::int64_t kUnitsOfStep = 256;
/// Work within a step, of the thread's run, if there is one: a byte that is looked at is a unit, an element some. What
/// is shared counts as often as it is met, so that lists of which each holds the last one twice are not walked for
/// ever.
void spend(std::size_t units);

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
