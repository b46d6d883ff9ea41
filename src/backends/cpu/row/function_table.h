// The loops of function_table.cpp, which take the places of those that the compiler makes of the kernel texts.
#pragma once

#include <array>

#include "backends/cpu/row/tables.h"

namespace lockstep {
inline namespace v0 {

/// Of f32. Null: no such loop.
struct FunctionTable {
  std::array<ElementwiseFn, kOpCount> op{};                  ///< of one operand
  std::array<ElementwiseFn, 3> exp_of_sub{}, gelu_of_add{};  ///< as in ElementwiseTable
};

const FunctionTable& function_table(Isa isa);

}  // namespace v0
}  // namespace lockstep
