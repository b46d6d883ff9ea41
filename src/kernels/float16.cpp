// The public conversions of the small floats; of Float16 and BFloat16 from the text that all backends compile.
#include <lockstep/dtype.h>

#include <cmath>
#include <limits>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {

Float16 to_f16(float value) {
  return {static_cast<std::uint16_t>(scalar::encode_f16(value))};
}
float to_f32(Float16 value) {
  return scalar::decode_f16(value.bits);
}

// Data as the user has it: subnormals become zero where kernels read and write, not here.
BFloat16 to_bf16(float value) {
  return {static_cast<std::uint16_t>(scalar::nearest_bf16(value))};
}
float to_f32(BFloat16 value) {
  return FROM_BITS(std::uint32_t{value.bits} << 16);
}

// 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinities, all ones is NaN.
float to_f32(Float8E4M3 value) {
  const int exponent = value.bits >> 3 & 0xf;
  const int mantissa = value.bits & 7;
  const float magnitude = (value.bits & 0x7f) == 0x7f ? std::numeric_limits<float>::quiet_NaN()
                          : exponent == 0             ? std::ldexp(static_cast<float>(mantissa), -9)
                                                      : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (value.bits & 0x80) != 0 ? -magnitude : magnitude;
}
// The upper half of an f16.
float to_f32(Float8E5M2 value) {
  return to_f32(Float16{static_cast<std::uint16_t>(value.bits << 8)});
}

}  // namespace v0
}  // namespace lockstep
