// Kernels whose elements go to computed places or depend on their neighbours, on the CPU: scatter, scan, sort, update,
// Fourier transforms, recurrences, attention.
// The bits are the reference's, whatever the instruction set and the thread count.
//
// One file per kind. All read through elements.h and take memory for a run from the backend's pool (scratch.h).
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kept_panels.h"
#include "backends/cpu/memory_pool.h"

namespace lockstep {
inline namespace v0 {

std::unique_ptr<Executable> compile_scatter(const ScatterKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory);
std::unique_ptr<Executable> compile_scan(const ScanKernel& kernel, Isa isa);
std::unique_ptr<Executable> compile_sort(const SortKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory);
/// Of a row program that does nothing but gather rows; null for any other.
std::unique_ptr<Executable> compile_gather(const Program& program, Isa isa);
/// Of a row program that does nothing but join tensors along a dimension; null for any other.
std::unique_ptr<Executable> compile_join(const Program& program, Isa isa);
std::unique_ptr<Executable> compile_update(const UpdateKernel& kernel, Isa isa);
std::unique_ptr<Executable> compile_fourier(const FourierKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory);
/// Both of these: where `isa` has fused multiply-adds.
bool has_attention(Isa isa);
/// Throws BackendError for other numerics than exact ones, and for gradients.
std::unique_ptr<Executable> compile_attention(const AttentionKernel& kernel, Isa isa,
                                              std::shared_ptr<MemoryPool> memory);
bool has_recurrence(Isa isa);
std::unique_ptr<Executable> compile_recurrence(const RecurrenceKernel& kernel, Isa isa,
                                               std::shared_ptr<KeptPanels> kept);

}  // namespace v0
}  // namespace lockstep
