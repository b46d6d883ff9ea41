// Which tests take their long forms: sizes that fill the units of a large GPU or repeat at length what they do in
// small, and all of their random cases.
#pragma once

#include <cstddef>
#include <type_traits>

namespace lockstep {
inline namespace v0 {

/// With LOCKSTEP_LONG_TESTS=1 (`make soak`), and where LOCKSTEP_TEST_DEVICES names devices to compare. Elsewhere, as in
/// `make test`, the reference would take most of a test's time for sizes that mean nothing to the CPU.
bool long_forms();

/// Whether a sanitizer makes everything several times as long, and nobody asked for long forms.
bool takes_long_here();

/// Whether ThreadSanitizer watches, for whom one thread does nothing.
bool looks_for_races();

/// `count` random cases or repetitions; a quarter of them where everything takes long.
template <typename Count> Count enough_of(Count count) {
  static_assert(std::is_integral_v<Count>);
  return takes_long_here() ? (count + 3) / 4 : count;
}

/// One of `count`, drawn from a sequence that is the same in every process.
std::size_t drawn_index(std::size_t count);

}  // namespace v0
}  // namespace lockstep
