// Makes a RowPlan. In three strokes: what the values are and when they can be known (analysis.h), which pass computes
// them in tiles of which shape (planner.cpp), then the steps of each pass: what a step does (steps.cpp), which become
// one (fuse.cpp), and where their results lie (slots.cpp).
#pragma once

#include <map>
#include <set>
#include <vector>

#include "backends/cpu/row/analysis.h"
#include "backends/cpu/row/plan.h"

namespace lockstep {
inline namespace v0 {

struct PlanOptions {
  Isa isa = Isa::scalar;
  bool epilogue = false;  ///< run in segments of rows: keep rows and inner dims apart, and rows whole
};

RowPlan make_plan(const Program& program, const PlanOptions& options);

/// What an op is in a chain, or none.
ChainOp chain_op_of(Op op);

class Planner {
 public:
  Planner(const Program& program, const PlanOptions& options);
  RowPlan plan();

 private:
  struct PassValues {
    std::vector<bool> computed;  ///< vector values that the pass computes
    std::vector<bool> read;      ///< vector values that it takes from where an earlier pass kept them
  };

  bool is_vector_output(std::size_t output) const;
  void find_values_of_passes();
  void demand(int pass, int value);
  bool is_worth_gathering(int value) const;
  void choose_tiles();
  bool only_reduces() const;
  std::size_t bytes_of_kept_element() const;

  std::size_t reserve(std::size_t bytes);
  int new_value(ComputeType type, Place place);
  int parameter_value(int parameter, ComputeType type);
  /// The value as a dense array, for loops that take no scalar in its place.
  int dense(int value, int pass);
  bool is_scalar(int value) const;
  /// Whether row values are arrays, one value for each row of a unit.
  bool has_row_arrays() const;

  Step step_of(int value, int pass);
  void emit_row_steps(int pass, std::vector<Step>& steps);
  void emit_pass(int pass);
  void emit_reduce(int value, int pass);
  void find_leaky(Pass& pass) const;
  bool join_exponentials(Pass& pass, const Step& sum) const;
  void fuse_chains(Pass& pass);
  void assign_slots(Pass& pass);
  void find_steps_by_row(Pass& pass) const;
  void find_inputs_to_fetch_ahead();
  bool is_fetched_by_exponentials(const Step& load);
  std::int64_t piece_of_rows() const;
  void lay_out_memory();

  const Program& program_;
  PlanOptions options_;
  Analysis analysis_;
  RowPlan plan_;
  std::vector<PassValues> pass_values_;
  std::vector<bool> kept_;
  std::size_t gathered_bytes_ = 0;
  std::map<int, int> parameter_values_;
  std::map<int, int> dense_;  ///< columns: dense arrays of row values; rows: those of the current pass
  std::size_t slots_ = 0;
  std::set<std::size_t> filled_slots_;  ///< those whose memory the tiles of most programs really touch
  std::size_t forms_ = 0;
};

}  // namespace v0
}  // namespace lockstep
