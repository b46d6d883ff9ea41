// A second way to run row programs that only take the largest element of windows, as max pools do: line by line with
// the windows' taps innermost, where a row program would gather each tap by itself. The bits are the same.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/cpu/isa.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// Null where the program is something else.
std::unique_ptr<Executable> compile_pool(const Program& program, Isa isa);

}  // namespace v0
}  // namespace lockstep
