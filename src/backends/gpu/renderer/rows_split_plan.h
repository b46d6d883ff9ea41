// How a program of long rows (rows_split.cpp) is cut into launches: what is computed in which phase, and where results
// wait in scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "backends/gpu/renderer/space.h"
#include "backends/gpu/source.h"
#include "kernels/kernel.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

constexpr std::int64_t kChunk = order::kChunk;  ///< elements of a row that are reduced together

struct SplitPlan {
  const Program& program;
  const RenderLimits& limits;
  Space space;
  std::vector<int> phases;   ///< by instruction
  int last_phase = 0;        ///< of vector outputs and reductions
  int last_reductions = -1;  ///< the last phase with reductions
  int chunk = kChunk;        ///< elements of one: fewer where there is no order to keep
  std::int64_t chunks = 1;
  int slices = 1;  ///< of a chunk of columns: every so many lanes are another workgroup's
  std::size_t scratch_bytes = 0;
  std::vector<std::int64_t> parts;   ///< of reductions, by instruction: offset of the chunks' results
  std::vector<std::int64_t> values;  ///< offset of the rows' values

  /// `columns`: chunks by SplitKernel::columns().
  SplitPlan(const Program& of, const RenderLimits& with, bool columns = false);

  const Instruction& code(int i) const { return program.code[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(program.code.size()); }
  /// Whether what workgroups reduce are parts of rows.
  bool has_parts() const { return chunks * slices > 1; }
  bool is_row(int i) const { return code(i).extent == Extent::row; }
  int phase(int i) const { return phases[static_cast<std::size_t>(i)]; }
  std::vector<int> reductions(int of_phase) const;
  std::vector<int> outputs(int of_phase) const;
  std::set<int> row_outputs() const;
  /// Row values that are stored once the results of `of_phase` are there.
  std::set<int> row_outputs(int of_phase) const {
    return of_phase == last_reductions ? row_outputs() : std::set<int>();
  }
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
