// The epilogue of a contraction on blocks of raw results: finds the kernel's own rows for them, and hands the row
// program stretches that are as long as possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/cpu/contraction/destination.h"
#include "backends/cpu/contraction/plan.h"
#include "backends/cpu/contraction/workspace.h"
#include "backends/cpu/row/row_program.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Rows [row, row + rows) x columns [column, column + columns) of one batch of a plan.
struct Block {
  std::int64_t batch, row, rows, column, columns;
};

class Epilogue {
 public:
  Epilogue(const Program& program, const Plan& plan, std::int64_t element_size, Isa isa);

  /// It takes rows of results as they are: strips of a block cost no more than the block.
  bool takes_rows() const { return !plan_.swapped && !flat_; }

  /// `stride`: elements from one row of results to the next.
  void run(const Binding& binding, const Block& block, const void* results, std::int64_t stride,
           Workspace& workspace) const;

  /// Where run() will write the results of `block`, and what it will read; null where that does not lie in lines.
  Destination destination(const Binding& binding, const Block& block) const;

 private:
  /// Rows and columns of the block are the kernel's m and n.
  void run_rows(const Binding& binding, const Block& block, const std::byte* data, std::int64_t stride,
                Workspace& workspace) const;
  /// Where a slot has its elements, in bytes; strides of the program's rows and of its inner space.
  struct SlotLines {
    int slot;
    std::ptrdiff_t offset, row_stride, inner_stride;
  };
  static std::optional<SlotLines> lines_of(const Program& program, int slot, std::int64_t offset, const Shape& strides,
                                           DType dtype);
  static std::optional<SlotLines> output_lines(const Program& program);
  /// Of the first input that has an element for each result.
  static std::optional<SlotLines> operand_lines(const Program& program);
  Lines lines(const SlotLines& lines, const Binding& binding, std::int64_t row, std::int64_t n) const;
  const std::byte* compacted(const std::byte* from, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                             GrowingBuffer& buffer) const;
  const std::byte* transposed(const void* results, std::int64_t stride, std::int64_t m_count, std::int64_t n_count,
                              GrowingBuffer& buffer) const;

  const Plan& plan_;
  std::int64_t element_size_;
  bool flat_;  ///< the program is one row: its n is too short to be one
  RowProgram program_;
  std::optional<SlotLines> output_, operand_;
};

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
