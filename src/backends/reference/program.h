// Row programs, instruction by instruction. Used by the row kernel and as the epilogue of contractions.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "backends/backend.h"

namespace lockstep {
inline namespace v0 {
namespace reference {

/// The value of an instruction over one row: n elements, or one where it exists once per row. The alternatives stand in
/// the order of ComputeType.
using Column =
    std::variant<std::vector<float>, std::vector<double>, std::vector<std::int32_t>, std::vector<std::int64_t>>;

/// Computes row `row` (in row-major order of program.rows) and stores its outputs. `accumulator` is the contraction's
/// result for the row; epilogues only.
void run_row(const Program& program, const Binding& binding, std::int64_t row, const Column* accumulator);

/// The index in `shape` of position `linear` in row-major order, written to index[0 .. rank).
void unravel(const Shape& shape, std::int64_t linear, std::int64_t* index);

}  // namespace reference

void run_kernel(const RowKernel& kernel, const Binding& binding);

}  // namespace v0
}  // namespace lockstep
