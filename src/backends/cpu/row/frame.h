// One thread's execution of a row plan: the memory of one unit of work, and the interpreter of its steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/backend.h"
#include "backends/cpu/row/plan.h"

namespace lockstep {
inline namespace v0 {

/// The contraction's results for a block.
struct Accumulators {
  const std::byte* data = nullptr;
  std::int64_t row = 0, begin = 0;  ///< what the first of them belongs to
  std::ptrdiff_t stride = 0;        ///< bytes from row to row
};

/// A part of the iteration space: elements [begin, begin + count) along, for `depth` indices of the outer dims.
struct Tile {
  std::int64_t outer = 0, depth = 1, begin = 0, count = 0;
  bool has_gaps = false;  ///< epilogues: of parts of rows, taken one by one; elsewhere all elements follow each other
  std::int64_t piece = 0;  ///< rows in pieces (plan.h): elements of each; depth is 1, and count a multiple of it
  std::size_t elements() const { return static_cast<std::size_t>(depth * count); }
  // What follows each other wherever it is: a row of the tile, or a piece.
  std::int64_t runs() const { return piece == 0 ? depth : count / piece; }
  std::int64_t run() const { return piece == 0 ? count : piece; }
};

class Frame {
 public:
  /// `memory`: plan.total_bytes bytes, aligned to 64.
  Frame(const RowPlan& plan, const Binding& binding, std::byte* memory);

  /// Everything of one unit.
  void run_unit(std::int64_t unit);

  // The parts of it, for units whose row is spread over several threads.
  void enter_unit(std::int64_t unit);
  void run_row_steps(std::size_t pass);
  /// Elements [begin, end) of the sequence; begin is a multiple of kChunk if the pass reduces. Leaves one partial
  /// result for each chunk.
  void run_range(std::size_t pass, std::int64_t begin, std::int64_t end);
  void finish_reductions(std::size_t pass);
  void finish_unit();
  /// Takes the row values of `other`, which is at the same unit, and leaves partial results there from now on.
  void share(const Frame& other);

  void set_accumulators(const Accumulators& accumulators) { accumulators_ = accumulators; }
  /// Epilogues: elements [begin, end) of rows [row, row + rows), at most plan.row_batch of them. Behind the last
  /// element stores what belongs to the rows as wholes.
  void run_batch(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end);

 private:
  void fetch_ahead(const Tile& tile) const;
  void define(int value, const std::byte* data, std::ptrdiff_t stride) {
    values_[value] = data;
    strides_[value] = stride;
  }
  /// Epilogues: row values are those of `rows` rows further down.
  void move_row_values(std::int64_t rows);
  std::byte* direct(int output, const Tile& tile, std::ptrdiff_t& stride) const;
  static bool goes_by_row(const Step& step, const Tile& tile) {
    return step.by_row || tile.has_gaps || tile.piece != 0;
  }
  /// Whether the arrays that a step reads have no gaps between the pieces of a tile.
  bool reads_whole(const Step& step, const Tile& tile) const;
  std::byte* at(const Place& place, const Tile& tile, ComputeType type);
  const std::byte* slot_data(int slot) const { return binding_.slots[static_cast<std::size_t>(slot)]; }
  /// The contraction's results that a tile of the epilogue begins with.
  const std::byte* raw(const Tile& tile, ComputeType type) const;
  void execute(const Step& step, const Tile& tile);
  /// Defines the result of `run(out, stride)`, right in an output where that is possible.
  template <typename Fn> void execute_into(const Step& step, const Tile& tile, Fn run);
  void compute(const Step& step, const Tile& tile, std::byte* out, std::ptrdiff_t stride) const;
  void exponentials(const Step& step, const Tile& tile, std::byte* out) const;
  void execute_chain(const Step& step, const Tile& tile);
  /// Of the chains of a pass, for `rows` rows, whose scalars are known.
  void find_forms(const Pass& pass, std::int64_t rows);
  ChainForm& form(const Step& step) { return reinterpret_cast<ChainForm*>(memory_ + plan_.forms_at)[step.form]; }
  /// Where the operands of the links are now.
  void find_links(const Step& step, ChainLink* links) const;
  void execute_row_step(const Step& step, const Tile& tile);
  void load(const Step& step, const Tile& tile);
  void gather(const Step& step, const Tile& tile);
  void store(const Step& step, const Tile& tile);
  Tile row_tile() const;

  void start_chunk(const RowReduction& reduction, std::int64_t chunk);
  void reduce(const Step& step, const Tile& tile);
  void reduce_rows(const Step& step, const Tile& tile);
  void reduce_pieces(const Step& step, const Tile& tile, std::byte* lanes);
  void finish_chunk(const RowReduction& reduction, std::int64_t chunk);
  void finish_sum(const RowReduction& reduction);
  void finish_best(const RowReduction& reduction);
  std::byte* partials(const RowReduction& reduction) const { return shared_ + reduction.partials_at; }
  std::int64_t* partial_indices(const RowReduction& reduction) const {
    return reinterpret_cast<std::int64_t*>(shared_ + reduction.indices_at);
  }
  /// Row values of the unit.
  std::int64_t columns() const { return width_; }

  const RowPlan& plan_;
  Binding binding_;
  std::byte* memory_;
  std::byte* shared_;         ///< where partial results of chunks go
  const std::byte** values_;  ///< where each value is
  std::ptrdiff_t* strides_;   ///< in it, bytes from a row (or piece) of a tile to the next; 0: all share what is there
  std::int64_t unit_ = 0;
  std::int64_t width_ = 1;  ///< rows of this unit
  Accumulators accumulators_;
};

}  // namespace v0
}  // namespace lockstep
