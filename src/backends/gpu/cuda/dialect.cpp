// CUDA C++. Compiled with --fmad=false and exact division and square root, so that the operators are IEEE's.
#include "backends/gpu/dialect.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/cuda/attention_tiles.h"
#include "backends/gpu/cuda/byte_products.h"
#include "backends/gpu/cuda/integer_tiles.h"
#include "backends/gpu/cuda/warpgroup_bytes.h"
#include "backends/gpu/cuda/warpgroup_halves.h"
#include "backends/gpu/texts.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr const char* kPrelude = R"(
#define FUNCTION static __device__ __forceinline__
#define RARE_FUNCTION static __device__ __noinline__
#define FLOAT float
#define DOUBLE double
typedef unsigned int UINT;
typedef long long LONG;
typedef unsigned long long ULONG;
#define OUT(type, name) type& name
#define CONSTANT_TABLE(type, name, size) const type name[size]
#define TABLE_INDEX(index) index
#define BITS(x) __float_as_uint(x)
#define FROM_BITS(u) __uint_as_float(u)
#define BITS64(x) ULONG(__double_as_longlong(x))
#define FROM_BITS64(u) __longlong_as_double(LONG(u))
#define SIGN_MASK64(u) (ULONG(0) - ((u) >> 63))
#define FMA(x, y, z) __fmaf_rn(x, y, z)
#define FMA_EXACT(x, y, z) __fmaf_rn(x, y, z)
#define DOT4(x, y, sum) __dp4a(int(x), int(y), sum)
#define FMA_OF_SUMS(x, y, z) __fmaf_rn(x, y, z)
#define ADD_EXACT(x, y) ((x) + (y))
#define MUL_EXACT(x, y) ((x) * (y))
#define FMA64(x, y, z) __fma_rn(x, y, z)
#define SQRT(x) __fsqrt_rn(x)
#define SQRT64(x) __dsqrt_rn(x)
#define DIV(x, y) ((x) / (y))
#define MUL_HIGH(x, y) __umulhi(x, y)
#define SELECT(condition, x, y) ((condition) ? (x) : (y))
#define CANONICAL_F32(x) quick_canonical(x)
#define FLUSHED_F32(x) flushed(x, 0x00800000u)
#define FLUSH_FACTOR(x, least) flush_factor(x, least)
#define FLOAT_KEY(x) max_key(x)
#define MIN_KEY(x) min_key(x)
// x, or the zero of its sign where its magnitude is not above `least`: a factor of 1 or 0. Arithmetic makes but one NaN,
// 0x7fffffff, which the minimum of words turns into ours; negative numbers are negative words.
FUNCTION float flush_factor(float x, UINT least) {
  float factor;
  asm("set.gt.f32.f32 %0, %1, %2;" : "=f"(factor) : "f"(fabsf(x)), "f"(FROM_BITS(least)));
  return factor;
}
FUNCTION float flushed(float x, UINT least) {
  return __fmul_rn(x, flush_factor(x, least));
}
FUNCTION float quick_canonical(float x) {
  return __int_as_float(min(__float_as_int(flushed(x, 0x00800000u)), 0x7fc00000));
}
#if __CUDA_ARCH__ >= 800
#define LARGER(x, y) larger_f32(x, y)
#define SMALLER(x, y) smaller_f32(x, y)
#define ROUND_BF16(x) quick_bf16(x)
#define ANY_ROUND_BF16(x) __uint_as_float(nearest_word(flushed(x, 0x00808000u)))
#define NEAREST_BF16(x) __uint_as_float(nearest_word(x))
#define ENCODE_BF16(x) (BITS(quick_bf16(x)) >> 16)
#define DECODE_F16(word) quick_half(word)
#define ANY_DECODE_F16(word) float_of_half(word)
#define ROUND_F16(x) quick_half(half_word(x) >> 16)
#define ANY_ROUND_F16(x) float_of_half(any_half_word(x) >> 16)
#define ENCODE_F16(x) (half_word(x) >> 16)
FUNCTION float larger_f32(float x, float y) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}
FUNCTION float smaller_f32(float x, float y) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}
FUNCTION UINT nearest_word(float x) {
  UINT word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(x), "f"(0.0f));
  return word;
}
// What rounds to 0x0080 becomes zero, too.
FUNCTION float quick_bf16(float x) {
  return __int_as_float(min(int(nearest_word(flushed(x, 0x00808000u))), 0x7fc00000));
}
// encode_f16, in the upper half. As above, the conversion makes but one NaN.
FUNCTION UINT any_half_word(float x) {
  UINT word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(x), "f"(0.0f));
  return word;
}
FUNCTION UINT half_word(float x) {
  return UINT(min(int(any_half_word(x)), 0x7e000000));
}
FUNCTION float float_of_half(UINT word) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"((unsigned short)word));
  return result;
}
FUNCTION float quick_half(UINT word) {
  float result = float_of_half(word);
  return result != result ? FROM_BITS(0x7fc00000u) : result;
}
#else
#define LARGER(x, y) larger(x, y)
#define SMALLER(x, y) smaller(x, y)
#define ROUND_BF16(x) cast_bf16(x)
#define ANY_ROUND_BF16(x) cast_bf16(x)
#define NEAREST_BF16(x) cast_bf16(x)
#define ENCODE_BF16(x) encode_bf16(x)
#define DECODE_F16(word) decode_f16(word)
#define ANY_DECODE_F16(word) decode_f16(word)
#define ROUND_F16(x) cast_f16(x)
#define ANY_ROUND_F16(x) cast_f16(x)
#define ENCODE_F16(x) encode_f16(x)
#endif
#if __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ >= 12  // min.s16x2
#define JOINED_BF16(floats2, j) bf16_pair(floats2[j], floats2[j + 1])
#define JOINED_F16(floats2, j) half_pair(floats2[j], floats2[j + 1])
#define NEAREST_BF16_PAIR(low, high) nearest_pair(low, high)
#define FLUSHED_BF16_PAIR(pair) flushed_pair(pair)
#define CANONICAL_BF16_PAIR(pair) canonical_pair(pair)
#define ADD_BF16_PAIR(a, b) sum_of_pairs(a, b)
#define LARGER_BF16_PAIR(a, b) larger_pair(a, b)
#define SMALLER_BF16_PAIR(a, b) smaller_pair(a, b)
#define NEAR_OTHER(x, m) __shfl_xor_sync(0xffffffffu, x, m)
// Two at once, as the words of one: factors of 1 or 0, and minima that make our NaN.
FUNCTION UINT nearest_pair(float low, float high) {
  UINT pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
FUNCTION UINT flushed_pair(UINT pair) {
  UINT factors;
  asm("set.gt.bf16x2.bf16x2 %0, %1, %2;" : "=r"(factors) : "r"(pair & 0x7fff7fffu), "r"(0x00800080u));
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(pair), "r"(factors));
  return pair;
}
FUNCTION UINT canonical_pair(UINT pair) {
  pair = flushed_pair(pair);
  asm("min.s16x2 %0, %1, %2;" : "=r"(pair) : "r"(pair), "r"(0x7fc07fc0u));
  return pair;
}
FUNCTION UINT bf16_pair(float low, float high) {
  return canonical_pair(nearest_pair(low, high));
}
FUNCTION UINT sum_of_pairs(UINT a, UINT b) {
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(a) : "r"(a), "r"(b));
  return a;
}
FUNCTION UINT larger_pair(UINT a, UINT b) {
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(a) : "r"(a), "r"(b));
  return a;
}
FUNCTION UINT smaller_pair(UINT a, UINT b) {
  asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(a) : "r"(a), "r"(b));
  return a;
}
FUNCTION UINT nearest_half_pair(float low, float high) {
  UINT pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
FUNCTION UINT half_pair(float low, float high) {
  UINT pair = nearest_half_pair(low, high);
  asm("min.s16x2 %0, %1, %2;" : "=r"(pair) : "r"(pair), "r"(0x7e007e00u));
  return pair;
}
#else
#define JOINED_BF16(floats2, j) (ENCODE_BF16(floats2[j]) | (ENCODE_BF16(floats2[j + 1]) << 16))
#define JOINED_F16(floats2, j) (ENCODE_F16(floats2[j]) | (ENCODE_F16(floats2[j + 1]) << 16))
#define nearest_pair(low, high) (ENCODE_BF16(low) | (ENCODE_BF16(high) << 16))
#define nearest_half_pair(low, high) (ENCODE_F16(low) | (ENCODE_F16(high) << 16))
#endif
// ex2.approx, rcp.approx and rsqrt.approx: relative errors of at most 2^-22, 2^-23 and 2^-22.9 (PTX ISA).
#define MAGNITUDE(x) fabsf(x)
#define GELU_TO_BF16(x) gelu_to_bf16_by(x, gelu_magnitude(x, 13.1875f), near_inverse_root(gelu_radicand(gelu_magnitude(x, 13.1875f))), near_power(gelu_exponent(gelu_magnitude(x, 13.1875f), 0.35022f)))
#define GELU_TO_F16(x) gelu_to_f16_by(x, near_reciprocal(gelu_divisor(x, 5.5f, 0.25f)), near_power(gelu_exponent(gelu_magnitude(x, 5.5f), 0.0f)))
FUNCTION float near_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
FUNCTION float near_inverse_root(float x) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
FUNCTION float near_power(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
#define THREAD threadIdx.x
#define GROUP blockIdx.x
#define GROUPS gridDim.x
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(n) UNROLL_TEXT(unroll n)
#define UNROLL_TEXT(text) _Pragma(#text)
#define BARRIER() __syncthreads()
#define NEAR_BARRIER() __syncwarp()
#define P(i) parameters.words[i]
#define MEMORY ULONG
#define EARLY_MEMORY_AT(n, w) ((ULONG(P(w + 1)) << 32) | ULONG(P(w)))
#define MEMORY_AT(n, w) (EARLY_MEMORY_AT(n, w) + after_earlier)
#define AFTER_EARLIER() const ULONG after_earlier = zero_after_earlier();
// Launched while the kernel before it still runs, a kernel lets the next one come and then waits for that end, here. So
// the next one begins as soon as there is room for it, and weights are on their way however many small kernels, which
// wait for each other, stand before it; when its own wait is over, so are all before this one. Places in memory are made
// of the result, so that no compiler moves loads to before the wait, even if they are of memory that it takes for
// constant.
FUNCTION ULONG zero_after_earlier() {
  ULONG zero;
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;\n\tmov.u64 %0, 0;" : "=l"(zero) :: "memory");
#else
  zero = 0;
#endif
  return zero;
}
#define ASK_FOR(at) asm volatile("prefetch.global.L2 [%0];" :: "l"(at));
#define LOAD_U8(a, i) UINT(__ldg((const unsigned char*)(a) + (i)))
#define LOAD_U16(a, i) UINT(__ldg((const unsigned short*)(a) + (i)))
#define LOAD_U32(a, i) __ldg((const UINT*)(a) + (i))
#define LOAD_U64(a, i) __ldg((const ULONG*)(a) + (i))
#define LOAD_U32_AGAIN(a, i) ((const volatile UINT*)(a))[i]
#define LOAD_U64_AGAIN(a, i) ((const volatile ULONG*)(a))[i]
#define STORE_U8(a, i, word) ((unsigned char*)(a))[i] = (unsigned char)(word)
#define STORE_U16(a, i, word) ((unsigned short*)(a))[i] = (unsigned short)(word)
#define STORE_U32(a, i, word) ((UINT*)(a))[i] = (word)
#define STORE_U64(a, i, word) ((ULONG*)(a))[i] = (word)
#define LOAD4_U32(a, i, words4) { uint4 v = __ldg((const uint4*)((const UINT*)(a) + (i))); words4[0] = v.x; words4[1] = v.y; words4[2] = v.z; words4[3] = v.w; }
#define LOAD2_U32(a, i, words2) { uint2 v = __ldg((const uint2*)((const UINT*)(a) + (i))); words2[0] = v.x; words2[1] = v.y; }
#define STORE2_U32(a, i, words2) *(uint2*)((UINT*)(a) + (i)) = make_uint2(words2[0], words2[1]);
#define STORE2_U16(a, i, words2) *(UINT*)((unsigned short*)(a) + (i)) = JOINED_U16(words2, 0);
#define STORE2_BF16(a, i, floats2) *(UINT*)((unsigned short*)(a) + (i)) = JOINED_BF16(floats2, 0);
#define STORE2_SURE_BF16(a, i, floats2) *(UINT*)((unsigned short*)(a) + (i)) = nearest_pair(floats2[0], floats2[1]);
#define STORE2_F16(a, i, floats2) *(UINT*)((unsigned short*)(a) + (i)) = JOINED_F16(floats2, 0);
#define STORE2_SURE_F16(a, i, floats2) *(UINT*)((unsigned short*)(a) + (i)) = nearest_half_pair(floats2[0], floats2[1]);
#define LOAD2_U16(a, i, words2) { UINT v = __ldg((const UINT*)((const unsigned short*)(a) + (i))); PARTS_U16(v, words2, 0) }
#define LOAD4_U16(a, i, words4) { uint2 v = __ldg((const uint2*)((const unsigned short*)(a) + (i))); words4[0] = v.x & 0xffffu; words4[1] = v.x >> 16; words4[2] = v.y & 0xffffu; words4[3] = v.y >> 16; }
#define STORE4_U32(a, i, words4) *(uint4*)((UINT*)(a) + (i)) = make_uint4(words4[0], words4[1], words4[2], words4[3]);
#define LOAD4_U8(a, i, words4) { UINT v = __ldg((const UINT*)((const unsigned char*)(a) + (i))); words4[0] = v & 0xffu; words4[1] = (v >> 8) & 0xffu; words4[2] = (v >> 16) & 0xffu; words4[3] = v >> 24; }
#define LOAD8_U8(a, i, words8) { uint2 v = __ldg((const uint2*)((const unsigned char*)(a) + (i))); PARTS_U8(v.x, words8, 0) PARTS_U8(v.y, words8, 4) }
#define PARTS_U8(v, words4, j) words4[j] = v & 0xffu; words4[j + 1] = (v >> 8) & 0xffu; words4[j + 2] = (v >> 16) & 0xffu; words4[j + 3] = v >> 24;
#define LOAD8_U16(a, i, words8) { uint4 v = __ldg((const uint4*)((const unsigned short*)(a) + (i))); PARTS_U16(v.x, words8, 0) PARTS_U16(v.y, words8, 2) PARTS_U16(v.z, words8, 4) PARTS_U16(v.w, words8, 6) }
#define PARTS_U16(v, words2, j) words2[j] = v & 0xffffu; words2[j + 1] = v >> 16;
#define JOINED_U8(words4, j) ((words4[j] & 0xffu) | ((words4[j + 1] & 0xffu) << 8) | ((words4[j + 2] & 0xffu) << 16) | (words4[j + 3] << 24))
#define JOINED_U16(words2, j) ((words2[j] & 0xffffu) | (words2[j + 1] << 16))
#define STORE4_U8(a, i, words4) *(UINT*)((unsigned char*)(a) + (i)) = JOINED_U8(words4, 0);
#define STORE8_U8(a, i, words8) *(uint2*)((unsigned char*)(a) + (i)) = make_uint2(JOINED_U8(words8, 0), JOINED_U8(words8, 4));
#define STORE4_U16(a, i, words4) *(uint2*)((unsigned short*)(a) + (i)) = make_uint2(JOINED_U16(words4, 0), JOINED_U16(words4, 2));
#define STORE8_U16(a, i, words8) *(uint4*)((unsigned short*)(a) + (i)) = make_uint4(JOINED_U16(words8, 0), JOINED_U16(words8, 2), JOINED_U16(words8, 4), JOINED_U16(words8, 6));
#define STORE4_BF16(a, i, floats4) *(uint2*)((unsigned short*)(a) + (i)) = make_uint2(JOINED_BF16(floats4, 0), JOINED_BF16(floats4, 2));
#define STORE4_SURE_BF16(a, i, floats4) *(uint2*)((unsigned short*)(a) + (i)) = make_uint2(nearest_pair(floats4[0], floats4[1]), nearest_pair(floats4[2], floats4[3]));
#define STORE8_BF16(a, i, floats8) *(uint4*)((unsigned short*)(a) + (i)) = make_uint4(JOINED_BF16(floats8, 0), JOINED_BF16(floats8, 2), JOINED_BF16(floats8, 4), JOINED_BF16(floats8, 6));
#define STORE8_SURE_BF16(a, i, floats8) *(uint4*)((unsigned short*)(a) + (i)) = make_uint4(nearest_pair(floats8[0], floats8[1]), nearest_pair(floats8[2], floats8[3]), nearest_pair(floats8[4], floats8[5]), nearest_pair(floats8[6], floats8[7]));
#define STORE4_F16(a, i, floats4) *(uint2*)((unsigned short*)(a) + (i)) = make_uint2(JOINED_F16(floats4, 0), JOINED_F16(floats4, 2));
#define STORE4_SURE_F16(a, i, floats4) *(uint2*)((unsigned short*)(a) + (i)) = make_uint2(nearest_half_pair(floats4[0], floats4[1]), nearest_half_pair(floats4[2], floats4[3]));
#define STORE8_F16(a, i, floats8) *(uint4*)((unsigned short*)(a) + (i)) = make_uint4(JOINED_F16(floats8, 0), JOINED_F16(floats8, 2), JOINED_F16(floats8, 4), JOINED_F16(floats8, 6));
#define STORE8_SURE_F16(a, i, floats8) *(uint4*)((unsigned short*)(a) + (i)) = make_uint4(nearest_half_pair(floats8[0], floats8[1]), nearest_half_pair(floats8[2], floats8[3]), nearest_half_pair(floats8[4], floats8[5]), nearest_half_pair(floats8[6], floats8[7]));
#define READ4(s, i, array4, j) { float4 v = *(const float4*)&s[i]; array4[j] = v.x; array4[(j) + 1] = v.y; array4[(j) + 2] = v.z; array4[(j) + 3] = v.w; }
#define WRITE4(s, i, array4, j) *(float4*)&s[i] = make_float4(array4[j], array4[(j) + 1], array4[(j) + 2], array4[(j) + 3]);
#define TAKE4_U32(s, i, words4) { uint4 v = ((const uint4*)(s))[i]; words4[0] = v.x; words4[1] = v.y; words4[2] = v.z; words4[3] = v.w; }
#define PUT4_U32(s, i, words4) ((uint4*)(s))[i] = make_uint4(words4[0], words4[1], words4[2], words4[3]);
)";

// Copies that need no registers (sm_80), for KernelText::copies: what LOAD would give is taken from shared memory once
// the thread's copies have arrived.
constexpr const char* kCopies = R"(
#define COPY_TO_SHARED(s, i, bytes, from) asm volatile("cp.async." CACHED_##bytes ".shared.global [%0], [%1], " #bytes ";" :: "r"(UINT(__cvta_generic_to_shared((const char*)(s) + (i) * bytes))), "l"(from) : "memory");
#define CACHED_4 "ca"
#define CACHED_8 "ca"
#define CACHED_16 "cg"
#define RECIPROCAL(x) __frcp_rn(x)
#define LARGEST_OF_4(x) largest_of_4(x)
FUNCTION UINT largest_of_4(UINT x) {
  x = max(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return max(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
#define LARGEST_OF_32(x) __reduce_max_sync(0xffffffffu, x)
#define SUM_OF_2(x) ((x) + __shfl_xor_sync(0xffffffffu, x, 1))
#define LOAD4_U32_AGAIN(a, i, words4) { uint4 v = *(const uint4*)((const UINT*)(a) + (i)); words4[0] = v.x; words4[1] = v.y; words4[2] = v.z; words4[3] = v.w; }
#define COPIES_BEGUN() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_ARRIVED_BUT(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")
#define COPIES_ARRIVED() asm volatile("cp.async.wait_all;" ::: "memory")
#define TAKE4_U16(s, i, words4) { uint2 v = ((const uint2*)(s))[i]; PARTS_U16(v.x, words4, 0) PARTS_U16(v.y, words4, 2) }
#define TAKE8_U16(s, i, words8) { uint4 v = ((const uint4*)(s))[i]; PARTS_U16(v.x, words8, 0) PARTS_U16(v.y, words8, 2) PARTS_U16(v.z, words8, 4) PARTS_U16(v.w, words8, 6) }
#define TAKE4_U8(s, i, words4) { UINT v = ((const UINT*)(s))[i]; PARTS_U8(v, words4, 0) }
#define TAKE8_U8(s, i, words8) { uint2 v = ((const uint2*)(s))[i]; PARTS_U8(v.x, words8, 0) PARTS_U8(v.y, words8, 4) }
)";

constexpr const char* kAfterEarlier = "AFTER_EARLIER()";

std::size_t bytes_of(const SharedArray& array) {
  const bool is_long = array.type == ComputeType::f64 || array.type == ComputeType::i64;
  return (static_cast<std::size_t>(array.size) * (is_long ? 8 : 4) + 15) / 16 * 16;
}

}  // namespace

std::size_t shared_bytes_of(const KernelText& kernel) {
  std::size_t bytes = 0;
  for (const SharedArray& array : kernel.shared) bytes += bytes_of(array);
  return bytes;
}

std::string cuda_source(const KernelText& kernel) {
  // What exceeds the size of static shared memory has to be one array whose size is given at the launch.
  const bool dynamic = shared_bytes_of(kernel) > kStaticSharedBytes;
  std::string shared = dynamic ? "  extern __shared__ __align__(16) unsigned char shared_memory[];\n" : "";
  std::size_t at = 0;
  for (const SharedArray& array : kernel.shared) {
    shared +=
        dynamic ? fmt::format("  {0}* {1} = ({0}*)(shared_memory + {2});\n", type_name(array.type), array.name, at)
                : fmt::format("  __shared__ __align__(16) {} {}[{}];\n", type_name(array.type), array.name, array.size);
    at += bytes_of(array);
  }
  const bool waits_itself = kernel.body.find(kAfterEarlier) != std::string::npos;
  const std::string begin = waits_itself ? "" : fmt::format("  {}\n", kAfterEarlier);
  const std::string bounds = kernel.groups_per_unit == 0
                                 ? std::to_string(kernel.threads)
                                 : fmt::format("{}, {}", kernel.threads, kernel.groups_per_unit);
  const std::string functions = kernel.functions + (kernel.attention_tiles ? attention_tiles_text() : "");
  return fmt::format(
      "{}{}{}{}{}{}{}struct Parameters {{ unsigned int words[{}]; }};\n{}{}"
      "extern \"C\" __global__ void __launch_bounds__({}) {}(const Parameters parameters) {{\n{}{}{}}}\n",
      kPrelude, kernel.copies ? kCopies : "", kernel.integer_tiles ? kIntegerTilesText : "",
      kernel.byte_products || kernel.byte_fragments ? kByteProductsText : "",
      kernel.byte_fragments ? kByteFragmentsText : "", kernel.warpgroup_bytes ? kWarpgroupBytesText : "",
      kernel.warpgroup_halves ? kWarpgroupHalvesText : "", std::max(kernel.words, 1),
      needed_functions(functions + kernel.body), functions, bounds, kEntry, shared, begin, kernel.body);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
