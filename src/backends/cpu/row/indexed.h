// Gathers: elements of a buffer at computed places, into a dense array.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/row/tables.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// Element i is at first[i] + table.stride * index[i]. Either may be one value for all.
struct IndexedPlaces {
  const std::int64_t* index = nullptr;
  const std::int64_t* first = nullptr;
  bool one_index = false;
  bool one_first = false;
};

/// Elements [0, n) into `out`, through `load`. Where an index is outside the table's axis the element is zero.
/// Returns whether all indices were inside.
bool fetch_indexed(const Table& table, const IndexedPlaces& places, const std::byte* data, LoadFn load,
                   std::size_t value_size, std::size_t n, std::byte* out);

}  // namespace v0
}  // namespace lockstep
