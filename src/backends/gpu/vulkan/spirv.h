// What GLSL cannot say, added to the SPIR-V that a compiler made of it: no contraction of any float operation, and for
// 16, 32 and 64 bits rounding to nearest even and signed zeros, infinities and NaN kept.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Which of the float controls a device has.
struct FloatControls {
  bool keep_specials_16 = false, nearest_16 = false, keep_subnormals_16 = false;
  bool keep_specials_32 = false, nearest_32 = false, keep_subnormals_32 = false;
  bool keep_specials_64 = false, nearest_64 = false, keep_subnormals_64 = false;
};

/// The module with those controls. Throws BackendError when `words` is no SPIR-V module.
std::vector<std::uint32_t> with_exact_arithmetic(const std::vector<std::uint32_t>& words,
                                                 const FloatControls& controls);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
