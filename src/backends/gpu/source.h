// What the renderer says of a kernel, in the kernel subset (src/kernels/prelude.h) and the words below, before a
// dialect gives it the spelling of its language:
//
//   THREAD GROUP GROUPS      number of the thread in its workgroup, of the workgroup, and how many there are (UINT)
//   RARE_FUNCTION            FUNCTION of what is seldom called
//   UNROLL                   before a loop of constant length whose arrays belong into registers
//   UNROLL_BY(n)             before a loop whose loads should be under way together
//   BARRIER()                all threads of the workgroup, and what they wrote to shared arrays
//   NEAR_BARRIER()           the same for 32 threads whose numbers begin at a multiple of 32; all threads call it
//   CANONICAL_F32(x)         canonical(x) of a float, in the device's own way
//   FLUSHED_F32(x)           the same, but that it may be any NaN
//   FLUSH_FACTOR(x, least)   1 where |x| is above the float of word `least`, else 0: x times it is x flushed
//   ROUND_BF16(x) ENCODE_BF16(x)  cast_bf16(x) of a float, and its word
//   ROUND_F16(x) ENCODE_F16(x) DECODE_F16(word)  cast_f16(x) of a float, its word, and the float of a word
//   ANY_ROUND_BF16(x) ANY_ROUND_F16(x) ANY_DECODE_F16(word)  the same, but that it may be any NaN
//   NEAREST_BF16(x)          and any number up to the smallest normal
//   HASTY_BF16(x) HASTY_NEAREST_BF16(x)  ROUND_BF16 and NEAREST_BF16, or no number: of what is not below 2^112.
//   HASTY_LOOSE_BF16(x)      HASTY_NEAREST_BF16, but of what is at most the smallest normal any number of at most that
//                            magnitude; and of what is not below 2^112 infinite, or no number
//   HASTY_GELU_TO_BF16(x)    GELU_TO_BF16, but no number of what is infinite
//   LEAST_MAGNITUDE(least, x)  the smaller one of least and |x|; either, if x is no number. The words from HASTY_BF16
//                            on, and STORE4_ROUNDED(a, i, x) STORE8_ROUNDED(a, i, x), of float x[4] and x[8] that are
//                            bf16, are for Arithmetic::hasty_bf16: Vulkan alone
//   MAGNITUDE(x)             |x| of a float that is not subnormal
//   GELU_TO_BF16(x) GELU_TO_F16(x)  of a value of that format, what rounds to it as ls_gelu(x) does; x is a name
//   LARGER(x, y) SMALLER(x, y)  larger(x, y) of floats of which no zero nor NaN has to keep its bits
//   P(i)                     parameter word i (UINT); i is a literal
//   MEMORY                   the type of a place in the device's memory; MEMORY + bytes (ULONG) is another one
//   MEMORY_AT(n, w)          KernelText::addresses[n], whose words are w and w + 1; both are literals
//   AFTER_EARLIER()          earlier launches are over behind it, whose writing is seen; where a body does not say it,
//   it
//                            stands at the beginning. In the outermost block of its uses, without a semicolon
//   EARLY_MEMORY_AT(n, w)    MEMORY_AT, which is for behind AFTER_EARLIER, before it: memory that no earlier launch
//   writes
//   ASK_FOR(at)              the 128 bytes around place `at`, of EARLY_MEMORY_AT if before AFTER_EARLIER, will be read
//                            soon, whoever writes them until then; other languages do nothing. Without a semicolon
//   LOAD_U8/16/32/64(a, i)   element i (int or LONG) of the read-only memory at place a: UINT, 64: ULONG
//   LOAD_U32_AGAIN(a, i)     the same for memory that the kernel itself writes, 64 alike; LOAD4_U32_AGAIN(a, i, w) is
//                            LOAD4_U32 of such, for KernelText::copies: CUDA alone
//   STORE_U8/16/32/64(a, i, word)
//   LOAD4_U8/16/32(a, i, w)  4 neighbours, the first at a multiple of 4, into UINT w[4]; STORE4_U8/16/32(a, i, w) alike
//   LOAD2_U16(a, i, w)       2 neighbours, the first at a multiple of 2. LOAD2_U32(a, i, w), and STORE2 as STORE4: for
//                            RenderLimits::bf16_pairs, CUDA alone
//   LOAD8_U8/16(a, i, w)     8 neighbours, the first at a multiple of 8; STORE8_U8/16(a, i, w) alike
//   STORE4_BF16/F16(a, i, x) ENCODE_BF16 or ENCODE_F16 of float x[4]; STORE8_BF16/F16(a, i, x) of x[8]
//   ADD_BF16_PAIR(a, b)      the sums of two words of two bf16 each. This and what follows, up to NEAR_OTHER, for
//                            RenderLimits::bf16_pairs: CUDA alone. Any NaN
//   NEAREST_BF16_PAIR(a, b)  the word of two floats, rounded; FLUSHED_BF16_PAIR(w) without numbers up to the smallest
//                            normal; CANONICAL_BF16_PAIR(w) with our NaN, too
//   LARGER_BF16_PAIR(a, b) SMALLER_BF16_PAIR(a, b)  LARGER and SMALLER of both
//   NEAR_OTHER(x, m)         x (float) of the thread whose number differs in bit m, below 32; all threads call it
//   LARGEST_OF_4(x)          the largest UINT of 4 threads whose numbers begin at a multiple of 4; LARGEST_OF_32(x)
//   SUM_OF_2(x)              the sum of int of 2 threads; all threads of 32 call these two, which are for
//                            KernelText::copies: CUDA alone
//   RECIPROCAL(x)            1 / x of a float, rounded to the nearest; for KernelText::copies, too
//   COPY_TO_SHARED(s, i, bytes, at)  starts to copy the i-th `bytes` (4, 8 or 16) of shared array s from place `at`;
//   COPIES_ARRIVED()         waits for those of this thread
//   COPIES_BEGUN()           ends a group of them, which may be empty; COPIES_ARRIVED_BUT(n) waits for all groups of
//                            this thread but the last n. These two for KernelText::copies
//   TAKE4_U8/16(s, i, w)     LOAD4 from there; TAKE8_U8/16(s, i, w) LOAD8. These for KernelText::copies: CUDA alone
//   TAKE4_U32(s, i, w)       UINT w[4] = the i-th four words of the shared int array s; PUT4_U32(s, i, w) and back
//   READ4(s, i, x, j)        x[j .. j + 3] = s[i .. i + 3] of the shared float array s, i a multiple of 4
//   WRITE4(s, i, x, j)       and back. All of these are statements, without a semicolon
//   FMA_EXACT(x, y, z)       FMA, + and * of floats that keep subnormals: for accumulators
//   ADD_EXACT MUL_EXACT(x, y)
//   TEAM                     number of a thread's team of 32 (UINT), which multiply cooperative matrices together. This
//                            and what follows, up to WORD_OF_FOURS, for KernelText::byte_matrices: Vulkan alone
//   BYTES_16_BY_32 BYTES_32_BY_16 SUMS_16_BY_16  types of a team's left and right operand and of their sums, of which a
//                            thread has 8: m[0 .. 7], it knows not which. One variable in a declaration
//   TAKE_ROWS(m, s, i, step) m = 16 rows of 32 bytes from the i-th four words on of s, a shared array of fours, rows
//                            `step` fours apart; TAKE_COLUMNS(m, s, i, step) 16 columns of 32 bytes
//   TAKE_SUMS(m, s, i, step) 16 rows of 16 int
//   FILL_SUMS(m, value)      m = value everywhere
//   MULTIPLY_MATRICES(m, rows, columns)  m += rows * columns. These are statements, without a semicolon
//   PUT_FOUR(s, i, w)        the i-th four words of s = UINT w[4]; TAKE_FOUR(s, i, w) and back; WORD_OF_FOURS(s, i) its
//                            i-th word (UINT)
//   DOT4(x, y, sum)          sum (int) and the products of four signed bytes each of two words
//   FMA_OF_SUMS(x, y, z)     FMA_EXACT of factors that may be subnormal themselves, as those of a contraction are not
#pragma once

#include <array>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

struct SharedArray {
  ComputeType type = ComputeType::f32;
  std::string name;
  int size = 0;
  bool fours = false;  ///< words that are stored by fours: for KernelText::byte_matrices
};

/// One kernel, before it has a language.
struct KernelText {
  std::string functions;  ///< its own, beside those of the kernel texts
  std::string body;
  std::vector<SharedArray> shared;
  int threads = 256;
  int words = 0;                 ///< of parameters
  std::vector<int> addresses;    ///< the first words of those that are addresses
  std::vector<int> only_read;    ///< those among them whose memory no launch of the kernel writes
  int groups_per_unit = 0;       ///< workgroups that should run on a unit at once: bounds the registers; 0: as it comes
  bool copies = false;           ///< to shared memory: RenderLimits::copies_to_shared
  bool integer_tiles = false;    ///< needs `Tiles` (cuda/integer_tiles.cpp): RenderLimits::integer_tiles
  bool attention_tiles = false;  ///< calls what cuda/attention_tiles.cpp defines
  bool byte_products = false;    ///< needs cuda/byte_products.h: RenderLimits::byte_products
  bool byte_fragments = false;   ///< needs that and more of it: RenderLimits::byte_fragments
  bool warpgroup_bytes = false;  ///< needs that and cuda/warpgroup_bytes.cpp: RenderLimits::integer_tiles
  bool warpgroup_halves = false;  ///< needs that and cuda/warpgroup_halves.cpp
  bool byte_matrices = false;    ///< multiplies cooperative matrices: Arithmetic::byte_matrices
};
/// Bytes of the shared arrays.
std::size_t shared_bytes_of(const KernelText& kernel);

/// How a device computes, found by the start-up probe.
struct Arithmetic {
  bool fused_fma = true;             ///< FMA may be the device's
  bool fma_keeps_subnormals = true;  ///< and FMA_EXACT too
  bool sums_keep_subnormals = true;  ///< and products: ADD_EXACT, MUL_EXACT
  bool exact_division = true;
  bool exact_square_root = true;
  bool widening_keeps_subnormals = true;   ///< of f32 to f64
  bool narrowing_keeps_subnormals = true;  ///< of f64 to f32
  bool f64 = true;                         ///< doubles with fused fma, exact division and square root
  bool quick_floats = false;               ///< CANONICAL_F32, ROUND_BF16, LARGER and their like in fewer instructions
  bool hasty_bf16 = false;                 ///< there are HASTY_BF16 and its like; with quick_floats
  bool quick_halves = false;               ///< ENCODE_F16, DECODE_F16 and their like by the language's conversions
  bool native_halves = false;              ///< by its type of 16 bits
  bool float_halves = false;               ///< the same by sums of f32; one of the three at most
  bool near_estimates = false;             ///< GELU_TO_BF16 and GELU_TO_F16 by the language's estimates
  bool near_teams = false;                 ///< NEAR_BARRIER is for fewer threads than BARRIER, and there is NEAR_OTHER
  bool byte_dots = false;                  ///< DOT4 may be the device's (dp4a, OpSDot), and is quick
  bool byte_matrices = false;              ///< threads multiply matrices of bytes together (cooperative matrices)
  friend bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

/// The name of a compute type in the kernel subset: float, double, int, LONG.
const char* type_name(ComputeType type);

/// Activations as Hopper's q8 products read them, rounded (renderer/rounded_rows.h). None where tile_rows is 0.
struct RoundedRows {
  std::int64_t rows = 0, length = 0;
  int tile_rows = 0;    ///< of rows that lie together
  bool halves = false;  ///< codes as f16
  bool sums = false;    ///< of codes, beside scales
  bool parts = false;   ///< of scales
  int cleared = 0;      ///< words behind the rows that who makes them clears
  friend bool operator==(const RoundedRows&, const RoundedRows&) = default;
};

/// Where a launch's parameter word comes from, other than from the kernel itself.
struct Patch {
  enum class Kind : std::uint8_t { address, scalar, faults, scratch, form };
  Kind kind = Kind::address;
  int word = 0;             ///< the first of two
  int index = 0;            ///< slot, parameter or form; scratch: 1 where it is the next kernel's (RenderLimits::makes)
  std::int64_t offset = 0;  ///< added to addresses, in bytes
  int start = -1;           ///< parameter: how many times `stride` bytes are added, too; -1: none
  std::int64_t stride = 0;
};

constexpr std::size_t kLibraryWorkBytes = std::size_t{32} << 20;  ///< the library's working memory
constexpr std::uint32_t kLibraryAlignment = 16;  ///< in bytes, of places, leading steps and batches, at least

/// A product of matrices by the library of the device's vendor, in place of a kernel of ours: of each batch,
/// out = a · b with a of rows x length and b of length x columns, all column-major: neighbours along the first
/// dimension are neighbours in memory (`transposed`: along the other one), `leading` is the step along the other. In
/// elements. The launch's words are the places of a, b, out and the library's working memory.
struct LibraryProduct {
  /// f32 factors of an operand of f8e4m3: of 128 neighbours along k, [length / 128, rows or columns]; of each row or
  /// column; of squares, [over 128 rows or columns, length / 128, as many as make a multiple of 4].
  enum class Scales : std::uint8_t { none, of_128, of_rows, of_squares };
  struct Matrix {
    bool transposed = false;
    std::int64_t leading = 0;
    std::int64_t batch_stride = 0;
    std::uint32_t alignment = kLibraryAlignment;  ///< of all places that it may have, in bytes
    Scales scales = Scales::none;
  };
  DType dtype = DType::f32;   ///< of a and b: bf16, f16, f8e4m3, or f32, which are rounded to TF32
  DType result = DType::f32;  ///< f32, or `dtype`; of f8e4m3 f32 or bf16
  std::int64_t batches = 1, rows = 1, columns = 1, length = 1;
  Matrix a, b, out;
  bool bias = false;  ///< a vector of `result`, one element for each row, is added before the rounding: the launch's
                      ///< last word is its place
  // Of f8e4m3 a is transposed, b is not, and the places of their factors are the launch's last words.
};

constexpr std::size_t kConvolutionWorkBytes = std::size_t{128} << 20;  ///< its memory for convolutions

/// A convolution, or one of its gradients, by the library: x [images, size..., channels], w [outputs, kernel...,
/// channels] and y [images, out_size..., outputs], row-major. y sums w over x's windows: position p · stride + t ·
/// dilation - before for output p and tap t. The launch's words are the places of x, w, y and the working memory.
struct LibraryConvolution {
  enum class Kind : std::uint8_t { forward, input_gradient, weight_gradient };  ///< what is computed: y, x, w
  Kind kind = Kind::forward;
  DType dtype = DType::f32;   ///< of what is read: bf16, f16, or f32, which is rounded to TF32
  DType result = DType::f32;  ///< `dtype`
  std::int64_t images = 1, channels = 1, outputs = 1;
  Shape size, out_size, kernel;
  Shape stride, dilation, before, after;
};

constexpr std::int64_t kAttentionWorkBytes = std::int64_t{1}
                                             << 30;  ///< its memory for attention, unless one batch needs more

/// Attention, or its gradients, by the library: softmax(scale · query · keyᵀ) · value, with query i seeing the keys up
/// to i + behind where it is causal. Operands are [batches, heads, positions, width], with these steps between elements
/// of the first three; made and gradients lie as AttentionSizes says. The launch's words are the places of query, key,
/// value, results and each query's f32; for gradients those of the results' gradient and of the three gradients,
/// too; the working memory, and the scale.
struct LibraryAttention {
  using Steps = std::array<std::int64_t, 3>;
  bool gradients = false;
  bool causal = false;
  std::int64_t behind = 0;    ///< 0, or keys - rows
  DType dtype = DType::bf16;  ///< or f16
  AttentionSizes sizes;
  Steps query{}, key{}, value{}, upstream{};
  std::int64_t work_bytes = 0;

  /// Of the working memory's begin: an f32 for each query, in gradients.
  std::int64_t share_bytes() const {
    return gradients ? (4 * sizes.batches * sizes.heads * sizes.rows + 255) / 256 * 256 : 0;
  }
};

using LibraryCall = std::variant<LibraryProduct, LibraryConvolution, LibraryAttention>;

/// One launch: which text, how many workgroups, and the parameter words.
struct Launch {
  KernelText text;
  std::uint32_t groups = 1;
  std::vector<std::uint32_t> words;
  std::vector<Patch> patches;
  int copies_from = -1, copies_to = -1;  ///< slots: not launched where both are the same memory
  std::optional<LibraryCall> call = {};  ///< instead of the text
  std::vector<int> early = {};           ///< the words of addresses that are read before AFTER_EARLIER
  int makes = -1;                        ///< a form: not launched where that was kept
  bool rounds = false;                   ///< makes its result as RenderLimits::makes says
};

/// What launches make of an operand for later ones, which may be kept for the next run if the operand is the same then.
struct OperandForm {
  int slot = 0;
  std::size_t offset = 0;  ///< in scratch memory, where it is made unless it is kept
  std::size_t bytes = 0;
  bool keeps = false;  ///< making it takes a part of the time that is worth the memory
};

/// A kernel as a device runs it: launches in order.
struct Rendered {
  std::vector<Launch> launches;
  std::size_t scratch_bytes = 0;
  std::vector<OperandForm> forms;
  RoundedRows rounded = {};  ///< what the first launch makes of the left operand, all of a value, in scratch memory
};

/// A row's sum has 64 lanes, and each has a thread.
inline constexpr int kLeastThreads = 64;

/// What exact attention of one row needs of a workgroup.
inline constexpr int kMaskedAttentionThreads = 256;
inline constexpr std::size_t kMaskedAttentionBytes = 30 << 10;

/// What the renderer has to know of a device.
struct RenderLimits {
  int threads = 256;  ///< of a workgroup: a power of two, kLeastThreads to 256
  std::uint32_t groups = 65535;
  int units = 16;                       ///< that run workgroups independently
  std::size_t shared_bytes = 32 << 10;  ///< of a workgroup
  bool copies_to_shared = false;        ///< the device copies memory there without registers (cp.async)
  bool integer_tiles = false;           ///< it multiplies tiles of bytes asynchronously (wgmma, sm_90a)
  bool byte_products = false;           ///< 32 threads multiply bytes by tensor cores (mma, sm_80)
  bool byte_fragments = false;          ///< and so they do without copies_to_shared (mma, sm_75)
  bool bf16_pairs = false;              ///< it has ADD_BF16_PAIR and its like, and NEAR_OTHER (sm_90)
  Arithmetic arithmetic;
  RoundedRows makes = {};  ///< instead of the kernel's result, in the next one's scratch memory, if it can

  /// The workgroups of a launch that has work for so many: each takes several items where these are too many.
  std::uint32_t groups_for(std::int64_t wanted) const {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(wanted, 1, groups));
  }
};

/// Whether rows times two packed matrices, in q8 numerics, are one product (ContractionKernel::paired): few ones, or
/// more than 32 by Hopper's warpgroups.
bool is_packed_pair(const ContractionKernel& kernel, const RenderLimits& limits);

/// Whether kernels share launches: products of one left operand (contraction_siblings.cpp), or a kernel and what reads
/// its result alone (chain.cpp).
bool runs_together(std::span<const Kernel* const> kernels, const RenderLimits& limits);
/// The same kernels' launches.
Rendered render_together(std::span<const Kernel* const> kernels, const RenderLimits& limits);

/// The one function that decides both a kernel's text and its grid. Throws BackendError for what is not supported.
Rendered render(const Kernel& kernel, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
