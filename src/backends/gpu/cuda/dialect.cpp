// CUDA C++. Compiled with --fmad=false and exact division and square root, so that the operators are IEEE's.
#include "backends/gpu/dialect.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/texts.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr const char* kPrelude = R"(
#define FUNCTION static __device__ __forceinline__
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
#define FMA(x, y, z) __fmaf_rn(x, y, z)
#define FMA_EXACT(x, y, z) __fmaf_rn(x, y, z)
#define FMA64(x, y, z) __fma_rn(x, y, z)
#define SQRT(x) __fsqrt_rn(x)
#define SQRT64(x) __dsqrt_rn(x)
#define DIV(x, y) ((x) / (y))
#define MUL_HIGH(x, y) __umulhi(x, y)
#define SELECT(condition, x, y) ((condition) ? (x) : (y))
#define FLOAT_KEY(x) max_key(x)
#define MIN_KEY(x) min_key(x)
#define THREAD threadIdx.x
#define GROUP blockIdx.x
#define GROUPS gridDim.x
#define UNROLL _Pragma("unroll")
#define BARRIER() __syncthreads()
#define P(i) parameters.words[i]
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
)";

}  // namespace

std::string cuda_source(const KernelText& kernel) {
  std::string shared;
  for (const SharedArray& array : kernel.shared) {
    shared += fmt::format("  __shared__ {} {}[{}];\n", type_name(array.type), array.name, array.size);
  }
  return fmt::format(
      "{}struct Parameters {{ unsigned int words[{}]; }};\n{}{}"
      "extern \"C\" __global__ void __launch_bounds__({}) {}(const Parameters parameters) {{\n{}{}}}\n",
      kPrelude, std::max(kernel.words, 1), needed_functions(kernel.functions + kernel.body), kernel.functions,
      kernel.threads, kEntry, shared, kernel.body);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
