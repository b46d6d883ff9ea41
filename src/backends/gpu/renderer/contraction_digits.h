// Contractions in blocked numerics as products of 8-bit digits (docs/numerics.md section 12): each operand is first
// written to scratch memory as digits, q = 128 high + low, and scales, in tiles of 128 rows (a's rows, b's columns) and
// 128 of k. A tile is its plane of high digits and then that of low ones, rows of 128 bytes whose eighths are exchanged
// (eighth c of row r is at c ^ (r & 7)), so that integer tensor cores can read it as it lies. Beyond the operand's end
// digits are zero.
#pragma once

#include "backends/gpu/renderer/contraction.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

constexpr int kDigitRows = 128;
constexpr int kDigitTileBytes = 2 * kDigitRows * order::kSharedBlock;
constexpr std::int64_t kMostDigitBytes = std::int64_t{1} << 30;  ///< of scratch memory

/// Where the digits and scales of both operands lie, in bytes from the beginning of the operand's form (source.h).
struct DigitLayout {
  explicit DigitLayout(const Geometry& geometry);

  std::int64_t blocks;              ///< of k
  std::int64_t a_tiles, b_tiles;    ///< along the operand's own dimensions, in each batch
  std::int64_t a_digits, b_digits;  ///< [batch][tile][block]: kDigitTileBytes each
  std::int64_t a_scales, b_scales;  ///< [batch][tile][block]: kDigitRows floats each
  std::int64_t a_bytes, b_bytes;
  std::int64_t bytes() const { return a_bytes + b_bytes; }
};

/// Writes the digits and scales of both operands, which may be kept as forms.
Rendered render_digits(const ContractionKernel& kernel, const Geometry& geometry, const DigitLayout& layout,
                       const RenderLimits& limits);
/// Whether there are any, and the device has the memory and threads that this needs.
bool digits_fit(const Geometry& geometry, const RenderLimits& limits);
/// Declares `batch`, `tile_m` and `tile_n` of `tile`, in an order in which neighbours have operands in common.
void find_digit_tile(Lines& lines, Words& words, std::int64_t tiles_m, std::int64_t tiles_n, bool wide);

/// Whether a contraction in blocked numerics is computed by asynchronous integer tensor cores here.
bool is_for_integer_tiles(const Geometry& geometry, const RenderLimits& limits);
/// A contraction in blocked numerics by RenderLimits::integer_tiles: digits of a, of b, and their products.
Rendered render_integer_tiles(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits);

/// The same by products of bytes that threads wait for: RenderLimits::byte_fragments, or dot products.
bool is_for_digit_tiles(const Geometry& geometry, const RenderLimits& limits);
Rendered render_digit_tiles(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits);

/// The same by cooperative matrices of bytes: Arithmetic::byte_matrices.
bool is_for_matrix_tiles(const Geometry& geometry, const RenderLimits& limits);
Rendered render_matrix_tiles(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
