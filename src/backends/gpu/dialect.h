// A dialect gives a kernel the spelling of one language: types, qualifiers, memory, barriers. Nothing else differs
// between GPUs. One function per language, in files of equal names: cuda/dialect.cpp, vulkan/dialect.cpp,
// metal/dialect.cpp.
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
/// are read from memory, whose address is the one push constant. `matrices`: the words of KernelText::byte_matrices
/// (vulkan/matrices.h).
std::string vulkan_source(const KernelText& kernel, const Arithmetic& arithmetic, int push_words,
                          const std::string& matrices = "");

/// Metal Shading Language. Two words follow the parameter words: the first workgroup of this dispatch, and how many
/// there are in all its dispatches together. Address n is buffer n + 1.
inline constexpr std::size_t kMetalBuffers = 31;
std::string metal_source(const KernelText& kernel, const Arithmetic& arithmetic);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
