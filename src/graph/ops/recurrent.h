// Recurrences as one kernel, for the ops that are made of their steps elsewhere.
#pragma once

#include <lockstep/device.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Whether all steps of a recurrence may be one kernel (Recur) on a device. Who records or watches kernels sees the
/// steps, which every device has.
bool may_be_whole(Device device);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
