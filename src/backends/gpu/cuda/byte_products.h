// The CUDA text of KernelText::byte_products: products of signed bytes by 32 threads together (mma.sync, sm_80). Of 16
// rows and 32 k, thread t has four words, of rows t / 4 and t / 4 + 8 at k = 4 (t & 3), and at 16 more; of 8 columns
// two words, of column t / 4; of the sums two neighbours in either row, at columns 2 (t & 3).
#pragma once

namespace lockstep {
inline namespace v0 {
namespace gpu {

inline constexpr const char* kByteProductsText = R"(
#define MULTIPLY_32_BYTES(sum, a, i, b) asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3]) : "r"(a[i]), "r"(a[(i) + 1]), "r"(a[(i) + 2]), "r"(a[(i) + 3]), "r"(b[0]), "r"(b[1]));
#define MULTIPLY_16_BYTES(sum, a, i, b) asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3]) : "r"(a[i]), "r"(a[(i) + 1]), "r"(b));
#define TAKE2_U32(s, i, words2) { uint2 v = *(const uint2*)&s[i]; words2[0] = v.x; words2[1] = v.y; }
#define TAKE2_F32(s, i, floats2) { float2 v = *(const float2*)&s[i]; floats2[0] = v.x; floats2[1] = v.y; }
// A product that is exact or zero.
FUNCTION float FLUSHED_PRODUCT(float x, float y) {
  float product;
  asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(product) : "f"(x), "f"(y));
  return product;
}
)";

// KernelText::byte_fragments: before Ampere a product has half the rows and half the k of one (sm_75), and four of them
// are one. A fragment of four words comes from shared memory at once: thread t names the 16 bytes of row t & 7 of the
// (t / 8)-th of four matrices of 8 rows, and has the t % 4-th word of row t / 4 of each.
inline constexpr const char* kByteFragmentsText = R"(
#if __CUDA_ARCH__ < 800
#undef MULTIPLY_32_BYTES
#define MULTIPLY_32_BYTES(sum, a, i, b) MULTIPLY_8_ROWS(sum[0], sum[1], a[i], b[0]) MULTIPLY_8_ROWS(sum[0], sum[1], a[(i) + 2], b[1]) MULTIPLY_8_ROWS(sum[2], sum[3], a[(i) + 1], b[0]) MULTIPLY_8_ROWS(sum[2], sum[3], a[(i) + 3], b[1])
#define MULTIPLY_8_ROWS(x, y, a, b) asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+r"(x), "+r"(y) : "r"(a), "r"(b));
#endif
#define TAKE_FRAGMENT(words, i, s, chunk) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(words[i]), "=r"(words[(i) + 1]), "=r"(words[(i) + 2]), "=r"(words[(i) + 3]) : "r"(UINT(__cvta_generic_to_shared((const uint4*)(s) + (chunk)))) : "memory");
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
