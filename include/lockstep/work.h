// How much a device has computed: numbers that do not depend on the device, so that models can be compared by them.
#pragma once

#include <cstdint>

#include <lockstep/device.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// What a device has run.
struct WorkStatistics {
  std::uint64_t kernels = 0;  ///< run
  std::uint64_t bytes = 0;    ///< that they had to read and write: of each kernel's buffers what it reaches, once
};

/// What was run on `device` so far by this process; pending work is not counted before it is computed.
LOCKSTEP_API WorkStatistics work_statistics(Device device = {});

}  // namespace v0
}  // namespace lockstep
