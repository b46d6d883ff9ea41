// The --device option.
#pragma once

#include <string>

#include <lockstep/device.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// "best" or a device. Throws UsageError if the text names none, DeviceError if it is not there.
Device chosen_device(const std::string& text);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
