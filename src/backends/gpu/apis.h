// The GPU APIs: one row each, which is all that the rest of the library knows of them. One more is a DeviceKind, its
// name (core/device.h), its functions (driver.h) and a row here; a kind that lacks one of these does not compile.
#pragma once

#include <algorithm>
#include <array>

#include "backends/gpu/driver.h"
#include "core/device.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

struct GpuApi {
  DeviceKind kind;
  Found (*find)();
  std::unique_ptr<Driver> (*open)(int index);
};

inline constexpr std::array kGpuApis = {
    GpuApi{DeviceKind::cuda, find_cuda, open_cuda},
    GpuApi{DeviceKind::vulkan, find_vulkan, open_vulkan},
    GpuApi{DeviceKind::metal, find_metal, open_metal},
};

static_assert(std::all_of(kDeviceKinds.begin(), kDeviceKinds.end(), [](DeviceKind kind) {
  const auto rows =
      std::count_if(kGpuApis.begin(), kGpuApis.end(), [kind](const GpuApi& api) { return api.kind == kind; });
  return rows == (is_host(kind) ? 0 : 1);
}));

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
