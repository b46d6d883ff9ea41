// Makes a RowPlan. In three strokes, one file each: what the values are and when they can be known (analysis.cpp), the
// shape of the tiles and the memory of a frame, then the steps of each pass (planner.cpp, fuse.cpp, slots.cpp).
#pragma once

#include <map>
#include <vector>

#include "backends/cpu/row/plan.h"

namespace lockstep {
inline namespace v0 {

/// How often a value exists: once, once per row, or once per element.
enum class Class : std::uint8_t { uniform, row, vector };

/// The facts about the instructions of a program.
struct Analysis {
  std::vector<Instruction> code;  ///< of the program, with the conversions written out that it leaves implicit
  std::vector<int> outputs;       ///< the value of each output, in `code`
  std::vector<Class> classes;
  std::vector<int> when;  ///< uniform: 0. row: known before this pass. vector: computed in this pass at the earliest
  std::vector<bool> used;
  std::vector<int> cost;    ///< to compute it again from memory, in simple operations
  bool merged = false;      ///< no row values: rows and inner dims are one space
  bool transposes = false;  ///< an input runs along another dim than the outputs: square tiles
  Layout layout = Layout::rows;
  Mapping mapping;
  int passes = 1;
};

Analysis analyse(const Program& program, bool epilogue);

/// Calls fn(operand) for each operand of an instruction.
template <typename Fn> void for_each_operand(const Instruction& instruction, Fn fn) {
  for (int operand : {instruction.a, instruction.b, instruction.c}) {
    if (operand >= 0) fn(operand);
  }
}

/// Whether a tile of memory is the values as they are.
bool loads_as_stored(const Instruction& load, const Input& input);
bool stores_as_stored(const Output& output, ComputeType type);

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
  void fuse_chains(Pass& pass);
  void assign_slots(Pass& pass);
  void find_row_strides(Pass& pass) const;
  void find_inputs_to_fetch_ahead();
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
};

}  // namespace v0
}  // namespace lockstep
