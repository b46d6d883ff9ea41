// The public conversions of Float16 and BFloat16, from the text that all backends compile.
#include <lockstep/dtype.h>

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

}  // namespace v0
}  // namespace lockstep
