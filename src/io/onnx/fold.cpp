// fold_constants: nodes whose inputs are all constants run once, at load, on the CPU. Since every device computes the
// same bits, no result changes; in scopes that change arithmetic they run again. In graphs inside nodes only what the
// file states (Constant) is made here, instead of in every run.
#include <algorithm>
#include <chrono>

#include <lockstep/autograd.h>
#include <lockstep/error.h>

#include "io/onnx/execution.h"
#include "io/onnx/fixed.h"
#include "io/onnx/plan.h"
#include "nn/replays.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

constexpr std::uint64_t kMostBytes = 64 << 20;
constexpr std::uint64_t kSmall = 64 << 10;
constexpr auto kLongest = std::chrono::seconds(10);

class Folder {
 public:
  explicit Folder(Program& program) : program_(program) {
    for (const SlotOfConstant& entry : program.main.constants) {
      const Constant& constant = program.constants[entry.constant];
      const bool given_by_callers = program.default_inputs.contains(constant.name);
      if (constant.role == Role::constant && !given_by_callers) known_.emplace(entry.slot, entry.constant);
    }
  }

  void fold() {
    const auto start = std::chrono::steady_clock::now();
    const NoGrad no_grad;
    std::vector<PlannedNode> kept;
    for (PlannedNode& node : program_.main.nodes) {
      node.folded = std::chrono::steady_clock::now() - start <= kLongest && fold(node, program_.main);
      if (!node.folded || !node.inputs.empty()) kept.push_back(std::move(node));
    }
    program_.main.nodes = std::move(kept);
    std::vector<Plan*> open = {&program_.main};
    while (!open.empty()) {
      Plan& plan = *open.back();
      open.pop_back();
      if (&plan != &program_.main) settle_stated(plan);
      for (const PlannedNode& node : plan.nodes) {
        for (const auto& [attribute, graph] : node.graphs) open.push_back(graph.get());
      }
    }
  }

 private:
  void settle_stated(Plan& plan) {
    std::vector<PlannedNode> kept;
    for (PlannedNode& node : plan.nodes) {
      if (!node.inputs.empty() || !fold(node, plan)) kept.push_back(std::move(node));
    }
    plan.nodes = std::move(kept);
  }

  bool fold(const PlannedNode& node, Plan& plan) {
    if (node.row == nullptr || !node.graphs.empty() || differs_from_run_to_run(node.op)) return false;
    std::vector<Value> inputs;
    std::uint64_t before = 0;
    for (const int slot : node.inputs) {
      if (slot == kNoSlot) {
        inputs.emplace_back();
        continue;
      }
      const auto constant = known_.find(slot);
      if (constant == known_.end()) return false;
      inputs.push_back(program_.constants[constant->second].value);
      before += bytes_of(inputs.back());
    }
    std::vector<Value> outputs;
    try {
      outputs = Execution({}, Device{}, false).run_node(node, inputs);
      std::uint64_t after = 0;
      for (const Value& output : outputs) after += bytes_of(output);
      const bool stated = node.inputs.empty();  // Constant: its elements are in memory already
      if (!stated && (after > std::max(before, kSmall) || after > kMostBytes - bytes_)) return false;
      if (!stated) bytes_ += after;
      for (Value& output : outputs) settle(output);
    } catch (const Error&) {
      return false;  // it fails again when it runs, where the error says more
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoSlot) continue;
      if (i >= outputs.size()) return false;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoSlot) continue;
      if (&plan == &program_.main) known_.emplace(node.outputs[i], program_.constants.size());
      plan.constants.push_back({node.outputs[i], program_.constants.size()});
      program_.constants.push_back({.value = std::move(outputs[i])});
    }
    return true;
  }

  // Computed, and known on the host where it is small.
  static void settle(Value& value) {
    if (!value.is_tensor()) return;
    value.tensor(Device{}).eval();
    value = settled(value);
  }

  Program& program_;
  std::map<int, std::size_t> known_;  // constants by slot
  std::uint64_t bytes_ = 0;
};

}  // namespace

void fold_constants(Program& program) {
  if (program.folded || !program.problems.empty() || nn::changes_arithmetic()) return;
  Folder(program).fold();
  program.folded = true;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
