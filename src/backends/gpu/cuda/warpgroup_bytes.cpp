#include "backends/gpu/cuda/warpgroup_bytes.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

// The first warpgroup brings pieces, 256 of k, to shared memory, as many ahead as there are slots: rows' codes and
// scales with one copy, columns' blocks as they are. The others multiply 64 columns of weights each, which they take
// apart into registers, the left operand; rows are the right one, as wgmma reads it: rows of 128 bytes, their eighths
// exchanged (swizzle of 128 bytes). Of a block of 32 of k each thread has the sums of two columns and ROWS / 4 rows.
//
// Where tiles are few, PARTS warpgroups take the pieces of the same columns by turns. Totals lie in shared memory, a
// thread's where no other thread's are; whose turn it is adds its piece.
//
// Totals of a tile's first pieces may go to another workgroup, which goes on, by way of memory: each thread's to the
// one in its place. Behind them is a word for each warp, which says that its are there.
//
// With TENSOR_SCALES products of scales come from the tensor cores, too (tf32), as WarpgroupHalves says: of rows'
// scales two parts, which of four blocks lie together, and marks.
//
// The kernel defines what it takes from a column's blocks: codes of four neighbours at this thread's place and 16 on,
// and numbers of the block. Behind codes, rows have their blocks' scales and, where HAS_OFFSET, sums of codes.
const char* const kWarpgroupBytesText = R"(
FUNCTION void piece_codes(int block, const UINT* piece, UINT& low, UINT& high);
FUNCTION float piece_scale(int block, const UINT* piece);
FUNCTION float piece_factor(int block, const UINT* piece);
FUNCTION float piece_offset(int block, const UINT* piece);
FUNCTION float piece_share(int block, const UINT* piece);
FUNCTION float piece_own_scale(int block, const UINT* piece);
#define FEWER_REGISTERS(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 " #n ";");
#define MORE_REGISTERS(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 " #n ";");
#define SUMS_8(d, i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
FUNCTION void bytes_multiply(int (&d)[16], const UINT (&a)[4], ULONG b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, p;\n}"
      : SUMS_8(d, 0), SUMS_8(d, 8) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
FUNCTION void bytes_multiply(int (&d)[32], const UINT (&a)[4], ULONG b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p;\n}"
      : SUMS_8(d, 0), SUMS_8(d, 8), SUMS_8(d, 16), SUMS_8(d, 24) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
FUNCTION void bytes_multiply(int (&d)[64], const UINT (&a)[4], ULONG b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, p;\n}"
      : SUMS_8(d, 0), SUMS_8(d, 8), SUMS_8(d, 16), SUMS_8(d, 24), SUMS_8(d, 32), SUMS_8(d, 40), SUMS_8(d, 48),
        SUMS_8(d, 56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#define PRODUCTS_8(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
FUNCTION void scales_multiply(float (&d)[16], const UINT (&a)[4], ULONG b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, p, 1, 1;\n}"
      : PRODUCTS_8(d, 0), PRODUCTS_8(d, 8) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
FUNCTION void bytes_barrier_wait(UINT barrier, int parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// ROW_BYTES: of a piece of a tile's rows.
template <int ROWS, int COLUMN_GROUPS, int PARTS, int SLOTS, int PIECE_BYTES, int STRIDE, bool HAS_FACTOR, bool HAS_OFFSET,
          bool TENSOR_SCALES, int ROW_BYTES = ROWS * (TENSOR_SCALES ? 324 : HAS_OFFSET ? 320 : 288)>
struct WarpgroupBytes {
  static constexpr int kColumns = 64 * COLUMN_GROUPS;
  static constexpr int kRowBytes = (ROW_BYTES + 1023) / 1024 * 1024;  // of a slot
  static constexpr int kWeightBytes = kColumns * STRIDE;
  static constexpr int kOwn = ROWS / 2;  // sums of a thread
  static constexpr bool kHasRegisters = ROWS > 64;  // for what was read last

  UINT base, full, empty;
  char* memory;
  int slot, parity;

  __device__ __forceinline__ void start(void* shared) {
    const UINT begin = UINT(__cvta_generic_to_shared(shared));
    base = (begin + 1023u) & ~1023u;
    memory = (char*)shared + (base - begin);
    full = base + SLOTS * (kRowBytes + kWeightBytes) + kColumns * ROWS * 4;
    empty = full + 8 * SLOTS;
    slot = 0;
    parity = 0;
    if (THREAD == 0) {
      for (int s = 0; s < SLOTS; s++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 129;" ::"r"(full + 8 * s) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + 8 * s), "r"(4 * COLUMN_GROUPS) : "memory");
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }
  __device__ __forceinline__ void advance(int by) {
    slot += by;
    if (slot >= SLOTS) {
      slot -= SLOTS;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ UINT weights_of(int s) const { return SLOTS * kRowBytes + s * kWeightBytes; }

  __device__ __forceinline__ void copy_vector(UINT to, ULONG from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  }
  // Starts to copy a piece of COUNT columns, of which there are last + 1, to where slot `to` has them from FIRST on. 128
  // threads: eight take 128 bytes of a column, whose places are found once for all of them; what is left of columns, one
  // after another.
  template <int FIRST, int COUNT>
  __device__ __forceinline__ void copy_columns(int to, ULONG from, UINT column_bytes, int last) {
    constexpr int kVectors = PIECE_BYTES / 16;
    constexpr int kWhole = kVectors / 8 * 8;
    constexpr int kRest = kVectors - kWhole;
    const UINT at = base + weights_of(to) + FIRST * STRIDE;
    const int of_eight = int(THREAD & 7u);
    const UINT eight_at = at + UINT(int(THREAD / 8u) * STRIDE + of_eight * 16);
    #pragma unroll 4
    for (int first = 0; first < COUNT; first += 16) {
      const int column = first + int(THREAD / 8u);
      const ULONG source = from + (UINT(column < last ? column : last) * column_bytes + UINT(of_eight * 16));
      UNROLL
      for (int v = 0; v < kWhole; v += 8) copy_vector(eight_at + UINT(first * STRIDE + v * 16), source + ULONG(v * 16));
    }
    UNROLL
    for (int first = 0; first < COUNT * kRest; first += 128) {
      const int e = first + int(THREAD);
      if (COUNT * kRest % 128 != 0 && e >= COUNT * kRest) continue;
      const int column = e / (kRest > 0 ? kRest : 1);
      const int v = kWhole + e - column * kRest;
      const ULONG source = from + UINT(column < last ? column : last) * column_bytes;
      copy_vector(at + UINT(column * STRIDE + v * 16), source + ULONG(v * 16));
    }
    if (FIRST + COUNT < kColumns) return;
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full + 8 * to) : "memory");
  }
  // Starts to copy the piece's rows to slot `to`, where it writes behind what was read there. One thread.
  __device__ __forceinline__ void copy_rows(int to, ULONG from) {
    const UINT barrier = full + 8 * to;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(ROW_BYTES) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            base + UINT(to * kRowBytes)),
        "l"(from), "r"(ROW_BYTES), "r"(barrier)
        : "memory");
  }
  // Until the slot is free again.
  __device__ __forceinline__ void wait_empty() { bytes_barrier_wait(empty + 8 * slot, parity ^ 1); }

  // With products of scales from tensor cores: a column's scale of the block, among those of four blocks, meets both parts
  // of rows' scales, and zeros the others.
  __device__ __forceinline__ void multiply_scaled(float (&partial)[kOwn], const UINT* upper, const UINT* lower) {
    const UINT address = __shfl_sync(0xffffffffu, (base + UINT(slot * kRowBytes)) >> 4, 0);
    const int own = int(THREAD & 3u);
    float own_scale[2][2];
    int sum[kOwn];
    float scaled[kOwn];
    UINT a[2][4], scale[4];
    UNROLL
    for (int four = 0; four < 2; four++) {
      own_scale[four][0] = piece_own_scale(four * 4 + own, upper);
      own_scale[four][1] = piece_own_scale(four * 4 + own, lower);
    }
    piece_codes(0, upper + own, a[0][0], a[0][2]);
    piece_codes(0, lower + own, a[0][1], a[0][3]);
    UNROLL
    for (int i = 0; i < kOwn; i++) partial[i] = 0.0f;
    UNROLL
    for (int block = 0; block < 8; block++) {
      UINT (&now)[4] = a[block & 1];
      UINT (&next)[4] = a[block & 1 ^ 1];
      UNROLL
      for (int i = 0; i < 4; i++) {
        scale[i] = own == block % 4 ? __float_as_uint(own_scale[block / 4][i & 1]) : 0u;
        asm volatile("" : "+r"(scale[i]), "+r"(now[i])::"memory");
      }
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      const UINT four = address + UINT(block / 4 * (ROWS * 2) + ROWS * 16);
      scales_multiply(scaled, scale, ULONG(8) << 32 | ULONG(four | UINT(ROWS) << 16));
      bytes_multiply(sum, now, ULONG(64u | 1u << 30) << 32 |
                                   ULONG(address + UINT(block / 4 * (ROWS * 8) + block % 4 * 2) | 1u << 16));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (block < 7) {
        piece_codes(block + 1, upper + own, next[0], next[2]);
        piece_codes(block + 1, lower + own, next[1], next[3]);
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      UNROLL
      for (int i = 0; i < kOwn; i++) asm volatile("" : "+r"(sum[i]), "+f"(scaled[i])::"memory");
      UNROLL
      for (int i = 0; i < 4; i++) asm volatile("" : "+r"(scale[i]), "+r"(now[i])::"memory");
      UNROLL
      for (int i = 0; i < kOwn; i++) partial[i] = FMA_EXACT(__int2float_rn(sum[i]), scaled[i], partial[i]);
    }
  }

  // The sums of a piece, once it has arrived; gives its slot back.
  __device__ __forceinline__ void multiply(float (&partial)[kOwn], int group) {
    const int lane = int(THREAD & 31u);
    const int column = group * 64 + int(THREAD / 32u & 3u) * 16 + lane / 4;
    bytes_barrier_wait(full + 8 * slot, parity);
    const UINT* const upper = (const UINT*)(memory + weights_of(slot) + column * STRIDE);
    const UINT* const lower = upper + 8 * STRIDE / 4;
    UINT of_last = 0;
    bool is_done = false;
    if constexpr (TENSOR_SCALES) {
      const UINT* const marks = (const UINT*)(memory + slot * kRowBytes + ROWS * 320);
      is_done = __all_sync(0xffffffffu, marks[lane] == 0);
      if (is_done) multiply_scaled(partial, upper, lower);
    }
    if (!is_done) {
      multiply_and_scale(partial, upper, lower, of_last);
      UNROLL
      for (int i = 0; i < kOwn && TENSOR_SCALES; i++) of_last ^= i % 8 == 0 ? 0u : __float_as_uint(partial[i]);
    }
    // What was read of the slot has to be there before it is given back: arrivals do not wait for loads on their way, and
    // bulk copies, which take another way, may overtake these. So it depends on the last ones, or on sums of them, who
    // arrives.
    UNROLL
    for (int j = 0; j < ROWS / 16 && !kHasRegisters; j++) of_last ^= __float_as_uint(partial[8 * j]);
    if (lane == int(__ballot_sync(0xffffffffu, of_last == 0x9e3779b9u) & 31u)) {
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * slot) : "memory");
    }
    advance(PARTS);
  }
  // Threads multiply scales.
  __device__ __forceinline__ void multiply_and_scale(float (&partial)[kOwn], const UINT* upper, const UINT* lower, UINT& of_last) {
    const int lane = int(THREAD & 31u);
    const float4* const floats = (const float4*)(memory + slot * kRowBytes + ROWS * 256) + (lane & 3);
    const ULONG rows = (ULONG(1) << 16) | (ULONG(64) << 32) | (ULONG(1) << 62) |
                       (((base + UINT(slot * kRowBytes)) & 0x3ffffu) >> 4);
    int sum[kOwn];
    UINT a[2][4];
    piece_codes(0, upper + (lane & 3), a[0][0], a[0][2]);
    piece_codes(0, lower + (lane & 3), a[0][1], a[0][3]);
    UNROLL
    for (int i = 0; i < kOwn; i++) partial[i] = 0.0f;
    UNROLL
    for (int block = 0; block < 8; block++) {
      UINT (&now)[4] = a[block & 1];
      UINT (&next)[4] = a[block & 1 ^ 1];
      UNROLL
      for (int i = 0; i < 4; i++) asm volatile("" : "+r"(now[i])::"memory");
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      bytes_multiply(sum, now, rows + ULONG((block / 4 * (ROWS * 128) + block % 4 * 32) / 16));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (block < 7) {
        piece_codes(block + 1, upper + (lane & 3), next[0], next[2]);
        piece_codes(block + 1, lower + (lane & 3), next[1], next[3]);
      }
      const float scale[2] = {piece_scale(block, upper), piece_scale(block, lower)};
      float factor[2], offset[2], share[2];
      UNROLL
      for (int h = 0; h < 2; h++) {
        if (HAS_FACTOR) factor[h] = piece_factor(block, h == 0 ? upper : lower);
        if (HAS_OFFSET) {
          offset[h] = piece_offset(block, h == 0 ? upper : lower);
          share[h] = piece_share(block, h == 0 ? upper : lower);
        }
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      UNROLL
      for (int i = 0; i < kOwn; i++) asm volatile("" : "+r"(sum[i])::"memory");
      UNROLL
      for (int i = 0; i < 4; i++) asm volatile("" : "+r"(now[i])::"memory");
      UNROLL
      for (int j = 0; j < ROWS / 16; j++) {
        float4 read;
        if (TENSOR_SCALES) {
          const float* const parts =
              (const float*)(memory + slot * kRowBytes + ROWS * 256) + block / 4 * (ROWS * 8) + block % 4 + (j * 16 + (lane & 3) * 2) * 4;
          read = make_float4(parts[0] + parts[ROWS * 4], parts[4] + parts[ROWS * 4 + 4], parts[32] + parts[ROWS * 4 + 32],
                             parts[36] + parts[ROWS * 4 + 36]);
        } else {
          read = floats[block * (ROWS / 4) + j * 4];
        }
        const float own[4] = {read.x, read.y, read.z, read.w};
        if (kHasRegisters && block == 7) of_last ^= __float_as_uint(read.x);
        float codes[4];
        if (HAS_OFFSET) {
          const float4 sums = floats[(8 + block) * (ROWS / 4) + j * 4];
          codes[0] = sums.x; codes[1] = sums.y; codes[2] = sums.z; codes[3] = sums.w;
          if (kHasRegisters && block == 7) of_last ^= __float_as_uint(sums.x);
        }
        UNROLL
        for (int q = 0; q < 8; q++) {
          const int i = 8 * j + q;
          const int h = q >> 1 & 1;
          const int r = (q >> 2) * 2 + (q & 1);
          const float whole = HAS_FACTOR ? __int2float_rn(sum[i]) * factor[h] : __int2float_rn(sum[i]);
          partial[i] = FMA_EXACT(whole, FLUSHED_PRODUCT(scale[h], own[r]), partial[i]);
          if (HAS_OFFSET) {
            partial[i] = FMA_EXACT(share[h] * codes[r], FLUSHED_PRODUCT(offset[h], own[r]), partial[i]);
          }
        }
      }
    }
  }

  // A warpgroup waits for its turn to add, and gives it to the next one.
  __device__ __forceinline__ void take_turn(int group, int part) {
    if (PARTS > 1) asm volatile("bar.sync %0, 256;" ::"r"(1 + group * PARTS + part) : "memory");
  }
  __device__ __forceinline__ void pass_turn(int group, int part) {
    const int next = part + 1 == PARTS ? 0 : part + 1;
    if (PARTS > 1) asm volatile("bar.arrive %0, 256;" ::"r"(1 + group * PARTS + next) : "memory");
  }
  // All warpgroups of the same columns wait for each other.
  __device__ __forceinline__ void meet(int group) {
    if (PARTS > 1) asm volatile("bar.sync %0, %1;" ::"r"(1 + COLUMN_GROUPS * PARTS + group), "n"(128 * PARTS) : "memory");
  }
  // The same part of both matrices.
  __device__ __forceinline__ void meet_pair(int group, int part) {
    asm volatile("bar.sync %0, 256;" ::"r"(1 + COLUMN_GROUPS * (PARTS + 1) + group % (COLUMN_GROUPS / 2) * PARTS + part) : "memory");
  }
  // The totals of rows 8 j + 2 (lane & 3), and the next one, of this thread's two columns.
  __device__ __forceinline__ float4& total(int group, int j) const {
    return ((float4*)(memory + SLOTS * (kRowBytes + kWeightBytes)))[(group * (ROWS / 8) + j) * 128 + int(THREAD & 127u)];
  }
  __device__ __forceinline__ void add(const float (&partial)[kOwn], int group, bool first) const {
    UNROLL
    for (int j = 0; j < ROWS / 8; j++) {
      float4& all = total(group, j);
      if (first) {
        all = make_float4(partial[4 * j], partial[4 * j + 1], partial[4 * j + 2], partial[4 * j + 3]);
      } else {
        const float4 old = all;
        all = make_float4(old.x + partial[4 * j], old.y + partial[4 * j + 1], old.z + partial[4 * j + 2],
                          old.w + partial[4 * j + 3]);
      }
    }
  }
  __device__ __forceinline__ float4* handed(ULONG totals, int from, int group) const {
    return (float4*)totals + (from * COLUMN_GROUPS + group) * (ROWS * 16) + int(THREAD & 127u);
  }
  __device__ __forceinline__ ULONG handed_word(ULONG words, int from, int group) const {
    return words + ULONG(((from * COLUMN_GROUPS + group) * 4 + int(THREAD / 32u & 3u)) * 4);
  }
  // From workgroup `from`.
  __device__ __forceinline__ void give_totals(ULONG totals, ULONG words, int from, int group) const {
    UNROLL
    for (int j = 0; j < ROWS / 8; j++) handed(totals, from, group)[j * 128] = total(group, j);
    __syncwarp();
    if ((THREAD & 31u) == 0u) {
      asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(handed_word(words, from, group)), "r"(1) : "memory");
    }
  }
  __device__ __forceinline__ void wait_for_totals(ULONG words, int from, int group) const {
    UINT is_there;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(is_there) : "l"(handed_word(words, from, group)) : "memory");
    } while (is_there == 0u);
  }
  __device__ __forceinline__ void take_totals(ULONG totals, ULONG words, int from, int group) {
    wait_for_totals(words, from, group);
    UNROLL
    for (int j = 0; j < ROWS / 8; j++) total(group, j) = handed(totals, from, group)[j * 128];
  }
  // The warpgroup of 64 columns of a tile, of one part, waits for itself.
  __device__ __forceinline__ void meet_own(int group, int part) {
    asm volatile("bar.sync %0, 128;" ::"r"(1 + COLUMN_GROUPS * (PARTS + 1) + COLUMN_GROUPS / 2 * PARTS + group * PARTS + part)
                 : "memory");
  }
  // What lies where the total of a row and a column of a group does.
  __device__ __forceinline__ float result(int group, int row, int column) const {
    const int thread = column / 16 * 32 + (column & 7) * 4 + (row & 7) / 2;
    const int of_four = (column / 8 & 1) * 2 + (row & 1);
    return ((const float*)(memory + SLOTS * (kRowBytes + kWeightBytes)))[((group * (ROWS / 8) + row / 8) * 128 + thread) * 4 + of_four];
  }
};
)";

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
