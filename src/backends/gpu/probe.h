// The start-up probe (docs/numerics.md): one small kernel that shows how a device computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/kernel_cache.h"
#include "backends/gpu/memory.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// The variants that give exact results. Throws BackendError with the failing fact where none does.
Arithmetic probe(Driver& driver, Memory& memory, KernelCache& kernels);

/// Whether the device's cooperative matrices of bytes may be used. Throws BackendError where they do not compile.
bool multiplies_matrices(const Arithmetic& arithmetic, Driver& driver, Memory& memory, KernelCache& kernels);

/// In words, for `lockstep info`.
std::string to_string(const Arithmetic& arithmetic);

/// What a device that computes exactly writes when it runs the probe's kernel, whose operands are `kProbeWords` words:
/// for devices of tests.
inline constexpr std::size_t kProbeWords = 4 * 4096;
std::vector<std::uint32_t> exact_answers(std::span<const std::uint32_t> operands, bool doubles);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
