// What the values of a program are, how often each exists, and when it can be known.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/row/space.h"
#include "kernels/kernel.h"

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

}  // namespace v0
}  // namespace lockstep
