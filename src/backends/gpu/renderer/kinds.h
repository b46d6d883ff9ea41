// The renderers of the kernel kinds.
#pragma once

#include "backends/gpu/source.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

Rendered render_kernel(const RowKernel& kernel, const RenderLimits& limits);
Rendered render_kernel(const ContractionKernel& kernel, const RenderLimits& limits);
Rendered render_kernel(const ScatterKernel& kernel, const RenderLimits& limits);
Rendered render_kernel(const ScanKernel& kernel, const RenderLimits& limits);
Rendered render_kernel(const SortKernel& kernel, const RenderLimits& limits);
Rendered render_kernel(const UpdateKernel& kernel, const RenderLimits& limits);
Rendered render_kernel(const FourierKernel& kernel, const RenderLimits& limits);
Rendered render_kernel(const AttentionKernel& kernel, const RenderLimits& limits);
/// Throws BackendError: GPUs compose it of its steps.
Rendered render_kernel(const RecurrenceKernel& kernel, const RenderLimits& limits);
/// Products of one left operand: whether they share launches, and these.
bool are_siblings(std::span<const Kernel* const> products, const RenderLimits& limits);
Rendered render_siblings(std::span<const Kernel* const> products, const RenderLimits& limits);
/// Exact, of many rows that see keys up to their own.
Rendered render_causal_attention(const AttentionKernel& kernel, const RenderLimits& limits);
/// Exact, of one row with a mask.
Rendered render_masked_attention(const AttentionKernel& kernel, const RenderLimits& limits);
/// In blocked numerics.
Rendered render_blocked_attention(const AttentionKernel& kernel, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
