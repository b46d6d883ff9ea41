#include "cli/devices.h"

#include <lockstep/error.h>

#include "backends/backend.h"
#include "cli/command.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

Device chosen_device(const std::string& text) {
  if (text == "best") return Device::best();
  Device device;
  try {
    device = Device::parse(text);
  } catch (const DeviceError& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  backend_of(device);
  return device;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
