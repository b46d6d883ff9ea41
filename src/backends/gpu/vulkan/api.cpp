#include "backends/gpu/vulkan/api.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/driver.h"
#include "backends/gpu/vulkan/shaderc.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace vulkan {
namespace {

std::vector<std::string> names() {
  return {"libvulkan.so.1", "libvulkan.so"};
}
constexpr std::uint32_t kApiVersion = VK_API_VERSION_1_2;

VkPhysicalDeviceProperties properties_of(const Api& vk, VkPhysicalDevice device) {
  VkPhysicalDeviceProperties properties{};
  vk.vkGetPhysicalDeviceProperties(device, &properties);
  return properties;
}

// Why a device cannot be used; empty if it can.
std::string problem_of(const Api& vk, VkPhysicalDevice device) {
  const VkPhysicalDeviceProperties properties = properties_of(vk, device);
  if (properties.apiVersion < kApiVersion) {
    return fmt::format("{} has Vulkan {}.{}; 1.2 is needed", properties.deviceName,
                       VK_API_VERSION_MAJOR(properties.apiVersion), VK_API_VERSION_MINOR(properties.apiVersion));
  }
  Features has;
  has.v10.pNext = &has.v11;
  has.v11.pNext = &has.v12;
  vk.vkGetPhysicalDeviceFeatures2(device, &has.v10);
  std::string lacks;
  const auto need = [&](VkBool32 feature, const char* name) {
    if (feature == VK_FALSE) lacks += fmt::format("{}{}", lacks.empty() ? "" : ", ", name);
  };
  need(has.v12.bufferDeviceAddress, "bufferDeviceAddress");
  need(has.v12.storageBuffer8BitAccess, "storageBuffer8BitAccess");
  need(has.v11.storageBuffer16BitAccess, "storageBuffer16BitAccess");
  need(has.v10.features.shaderInt64, "shaderInt64");
  need(has.v10.features.shaderFloat64, "shaderFloat64");
  need(properties.limits.maxComputeWorkGroupInvocations >= 256 ? VK_TRUE : VK_FALSE, "workgroups of 256");
  return lacks.empty() ? "" : fmt::format("{} lacks {}", properties.deviceName, lacks);
}

}  // namespace

Api::Api() : library(names()) {
  if (!library.is_open()) {
    missing = library.error();
    return;
  }
  get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(library.function("vkGetInstanceProcAddr"));
  const auto create =
      get == nullptr ? nullptr : reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
  if (create == nullptr) {
    missing = "the Vulkan loader has no vkCreateInstance";
    return;
  }
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "lockstep";
  application.apiVersion = kApiVersion;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  const VkResult result = create(&info, nullptr, &instance);
  if (result != VK_SUCCESS) {
    missing = fmt::format("vkCreateInstance failed ({}): no Vulkan driver is installed", static_cast<int>(result));
    return;
  }
#define X(name) name = reinterpret_cast<PFN_##name>(get(instance, #name));
  LOCKSTEP_INSTANCE_FUNCTIONS(X)
#undef X
  std::uint32_t count = 0;
  vkEnumeratePhysicalDevices(instance, &count, nullptr);
  std::vector<VkPhysicalDevice> all(count);
  vkEnumeratePhysicalDevices(instance, &count, all.data());
  for (VkPhysicalDevice device : all) {
    const std::string problem = problem_of(*this, device);
    if (problem.empty()) {
      devices.push_back(device);
    } else {
      missing += (missing.empty() ? "" : "; ") + problem;
    }
  }
  if (all.empty()) missing = "no Vulkan device is present";
}

const Api& api() {
  static const Api* const instance = new Api;
  return *instance;
}

VkPhysicalDeviceProperties properties_of(VkPhysicalDevice device) {
  return properties_of(api(), device);
}

bool has_extension(VkPhysicalDevice device, const char* name) {
  std::uint32_t count = 0;
  api().vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  api().vkEnumerateDeviceExtensionProperties(device, nullptr, &count, extensions.data());
  return std::any_of(extensions.begin(), extensions.end(), [name](const VkExtensionProperties& extension) {
    return std::string_view(extension.extensionName) == name;
  });
}

void check(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return;
  const char* what = result == VK_ERROR_DEVICE_LOST            ? "the device was lost"
                     : result == VK_ERROR_OUT_OF_DEVICE_MEMORY ? "out of device memory"
                     : result == VK_ERROR_OUT_OF_HOST_MEMORY   ? "out of memory"
                                                               : "";
  throw BackendError(fmt::format("vulkan: {} failed with {} {}", call, static_cast<int>(result), what));
}

}  // namespace vulkan

Found find_vulkan() {
  Found found;
  for (VkPhysicalDevice device : vulkan::api().devices) {
    const VkPhysicalDeviceProperties properties = vulkan::properties_of(device);
    found.devices.push_back({properties.deviceName, properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU});
  }
  found.reason = vulkan::api().missing;
  found.fix = "needs a Vulkan 1.2 driver, the loader (apt install libvulkan1) and shaderc (apt install libshaderc1)";
  if (!found.devices.empty() && !shaderc().is_usable()) {
    found.devices.clear();
    found.reason = shaderc().problem();
    found.fix = shaderc().fix();
  }
  return found;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
