// Where a tensor lives. A Device is a value: equal devices are one device, however they were obtained.
// Knows nothing of backends: backends/registry.cpp holds the run-time object behind each device.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// `ref` executes the numerics specification literally (slow, for checking); `cpu` is the fast CPU backend.
enum class DeviceKind : std::uint8_t { ref, cpu, cuda, vulkan, metal };

/// A device by kind and index, e.g. `cuda:0`.
struct LOCKSTEP_API Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  /// Parses "cpu", "ref", "cuda", "cuda:1". Throws DeviceError naming `text` and the devices present.
  static Device parse(std::string_view text);
  /// The fastest usable device: a GPU that passed its probe, else the CPU; never a software GPU.
  static Device best();
  /// The devices that can be used in this process.
  static std::vector<Device> all();

  /// "cpu", "ref", "cuda:0".
  std::string to_string() const;

  friend auto operator<=>(const Device&, const Device&) = default;
};

}  // namespace v0
}  // namespace lockstep
