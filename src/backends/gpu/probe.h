// The start-up probe (docs/numerics.md): one small kernel that shows how a device computes.
#pragma once

#include <string>

#include "backends/gpu/kernel_cache.h"
#include "backends/gpu/memory.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// The variants that give exact results. Throws BackendError with the failing fact where none does.
Arithmetic probe(Driver& driver, Memory& memory, KernelCache& kernels);

/// The same in words, for `lockstep info`.
std::string to_string(const Arithmetic& arithmetic);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
