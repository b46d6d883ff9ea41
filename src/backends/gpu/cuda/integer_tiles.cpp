#include "backends/gpu/cuda/integer_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

// Three warpgroups: one thread of the first copies digits and scales of a block (128 of k) of both operands to shared
// memory, three blocks ahead; the other two multiply, 64 rows of 128 columns each.
//
// Of a block, low * low goes to `low`, high * high to `whole`; whole = whole * 128 + (low + 64) / 128, and the tensor
// cores add both mixed products to that. So two integers and one float per output stay in registers. While the mixed
// products of a block run, low * low of the next one waits behind them, so that the conversions of one block overlap
// with products, beside those of the other warpgroup.
//
// Digits lie in shared memory as wgmma reads them: rows of 128 bytes, their eighths exchanged (swizzle of 128 bytes).
// Scales have one place more than there are stages: a stage is given back while loads of its scales are on their way,
// for arrivals do not wait for loads, and bulk copies, which take another way, could overtake these.
const char* const kIntegerTilesText = R"(
#define TILE_BLOCK 32768
#define TILE_STAGE 65536
#define TILE_STAGES 3
#define TILE_SCALES 4
#define TILE_END (TILE_STAGES * TILE_STAGE + TILE_SCALES * 1024)
#define TILES_8(d, i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
FUNCTION void tiles_multiply(int (&d)[64], ULONG a, ULONG b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p;\n}"
      : TILES_8(d, 0), TILES_8(d, 8), TILES_8(d, 16), TILES_8(d, 24), TILES_8(d, 32), TILES_8(d, 40), TILES_8(d, 48),
        TILES_8(d, 56)
      : "l"(a), "l"(b), "r"(add));
}
// A block's product of two planes of digits: 128 of k in four steps. The low bits of a plane's descriptor are its
// address; groups of eight rows are 1024 bytes apart.
FUNCTION void tiles_product(int (&d)[64], UINT a, UINT b, int add) {
  const ULONG form = (ULONG(1) << 16) | (ULONG(64) << 32) | (ULONG(1) << 62);
  const ULONG left = form | ((a & 0x3ffffu) >> 4);
  const ULONG right = form | ((b & 0x3ffffu) >> 4);
  UNROLL
  for (int k = 0; k < 4; k++) tiles_multiply(d, left + 2 * k, right + 2 * k, k == 0 ? add : 1);
}
FUNCTION void tiles_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FUNCTION void tiles_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// The registers have their values from here on.
FUNCTION void tiles_settle(int (&d)[64]) {
  UNROLL
  for (int i = 0; i < 64; i++) asm volatile("" : "+r"(d[i])::"memory");
}
FUNCTION void tiles_wait_all() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
FUNCTION void tiles_wait_but_one() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }
FUNCTION void tiles_barrier_wait(UINT barrier, int parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
FUNCTION void tiles_copy(UINT to, ULONG from, int bytes, UINT barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
      "r"(bytes), "r"(barrier)
      : "memory");
}
FUNCTION void tiles_combine(int (&whole)[64], const int (&low)[64]) {
  UNROLL
  for (int i = 0; i < 64; i++) whole[i] = (whole[i] << 7) + ((low[i] + 64) >> 7);
}

struct Tiles {
  UINT base, full, empty;
  const float* scales;  // of each place: those of 128 rows, those of 128 columns
  float* staged;        // this warp's 16 rows of 32 columns, on their way to the epilogue
  int stage, parity;
  UINT scales_at;

  __device__ __forceinline__ void start(void* memory) {
    const UINT begin = UINT(__cvta_generic_to_shared(memory));
    base = (begin + 1023u) & ~1023u;
    char* first = (char*)memory + (base - begin);
    scales = (const float*)(first + TILE_STAGES * TILE_STAGE);
    full = base + TILE_END;
    empty = full + 8 * TILE_STAGES;
    staged = (float*)(first + TILE_END + 64) + (int(THREAD >> 5) - 4) * (16 * 36);
    stage = 0;
    parity = 0;
    scales_at = 0;
    if (THREAD == 0) {
      for (int s = 0; s < TILE_STAGES; s++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * s) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" ::"r"(empty + 8 * s) : "memory");
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }
  __device__ __forceinline__ void next() {
    if (++stage == TILE_STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void next_scales() { scales_at = (scales_at + 1) % TILE_SCALES; }
  __device__ __forceinline__ void begin_feeding() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    parity = 1;
  }
  __device__ __forceinline__ void begin_summing() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }

  // Copies all blocks of a tile. One thread.
  __device__ __forceinline__ void feed(ULONG a, ULONG a_scales, ULONG b, ULONG b_scales, int blocks) {
    for (int block = 0; block < blocks; block++) {
      tiles_barrier_wait(empty + 8 * stage, parity);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      const UINT barrier = full + 8 * stage;
      const UINT to = base + stage * TILE_STAGE;
      const UINT scales_to = base + TILE_STAGES * TILE_STAGE + scales_at * 1024;
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(TILE_STAGE + 1024)
                   : "memory");
      tiles_copy(to, a, TILE_BLOCK, barrier);
      tiles_copy(to + TILE_BLOCK, b, TILE_BLOCK, barrier);
      tiles_copy(scales_to, a_scales, 512, barrier);
      tiles_copy(scales_to + 512, b_scales, 512, barrier);
      a += TILE_BLOCK;
      b += TILE_BLOCK;
      a_scales += 512;
      b_scales += 512;
      next();
      next_scales();
    }
  }

  // sums = fma(f32(whole) * scale of the row, scale of the column, sums), and gives the stage back. Where blocks are
  // added later, their products go to memory, all but the column's scale.
  template <bool kLater>
  __device__ __forceinline__ void add_block(float (&sums)[64], const int (&whole)[64], int from, ULONG to) {
    const int lane = int(THREAD & 31u);
    const float* of = scales + scales_at * 256;
    const int row = (int(THREAD) - 128) / 32 * 16 + (lane >> 2);
    const float upper = of[row];
    const float lower = of[row + 8];
    UNROLL
    for (int i = 0; i < 16; i++) {
      float scaled[4];
      UNROLL
      for (int q = 0; q < 4; q++) scaled[q] = __fmul_rn(__int2float_rn(whole[4 * i + q]), q < 2 ? upper : lower);
      if (kLater) {
        ((float4*)to)[256 * i + int(THREAD) - 128] = make_float4(scaled[0], scaled[1], scaled[2], scaled[3]);
      } else {
        const float2 column = ((const float2*)(of + 128))[4 * i + (lane & 3)];
        UNROLL
        for (int q = 0; q < 4; q++) {
          sums[4 * i + q] = __fmaf_rn(scaled[q], (q & 1) != 0 ? column.y : column.x, sums[4 * i + q]);
        }
      }
    }
    __syncwarp();
    if (lane == 0) {
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * from) : "memory");
    }
    next_scales();
  }

  // This warpgroup's 64 rows of a tile. At least one block. kLater: `sums` stays as it is, the products of a block go to
  // `later`, of the next one `step` bytes further on.
  template <bool kLater = false>
  __device__ __forceinline__ void sum(float (&sums)[64], int blocks, ULONG later = 0, ULONG step = 0) {
    const UINT rows = (THREAD / 128 - 1) * 8192;
    int low[64], whole[64];
    UNROLL
    for (int i = 0; i < 64 && !kLater; i++) sums[i] = 0.0f;
    tiles_barrier_wait(full + 8 * stage, parity);
    UINT at = base + stage * TILE_STAGE;
    tiles_fence();
    tiles_product(low, at + 16384 + rows, at + 49152, 0);
    tiles_commit();
    #pragma unroll 1
    for (int block = 1; block < blocks; block++) {
      const UINT high_a = at + rows;
      const UINT high_b = at + 32768;
      const int now = stage;
      tiles_fence();
      tiles_product(whole, high_a, high_b, 0);
      tiles_commit();
      tiles_wait_all();
      tiles_settle(low);
      tiles_settle(whole);
      tiles_combine(whole, low);
      tiles_settle(low);
      tiles_settle(whole);
      tiles_fence();
      tiles_product(whole, high_a, high_b + 16384, 1);
      tiles_product(whole, high_a + 16384, high_b, 1);
      tiles_commit();
      next();
      at = base + stage * TILE_STAGE;
      tiles_barrier_wait(full + 8 * stage, parity);
      tiles_settle(low);
      tiles_fence();
      tiles_product(low, at + 16384 + rows, at + 49152, 0);
      tiles_commit();
      tiles_wait_but_one();
      tiles_settle(whole);
      add_block<kLater>(sums, whole, now, later);
      later += step;
      tiles_settle(whole);
    }
    const UINT high_a = at + rows;
    const UINT high_b = at + 32768;
    const int now = stage;
    next();
    tiles_fence();
    tiles_product(whole, high_a, high_b, 0);
    tiles_commit();
    tiles_wait_all();
    tiles_settle(low);
    tiles_settle(whole);
    tiles_combine(whole, low);
    tiles_settle(low);
    tiles_settle(whole);
    tiles_fence();
    tiles_product(whole, high_a, high_b + 16384, 1);
    tiles_product(whole, high_a + 16384, high_b, 1);
    tiles_commit();
    tiles_wait_all();
    tiles_settle(whole);
    add_block<kLater>(sums, whole, now, later);
  }

  // Puts this warp's columns [32 piece, 32 piece + 32) to `staged`, rows of 36.
  __device__ __forceinline__ void put(const float (&sums)[64], int piece) {
    const int lane = int(THREAD & 31u);
    float* to = staged + (lane >> 2) * 36 + (lane & 3) * 2;
    __syncwarp();
    UNROLL
    for (int p = 0; p < 4; p++) {
      if (p != piece) continue;
      UNROLL
      for (int i = 0; i < 4; i++) {
        *(float2*)(to + 8 * i) = make_float2(sums[16 * p + 4 * i], sums[16 * p + 4 * i + 1]);
        *(float2*)(to + 8 * i + 8 * 36) = make_float2(sums[16 * p + 4 * i + 2], sums[16 * p + 4 * i + 3]);
      }
    }
    __syncwarp();
  }
};
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
