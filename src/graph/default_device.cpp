// The device of tensors that are made without one, and waiting for a device.
#include <lockstep/default_device.h>

#include <utility>

#include "backends/backend.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace {

thread_local Device chosen_device;

}  // namespace

Device default_device() {
  return chosen_device;
}

DefaultDevice::DefaultDevice(Device device) {
  backend_of(device);
  before_ = std::exchange(chosen_device, device);
}

DefaultDevice::~DefaultDevice() {
  chosen_device = before_;
}

void synchronize(Device device) {
  graph::flush(device);
  backend_of(device).finish();
}

}  // namespace v0
}  // namespace lockstep
