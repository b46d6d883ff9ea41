// The kinds of devices, one row each, and what Device::parse, Device::best and Device::all (core/device.cpp) ask: which
// devices this process has. Core knows no backend: it declares the question, backends/registry.cpp answers it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/device.h>

namespace lockstep {
inline namespace v0 {

/// A kind as users write it. Empty behind the last one.
constexpr std::string_view name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::ref: return "ref";
    case DeviceKind::cpu: return "cpu";
    case DeviceKind::cuda: return "cuda";
    case DeviceKind::vulkan: return "vulkan";
    case DeviceKind::metal: return "metal";
  }
  return {};
}

/// All kinds, those of the host first, those of GPUs in the order in which Device::best prefers them.
inline constexpr auto kDeviceKinds = [] {
  constexpr std::size_t kCount = [] {
    std::size_t count = 0;
    while (!name_of(static_cast<DeviceKind>(count)).empty()) ++count;
    return count;
  }();
  std::array<DeviceKind, kCount> kinds{};
  for (std::size_t i = 0; i < kCount; ++i) kinds[i] = static_cast<DeviceKind>(i);
  return kinds;
}();

/// Whether the memory of a device is this process's own, so that Buffer::data() can be read.
constexpr bool is_host(DeviceKind kind) {
  return kind == DeviceKind::ref || kind == DeviceKind::cpu;
}
constexpr bool is_host(Device device) {
  return is_host(device.kind);
}

class DeviceRegistry {
 public:
  virtual ~DeviceRegistry() = default;
  /// The devices that were found, opened or not, in the order of kDeviceKinds.
  virtual std::vector<Device> devices() = 0;
  /// Whether a device is a processor in disguise.
  virtual bool is_software(Device device) = 0;
  /// Opens a device if nobody has. False where it cannot be used: `lockstep info` says why.
  virtual bool is_usable(Device device) = 0;
};

/// This process's.
DeviceRegistry& device_registry();

/// What Device::best says of the devices of a registry.
Device best_of(DeviceRegistry& registry);
/// Their names, for errors: "ref, cpu, cuda:0".
std::string names_of_devices(DeviceRegistry& registry);

}  // namespace v0
}  // namespace lockstep
