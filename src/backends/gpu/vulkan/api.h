// Vulkan 1.2 through the loader, which is opened at run time: one instance, the devices that can be used, its
// functions.
#pragma once

#include <string>
#include <vector>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace vulkan {

#define LOCKSTEP_INSTANCE_FUNCTIONS(X)        \
  X(vkEnumeratePhysicalDevices)               \
  X(vkGetPhysicalDeviceProperties)            \
  X(vkGetPhysicalDeviceProperties2)           \
  X(vkGetPhysicalDeviceFeatures2)             \
  X(vkGetPhysicalDeviceQueueFamilyProperties) \
  X(vkGetPhysicalDeviceMemoryProperties)      \
  X(vkEnumerateDeviceExtensionProperties) X(vkCreateDevice) X(vkGetDeviceProcAddr)
#define LOCKSTEP_DEVICE_FUNCTIONS(X)                                                                           \
  X(vkGetDeviceQueue)                                                                                          \
  X(vkCreateBuffer)                                                                                            \
  X(vkDestroyBuffer)                                                                                           \
  X(vkGetBufferMemoryRequirements)                                                                             \
  X(vkAllocateMemory)                                                                                          \
  X(vkFreeMemory)                                                                                              \
  X(vkBindBufferMemory)                                                                                        \
  X(vkGetBufferDeviceAddress) X(vkMapMemory) X(vkCreateCommandPool) X(vkAllocateCommandBuffers)                \
      X(vkBeginCommandBuffer) X(vkEndCommandBuffer) X(vkCreateFence) X(vkWaitForFences) X(vkResetFences)       \
          X(vkGetFenceStatus) X(vkQueueSubmit) X(vkCmdPipelineBarrier) X(vkCmdCopyBuffer) X(vkCmdUpdateBuffer) \
              X(vkCmdExecuteCommands) X(vkFreeCommandBuffers) X(vkCmdBindPipeline) X(vkCmdPushConstants)       \
                  X(vkCmdDispatch) X(vkCreateShaderModule) X(vkDestroyShaderModule) X(vkCreatePipelineLayout)  \
                      X(vkDestroyPipelineLayout) X(vkCreateComputePipelines) X(vkDestroyPipeline)              \
                          X(vkCreatePipelineCache) X(vkGetPipelineCacheData) X(vkDestroyPipelineCache)

/// The loader and one instance.
struct Api {
  Api();

  os::SharedLibrary library;
  std::string missing;  ///< what devices lack, or why there are none
  VkInstance instance = VK_NULL_HANDLE;
  PFN_vkGetInstanceProcAddr get = nullptr;
#define X(name) PFN_##name name = nullptr;
  LOCKSTEP_INSTANCE_FUNCTIONS(X)
#undef X
  std::vector<VkPhysicalDevice> devices;  ///< that can be used
};

/// Never destroyed: buffers with static storage may be released after static objects are gone.
const Api& api();

/// The functions of one device.
struct DeviceApi {
#define X(name) PFN_##name name = nullptr;
  LOCKSTEP_DEVICE_FUNCTIONS(X)
#undef X
  explicit DeviceApi(VkDevice device) {
#define X(name) name = reinterpret_cast<PFN_##name>(api().vkGetDeviceProcAddr(device, #name));
    LOCKSTEP_DEVICE_FUNCTIONS(X)
#undef X
  }
};

struct Features {
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceFeatures2 v10{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
};

VkPhysicalDeviceProperties properties_of(VkPhysicalDevice device);
bool has_extension(VkPhysicalDevice device, const char* name);

/// Throws BackendError that names `call` unless it succeeded.
void check(VkResult result, const char* call);

}  // namespace vulkan
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
