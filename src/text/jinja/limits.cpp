#include "text/jinja/limits.h"

#include <algorithm>

#include "text/jinja/value.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

void Budget::step(std::size_t count) {
  steps_ += static_cast<std::int64_t>(std::min<std::size_t>(count, static_cast<std::size_t>(kMaxSteps)));
  if (steps_ > kMaxSteps) fail("takes too many steps");
}
void Budget::text(std::size_t bytes) {
  text_ += bytes;
  step(1 + bytes / 256);
  if (text_ > kMaxText) fail("makes too much text");
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
