// The images that a convolution reads: where they are, or as copies with their padding written out (padded_copy.h). An
// element's address is then the sum of its pixel's and its term's. For the ways that do not pack them: direct.h,
// lines.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/contraction/padded_copy.h"
#include "backends/cpu/contraction/side.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

struct Images {
  std::optional<PaddedCopy> copy;       ///< one plane; without it the operand is read where it is
  std::vector<PaddedCopy::Line> lines;  ///< of a plane: the same in every batch
  std::vector<std::int64_t> planes;     ///< source addresses of an image's planes; the copy has them in this order
  std::vector<std::int64_t> sources;    ///< source address of each image
  std::vector<std::int64_t> k_address;
  std::vector<std::int64_t> taps;  ///< addresses of terms in their plane of the copy, ascending
  std::int64_t plane = 0;          ///< elements from plane to plane of a copy

  std::int64_t count() const { return static_cast<std::int64_t>(sources.size()); }
  /// Elements of an image's copy.
  std::int64_t size() const { return static_cast<std::int64_t>(planes.size()) * plane; }
  /// The address of a pixel of an image; nothing where it does not follow from the checked coordinates.
  std::optional<std::int64_t> address(const Position& pixel) const;
  /// Makes room for only what pixels read whose addresses are at most `reach` apart, if that is less: a copy that stays
  /// in cache, and is written again for others.
  void narrow(std::int64_t reach);
  /// Writes of an image's copy the lines that pixels at addresses [first, last] read. `data`: the whole operand.
  /// Returns what to take addresses from.
  const float* write_copy(const Side& side, const Position& batch, std::int64_t image, std::int64_t first,
                          std::int64_t last, const std::byte* data, CopyFunction copy_lines, float* to) const;
};

/// Whether a side of f32, or of what a copy can decode to it, can be read so. An element must meet several terms, or
/// packing costs little.
bool has_images(const Side& side);
/// Images of `pixels` each. Nothing where the view is of another form.
std::optional<Images> make_images(const Geometry& geometry, std::int64_t count, std::int64_t pixels, std::int64_t k,
                                  Phases phases = Phases::one);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
