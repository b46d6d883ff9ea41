#include "text/jinja/limits.h"

#include <algorithm>
#include <utility>

#include "text/jinja/failure.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

namespace {

thread_local constinit Budget* running = nullptr;

}  // namespace

void spend(std::size_t units) {
  constexpr std::int64_t kMost = kMaxSteps * kUnitsOfStep;
  if (running == nullptr) return;
  running->used_ += static_cast<std::int64_t>(std::min(units, static_cast<std::size_t>(kMost)));
  if (running->used_ > kMost) fail("takes too many steps");
}

Budget::Budget() : outer_(std::exchange(running, this)) {}
Budget::~Budget() {
  running = outer_;
}
void Budget::step(std::size_t count) {
  spend(std::min<std::size_t>(count, static_cast<std::size_t>(kMaxSteps)) * static_cast<std::size_t>(kUnitsOfStep));
}
void Budget::text(std::size_t bytes) {
  text_ += bytes;
  step(1 + bytes / 256);
  if (text_ > kMaxText) fail("makes too much text");
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
