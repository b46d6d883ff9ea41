// A logical device of Vulkan: its one queue, what it can do, and its memory in blocks that have addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/gpu/driver.h"
#include "backends/gpu/vulkan/api.h"
#include "backends/gpu/vulkan/matrices.h"
#include "backends/gpu/vulkan/spirv.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace vulkan {

struct Block {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::size_t bytes = 0;
  std::uint64_t address = 0;
  std::byte* host = nullptr;  ///< where it is mapped
};

/// Sizes of buffers and of what is copied into them.
inline std::size_t whole_words(std::size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

/// Lives as long as the process, as its driver does.
class LogicalDevice {
 public:
  /// The device of that index in `api().devices`. Throws BackendError if it cannot be used.
  explicit LogicalDevice(int index);

  VkDevice handle() const { return device_; }
  const DeviceApi& functions() const { return *functions_; }
  VkQueue queue() const { return queue_; }
  std::uint32_t queue_family() const { return family_; }
  const DriverInfo& info() const { return info_; }
  const FloatControls& controls() const { return controls_; }
  int push_words() const { return push_words_; }  ///< of push constants
  Matrices matrices() const { return matrices_; }

  /// Nothing if there is no such memory left. `for_host`: mapped, and coherent.
  std::optional<Block> allocate(std::size_t bytes, bool for_host) const;
  void free(const Block& block) const;

 private:
  void find_queue_family();
  void create();
  void describe();
  std::uint32_t memory_type(std::uint32_t allowed, bool for_host) const;

  VkPhysicalDevice physical_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::uint32_t family_ = 0;
  std::optional<DeviceApi> functions_;
  VkPhysicalDeviceMemoryProperties memory_{};
  FloatControls controls_;
  int push_words_ = 32;
  Matrices matrices_ = Matrices::none;
  DriverInfo info_;
};

}  // namespace vulkan
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
