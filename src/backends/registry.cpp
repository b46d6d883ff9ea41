// The backends of this process: one object per device, made at first use and kept to the end. Which devices there are
// is asked of the GPU APIs' rows (gpu/apis.h); core/device.cpp names and chooses among them.
#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/backend.h"
#include "backends/cpu/backend.h"
#include "backends/gpu/apis.h"
#include "backends/gpu/backend.h"
#include "backends/memory.h"
#include "backends/reference/backend.h"
#include "backends/side_work.h"

namespace lockstep {
inline namespace v0 {
namespace {

/// What was found of an API, looked for once.
struct SearchedApi {
  const gpu::GpuApi* api = nullptr;
  std::once_flag once;
  gpu::Found found;
};

class Registry : public DeviceRegistry {
 public:
  Registry() {
    for (std::size_t i = 0; i < apis_.size(); ++i) apis_[i].api = &gpu::kGpuApis[i];
  }

  std::vector<Device> devices() override {
    std::vector<Device> devices;
    for (const DeviceKind kind : kDeviceKinds) {
      const std::size_t count = is_host(kind) ? 1 : found(kind).devices.size();
      for (std::size_t i = 0; i < count; ++i) devices.push_back({kind, static_cast<int>(i)});
    }
    return devices;
  }
  bool is_software(Device device) override {
    return !is_host(device) && is_present(device) &&
           found(device.kind).devices[static_cast<std::size_t>(device.index)].software;
  }
  bool is_usable(Device device) override {
    try {
      backend(device);
      return true;
    } catch (const DeviceError&) {
      return false;  // the error is kept, and told to whoever asks for the device
    }
  }

  const gpu::Found& found(DeviceKind kind) { return searched(kind).found; }
  Backend& backend(Device device);
  void add(std::unique_ptr<Backend> backend) {
    const std::lock_guard lock(mutex_);
    const Device device = backend->device();
    backends_[device] = std::move(backend);
  }

 private:
  SearchedApi& searched(DeviceKind kind) {
    const auto has_kind = [kind](const SearchedApi& searched) { return searched.api->kind == kind; };
    SearchedApi& row = *std::find_if(apis_.begin(), apis_.end(), has_kind);
    std::call_once(row.once, [&row] { row.found = row.api->find(); });
    return row;
  }
  bool is_present(Device device) {
    if (is_host(device)) return device.index == 0;
    return static_cast<std::size_t>(device.index) < found(device.kind).devices.size();
  }
  std::unique_ptr<Backend> open(Device device) {
    if (device.kind == DeviceKind::ref) return make_reference_backend();
    if (device.kind == DeviceKind::cpu) return make_cpu_backend();
    return std::make_unique<gpu::GpuBackend>(device, searched(device.kind).api->open(device.index),
                                             gpu::kernel_directory());
  }

  std::mutex mutex_;
  std::map<Device, std::unique_ptr<Backend>> backends_;
  std::map<Device, std::string> failures_;  ///< of devices that could not be opened; not tried again
  std::array<SearchedApi, gpu::kGpuApis.size()> apis_;
};

Backend& Registry::backend(Device device) {
  const std::lock_guard lock(mutex_);
  if (const auto made = backends_.find(device); made != backends_.end() && made->second != nullptr)
    return *made->second;
  if (!is_present(device)) {
    const std::string why = is_host(device) || !found(device.kind).devices.empty()
                                ? ""
                                : fmt::format(": {}\n  {}", found(device.kind).reason, found(device.kind).fix);
    throw DeviceError(
        fmt::format("device {} is not available{}\n  devices present: {}\n"
                    "  fix: use one of them, e.g. Device::parse(\"cpu\")",
                    device.to_string(), why, names_of_devices(*this)));
  }
  std::unique_ptr<Backend>& backend = backends_[device];
  if (backend == nullptr) {
    std::string& failure = failures_[device];
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

// Never destroyed: tensors with static storage may give memory back after static objects are gone.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

}  // namespace

DeviceRegistry& device_registry() {
  return registry();
}

void register_backend(std::unique_ptr<Backend> backend) {
  registry().add(std::move(backend));
}

Backend& backend_of(Device device) {
  return registry().backend(device);
}

MemoryStatistics memory_statistics(Device device) {
  const auto* const reporting = dynamic_cast<const ReportsMemory*>(&backend_of(device));
  return reporting != nullptr ? reporting->memory_statistics() : MemoryStatistics{};
}

void reset_peak_memory(Device device) {
  if (auto* const reporting = dynamic_cast<ReportsMemory*>(&backend_of(device))) reporting->reset_peak_memory();
}

std::vector<DeviceLink> device_links() {
  std::vector<DeviceLink> links;
  const std::vector<Device> all = registry().devices();
  for (const Device from : all) {
    for (const Device to : all) {
      if (is_host(from) || from.kind != to.kind || from == to || is_software(from) || is_software(to)) continue;
      try {
        auto* const copies = dynamic_cast<CopiesToPeers*>(&backend_of(to));
        links.push_back({from, to, copies != nullptr && copies->reads_directly(from.index)});
      } catch (const DeviceError&) {
        // One of them cannot be used; whoever asks for it hears why.
      }
    }
  }
  return links;
}

std::vector<MissingDevices> missing_devices() {
  std::vector<MissingDevices> missing;
  for (const gpu::GpuApi& api : gpu::kGpuApis) {
    const gpu::Found& found = registry().found(api.kind);
    if (found.devices.empty()) missing.push_back({api.kind, found.reason, found.fix});
  }
  return missing;
}

bool is_software(Device device) {
  return registry().is_software(device);
}

}  // namespace v0
}  // namespace lockstep
