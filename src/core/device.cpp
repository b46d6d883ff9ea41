// Devices by name, and which of them is the best. What devices there are, backends/registry.cpp knows.
#include "core/device.h"

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
std::string names_of_devices(DeviceRegistry& registry) {
  std::string names;
  for (const Device& device : registry.devices()) names += (names.empty() ? "" : ", ") + device.to_string();
  return names;
}

Device best_of(DeviceRegistry& registry) {
  for (const Device& device : registry.devices()) {
    if (!is_host(device) && !registry.is_software(device) && registry.is_usable(device)) return device;
  }
  return {DeviceKind::cpu, 0};
}

Device Device::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind_text = text.substr(0, colon);
  for (const DeviceKind kind : kDeviceKinds) {
    if (kind_text != name_of(kind)) continue;
    if (colon == std::string_view::npos) return {kind, 0};
    const std::string_view digits = text.substr(colon + 1);
    int index = 0;
    bool valid = !digits.empty() && digits.size() <= 4;
    for (const char digit : digits) {
      valid = valid && digit >= '0' && digit <= '9';
      index = index * 10 + (digit - '0');
    }
    if (valid) return {kind, index};
  }
  throw DeviceError(
      fmt::format("\"{}\" names no device\n  devices present: {}\n  fix: use cpu, ref, or a GPU like cuda:0", text,
                  names_of_devices(device_registry())));
}

Device Device::best() {
  return best_of(device_registry());
}

std::vector<Device> Device::all() {
  return device_registry().devices();
}

std::string Device::to_string() const {
  return is_host(*this) && index == 0 ? std::string(name_of(kind)) : fmt::format("{}:{}", name_of(kind), index);
}

}  // namespace v0
}  // namespace lockstep
