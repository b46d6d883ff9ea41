// The backends of this process: one object per device, made at first use and kept to the end.
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/backend.h"
#include "backends/cpu/backend.h"
#include "backends/reference/backend.h"

namespace lockstep {
inline namespace v0 {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<Device, std::unique_ptr<Backend>> backends;
};

// Never destroyed: tensors with static storage may give memory back after static objects are gone.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

const char* name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::ref: return "ref";
    case DeviceKind::cpu: return "cpu";
    case DeviceKind::cuda: return "cuda";
    case DeviceKind::vulkan: return "vulkan";
    case DeviceKind::metal: return "metal";
  }
  return "?";
}

bool is_host(DeviceKind kind) { return kind == DeviceKind::ref || kind == DeviceKind::cpu; }

std::string present() {
  std::string names;
  for (const Device& device : Device::all()) names += (names.empty() ? "" : ", ") + device.to_string();
  return names;
}

}  // namespace

Backend& backend_of(Device device) {
  if (!is_host(device.kind) || device.index != 0) {
    throw DeviceError(fmt::format("device {} is not available: this version computes on the CPU only\n  devices present: {}\n"
                                  "  fix: use one of them, e.g. Device::parse(\"cpu\")",
                                  device.to_string(), present()));
  }
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<Backend>& backend = all.backends[device];
  if (backend == nullptr) {
    backend = device.kind == DeviceKind::ref ? make_reference_backend() : make_cpu_backend();
  }
  return *backend;
}

MemoryStatistics memory_statistics(Device device) {
  const auto* const reporting = dynamic_cast<const ReportsMemory*>(&backend_of(device));
  return reporting != nullptr ? reporting->memory_statistics() : MemoryStatistics{};
}

Device Device::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind_text = text.substr(0, colon);
  for (const DeviceKind kind : {DeviceKind::ref, DeviceKind::cpu, DeviceKind::cuda, DeviceKind::vulkan, DeviceKind::metal}) {
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
  throw DeviceError(fmt::format("\"{}\" names no device\n  devices present: {}\n  fix: use cpu, ref, or a GPU like cuda:0",
                                text, present()));
}

Device Device::best() { return {DeviceKind::cpu, 0}; }

std::vector<Device> Device::all() { return {{DeviceKind::ref, 0}, {DeviceKind::cpu, 0}}; }

std::string Device::to_string() const {
  return is_host(kind) && index == 0 ? std::string(name_of(kind)) : fmt::format("{}:{}", name_of(kind), index);
}

}  // namespace v0
}  // namespace lockstep
