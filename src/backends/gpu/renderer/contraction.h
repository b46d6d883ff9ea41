// How contractions become kernels (docs/numerics.md section 6). Every form computes the same bits: each output element
// is one chain of fma over each block of 256 k, and block results are added in order.
//
//   tiles    a workgroup computes a tile of outputs; both operands pass through shared memory
//   split    few outputs, long k: workgroups compute blocks of k in parallel, a second kernel adds their results
//   skinny   a matrix times a few vectors: it is read once, straight from memory; as split, or with rows enough each
//            workgroup has all of k for some of them
//   streamed a few rows times a matrix of 16-bit elements, which streams through shared memory
//            (contraction_streamed.cpp)
//   packed   a few rows times packed weights, which stream through shared memory (contraction_packed_few.cpp)
//   direct   short k (depthwise convolutions, small matrices): a thread per output
//   staged   short k, few rows and outputs (attention of a token): the same, out of shared memory
//
// In blocked numerics (section 12) both operands are made integers first; then tiles of those are multiplied, as digits
// where the device has products of bytes (contraction_digits.h), else as contraction_blocked.cpp says. In fast
// ones (section 13) what would be tiles is the vendor's library (contraction_fast.h); q8 ones (section 14) are products
// of codes (contraction_q8.cpp).
#pragma once

#include <optional>
#include <string>

#include "backends/gpu/renderer/program.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

constexpr int kBlock = order::kBlock;  ///< of k: the canonical block
constexpr std::size_t kMostFixed = 4;  ///< values of an epilogue that tiles keep for each row

/// The iteration space (b, m, n, k) after merging, and every view over all of it. Batch dimensions that only one
/// operand depends on have become rows or columns.
struct Geometry {
  Shape shape;
  int m = 0, n = 0, k = 0;  ///< first dimension of the group
  View a, b;
  Space epilogue;
  bool far = false;                                             ///< some address or coordinate does not fit 31 bits
  bool wide = false;                                            ///< nor some position in tiles
  std::int64_t batches = 1, rows = 1, columns = 1, length = 1;  ///< sizes of the groups
};
/// `keep_batches`: these remain what they are.
Geometry geometry_of(const ContractionKernel& kernel, bool keep_batches = false);

/// One operand within a kernel: its own dimensions (m or n) are [first, last).
struct Side {
  Side(const char* side_name, const Input& operand, const View& view_of, const Geometry& geometry, bool is_a);

  std::string name;  ///< "a" or "b"
  const Input* input;
  View view;
  Access access;
  int first, last;
  std::int64_t size;  ///< of its own dimensions
  bool left;          ///< a

  bool bounded() const { return access.bounded(); }
  /// Whether 4 neighbours along its own dimensions (`count` along k) can be read at once.
  bool has_own_vectors(const Geometry& geometry) const;
  bool has_k_vectors(const Geometry& geometry, int count = 4) const;
  /// Whether packed elements are neighbours along k, four at a time.
  bool has_packed_chains(const Geometry& geometry) const;
  /// Whether neighbouring threads should read along k.
  bool prefers_k(const Geometry& geometry) const;
};

/// How many groups of y hold x.
constexpr std::int64_t over(std::int64_t x, std::int64_t y) {
  return (x + y - 1) / y;
}

/// "" for the address (bound -1), "_<b>" for a bound's coordinate.
std::string suffix_of(int bound);
/// What stands in place of elements beyond the end of k: +0 for a, -0 for b, whose product changes nothing.
std::string beyond_word(const Side& side);
/// Declares `zero`, where chains begin. Its value is a parameter: some drivers drop the addition of a constant zero,
/// which would leave a product of -0 as it is.
void declare_zero(Lines& lines, Words& words, ComputeType type);
/// Whether the device's fma flushes subnormals, so that FMA_EXACT is slow. If all elements that are multiplied are zero
/// or 2^-40 and more, every product of two is a multiple of 2^-126, and so is every sum: none is subnormal, and the
/// device's fma is exact. Tiles look at both operands of each block of k; elsewhere the slower one is used from the
/// first smaller element on, until the workgroup turns to other outputs.
bool is_guarded(ComputeType type, const RenderLimits& limits);
/// Operands of f16 have no such elements.
bool is_guarded(const ContractionKernel& kernel, const RenderLimits& limits);
/// FMA where nothing that is multiplied can be so small, else FMA_EXACT.
const char* exact_fma_of(const ContractionKernel& kernel);
/// A magnitude's bits less 1 are below this where it is such a small element.
inline constexpr const char* kSmallWords = "0x2b7fffffu";
std::string is_small(const std::string& value);
/// acc + x * y, fused, and the sum of block results.
std::string fused(ComputeType type, const std::string& x, const std::string& y, const std::string& sum);
std::string added(ComputeType type, const std::string& x, const std::string& y);
/// The name of what makes a sum canonical.
const char* canonical_of(ComputeType type);
/// Reads 4 neighbours: `UINT <words>[4]`.
const char* load4_of(DType dtype);

/// The most that workgroups which share what they load have.
constexpr int kTileThreads = 256;

/// How a tile is made: teams of 32 threads, 8 x 4, each with subtiles of 4 x 4 outputs.
struct TileForm {
  int teams_m = 2, teams_n = 4;
  int subtiles_m = 1, subtiles_n = 1;  ///< per thread
  int step = 16;                       ///< of k in shared memory
  bool shared_totals = false;          ///< sums of blocks are kept in shared memory
  int groups_per_unit = 0;             ///< workgroups that should run on a unit at once, which bounds registers
  std::int64_t split = 1;              ///< workgroups along k
  int threads() const { return 32 * teams_m * teams_n; }
  int rows() const { return 32 * teams_m * subtiles_m; }
  int columns() const { return 16 * teams_n * subtiles_n; }
};

/// What causal attention's products leave out: rows [128 i, 128 (i + 1)) of a batch see the keys up to that of the last
/// of them, which are the columns, or k.
struct SeenKeys {
  std::int64_t behind = 0;  ///< row i sees the keys up to i + behind
  bool along_k = false;
};
constexpr int kAttentionTileRows = 128;

/// `seen`: columns that no row of a tile sees are not written, k ends with the last that one sees, and a sum of -0
/// becomes +0, as when hidden blocks are added.
Launch render_tiles(const ContractionKernel& kernel, const Geometry& geometry, const TileForm& form,
                    const RenderLimits& limits, std::optional<SeenKeys> seen = std::nullopt);
/// The best form whose workgroups have all of k.
TileForm whole_tile_form(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits);
/// Adds block results, which lie in scratch memory as [block][tile][rows][columns], and runs the epilogue.
Launch render_sums(const ContractionKernel& kernel, const Geometry& geometry, int tile_rows, int tile_columns,
                   const RenderLimits& limits);
/// Makes the sum `total` of all blocks canonical, runs the epilogue for (`batch`, `m`, `n`) and stores.
void write_result(Lines& lines, Words& words, ProgramWriter& writer, const ContractionKernel& kernel,
                  const Geometry& geometry, bool wide, const std::string& total);
/// A matrix times up to 8 vectors.
bool is_skinny(const ContractionKernel& kernel, const Geometry& geometry);
Rendered render_skinny(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits);
/// The same of one vector, for devices whose workgroups have little shared memory; none for others, and where rows do
/// not lie as it reads them.
std::optional<Rendered> render_near_skinny(const ContractionKernel& kernel, const Geometry& geometry,
                                           const RenderLimits& limits);
/// A few rows times a matrix of 16-bit elements, which is contiguous along k; none where there is too much of anything,
/// or the device is none that this is for.
std::optional<Rendered> render_streamed(const ContractionKernel& kernel, const Geometry& geometry,
                                        const RenderLimits& limits);
/// Without tiles, so that positions stay within the operands: sets `geometry.wide` anew.
Launch render_direct(const ContractionKernel& kernel, Geometry geometry, const RenderLimits& limits);

/// Few rows with a short k, by way of shared memory; none where there is too much of anything, or the device is none
/// that this is for.
std::optional<Launch> render_staged(const ContractionKernel& kernel, const Geometry& geometry,
                                    const RenderLimits& limits);

/// In blocked numerics.
Rendered render_blocked(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits);
/// A few rows times packed weights, in any numerics, by which workgroups multiply columns as they stream in; none where
/// columns are not neighbours in memory.
std::optional<Rendered> render_packed_few(const ContractionKernel& kernel, const Geometry& geometry,
                                          const RenderLimits& limits);
/// In q8 numerics.
Rendered render_q8(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits);

/// Bytes of block results for tiles of this size.
std::size_t scratch_bytes(const ContractionKernel& kernel, const Geometry& geometry, int tile_rows, int tile_columns);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
