// `lockstep check --model`: every node of an ONNX model on every device, against cpu.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/device.h>

#include "cli/command.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

struct ModelCheckOptions {
  std::string model;  ///< A file, or hf:OWNER/NAME/FILE.
  std::vector<std::string> inputs;
  std::vector<std::string> sizes;
  std::uint64_t seed = 1;  ///< Of inputs that are not given, and of random numbers in the model.
  bool as_json = false;
};

/// Prints what differs and a table of operators and devices, or a JSON object for each of its cells. kFailure if a node
/// has other bits on a device, or a device refuses it.
ExitCode check_model(const ModelCheckOptions& options, const std::vector<Device>& devices);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
