// One run of a model on cpu, every node of which runs again on other devices, from cpu's own inputs: a difference does
// not spread to the nodes behind it, so each node that differs is found by itself. `lockstep check --model` prints it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "io/onnx/loaded.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

enum class NodeOutcome : std::uint8_t { equal, different, refused };

/// What one device answered for one run of one node.
struct NodeFinding {
  const PlannedNode* node = nullptr;
  std::size_t device = 0;  ///< Its place in the list of devices.
  NodeOutcome outcome = NodeOutcome::equal;
  std::string detail;  ///< The first element that differs, with both values; or why the device refused.
};

/// Where `actual` has other bits than `expected`: "output 0 [1, 3]: 0.5 (0x3f000000) instead of ...", or that kind,
/// dtype or shape differ; empty if they are equal. Every NaN of a dtype counts as one value. Values on any device.
std::string difference_of(std::size_t output, const Value& actual, const Value& expected);

/// Runs the model, which must be loaded on cpu, and reports each node's run on each device, in the order of the run. A
/// node with graphs of its own (If, Loop, Scan) is reported behind their nodes. Draws of random numbers are the same on
/// every device. Returns cpu's outputs; throws what the model throws on cpu.
ValueMap check_nodes(const LoadedProgram& loaded, ValueMap inputs, std::span<const Device> devices,
                     const std::function<void(const NodeFinding&)>& report);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
