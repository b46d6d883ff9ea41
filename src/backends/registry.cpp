// The backends of this process: one object per device, made at first use and kept to the end.
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/backend.h"
#include "backends/cpu/backend.h"
#include "backends/gpu/backend.h"
#include "backends/memory.h"
#include "backends/reference/backend.h"

namespace lockstep {
inline namespace v0 {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<Device, std::unique_ptr<Backend>> backends;
  std::map<Device, std::string> failures;  ///< of devices that could not be opened; not tried again
};

// Never destroyed: tensors with static storage may give memory back after static objects are gone.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

/// What was found of an API, looked for once.
const gpu::Found& found(DeviceKind kind) {
  static const auto* const cuda = new gpu::Found(gpu::find_cuda());
  if (kind == DeviceKind::cuda) return *cuda;
  static const auto* const vulkan = new gpu::Found(gpu::find_vulkan());
  if (kind == DeviceKind::vulkan) return *vulkan;
  static const auto* const metal = new gpu::Found(gpu::find_metal());
  return *metal;
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

std::string present() {
  std::string names;
  for (const Device& device : Device::all()) names += (names.empty() ? "" : ", ") + device.to_string();
  return names;
}

std::unique_ptr<Backend> open(Device device) {
  if (device.kind == DeviceKind::ref) return make_reference_backend();
  if (device.kind == DeviceKind::cpu) return make_cpu_backend();
  auto driver = device.kind == DeviceKind::cuda     ? gpu::open_cuda(device.index)
                : device.kind == DeviceKind::vulkan ? gpu::open_vulkan(device.index)
                                                    : gpu::open_metal(device.index);
  return std::make_unique<gpu::GpuBackend>(device, std::move(driver), gpu::kernel_directory());
}

bool is_present(Device device) {
  if (is_host(device)) return device.index == 0;
  return static_cast<std::size_t>(device.index) < found(device.kind).devices.size();
}

constexpr DeviceKind kGpuKinds[] = {DeviceKind::cuda, DeviceKind::vulkan, DeviceKind::metal};

}  // namespace

void register_backend(std::unique_ptr<Backend> backend) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const Device device = backend->device();
  all.backends[device] = std::move(backend);
}

Backend& backend_of(Device device) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (const auto made = all.backends.find(device); made != all.backends.end() && made->second != nullptr)
    return *made->second;
  if (!is_present(device)) {
    const std::string why = is_host(device) || !found(device.kind).devices.empty()
                                ? ""
                                : fmt::format(": {}\n  {}", found(device.kind).reason, found(device.kind).fix);
    throw DeviceError(
        fmt::format("device {} is not available{}\n  devices present: {}\n"
                    "  fix: use one of them, e.g. Device::parse(\"cpu\")",
                    device.to_string(), why, present()));
  }
  std::unique_ptr<Backend>& backend = all.backends[device];
  if (backend == nullptr) {
    std::string& failure = all.failures[device];
    try {
      if (failure.empty()) backend = open(device);
    } catch (const Error& error) {
      failure = error.what();
    }
    if (backend == nullptr) {
      throw DeviceError(
          fmt::format("device {} cannot be used: {}\n  fix: use another device, e.g. Device::parse(\"cpu\")",
                      device.to_string(), failure));
    }
  }
  return *backend;
}

MemoryStatistics memory_statistics(Device device) {
  const auto* const reporting = dynamic_cast<const ReportsMemory*>(&backend_of(device));
  return reporting != nullptr ? reporting->memory_statistics() : MemoryStatistics{};
}

void reset_peak_memory(Device device) {
  if (auto* const reporting = dynamic_cast<ReportsMemory*>(&backend_of(device))) reporting->reset_peak_memory();
}

std::vector<MissingDevices> missing_devices() {
  std::vector<MissingDevices> missing;
  for (const DeviceKind kind : kGpuKinds) {
    if (found(kind).devices.empty()) missing.push_back({kind, found(kind).reason, found(kind).fix});
  }
  return missing;
}

bool is_software(Device device) {
  return !is_host(device) && is_present(device) &&
         found(device.kind).devices[static_cast<std::size_t>(device.index)].software;
}

Device Device::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind_text = text.substr(0, colon);
  for (const DeviceKind kind :
       {DeviceKind::ref, DeviceKind::cpu, DeviceKind::cuda, DeviceKind::vulkan, DeviceKind::metal}) {
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
  throw DeviceError(fmt::format(
      "\"{}\" names no device\n  devices present: {}\n  fix: use cpu, ref, or a GPU like cuda:0", text, present()));
}

Device Device::best() {
  for (const DeviceKind kind : kGpuKinds) {
    for (std::size_t i = 0; i < found(kind).devices.size(); ++i) {
      const Device device{kind, static_cast<int>(i)};
      if (is_software(device)) continue;
      try {
        backend_of(device);
        return device;
      } catch (const DeviceError&) {
        // It did not pass its probe; `lockstep info` says why.
      }
    }
  }
  return {DeviceKind::cpu, 0};
}

std::vector<Device> Device::all() {
  std::vector<Device> devices = {{DeviceKind::ref, 0}, {DeviceKind::cpu, 0}};
  for (const DeviceKind kind : kGpuKinds) {
    for (std::size_t i = 0; i < found(kind).devices.size(); ++i) devices.push_back({kind, static_cast<int>(i)});
  }
  return devices;
}

std::string Device::to_string() const {
  return is_host(*this) && index == 0 ? std::string(name_of(kind)) : fmt::format("{}:{}", name_of(kind), index);
}

}  // namespace v0
}  // namespace lockstep
