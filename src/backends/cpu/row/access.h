// How the tiles of a row program read and write buffers. All irregularity of views (strides, broadcasts, padding,
// steps) ends here: what instructions see are dense arrays.
//
// A tile varies along some dimensions of the iteration space, the `along` dims, walked in row-major order, while the
// index of the others, the `outer` dims, stays fixed. Every access has dims of its own: neighbours that it walks as one
// are merged, whatever others need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/row/tables.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// A Bound of a View, its coefficients split like the dims.
struct Check {
  std::int64_t offset = 0;
  Shape outer, along;
  std::int64_t lo = 0, hi = 0, step = 1, stride = 0;

  /// What it means to the pattern of the access: one answer per block, part of the pattern, or both.
  enum class Part : std::uint8_t { of_block, of_pattern, of_both };
  Part part = Part::of_block;
  std::int64_t least = 0, most = 0;  ///< of_both: the coordinate over a block, from that of its start
};

/// The elements of a block of the last along dims relative to its start: where the last dim alone is too short to be
/// worth a loop.
struct Pattern {
  int first_dim = 0;                  ///< along dims from here on
  std::int64_t lowest = 0;            ///< the offset that all others are counted from
  std::vector<std::int32_t> offsets;  ///< in row-major order, -1 for the fill value; empty if there is no pattern
  bool has_fill = false;
};

/// A linear form over the iteration space with its checks: where element i of a buffer is, or the number i of an iota.
struct Access {
  int slot = -1;
  DType dtype = DType::f32;
  std::int64_t offset = 0;
  Shape outer_dims, along_dims;
  Shape outer, along;  ///< strides, in elements
  std::vector<Check> checks;
  std::uint64_t fill = 0;
  Pattern pattern;

  /// Whether the element does not depend on the along dims.
  bool is_constant_along() const;
  bool is_constant_outer() const;
  /// Finds the pattern, if one is worth it. When everything else is set.
  void find_pattern();
};

/// How elements become values.
struct Loader {
  LoadFn load = nullptr;
  std::size_t size = 0;    ///< of a value
  bool as_stored = false;  ///< an element is a value already
};
struct Storer {
  StoreFn store = nullptr;
  std::size_t size = 0;
};

/// Elements [begin, begin + count) of the along dims into a dense array. `data` is the buffer.
void fetch(const Access& access, const Loader& loader, const std::byte* data, std::int64_t outer_index,
           std::int64_t begin, std::int64_t count, std::byte* out);
/// The same for `depth` consecutive indices of the only outer dim, element by element of the along dims: for buffers
/// that are contiguous across the tile rather than along it. No checks. out[d * count + i].
void fetch_across(const Access& access, const Loader& loader, const std::byte* data, std::int64_t outer_index,
                  std::int64_t depth, std::int64_t begin, std::int64_t count, std::byte* out);
bool is_better_across(const Access& access);
/// The reverse of fetch. Writes need no checks.
void put(const Access& access, const Storer& storer, std::byte* data, std::int64_t outer_index, std::int64_t begin,
         std::int64_t count, const std::byte* values);
/// The numbers themselves, as i64.
void count_along(const Access& access, const ConvertTable& convert, std::int64_t outer_index, std::int64_t begin,
                 std::int64_t count, std::int64_t* out);

/// Element offset of [begin, begin + count) if these are neighbours in the buffer and nothing has to be checked, else
/// -1.
std::int64_t contiguous_run(const Access& access, std::int64_t outer_index, std::int64_t begin, std::int64_t count);
/// The same for `depth` consecutive outer indices, one after the other without gaps.
std::int64_t contiguous_block(const Access& access, std::int64_t outer_index, std::int64_t depth, std::int64_t begin,
                              std::int64_t count);
/// The same with gaps: `stride` elements from the run of an outer index to that of the next.
struct Runs {
  std::int64_t element = -1, stride = 0;
};
Runs contiguous_rows(const Access& access, std::int64_t outer_index, std::int64_t depth, std::int64_t begin,
                     std::int64_t count);
/// The same for pieces of `piece` elements along: `begin` is the start of one.
Runs contiguous_pieces(const Access& access, std::int64_t outer_index, std::int64_t piece, std::int64_t begin);

}  // namespace v0
}  // namespace lockstep
