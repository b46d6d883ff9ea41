// Metal Shading Language 2.3, the oldest version that Apple silicon runs. Compiled in safe math mode and with
// contraction off, so that the operators are IEEE's, but for subnormals: those are flushed, and the macros for
// accumulators keep them.
//
// Memory is bound as buffers: parameter words as buffer 0, address n as buffer n + 1. A launch may be a slice of the
// grid, so that it ends before the system's watchdog bites: the words are followed by the slice's first workgroup and
// the number of all workgroups.
#include "backends/gpu/dialect.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/plain_forms.h"
#include "backends/gpu/texts.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr const char* kHead = R"(#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#define FUNCTION static inline
#define RARE_FUNCTION static __attribute__((noinline))
#define FLOAT float
#define UINT uint
#define LONG long
#define ULONG ulong
#define OUT(type, name) thread type& name
#define CONSTANT_TABLE(type, name, size) const type name[size]
#define TABLE_INDEX(index) index
#define BITS(x) as_type<uint>(x)
#define FROM_BITS(u) as_type<float>(uint(u))
#define MUL_HIGH(x, y) mulhi(uint(x), uint(y))
#define SIGN_MASK64(u) (ULONG(0) - ((u) >> 63))
)";

constexpr const char* kWords = R"(#define THREAD thread_number
#define GROUP (parameters.first_group + group_number)
#define GROUPS parameters.groups
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(n) UNROLL_TEXT(unroll n)
#define UNROLL_TEXT(text) _Pragma(#text)
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define NEAR_BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define P(i) parameters.words[i]
#define MEMORY device uchar*
#define MEMORY_AT(n, w) ((device uchar*)memory##n)
#define EARLY_MEMORY_AT(n, w) MEMORY_AT(n, w)
#define AFTER_EARLIER()
#define ASK_FOR(at)
#define LOAD_U8(a, i) uint((a)[i])
#define LOAD_U16(a, i) uint(((const device ushort*)(a))[i])
#define LOAD_U32(a, i) ((const device uint*)(a))[i]
#define LOAD_U64(a, i) ((const device ulong*)(a))[i]
#define LOAD_U32_AGAIN(a, i) LOAD_U32(a, i)
#define LOAD_U64_AGAIN(a, i) LOAD_U64(a, i)
#define STORE_U8(a, i, word) (a)[i] = uchar(word)
#define STORE_U16(a, i, word) ((device ushort*)(a))[i] = ushort(word)
#define STORE_U32(a, i, word) ((device uint*)(a))[i] = (word)
#define STORE_U64(a, i, word) ((device ulong*)(a))[i] = (word)
#define LOAD4(load, a, i, words4, j) words4[j] = load(a, (i) + (j)); words4[(j) + 1] = load(a, (i) + (j) + 1); words4[(j) + 2] = load(a, (i) + (j) + 2); words4[(j) + 3] = load(a, (i) + (j) + 3);
#define STORE4(store, a, i, words4, j) store(a, (i) + (j), words4[j]); store(a, (i) + (j) + 1, words4[(j) + 1]); store(a, (i) + (j) + 2, words4[(j) + 2]); store(a, (i) + (j) + 3, words4[(j) + 3]);
#define LOAD2_U16(a, i, words2) { words2[0] = LOAD_U16(a, i); words2[1] = LOAD_U16(a, (i) + 1); }
#define LOAD4_U8(a, i, words4) { LOAD4(LOAD_U8, a, i, words4, 0) }
#define LOAD4_U16(a, i, words4) { LOAD4(LOAD_U16, a, i, words4, 0) }
#define LOAD4_U32(a, i, words4) { LOAD4(LOAD_U32, a, i, words4, 0) }
#define LOAD8_U8(a, i, words8) { LOAD4(LOAD_U8, a, i, words8, 0) LOAD4(LOAD_U8, a, i, words8, 4) }
#define LOAD8_U16(a, i, words8) { LOAD4(LOAD_U16, a, i, words8, 0) LOAD4(LOAD_U16, a, i, words8, 4) }
#define STORE4_U8(a, i, words4) { STORE4(STORE_U8, a, i, words4, 0) }
#define STORE4_U16(a, i, words4) { STORE4(STORE_U16, a, i, words4, 0) }
#define STORE4_U32(a, i, words4) { STORE4(STORE_U32, a, i, words4, 0) }
#define STORE8_U8(a, i, words8) { STORE4(STORE_U8, a, i, words8, 0) STORE4(STORE_U8, a, i, words8, 4) }
#define STORE8_U16(a, i, words8) { STORE4(STORE_U16, a, i, words8, 0) STORE4(STORE_U16, a, i, words8, 4) }
#define STORE_BF16(a, i, x) STORE_U16(a, i, ENCODE_BF16(x))
#define STORE_F16(a, i, x) STORE_U16(a, i, ENCODE_F16(x))
#define STORE4_BF16(a, i, floats4) { STORE4(STORE_BF16, a, i, floats4, 0) }
#define STORE8_BF16(a, i, floats8) { STORE4(STORE_BF16, a, i, floats8, 0) STORE4(STORE_BF16, a, i, floats8, 4) }
#define STORE4_SURE_BF16(a, i, floats4) STORE4_BF16(a, i, floats4)
#define STORE8_SURE_BF16(a, i, floats8) STORE8_BF16(a, i, floats8)
#define STORE4_SURE_F16(a, i, floats4) STORE4_F16(a, i, floats4)
#define STORE8_SURE_F16(a, i, floats8) STORE8_F16(a, i, floats8)
#define STORE4_F16(a, i, floats4) { STORE4(STORE_F16, a, i, floats4, 0) }
#define STORE8_F16(a, i, floats8) { STORE4(STORE_F16, a, i, floats8, 0) STORE4(STORE_F16, a, i, floats8, 4) }
#define READ4(s, i, array4, j) { int from4 = i; array4[j] = s[from4]; array4[(j) + 1] = s[from4 + 1]; array4[(j) + 2] = s[from4 + 2]; array4[(j) + 3] = s[from4 + 3]; }
#define WRITE4(s, i, array4, j) { int to4 = i; s[to4] = array4[j]; s[to4 + 1] = array4[(j) + 1]; s[to4 + 2] = array4[(j) + 2]; s[to4 + 3] = array4[(j) + 3]; }
#define TAKE4_U32(s, i, words4) { int from4 = (i) * 4; words4[0] = uint(s[from4]); words4[1] = uint(s[from4 + 1]); words4[2] = uint(s[from4 + 2]); words4[3] = uint(s[from4 + 3]); }
#define PUT4_U32(s, i, words4) { int to4 = (i) * 4; s[to4] = int(words4[0]); s[to4 + 1] = int(words4[1]); s[to4 + 2] = int(words4[2]); s[to4 + 3] = int(words4[3]); }
)";

}  // namespace

std::string metal_source(const KernelText& kernel, const Arithmetic& arithmetic) {
  LOCKSTEP_ASSERT(kernel.addresses.size() <= kMetalBuffers - 1);
  std::string text = std::string(kHead) + kPlainForms + kPlainGelus + kPlainFloats + kPlainHalves + kWords;
  std::vector<Substitute> substitutes;
  const auto define = [&](const char* macro, const char* parameters, bool exact, const char* device,
                          const char* function) {
    const std::string call = fmt::format("{}({})", function, parameters);
    text += fmt::format("#define {}({}) {}\n", macro, parameters, exact ? device : call);
    if (!exact) substitutes.push_back({macro, function});
  };
  const bool exact_fma = arithmetic.fused_fma && arithmetic.fma_keeps_subnormals;
  define("FMA", "x, y, z", arithmetic.fused_fma, "fma(x, y, z)", "integer_fma");
  define("FMA_EXACT", "x, y, z", exact_fma, "fma(x, y, z)", "exact_fma");
  // exact_fma takes its factors as they are in contractions: normal or zero.
  text += exact_fma ? "#define FMA_OF_SUMS(x, y, z) fma(x, y, z)\n"
                    : "#define FMA_OF_SUMS(x, y, z) "
                      "(is_subnormal(x) || is_subnormal(y) ? integer_fma(x, y, z) : exact_fma(x, y, z))\n";
  if (!exact_fma) substitutes.push_back({"FMA_OF_SUMS", "exact_fma"});
  define("ADD_EXACT", "x, y", arithmetic.sums_keep_subnormals, "((x) + (y))", "exact_add");
  define("MUL_EXACT", "x, y", arithmetic.sums_keep_subnormals, "((x) * (y))", "exact_mul");
  define("DIV", "x, y", arithmetic.exact_division, "((x) / (y))", "soft_div");
  define("SQRT", "x", arithmetic.exact_square_root, "precise::sqrt(x)", "soft_sqrt");
  text += "#define DOT4(x, y, sum) q8_dot4(x, y, sum)\n";
  substitutes.push_back({"DOT4", "q8_dot4"});
  text += fmt::format("struct Parameters {{ uint words[{}]; uint first_group; uint groups; }};\n",
                      std::max(kernel.words, 1));
  const std::string needed = needed_functions(kernel.functions + kernel.body, substitutes);
  // Used before they are defined; and what is rarely called does not stand at each of its uses.
  for (const auto& [name, head] :
       {std::pair{"integer_fma", "static __attribute__((noinline)) float integer_fma(float x, float y, float z)"},
        {"soft_div", "FUNCTION float soft_div(float x, float y)"},
        {"soft_sqrt", "FUNCTION float soft_sqrt(float x)"}}) {
    if (needed.find(name) != std::string::npos) text += fmt::format("{};\n", head);
  }
  text += needed + kernel.functions;
  text += fmt::format("[[max_total_threads_per_threadgroup({})]] kernel void {}(\n", kernel.threads, kEntry);
  text += "    constant Parameters& parameters [[buffer(0)]],\n";
  for (std::size_t n = 0; n < kernel.addresses.size(); ++n) {
    const bool is_read = std::ranges::count(kernel.only_read, kernel.addresses[n]) > 0;
    text += fmt::format("    {}device uchar* memory{} [[buffer({})]],\n", is_read ? "const " : "", n, n + 1);
  }
  text += "    uint thread_number [[thread_index_in_threadgroup]],\n";
  text += "    uint group_number [[threadgroup_position_in_grid]]) {\n";
  for (const SharedArray& array : kernel.shared) {
    text += fmt::format("  threadgroup {} {}[{}];\n", type_name(array.type), array.name, array.size);
  }
  return text + kernel.body + "}\n";
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
