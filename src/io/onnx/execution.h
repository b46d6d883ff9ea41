// One run of a program: nodes one after the other, each a few of our own lazy ops, so that what a GPU computes is as
// much as one flush of a tensor program. What shapes determine is computed on the host beside it (HostRule).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/onnx/operator.h"
#include "io/onnx/plan.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// Outputs from inputs that are all known on the host, without any tensor; nothing where it cannot say.
using HostRule = std::optional<std::vector<Value>> (*)(const Call&);

/// The rule of an operator of the default domain; null if it has none.
HostRule find_host_rule(std::string_view name);
/// Whether an operator without a rule may run on the CPU and be read, where all its inputs are known on the host: what
/// exporters compute shapes with.
bool computes_shapes(std::string_view name);

/// One node that has run, and what it was given.
struct NodeRun {
  const PlannedNode& node;
  std::span<const Value> inputs;
  std::span<const Value> outputs;
  std::uint64_t draws = 0;  ///< Of the thread's generator, before the node ran.
};

class Execution;

/// Is told of every node when it has run, of those in graphs inside a node before that node.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void ran(const NodeRun& run, const Execution& execution) = 0;
};

class Execution final : public GraphRunner {
 public:
  /// `constants` are the program's, on `device`; all must live as long.
  Execution(std::span<const Value> constants, Device device, bool training, NodeObserver* observer = nullptr)
      : constants_(constants), device_(device), training_(training), observer_(observer) {}

  /// The outputs of a graph. `inputs` are in the order of the plan's, `captured` in that of its captures. Errors name
  /// the node.
  std::vector<Value> run(const Plan& plan, std::vector<Value> inputs, std::vector<Value> captured = {});

  std::vector<Value> run(const PlannedNode& node, std::string_view attribute, std::vector<Value> inputs) override;

  /// The outputs of one node.
  std::vector<Value> run_node(const PlannedNode& node, std::span<const Value> inputs);

  /// For observers, of the node that has just run: its outputs on `device`, with the same random numbers.
  std::vector<Value> run_again(const NodeRun& run, Device device) const;

 private:
  bool restore_fixed(const Plan& plan, std::vector<Value>& frame);
  std::vector<Value> compute_fixed(const Plan& plan, std::vector<Value> frame);
  void step(const PlannedNode& node, std::vector<Value>& frame);

  std::span<const Value> constants_;
  Device device_;
  bool training_;
  NodeObserver* observer_;
  std::vector<const std::vector<Value>*> frames_;  // of the nodes that run now, from the outside in
};

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
