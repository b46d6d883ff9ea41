// A dialect gives a kernel the spelling of one language: types, qualifiers, memory, barriers. Nothing else differs
// between GPUs. One function per language, in files of equal names: cuda/dialect.cpp, vulkan/dialect.cpp, and a seat
// for metal/dialect.cpp.
#pragma once

#include <string>

#include "backends/gpu/source.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// The name of every kernel's entry point, where the language lets one choose.
inline constexpr const char* kEntry = "lockstep_kernel";

/// CUDA C++ for NVRTC; needs no header. Beyond kStaticSharedBytes the launch has to provide the shared memory.
inline constexpr std::size_t kStaticSharedBytes = 48 << 10;
std::string cuda_source(const KernelText& kernel);

/// GLSL 4.60 for Vulkan 1.2 with buffer device addresses. Where there are more than `push_words` parameter words they
/// are read from memory, whose address is the one push constant.
std::string vulkan_source(const KernelText& kernel, const Arithmetic& arithmetic, int push_words);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
