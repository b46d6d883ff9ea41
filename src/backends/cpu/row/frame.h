// One thread's execution of a row plan: the memory of one unit of work, and the interpreter of its steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/backend.h"
#include "backends/cpu/row/plan.h"

namespace lockstep {
inline namespace v0 {

/// The contraction's results for the elements of a segment.
struct Accumulators {
  const std::byte* data = nullptr;
  std::int64_t begin = 0;  ///< element of the row that the first of them belongs to
};

/// A part of the iteration space: elements [begin, begin + count) along, for `depth` indices of the outer dims.
struct Tile {
  std::int64_t outer = 0, depth = 1, begin = 0, count = 0;
  std::size_t elements() const { return static_cast<std::size_t>(depth * count); }
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

  // Epilogues: rows [row, row + rows), at most plan.row_batch of them, whose row values are computed together.
  // next_row_of_batch() is called after each row.
  void enter_batch(std::int64_t row, std::int64_t rows);
  void next_row_of_batch();
  /// Stores what belongs to the rows as wholes.
  void finish_batch();

  void set_accumulators(const Accumulators& accumulators) { accumulators_ = accumulators; }

 private:
  void fetch_ahead(const Tile& tile) const;
  std::byte* at(const Place& place, const Tile& tile, ComputeType type);
  const std::byte* slot_data(int slot) const { return binding_.slots[static_cast<std::size_t>(slot)]; }
  /// The contraction's results that a tile of the epilogue begins with.
  const std::byte* raw(const Tile& tile, ComputeType type) const;
  void execute(const Step& step, const Tile& tile);
  void compute(const Step& step, const Tile& tile, std::byte* out);
  void execute_chain(const Step& step, const Tile& tile);
  /// Of the chains of a pass, for `rows` rows, whose scalars are known.
  void find_forms(const Pass& pass, std::int64_t rows);
  ChainForm& form(const Step& step) { return reinterpret_cast<ChainForm*>(memory_ + plan_.forms_at)[step.form]; }
  /// Where the operands of the links are now.
  void find_links(const Step& step, ChainLink* links) const;
  static void next_row(const Step& step, ChainLink* links);
  void execute_row_step(const Step& step, const Tile& tile);
  const std::byte* load(const Step& step, const Tile& tile, std::byte* out);
  void gather(const Step& step, const Tile& tile);
  void store(const Step& step, const Tile& tile);
  std::byte* direct(int output, const Tile& tile) const;
  Tile row_tile() const;

  void start_chunk(const RowReduction& reduction, std::int64_t chunk);
  void reduce(const Step& step, const Tile& tile);
  void reduce_rows(const Step& step, const Tile& tile);
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
  std::int64_t unit_ = 0;
  std::int64_t width_ = 1;  ///< rows of this unit
  Accumulators accumulators_;
};

}  // namespace v0
}  // namespace lockstep
