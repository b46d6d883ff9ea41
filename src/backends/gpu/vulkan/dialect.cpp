// GLSL. Rounding modes and NoContraction are added to the SPIR-V afterwards (vulkan/spirv.h), so that FLOAT needs no
// qualifier.
#include "backends/gpu/dialect.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/plain_forms.h"
#include "backends/gpu/texts.h"
#include "backends/gpu/vulkan/quick_forms.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr const char* kHead = R"(#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#define FUNCTION
#define RARE_FUNCTION
#define FLOAT float
#define DOUBLE double
#define UINT uint
#define LONG int64_t
#define ULONG uint64_t
#define OUT(type, name) out type name
#define CONSTANT_TABLE(type, name, size) const type name[size]
#define TABLE_INDEX(index) uint(index)
#define BITS(x) floatBitsToUint(x)
#define FROM_BITS(u) uintBitsToFloat(u)
#define BITS64(x) packUint2x32(unpackDouble2x32(x))
#define FROM_BITS64(u) packDouble2x32(unpackUint2x32(u))
#define SIGN_MASK64(u) sign_mask(u)
#define FMA64(x, y, z) fma(x, y, z)
#define SQRT64(x) sqrt(x)
)";

constexpr const char* kWords = R"(#define THREAD gl_LocalInvocationIndex
#define GROUP gl_WorkGroupID.x
#define GROUPS gl_NumWorkGroups.x
#define MEMORY uint64_t
#define MEMORY_AT(n, w) ((uint64_t(P(w + 1)) << 32) | uint64_t(P(w)))
#define EARLY_MEMORY_AT(n, w) MEMORY_AT(n, w)
#define AFTER_EARLIER()
#define ASK_FOR(at)
#define BARRIER() barrier()
layout(buffer_reference, std430, buffer_reference_align = 1) buffer Bytes1 { uint8_t at; };
layout(buffer_reference, std430, buffer_reference_align = 1) readonly restrict buffer FixedBytes1 { uint8_t at; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Bytes2 { uint16_t at; };
layout(buffer_reference, std430, buffer_reference_align = 2) readonly restrict buffer FixedBytes2 { uint16_t at; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Bytes4 { uint at; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly restrict buffer FixedBytes4 { uint at; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Bytes8 { uint64_t at; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly restrict buffer FixedBytes8 { uint64_t at; };
#define LOAD_U8(a, i) uint(FixedBytes1((a) + uint64_t(int64_t(i))).at)
#define LOAD_U16(a, i) uint(FixedBytes2((a) + (uint64_t(int64_t(i)) << 1)).at)
#define LOAD_U32(a, i) FixedBytes4((a) + (uint64_t(int64_t(i)) << 2)).at
#define LOAD_U64(a, i) FixedBytes8((a) + (uint64_t(int64_t(i)) << 3)).at
#define LOAD_U32_AGAIN(a, i) Bytes4((a) + (uint64_t(int64_t(i)) << 2)).at
#define LOAD_U64_AGAIN(a, i) Bytes8((a) + (uint64_t(int64_t(i)) << 3)).at
#define STORE_U8(a, i, word) Bytes1((a) + uint64_t(int64_t(i))).at = uint8_t(word)
#define STORE_U16(a, i, word) Bytes2((a) + (uint64_t(int64_t(i)) << 1)).at = uint16_t(word)
#define STORE_U32(a, i, word) Bytes4((a) + (uint64_t(int64_t(i)) << 2)).at = (word)
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Words2 { uvec2 at; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly restrict buffer FixedWords2 { uvec2 at; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Words4 { uvec4 at; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly restrict buffer FixedWords4 { uvec4 at; };
#define LOAD4_U32(a, i, words4) { uvec4 v = FixedWords4((a) + (uint64_t(int64_t(i)) << 2)).at; words4[0] = v.x; words4[1] = v.y; words4[2] = v.z; words4[3] = v.w; }
#define LOAD2_U16(a, i, words2) { uint v = FixedBytes4((a) + (uint64_t(int64_t(i)) << 1)).at; PARTS_U16(v, words2, 0) }
#define LOAD4_U16(a, i, words4) { uvec2 v = FixedWords2((a) + (uint64_t(int64_t(i)) << 1)).at; words4[0] = v.x & 0xffffu; words4[1] = v.x >> 16; words4[2] = v.y & 0xffffu; words4[3] = v.y >> 16; }
#define STORE4_U32(a, i, words4) Words4((a) + (uint64_t(int64_t(i)) << 2)).at = uvec4(words4[0], words4[1], words4[2], words4[3]);
#define LOAD4_U8(a, i, words4) { uint v = FixedBytes4((a) + uint64_t(int64_t(i))).at; PARTS_U8(v, words4, 0) }
#define LOAD8_U8(a, i, words8) { uvec2 v = FixedWords2((a) + uint64_t(int64_t(i))).at; PARTS_U8(v.x, words8, 0) PARTS_U8(v.y, words8, 4) }
#define PARTS_U8(v, words4, j) words4[j] = v & 0xffu; words4[j + 1] = (v >> 8) & 0xffu; words4[j + 2] = (v >> 16) & 0xffu; words4[j + 3] = v >> 24;
#define LOAD8_U16(a, i, words8) { uvec4 v = FixedWords4((a) + (uint64_t(int64_t(i)) << 1)).at; PARTS_U16(v.x, words8, 0) PARTS_U16(v.y, words8, 2) PARTS_U16(v.z, words8, 4) PARTS_U16(v.w, words8, 6) }
#define PARTS_U16(v, words2, j) words2[j] = v & 0xffffu; words2[j + 1] = v >> 16;
#define JOINED_U8(words4, j) ((words4[j] & 0xffu) | ((words4[j + 1] & 0xffu) << 8) | ((words4[j + 2] & 0xffu) << 16) | (words4[j + 3] << 24))
#define JOINED_U16(words2, j) ((words2[j] & 0xffffu) | (words2[j + 1] << 16))
#define STORE4_U8(a, i, words4) Bytes4((a) + uint64_t(int64_t(i))).at = JOINED_U8(words4, 0);
#define STORE8_U8(a, i, words8) Words2((a) + uint64_t(int64_t(i))).at = uvec2(JOINED_U8(words8, 0), JOINED_U8(words8, 4));
#define STORE4_U16(a, i, words4) Words2((a) + (uint64_t(int64_t(i)) << 1)).at = uvec2(JOINED_U16(words4, 0), JOINED_U16(words4, 2));
#define STORE8_U16(a, i, words8) Words4((a) + (uint64_t(int64_t(i)) << 1)).at = uvec4(JOINED_U16(words8, 0), JOINED_U16(words8, 2), JOINED_U16(words8, 4), JOINED_U16(words8, 6));
#define STORE4_BF16(a, i, floats4) Words2((a) + (uint64_t(int64_t(i)) << 1)).at = uvec2(JOINED_BF16(floats4, 0), JOINED_BF16(floats4, 2));
#define STORE4_SURE_BF16(a, i, floats4) STORE4_BF16(a, i, floats4)
#define STORE8_SURE_BF16(a, i, floats8) STORE8_BF16(a, i, floats8)
#define STORE8_BF16(a, i, floats8) Words4((a) + (uint64_t(int64_t(i)) << 1)).at = uvec4(JOINED_BF16(floats8, 0), JOINED_BF16(floats8, 2), JOINED_BF16(floats8, 4), JOINED_BF16(floats8, 6));
#define READ4(s, i, array4, j) { int from = i; array4[j] = s[from]; array4[(j) + 1] = s[from + 1]; array4[(j) + 2] = s[from + 2]; array4[(j) + 3] = s[from + 3]; }
#define WRITE4(s, i, array4, j) { int to4 = i; s[to4] = array4[j]; s[to4 + 1] = array4[(j) + 1]; s[to4 + 2] = array4[(j) + 2]; s[to4 + 3] = array4[(j) + 3]; }
#define TAKE4_U32(s, i, words4) { int from4 = (i) * 4; words4[0] = uint(s[from4]); words4[1] = uint(s[from4 + 1]); words4[2] = uint(s[from4 + 2]); words4[3] = uint(s[from4 + 3]); }
#define PUT4_U32(s, i, words4) { int to4 = (i) * 4; s[to4] = int(words4[0]); s[to4 + 1] = int(words4[1]); s[to4 + 2] = int(words4[2]); s[to4 + 3] = int(words4[3]); }
#define STORE_U64(a, i, word) Bytes8((a) + (uint64_t(int64_t(i)) << 3)).at = (word)
uint mul_high(uint x, uint y) {
  uint high;
  uint low;
  umulExtended(x, y, high, low);
  return high;
}
#define MUL_HIGH(x, y) mul_high(x, y)
// Not 0 - (u >> 63), which NVIDIA's compiler (580.159) gets wrong where the mask and its complement are used.
uint64_t sign_mask(uint64_t u) {
  uint word = 0u - (uint(u >> 32) >> 31);
  return packUint2x32(uvec2(word, word));
}
float divide(float x, float y);
double divide(double x, double y) { return x / y; }
#define DIV(x, y) divide(x, y)
)";

// Packed dot products (VK_KHR_shader_integer_dot_product): OpSDotKHR of four signed bytes in a word. Written as what it
// is in SPIR-V, since shaderc of Debian 12 does not know GLSL's extension for it.
constexpr const char* kByteDots = R"(#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450) int dot_of_bytes(uint x, uint y, spirv_literal int packed_4x8);
#define DOT4(x, y, sum) (dot_of_bytes(x, y, 0) + (sum))
)";

// fma in f64: the product is exact, the sum is rounded to odd, and the only rounding is the last one.
constexpr const char* kSoftFma = R"(
float soft_fma(float x, float y, float z) {
  double product = WIDEN(x) * WIDEN(y);
  double addend = WIDEN(z);
  double sum = product + addend;
  double b = sum - product;
  double t = sum - b;
  double e1 = product - t;
  double e2 = addend - b;
  double e = e1 + e2;
  uvec2 bits = unpackDouble2x32(sum);
  uvec2 error = unpackDouble2x32(e);
  bool inexact = ((error.y << 1) | error.x) != 0u && (bits.x & 1u) == 0u && (bits.y & 0x7ff00000u) != 0x7ff00000u;
  bool down = ((bits.y ^ error.y) & 0x80000000u) != 0u;
  uint low = down ? bits.x - 1u : bits.x + 1u;
  uint high = down && bits.x == 0u ? bits.y - 1u : bits.y;
  bits = inexact ? uvec2(low, high) : bits;
  return NARROW(bits);
}
)";

// f32 to f64, subnormals kept: for devices whose conversion flushes them.
constexpr const char* kSoftWidening = R"(
double soft_widen(float x) {
  uint magnitude = floatBitsToUint(x) & 0x7fffffffu;
  if (magnitude == 0u || magnitude >= 0x00800000u) return double(x);
  uvec2 bits = unpackDouble2x32(double(magnitude) * packDouble2x32(uvec2(0u, 0x36a00000u)));  // units of 2^-149
  bits.y |= floatBitsToUint(x) & 0x80000000u;
  return packDouble2x32(bits);
}
)";

// f64 to f32 by integers, halves to even, subnormals kept: for devices whose conversion flushes them.
constexpr const char* kSoftNarrowing = R"(
float soft_narrow(uvec2 bits) {
  uint sign = bits.y & 0x80000000u;
  int exponent = int((bits.y >> 20) & 0x7ffu) - 1023;
  uint significand = (((bits.y & 0xfffffu) | 0x100000u) << 5) | (bits.x >> 27);
  uint sticky = (bits.x & 0x07ffffffu) != 0u ? 1u : 0u;
  int places = exponent < -126 ? 2 + (-126 - exponent) : 2;
  uint shift = uint(places > 27 ? 27 : places);
  uint kept = significand >> shift;
  uint rest = significand & ((1u << shift) - 1u);
  uint half_unit = 1u << (shift - 1u);
  uint up = rest > half_unit || (rest == half_unit && (sticky != 0u || (kept & 1u) != 0u)) ? 1u : 0u;
  uint result = exponent < -126 ? kept + up : (uint(exponent + 126) << 23) + kept + up;
  result = exponent > 127 || result > 0x7f800000u ? 0x7f800000u : result;
  result = (bits.y & 0x7ff00000u) == 0u ? 0u : result;
  bool nan = (bits.y & 0x7fffffffu) > 0x7ff00000u || ((bits.y & 0x7fffffffu) == 0x7ff00000u && bits.x != 0u);
  return uintBitsToFloat((nan ? 0x7fc00000u : result) | sign);
}
)";

// "0x7ff0000000000000" and "1.5" are an int and a float in GLSL, where C++ has a long and a double.
std::string with_suffixes(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto digit = [&](std::size_t at) {
      return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
    };
    const auto word = [&](std::size_t at) {
      return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
    };
    if (!digit(i)) {
      std::size_t end = i + 1;
      while (word(i) && word(end)) ++end;  // identifiers whole: digits in them are no numbers
      result += text.substr(i, end - i);
      i = end;
      continue;
    }
    std::size_t end = i;
    bool fraction = false;
    while (word(end) || (text[end] == '.' && digit(end + 1))) {
      fraction = fraction || text[end] == '.';
      ++end;
    }
    const std::string number = text.substr(i, end - i);
    const bool hex = number.starts_with("0x");
    result += number;
    if (hex && number.size() > 10 && number.back() != 'u' && number.back() != 'l') result += "ul";
    if (fraction && number.back() != 'f') result += "lf";
    i = end;
  }
  return result;
}

}  // namespace

std::string vulkan_source(const KernelText& kernel, const Arithmetic& arithmetic, int push_words,
                          const std::string& matrices) {
  std::string text = kHead;
  text += arithmetic.near_teams ? kNearTeams : "#define NEAR_BARRIER() barrier()\n";
  text += std::string(kPlainForms) + (arithmetic.near_estimates ? kEstimatedGelus : kPlainGelus) + kWords;
  text += arithmetic.quick_floats ? kQuickFloats : std::string(kPlainFloats) + kPlainBf16Pairs;
  if (arithmetic.hasty_bf16) text += kHastyFloats;
  text += arithmetic.quick_halves    ? std::string(kPackedHalves) + kOpaqueHalves + kQuickHalves
          : arithmetic.native_halves ? std::string(kNativeHalves) + kOpaqueHalves + kQuickHalves
          : arithmetic.float_halves  ? std::string(kRoundedHalves) + kFloatHalves + kPlainHalfPairs
                                     : std::string(kPlainHalves) + kPlainHalfPairs;
  // Drivers leave loops alone, and then arrays are not in registers. Where fma is a function, texts are long enough.
  const char* unroll = arithmetic.fused_fma ? "[[unroll]]" : "";
  text += fmt::format("#define UNROLL {0}\n#define UNROLL_BY(n) {0}\n", unroll);
  if (!arithmetic.fused_fma || !arithmetic.fma_keeps_subnormals) {
    text += arithmetic.widening_keeps_subnormals ? "#define WIDEN(x) double(x)\n"
                                                 : std::string(kSoftWidening) + "#define WIDEN(x) soft_widen(x)\n";
    text += arithmetic.narrowing_keeps_subnormals
                ? "#define NARROW(bits) float(packDouble2x32(bits))\n"
                : std::string(kSoftNarrowing) + "#define NARROW(bits) soft_narrow(bits)\n";
    text += kSoftFma;
  }
  text += fmt::format("#define FMA(x, y, z) {}(x, y, z)\n", arithmetic.fused_fma ? "fma" : "soft_fma");
  text += fmt::format("#define FMA_EXACT(x, y, z) {}(x, y, z)\n",
                      arithmetic.fused_fma && arithmetic.fma_keeps_subnormals ? "fma" : "soft_fma");
  text += "#define FMA_OF_SUMS(x, y, z) FMA_EXACT(x, y, z)\n";
  const bool exact_sums = arithmetic.sums_keep_subnormals;
  text += fmt::format("#define ADD_EXACT(x, y) {}\n", exact_sums ? "((x) + (y))" : "exact_add(x, y)");
  text += fmt::format("#define MUL_EXACT(x, y) {}\n", exact_sums ? "((x) * (y))" : "exact_mul(x, y)");
  std::string divide = "float divide(float x, float y) { return x / y; }\n";
  if (!arithmetic.exact_division) divide = "float divide(float x, float y) { return soft_div(x, y); }\n";
  text += fmt::format("#define SQRT(x) {}(x)\n", arithmetic.exact_square_root ? "sqrt" : "soft_sqrt");
  if (kernel.words <= push_words) {
    text += fmt::format(
        "layout(push_constant) uniform Parameters {{ uint words[{}]; }} parameters;\n"
        "#define P(i) parameters.words[i]\n",
        std::max(kernel.words, 1));
  } else {
    text += fmt::format(
        "layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Words {{ uint words[{}]; }};\n"
        "layout(push_constant) uniform Parameters {{ Words at; }} parameters;\n"
        "#define P(i) parameters.at.words[i]\n",
        kernel.words);
  }
  for (const SharedArray& array : kernel.shared) {
    text += array.fours ? fmt::format("shared uvec4 {}[{}];\n", array.name, array.size / 4)
                        : fmt::format("shared {} {}[{}];\n", type_name(array.type), array.name, array.size);
  }
  text += fmt::format("layout(local_size_x = {}) in;\n", kernel.threads);
  if (kernel.byte_matrices) text += matrices;
  std::vector<Substitute> substitutes;
  if (arithmetic.byte_dots) {
    text += kByteDots;
  } else {
    text += "#define DOT4(x, y, sum) q8_dot4(x, y, sum)\n";
    substitutes.push_back({"DOT4", "q8_dot4"});
  }
  if (!exact_sums) {
    substitutes.push_back({"ADD_EXACT", "exact_add"});
    substitutes.push_back({"MUL_EXACT", "exact_mul"});
  }
  if (!arithmetic.exact_division) substitutes.push_back({"DIV", "soft_div"});
  if (!arithmetic.exact_square_root) substitutes.push_back({"SQRT", "soft_sqrt"});
  const std::string needed = needed_functions(kernel.functions + kernel.body, substitutes);
  text += "float soft_div(float x, float y);\nfloat soft_sqrt(float x);\n";  // used before they are defined
  text += with_suffixes(needed);
  if (arithmetic.exact_division || needed.find("soft_div") != std::string::npos) text += divide;
  text += with_suffixes(kernel.functions);
  return text + "void main() {\n" + with_suffixes(kernel.body) + "}\n";
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
