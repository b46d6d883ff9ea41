#include "backends/gpu/cuda/warpgroup_halves.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

// As WarpgroupBytes, but threads have only the two fmas of a block to do that round. All that these multiply is exact,
// and tensor cores make it: sums of codes times factor (c f <= 945) by f16, into f32; by tf32, whose significands have
// 11 bits, products of scales and of a row's sum and a column's share. A row's scale, of 13 bits, and its sum, of 12,
// are the sums of two such numbers: of a row's block [scale high, scale low, sum high, sum low] a left operand takes
// what it needs.
//
// So it is for rows' scales that are zero or 2^-60 and more, but below 2^30: then no product of scales is subnormal,
// none overflows. A row's piece has a mark where one of its scales is another (Q8Warpgroups::round_rows); a warpgroup
// that meets one multiplies scales itself. Both parts of a scale are positive, so that infinite ones of columns stay
// what they are.
//
// It is for encodings whose 256 have one scale and one offset, and for each block of 32 a factor and a share of a byte.
// Products of offsets and shares take the registers of a block's sums; while they are made, threads convert the next
// block's codes, and other warpgroups add. Tensor cores take as long for 32 rows as for 64.
const char* const kWarpgroupHalvesText = R"(
FUNCTION void piece_bytes(const UINT* piece, UINT (&factors)[2], UINT (&shares)[2]);
#define HALVES_8(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define HALVES_32(d) HALVES_8(d, 0), HALVES_8(d, 8), HALVES_8(d, 16), HALVES_8(d, 24)
#define NAMES_32 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1"
template <bool MORE>
FUNCTION void halves_multiply(float (&d)[32], const UINT* a, ULONG b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " NAMES_32 ", 0;\n}"
      : HALVES_32(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(MORE ? 1 : 0));
}
FUNCTION void tf32_multiply(float (&d)[32], const UINT (&a)[4], ULONG b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 " NAMES_32 ";\n}"
      : HALVES_32(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
FUNCTION UINT halves_fma(UINT x, UINT y, UINT z) {
  UINT result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(z));
  return result;
}
// Numbers in registers stay where they are until here.
FUNCTION void stay(float (&x)[32]) {
  UNROLL
  for (int i = 0; i < 32; i++) asm volatile("" : "+f"(x[i]));
}
template <int N>
FUNCTION void stay(UINT (&x)[N]) {
  UNROLL
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(x[i]));
}
#define PRODUCTS_BEGUN() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define PRODUCTS_MADE() asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")

template <int COLUMN_GROUPS, int PARTS, int SLOTS, int PIECE_BYTES, int STRIDE, int ROW_BYTES>
struct WarpgroupHalves : WarpgroupBytes<64, COLUMN_GROUPS, PARTS, SLOTS, PIECE_BYTES, STRIDE, true, true, false, ROW_BYTES> {
  static constexpr int kScalesAt = 64 * 512;  // of a piece's rows, behind their codes
  static constexpr int kMarksAt = kScalesAt + 64 * 128;
  using Bytes = WarpgroupBytes<64, COLUMN_GROUPS, PARTS, SLOTS, PIECE_BYTES, STRIDE, true, true, false, ROW_BYTES>;
  static constexpr bool kInRegisters = COLUMN_GROUPS == 2;  // totals
  float whole[32] = {};  // totals, where there are registers

  // What a thread knows of its two columns.
  struct Columns {
    const UINT* piece[2];
    UINT factor_bytes[2][2], share_bytes[2][2];
    UINT scale[4], offset[4];  // left operands

    __device__ __forceinline__ void begin(const UINT* upper, int own) {
      piece[0] = upper;
      piece[1] = upper + 8 * STRIDE / 4;
      scale[2] = scale[3] = offset[2] = offset[3] = 0;
      UNROLL
      for (int h = 0; h < 2; h++) {
        piece_bytes(piece[h], factor_bytes[h], share_bytes[h]);
        scale[h] = own < 2 ? BITS(piece_scale(0, piece[h])) : 0;
        offset[h] = own < 2 ? BITS(piece_offset(0, piece[h])) : 0;
      }
    }
    __device__ __forceinline__ float share(int block, int h) const {
      const UINT byte = __byte_perm(block < 4 ? share_bytes[h][0] : share_bytes[h][1], 0x4b000000u, 0x7440 + block % 4);
      return 8388608.0f - FROM_BITS(byte);
    }
    __device__ __forceinline__ void take_codes(int block, int own, UINT (&codes)[4]) const {
      UNROLL
      for (int h = 0; h < 2; h++) piece_codes(block, piece[h] + own, codes[h], codes[2 + h]);
    }
    // Codes times factor: 1024 + code is an f16's word.
    __device__ __forceinline__ void convert(int block, const UINT (&codes)[4], UINT (&a)[8]) const {
      constexpr UINT kMinus1024 = 0xe400e400u;
      UINT factor[2], less[2];
      UNROLL
      for (int h = 0; h < 2; h++) {
        const UINT byte = __byte_perm(block < 4 ? factor_bytes[h][0] : factor_bytes[h][1], 0x64u, 0x4040 + block % 4 * 0x101);
        factor[h] = halves_fma(byte, 0x3c003c00u, kMinus1024);
        less[h] = halves_fma(factor[h], kMinus1024, 0);
      }
      UNROLL
      for (int i = 0; i < 4; i++) {
        const int h = i & 1;
        UNROLL
        for (int pair = 0; pair < 2; pair++) {
          const UINT two = __byte_perm(codes[i], 0x64646464u, 0x4140 + pair * 0x202);
          a[i / 2 * 4 + pair * 2 + h] = halves_fma(two, factor[h], less[h]);
        }
      }
    }
  };

  // Groups of products, by turns: sums of codes and products of scales, and those of offsets and shares.
  __device__ __forceinline__ void begin_sums(float (&sum)[32], float (&scaled)[32], Columns& columns, UINT (&a)[8], int block,
                                             UINT rows) {
    const ULONG codes = ULONG(64u | 1u << 30) << 32 | ULONG((rows | 1u << 16) + UINT(block / 2 * 512 + block % 2 * 4));
    stay(a);
    stay(columns.scale);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    halves_multiply<false>(sum, a, codes);
    halves_multiply<true>(sum, a + 4, codes + 2);
    tf32_multiply(scaled, columns.scale, scales_at(rows, block));
    PRODUCTS_BEGUN();
  }
  __device__ __forceinline__ void begin_offsets(float (&offset)[32], float (&shared)[32], Columns& columns, UINT (&share)[4],
                                                int block, int own, UINT rows) {
    UNROLL
    for (int h = 0; h < 2; h++) share[h] = own < 2 ? 0 : BITS(columns.share(block, h));
    stay(columns.offset);
    stay(share);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    tf32_multiply(offset, columns.offset, scales_at(rows, block));
    tf32_multiply(shared, share, scales_at(rows, block));
    PRODUCTS_BEGUN();
  }
  static __device__ __forceinline__ ULONG scales_at(UINT rows, int block) {
    return ULONG(8) << 32 | ULONG(rows + UINT((kScalesAt + block * 1024) / 16));
  }

  // Of rows with marks.
  __device__ __forceinline__ void multiply_carefully(float (&partial)[32], int column, int own, UINT rows) {
    const float4* const floats = (const float4*)(this->memory + this->slot * this->kRowBytes + kScalesAt) + 2 * own;
    Columns columns;
    columns.begin((const UINT*)(this->memory + this->weights_of(this->slot) + column * STRIDE), own);
    UNROLL_BY(1)
    for (int block = 0; block < 8; block++) {
      float sum[32], unused[32];
      UINT codes[4], a[8];
      columns.take_codes(block, own, codes);
      columns.convert(block, codes, a);
      begin_sums(sum, unused, columns, a, block, rows);
      PRODUCTS_MADE();
      stay(sum);
      stay(unused);
      UNROLL
      for (int i = 0; i < 32; i++) {
        const int h = i >> 1 & 1;
        const float4 four = floats[block * 64 + i / 4 * 8 + (i & 1)];
        const float scale = four.x + four.y;
        const UINT* const piece = columns.piece[h];
        partial[i] = FMA_EXACT(sum[i], FLUSHED_PRODUCT(piece_scale(0, piece), scale), partial[i]);
        partial[i] = FMA_EXACT(columns.share(block, h) * (four.z + four.w), FLUSHED_PRODUCT(piece_offset(0, piece), scale),
                               partial[i]);
      }
    }
    __threadfence_block();
  }

  // The sums of a piece, once it has arrived; gives its slot back.
  __device__ __forceinline__ void multiply(float (&partial)[32], int group) {
    const int lane = int(THREAD & 31u);
    const int own = lane & 3;
    const int column = group * 64 + int(THREAD / 32u & 3u) * 16 + lane / 4;
    bytes_barrier_wait(this->full + 8 * this->slot, this->parity);
    const UINT rows = __shfl_sync(0xffffffffu, (this->base + UINT(this->slot * this->kRowBytes)) >> 4, 0);
    const UINT* const marks = (const UINT*)(this->memory + this->slot * this->kRowBytes + kMarksAt) + lane;
    UNROLL
    for (int i = 0; i < 32; i++) partial[i] = 0.0f;
    if (__any_sync(0xffffffffu, (marks[0] | marks[32]) != 0)) {
      multiply_carefully(partial, column, own, rows);
    } else {
      float x[32], y[32];  // sums and products of scales, then products of offsets and those of shares
      UINT codes[4], a[8], share[4] = {0, 0, 0, 0};
      Columns columns;
      columns.begin((const UINT*)(this->memory + this->weights_of(this->slot) + column * STRIDE), own);
      columns.take_codes(0, own, codes);
      columns.convert(0, codes, a);
      columns.take_codes(1, own, codes);
      begin_sums(x, y, columns, a, 0, rows);
      UNROLL
      for (int block = 0; block < 8; block++) {
        PRODUCTS_MADE();
        stay(x);
        stay(y);
        stay(a);
        UNROLL
        for (int i = 0; i < 32; i++) partial[i] = FMA_EXACT(x[i], y[i], partial[i]);
        begin_offsets(x, y, columns, share, block, own, rows);
        if (block < 7) columns.convert(block + 1, codes, a);
        // Loads take long beside what tensor cores read: they begin a block ahead.
        if (block < 6) columns.take_codes(block + 2, own, codes);
        PRODUCTS_MADE();
        stay(x);
        stay(y);
        UNROLL
        for (int i = 0; i < 32; i++) partial[i] = FMA_EXACT(y[i], x[i], partial[i]);
        if (block < 7) begin_sums(x, y, columns, a, block + 1, rows);
      }
    }
    __syncwarp();
    if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(this->empty + 8 * this->slot) : "memory");
    this->advance(PARTS);
  }

  // Totals of two warpgroups are in registers, until they are written. No partial sum is -0.
  __device__ __forceinline__ void add(const float (&partial)[32], int group, bool first, bool last) {
    if (!kInRegisters) return Bytes::add(partial, group, first);
    UNROLL
    for (int i = 0; i < 32; i++) whole[i] += partial[i];
    if (!last) return;
    UNROLL
    for (int j = 0; j < 8; j++)
      this->total(group, j) = make_float4(whole[4 * j], whole[4 * j + 1], whole[4 * j + 2], whole[4 * j + 3]);
    UNROLL
    for (int i = 0; i < 32; i++) whole[i] = 0.0f;
  }
  __device__ __forceinline__ void take_totals(ULONG totals, ULONG words, int from, int group) {
    if (!kInRegisters) return Bytes::take_totals(totals, words, from, group);
    this->wait_for_totals(words, from, group);
    UNROLL
    for (int j = 0; j < 8; j++) {
      const float4 four = this->handed(totals, from, group)[j * 128];
      whole[4 * j] = four.x; whole[4 * j + 1] = four.y; whole[4 * j + 2] = four.z; whole[4 * j + 3] = four.w;
    }
  }
};
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
