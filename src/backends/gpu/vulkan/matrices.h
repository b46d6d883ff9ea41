// Cooperative matrices of bytes: products of 16 x 32 by 32 x 16 signed bytes that a subgroup of 32 threads computes
// together. Devices have them by either of two extensions, whose languages differ, and compilers of shaders from before
// 2023 know the older one alone.
#pragma once

#include <string>

#include "backends/gpu/vulkan/api.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace vulkan {

enum class Matrices { none, nv, khr };

/// The extension by which the device has such matrices and this process's shaderc knows them.
Matrices matrices_of(VkPhysicalDevice device);
/// The device's extension of that name.
const char* extension_of(Matrices matrices);
/// The words of KernelText::byte_matrices in GLSL.
std::string matrices_text(Matrices matrices);

/// What has to be asked of the device with the extension; both extensions' structures are alike.
VkPhysicalDeviceCooperativeMatrixFeaturesNV matrix_features(Matrices matrices);

}  // namespace vulkan
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
