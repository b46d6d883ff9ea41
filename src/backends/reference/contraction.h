// Contractions in the order of docs/numerics.md section 6.
#pragma once

#include "backends/backend.h"

namespace lockstep {
inline namespace v0 {

void run_kernel(const ContractionKernel& kernel, const Binding& binding);

}  // namespace v0
}  // namespace lockstep
