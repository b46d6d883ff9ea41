// A copy of what a view reads of one plane, with zeros where the view is padded: in it, addresses are sums without
// limits. What a kernel reads many times, or in vectors, it reads from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/dtype.h>

#include "backends/cpu/contraction/geometry.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

struct PaddedCopy {
  /// A checked coordinate of the source.
  struct Axis {
    int limit = 0;          ///< which of the geometry's
    std::int64_t least = 0;  ///< the first of them, beside the batch's: below 0 where terms walk backwards
    std::int64_t size = 0;   ///< coordinates that are read
    std::int64_t lo = 0;
    std::int64_t hi = 0;
    std::int64_t source_stride = 0;
    std::int64_t phases = 1;  ///< coordinates of equal remainder lie together: what a kernel with this stride reads
    std::int64_t stride = 0;  ///< in the copy, of neighbours in a phase
    std::int64_t phase_stride = 0;
  };
  std::vector<Axis> axes;  ///< by descending source stride
  std::int64_t plane = 0;  ///< elements

  /// Where a position of the outer group and one of the terms' are, by their coordinates. The two add up if one has
  /// multiples of the phases.
  std::int64_t address(const Position& outer) const { return address(outer, false); }
  std::int64_t term_address(const Position& term) const { return address(term, true); }
  /// Its lines along the last axis, for the coordinates of a batch.
  struct Line {
    std::int64_t to = 0;
    std::int64_t from = 0;   ///< what belongs to `begin`
    std::int64_t step = 1;   ///< in the source
    std::int64_t begin = 0;  ///< elements before are zeros
    std::int64_t end = 0;    ///< elements from here to `size` are zeros
    std::int64_t size = 0;
  };
  std::vector<Line> lines(const Position& batch) const;

 private:
  std::int64_t address(const Position& position, bool is_term) const;
};

inline constexpr std::int64_t kCacheLine = 64 / sizeof(float);  ///< elements

/// A plane of f32 to write. `from`: at the batch's address and that of the plane.
struct CopyArgs {
  const PaddedCopy::Line* lines = nullptr;
  std::size_t count = 0;
  const float* from = nullptr;
  float* to = nullptr;
  /// The plane that is copied after it, if there is one, which is asked for meanwhile: planes are short, and a
  /// processor guesses the next one too late.
  const float* next = nullptr;
  bool flush = false;  ///< subnormals
  bool zeros = true;   ///< write them, too; otherwise they are there
};
using CopyFunction = void (*)(const CopyArgs&);  ///< copy_lines-inl.h

/// Writes a plane of f16 or bf16, which are decoded.
void write_decoded(const std::vector<PaddedCopy::Line>& lines, DType dtype, bool flush, const std::byte* from,
                   float* to);

/// Whether a limit depends on dimension `dim`.
bool is_checked(const Group& group, int dim);
/// How many dimensions precede the first checked one; nothing if others follow it.
std::optional<int> plain_dims(const Group& group);
/// Dimensions [first, last) of a group.
Group part(const Group& group, int first, int last);
/// Of every index of a group, its share of the address.
std::vector<std::int64_t> addresses(const Group& group);

enum class Phases : std::uint8_t {
  one,
  of_outer,  ///< as many as neighbours in `outer` are apart
};

/// Nothing for views without limits or with steps, and where source addresses do not follow from the checked
/// coordinates. Terms may walk against them, as in gradients of convolutions' inputs; pixels may not.
std::optional<PaddedCopy> make_padded_copy(const Geometry& geometry, Phases phases = Phases::one);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
