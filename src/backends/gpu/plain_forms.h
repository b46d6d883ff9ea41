// The words of source.h that a language has nothing of its own for: they are the functions of the kernel texts. MSL
// takes all of them; CUDA has instructions that do the same in fewer, and GLSL other words where the probe finds those
// right (vulkan/quick_forms.h).
#pragma once

namespace lockstep {
inline namespace v0 {
namespace gpu {

inline constexpr const char* kPlainForms = R"(#define SELECT(condition, x, y) ((condition) ? (x) : (y))
#define FLOAT_KEY(x) max_key(x)
#define MIN_KEY(x) min_key(x)
)";

/// Of Arithmetic::near_estimates.
inline constexpr const char* kPlainGelus = R"(#define MAGNITUDE(x) float_abs(x)
#define GELU_TO_BF16(x) ls_gelu_to_bf16(x)
#define GELU_TO_F16(x) ls_gelu(x)
)";

/// Of Arithmetic::quick_floats.
inline constexpr const char* kPlainFloats = R"(#define CANONICAL_F32(x) canonical(x)
#define FLUSHED_F32(x) canonical(x)
#define FLUSH_FACTOR(x, least) SELECT((BITS(x) & 0x7fffffffu) > least, 1.0f, 0.0f)
#define ROUND_BF16(x) cast_bf16(x)
#define ANY_ROUND_BF16(x) cast_bf16(x)
#define NEAREST_BF16(x) cast_bf16(x)
#define ENCODE_BF16(x) encode_bf16(x)
#define LARGER(x, y) larger(x, y)
#define SMALLER(x, y) smaller(x, y)
)";

/// Of Arithmetic::quick_halves.
inline constexpr const char* kPlainHalves = R"(#define DECODE_F16(word) decode_f16(word)
#define ANY_DECODE_F16(word) decode_f16(word)
#define ROUND_F16(x) cast_f16(x)
#define ANY_ROUND_F16(x) cast_f16(x)
#define ENCODE_F16(x) encode_f16(x)
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
