// Where the demonstration's weights and pictures are.
#pragma once

#include <string>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// $LOCKSTEP_ASSETS, or share/lockstep/demo beside the command's bin, or assets/demo of the source tree that holds the
/// build. Throws IoError that says where it looked.
std::string demo_assets();

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
