// The writer behind save_checkpoint, with the system calls as a parameter so that tests can make them fail.
#pragma once

#include <string>

#include <lockstep/train/checkpoint.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace train {

std::string write_checkpoint(const std::string& directory, const Checkpoint& checkpoint, SaveCheckpointOptions options,
                             os::SystemCalls& calls);

}  // namespace train
}  // namespace v0
}  // namespace lockstep
