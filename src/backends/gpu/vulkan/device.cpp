#include "backends/gpu/vulkan/device.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/vulkan/shaderc.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace vulkan {

LogicalDevice::LogicalDevice(int index) : physical_(api().devices.at(static_cast<std::size_t>(index))) {
  if (!shaderc().is_usable()) throw BackendError("vulkan: " + shaderc().problem());
  find_queue_family();
  create();
  functions_.emplace(device_);
  functions_->vkGetDeviceQueue(device_, family_, 0, &queue_);
  describe();
}

void LogicalDevice::find_queue_family() {
  std::uint32_t count = 0;
  api().vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  api().vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
  for (std::uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) {
      family_ = i;
      return;
    }
  }
  throw BackendError("vulkan: the device has no queue that computes");
}

void LogicalDevice::create() {
  Features wanted;
  wanted.v10.pNext = &wanted.v11;
  wanted.v11.pNext = &wanted.v12;
  wanted.v12.bufferDeviceAddress = VK_TRUE;
  wanted.v12.storageBuffer8BitAccess = VK_TRUE;
  wanted.v11.storageBuffer16BitAccess = VK_TRUE;
  wanted.v10.features.shaderInt64 = VK_TRUE;
  wanted.v10.features.shaderFloat64 = VK_TRUE;
  Features has_all;
  has_all.v10.pNext = &has_all.v12;
  api().vkGetPhysicalDeviceFeatures2(physical_, &has_all.v10);
  wanted.v12.shaderFloat16 = has_all.v12.shaderFloat16;
  info_.has_halves = has_all.v12.shaderFloat16 == VK_TRUE;
  VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dots{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR};
  std::vector<const char*> extensions;
  if (has_extension(physical_, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) {
    VkPhysicalDeviceFeatures2 has{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    has.pNext = &dots;
    api().vkGetPhysicalDeviceFeatures2(physical_, &has);
    info_.has_byte_dots = dots.shaderIntegerDotProduct == VK_TRUE;
  }
  if (info_.has_byte_dots) {
    wanted.v12.pNext = &dots;
    extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  }
  matrices_ = matrices_of(physical_);
  info_.byte_matrices = matrices_ != Matrices::none;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV with_matrices = matrix_features(matrices_);
  if (info_.byte_matrices) {
    with_matrices.pNext = std::exchange(wanted.v12.pNext, &with_matrices);
    wanted.v12.vulkanMemoryModel = VK_TRUE;
    wanted.v12.shaderInt8 = VK_TRUE;
    extensions.push_back(extension_of(matrices_));
  }
  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = &wanted.v10;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  check(api().vkCreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice");
}

void LogicalDevice::describe() {
  VkPhysicalDeviceVulkan12Properties v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
  VkPhysicalDeviceVulkan11Properties v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
  VkPhysicalDeviceProperties2 v10{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  VkPhysicalDeviceShaderIntegerDotProductPropertiesKHR dots{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES_KHR};
  v10.pNext = &v11;
  v11.pNext = &v12;
  if (info_.has_byte_dots) v12.pNext = &dots;
  api().vkGetPhysicalDeviceProperties2(physical_, &v10);
  const VkPhysicalDeviceProperties& properties = v10.properties;
  controls_.keep_specials_16 = v12.shaderSignedZeroInfNanPreserveFloat16 == VK_TRUE;
  controls_.nearest_16 = v12.shaderRoundingModeRTEFloat16 == VK_TRUE;
  controls_.keep_subnormals_16 = v12.shaderDenormPreserveFloat16 == VK_TRUE;
  controls_.keep_specials_32 = v12.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE;
  controls_.nearest_32 = v12.shaderRoundingModeRTEFloat32 == VK_TRUE;
  controls_.keep_subnormals_32 = v12.shaderDenormPreserveFloat32 == VK_TRUE;
  controls_.keep_specials_64 = v12.shaderSignedZeroInfNanPreserveFloat64 == VK_TRUE;
  controls_.nearest_64 = v12.shaderRoundingModeRTEFloat64 == VK_TRUE;
  controls_.keep_subnormals_64 = v12.shaderDenormPreserveFloat64 == VK_TRUE;
  // Different modes for different widths are a feature of their own.
  if (v12.denormBehaviorIndependence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE)
    controls_.keep_subnormals_64 = controls_.keep_subnormals_32 = controls_.keep_subnormals_16 = false;
  api().vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);
  for (std::uint32_t h = 0; h < memory_.memoryHeapCount; ++h) {
    if ((memory_.memoryHeaps[h].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0) {
      info_.memory_bytes = std::max<std::uint64_t>(info_.memory_bytes, memory_.memoryHeaps[h].size);
    }
  }
  info_.quick_byte_dots = dots.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE;
  push_words_ = static_cast<int>(properties.limits.maxPushConstantsSize / 4);
  info_.name = properties.deviceName;
  info_.software = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  info_.api =
      fmt::format("Vulkan {}.{}, {} {}, shaderc for SPIR-V {}", VK_API_VERSION_MAJOR(properties.apiVersion),
                  VK_API_VERSION_MINOR(properties.apiVersion), v12.driverName, v12.driverInfo, shaderc().version());
  info_.features = "buffer addresses, 8 and 16 bit storage, i64";
  if (info_.byte_matrices) info_.features += fmt::format(", {}", extension_of(matrices_));
  info_.identity = fmt::format(
      "vulkan pipelines {} {} {} {} controls {}{}{}{}{}{} {}{}{} shaderc {}", properties.deviceName,
      properties.driverVersion, v12.driverInfo, push_words_, controls_.keep_specials_32, controls_.nearest_32,
      controls_.keep_subnormals_32, controls_.keep_specials_64, controls_.nearest_64, controls_.keep_subnormals_64,
      controls_.keep_specials_16, controls_.nearest_16, controls_.keep_subnormals_16, shaderc().version());
  info_.loads_side_by_side = true;
  info_.quick_forms = true;
  constexpr VkSubgroupFeatureFlags kTeamFeatures = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  info_.near_teams = v11.subgroupSize == 32 && (v11.subgroupSupportedOperations & kTeamFeatures) == kTeamFeatures &&
                     (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  info_.groups = properties.limits.maxComputeWorkGroupCount[0];
  info_.shared_bytes = properties.limits.maxComputeSharedMemorySize;
  // Vulkan does not tell how many units there are.
  info_.units = info_.software ? 2 : info_.memory_bytes > std::uint64_t{16} << 30 ? 96 : 32;
}

std::optional<Block> LogicalDevice::allocate(std::size_t bytes, bool for_host) const {
  Block block;
  block.bytes = whole_words(bytes);
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = block.bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  if (functions_->vkCreateBuffer(device_, &info, nullptr, &block.buffer) != VK_SUCCESS) return std::nullopt;
  VkMemoryRequirements needs{};
  functions_->vkGetBufferMemoryRequirements(device_, block.buffer, &needs);
  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocation{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocation.pNext = &flags;
  allocation.allocationSize = needs.size;
  allocation.memoryTypeIndex = memory_type(needs.memoryTypeBits, for_host);
  VkResult result = functions_->vkAllocateMemory(device_, &allocation, nullptr, &block.memory);
  if (result == VK_SUCCESS) result = functions_->vkBindBufferMemory(device_, block.buffer, block.memory, 0);
  void* host = nullptr;
  if (result == VK_SUCCESS && for_host)
    result = functions_->vkMapMemory(device_, block.memory, 0, VK_WHOLE_SIZE, 0, &host);
  if (result != VK_SUCCESS) {
    free(block);
    return std::nullopt;
  }
  block.host = static_cast<std::byte*>(host);
  VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
  address.buffer = block.buffer;
  block.address = functions_->vkGetBufferDeviceAddress(device_, &address);
  return block;
}

void LogicalDevice::free(const Block& block) const {
  functions_->vkDestroyBuffer(device_, block.buffer, nullptr);
  if (block.memory != VK_NULL_HANDLE) functions_->vkFreeMemory(device_, block.memory, nullptr);
}

std::uint32_t LogicalDevice::memory_type(std::uint32_t allowed, bool for_host) const {
  const VkMemoryPropertyFlags needed = for_host
                                           ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
                                           : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  const VkMemoryPropertyFlags liked = for_host ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT : 0;
  for (const VkMemoryPropertyFlags flags : {needed | liked, needed, VkMemoryPropertyFlags{0}}) {
    for (std::uint32_t t = 0; t < memory_.memoryTypeCount; ++t) {
      if ((allowed >> t & 1) != 0 && (memory_.memoryTypes[t].propertyFlags & flags) == flags) return t;
    }
  }
  throw BackendError("vulkan: no memory of the kind that buffers need");
}

}  // namespace vulkan
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
