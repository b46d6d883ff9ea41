// How the tiles of a row program read and write buffers. All irregularity of views (strides, broadcasts, padding,
// steps) ends here: what instructions see are dense arrays.
//
// A tile varies along some dimensions of the iteration space, the `along` dims, walked in row-major order, while the
// index of the others, the `outer` dims, stays fixed.
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
};

/// A linear form over the iteration space with its checks: where element i of a buffer is, or the number i of an iota.
struct Access {
  int slot = -1;
  DType dtype = DType::f32;
  std::int64_t offset = 0;
  Shape outer, along;  ///< strides, in elements
  std::vector<Check> checks;
  std::uint64_t fill = 0;

  /// Whether the element does not depend on the along dims.
  bool is_constant_along() const;
  bool is_constant_outer() const;
};

/// The iteration space after neighbouring dims have been merged and the sides chosen.
struct Space {
  Shape outer, along;
  std::int64_t outer_count = 1, along_count = 1;
};

/// The offset of an access for one index of the outer dims.
std::int64_t locate(const Access& access, const Space& space, std::int64_t outer_index);

/// Elements [begin, begin + count) of the along dims into a dense array. `data` is the buffer.
void fetch(const Access& access, const Space& space, LoadFn load, std::size_t value_size, const std::byte* data,
           std::int64_t outer_index, std::int64_t begin, std::int64_t count, std::byte* out);
/// The same for `depth` consecutive indices of the only outer dim, element by element of the along dims: for buffers
/// that are contiguous across the tile rather than along it. No checks. out[d * count + i].
void fetch_across(const Access& access, const Space& space, LoadFn load, std::size_t value_size, const std::byte* data,
                  std::int64_t outer_index, std::int64_t depth, std::int64_t begin, std::int64_t count, std::byte* out);
bool is_better_across(const Access& access);
/// The reverse of fetch. Writes need no checks.
void put(const Access& access, const Space& space, StoreFn store, std::size_t value_size, std::byte* data,
         std::int64_t outer_index, std::int64_t begin, std::int64_t count, const std::byte* values);
/// The numbers themselves, as i64.
void count_along(const Access& access, const Space& space, const ConvertTable& convert, std::int64_t outer_index,
                 std::int64_t begin, std::int64_t count, std::int64_t* out);

/// Element offset of [begin, begin + count) if these are neighbours in the buffer and nothing has to be checked, else -1.
std::int64_t contiguous_run(const Access& access, const Space& space, std::int64_t outer_index, std::int64_t begin,
                            std::int64_t count);

}  // namespace v0
}  // namespace lockstep
