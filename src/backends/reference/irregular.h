// Kernels whose elements go to computed places or depend on their neighbours.
#pragma once

#include "backends/backend.h"

namespace lockstep {
inline namespace v0 {

void run_kernel(const ScatterKernel& kernel, const Binding& binding);
void run_kernel(const ScanKernel& kernel, const Binding& binding);
void run_kernel(const SortKernel& kernel, const Binding& binding);
void run_kernel(const UpdateKernel& kernel, const Binding& binding);
void run_kernel(const FourierKernel& kernel, const Binding& binding);
/// Throw BackendError: it has no specified bits; it is composed.
void run_kernel(const AttentionKernel& kernel, const Binding& binding);
void run_kernel(const RecurrenceKernel& kernel, const Binding& binding);

}  // namespace v0
}  // namespace lockstep
