#include "cli/devices.h"

#include <algorithm>

#include <lockstep/error.h>

#include "backends/backend.h"
#include "cli/command.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

Device chosen_device(const std::string& text, int local_rank) {
  Device device;
  try {
    device = text == "best" ? Device::best() : Device::parse(text);
  } catch (const DeviceError& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  if (local_rank > 0 && !is_host(device) && text.find(':') == std::string::npos) {
    const std::vector<Device> all = Device::all();
    const auto count = std::ranges::count(all, device.kind, &Device::kind);
    if (count > 0) device.index = local_rank % static_cast<int>(count);
  }
  backend_of(device);
  return device;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
