// A device that says it can do less than it can, or is quick at more than it is, so that kernels for other devices run
// there: of products in blocked numerics those by each instruction.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/gpu/apis.h"
#include "backends/gpu/backend.h"
#include "backends/gpu/replay.h"
#include "support/soft_matrices.h"
#include "support/tensors.h"

namespace lockstep::test {

class LimitedDriver : public gpu::ReplayingDriver {
 public:
  LimitedDriver(std::unique_ptr<gpu::Driver> driver, const std::function<void(gpu::DriverInfo&)>& change)
      : ReplayingDriver(std::move(driver)), info_(ReplayingDriver::info()) {
    change(info_);
  }
  const gpu::DriverInfo& info() const override { return info_; }
  /// Where the device has no cooperative matrices: GLSL that computes as if it had.
  std::string source(const gpu::KernelText& kernel, const gpu::Arithmetic& arithmetic) const override {
    const std::string text = ReplayingDriver::source(kernel, arithmetic);
    const bool lacks_them = kernel.byte_matrices && !ReplayingDriver::info().byte_matrices;
    return lacks_them ? with_soft_matrices(text) : text;
  }

 private:
  gpu::DriverInfo info_;
};

struct ByteProducts {
  const char* name;
  bool fragments, dots;  ///< tensor cores that are waited for, or dot products, or neither
  bool small;            ///< in little shared memory
  bool matrices = false;  ///< cooperative ones, which software devices are made to have
};
inline constexpr ByteProducts kByteProducts[] = {
    {"fragments", true, false, false},
    {"fragments_small", true, false, true},
    {"dots", false, true, false},
    {"dots_small", false, true, true},
    {"words", false, false, false},
    {"matrices", false, false, false, true},
    {"matrices_small", false, false, true, true},
};

/// `device` as one more, that has no other products of bytes than these; none where it has not even them, or would be
/// what it is. Once for each.
inline std::optional<Device> device_with(const ByteProducts& products, Device device) {
  constexpr std::size_t kSmall = 32 << 10;
  for (const gpu::GpuApi& api : gpu::kGpuApis) {
    if (api.kind != device.kind) continue;
    bool has_them = false;
    auto driver = std::make_unique<LimitedDriver>(api.open(device.index), [&](gpu::DriverInfo& info) {
      const bool soft = info.software && device.kind == DeviceKind::vulkan;
      has_them = products.matrices    ? info.byte_matrices || soft
                 : products.fragments ? info.byte_fragments
                 : products.dots      ? info.has_byte_dots
                                      : !info.software;
      has_them = has_them && (!products.small || info.shared_bytes > kSmall);
      info.byte_matrices = products.matrices;
      info.integer_tiles = false;
      info.byte_fragments = products.fragments;
      info.quick_byte_dots = products.dots;
      if (!products.small) return;
      info.shared_bytes = kSmall;
      info.copies_to_shared = info.byte_products = false;
    });
    if (!has_them) return std::nullopt;
    const Device limited{device.kind, 960 + 10 * device.index + static_cast<int>(&products - kByteProducts)};
    register_backend(std::make_unique<gpu::GpuBackend>(limited, std::move(driver), ""));
    return limited;
  }
  return std::nullopt;
}

/// The GPUs under test as devices that have other products.
struct Limited {
  Device device;
  std::string what;
};
inline const std::vector<Limited>& limited_devices() {
  static const std::vector<Limited> all = [] {
    std::vector<Limited> made;
    for (const Device device : test_devices()) {
      for (const ByteProducts& products : kByteProducts) {
        const std::optional<Device> limited = device_with(products, device);
        if (limited) made.push_back({*limited, device.to_string() + " with " + products.name});
      }
    }
    return made;
  }();
  return all;
}

}  // namespace lockstep::test
