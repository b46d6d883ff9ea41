// The --device option.
#pragma once

#include <string>

#include <lockstep/device.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// "best" or a device. Processes of one machine, numbered from 0, share out the GPUs of a kind that is named without a
/// number. Throws UsageError if the text names none, DeviceError if it is not there.
Device chosen_device(const std::string& text, int local_rank = 0);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
