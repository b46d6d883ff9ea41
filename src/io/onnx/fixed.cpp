#include "io/onnx/fixed.h"

#include <algorithm>
#include <array>

#include "io/onnx/plan.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

using Slots = std::vector<bool>;

bool is_in(const Slots& slots, int slot) {
  return slot != kNoSlot && slots[static_cast<std::size_t>(slot)];
}
void add_to(Slots& slots, int slot) {
  if (slot != kNoSlot) slots[static_cast<std::size_t>(slot)] = true;
}
std::vector<int> listed(const Slots& slots) {
  std::vector<int> list;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot]) list.push_back(static_cast<int>(slot));
  }
  return list;
}

// Of one plan, of which `known` are the slots that have the same value in every run. Gives those of its nodes, too.
void find_in(Plan& plan, Slots& known) {
  const Slots given = known;
  Slots read_of_weights(known.size(), false);
  Slots read(known.size(), false);
  for (const int slot : plan.outputs) add_to(read, slot);
  for (PlannedNode& node : plan.nodes) {
    bool any = false;
    bool all = node.row != nullptr && node.graphs.empty() && !differs_from_run_to_run(node.op);
    node.fixed_inputs = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int slot = node.inputs[i];
      if (i < 64 && is_in(known, slot)) node.fixed_inputs |= std::uint64_t{1} << i;
      any = any || is_in(known, slot);
      all = all && (slot == kNoSlot || is_in(known, slot));
    }
    node.fixed = all && any;
    for (const int slot : node.fixed ? node.outputs : std::vector<int>()) add_to(known, slot);
    if (node.folded) continue;  // its outputs are constants
    for (const int slot : node.inputs) add_to(node.fixed ? read_of_weights : read, slot);
    for (const int slot : node.captured) add_to(read, slot);
  }
  Slots sources(known.size(), false), results(known.size(), false);
  for (std::size_t slot = 0; slot < known.size(); ++slot) {
    sources[slot] = read_of_weights[slot] && given[slot];
    results[slot] = read[slot] && known[slot] && !given[slot];
  }
  plan.fixed_sources = listed(sources);
  plan.fixed_results = listed(results);
}

}  // namespace

bool differs_from_run_to_run(std::string_view op) {
  static constexpr std::array<std::string_view, 8> kOps = {"Bernoulli",         "Dropout",           "Multinomial",
                                                           "RandomNormal",      "RandomNormalLike",  "RandomUniform",
                                                           "RandomUniformLike", "BatchNormalization"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

void find_fixed_nodes(Program& program) {
  struct Open {
    Plan* plan;
    Slots known;
  };
  std::vector<Open> open;
  const auto add = [&](Plan& plan) -> Slots& {
    Slots known(static_cast<std::size_t>(plan.slots), false);
    for (const SlotOfConstant& entry : plan.constants) add_to(known, entry.slot);
    for (const int slot : plan.inputs) known[static_cast<std::size_t>(slot)] = false;  // callers may give another
    return open.emplace_back(Open{&plan, std::move(known)}).known;
  };
  add(program.main);
  while (!open.empty()) {
    Open here = std::move(open.back());
    open.pop_back();
    find_in(*here.plan, here.known);
    for (PlannedNode& node : here.plan->nodes) {
      for (const auto& [attribute, graph] : node.graphs) {
        Slots& inside = add(*graph);
        for (const Capture& capture : graph->captures) {
          if (is_in(here.known, capture.outer)) add_to(inside, capture.inner);
        }
      }
    }
  }
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
