// Iteration spaces: the dims of every access, and the choice of the layout.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/row/access.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// Which way tiles run (plan.h).
enum class Layout : std::uint8_t { rows, columns };

/// How many indices there are to either side.
struct Space {
  std::int64_t outer_count = 1, along_count = 1;
};

/// The iteration space of a program for one layout.
struct Mapping {
  Space space;
  std::vector<Access> inputs, outputs, positions;
};
/// The layout that reads and writes memory in longer runs. `has_row_values`: rows and inner dims mean something.
Layout choose_layout(const Program& program, bool has_row_values);
Mapping map_space(const Program& program, Layout layout, bool merge_rows);
/// For programs without row values: the dim along which some input is contiguous while it strides along the last dim,
/// or -1. Tiles over both dims use every cache line of it as a whole.
int transposed_dim(const Program& program);
/// The same program over the space whose inner dim is the program's dim `dim` and whose rows are all others.
Program with_inner_dim(const Program& program, int dim);

}  // namespace v0
}  // namespace lockstep
