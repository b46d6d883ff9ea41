// The recorded op of a name.
#pragma once

#include <string>

#include "cli/recorded_ops/recorded_op.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

/// Throws Unsupported if there is no such op.
const RecordedOp& find_recorded_op(const std::string& name);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
