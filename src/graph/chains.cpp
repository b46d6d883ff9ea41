#include "graph/chains.h"

#include <algorithm>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

/// What runs as one: a step, or several together.
struct Unit {
  std::size_t at;
  std::vector<std::size_t> members;
  const Step* step;
  std::vector<const Kernel*> kernels;
};

std::size_t as_index(int i) {
  return static_cast<std::size_t>(i);
}

// The entry that all of these, products in q8 numerics, have as their left operand; -1 where they are others.
int left_of(const Unit& unit) {
  int left = -1;
  for (const Kernel* const kernel : unit.kernels) {
    const auto* const product = std::get_if<ContractionKernel>(kernel);
    if (product == nullptr || product->numerics != Numerics::q8) return -1;
    const int entry = unit.step->slots[as_index(product->a.slot)];
    if (left >= 0 && entry != left) return -1;
    left = entry;
  }
  return left;
}

bool reads_otherwise(const Kernel& kernel, int slot) {
  const auto& product = std::get<ContractionKernel>(kernel);
  const std::vector<Input>& inputs = product.epilogue.inputs;
  return product.b_operand.slot == slot || (product.paired && product.second.slot == slot) ||
         std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) { return input.slot == slot; });
}

bool is_movable(const Program& program) {
  return program.tables.empty() && std::none_of(program.code.begin(), program.code.end(), [](const Instruction& step) {
           return step.kind == Instruction::Kind::random;
         });
}

bool may_be_joined(const Unit& unit) {
  if (!unit.step->checks.empty() || unit.step->replaces >= 0) return false;
  return std::all_of(unit.kernels.begin(), unit.kernels.end(), [](const Kernel* kernel) {
    if (const auto* row = std::get_if<RowKernel>(kernel)) return is_movable(row->program);
    if (const auto* product = std::get_if<ContractionKernel>(kernel)) return is_movable(product->epilogue);
    const auto* const attention = std::get_if<AttentionKernel>(kernel);
    return attention != nullptr && !attention->gradients;
  });
}

std::vector<Unit> units_of(const std::vector<Step>& steps, const std::vector<StepPair>& pairs,
                           const std::vector<Siblings>& siblings) {
  std::vector<Unit> units;
  for (std::size_t s = 0; s < steps.size(); ++s) units.push_back({s, {s}, &steps[s], {&steps[s].kernel}});
  const auto put = [&](std::size_t at, std::vector<std::size_t> members, const Step& together) {
    for (const std::size_t s : members) units[s].step = nullptr;
    units[at] = {at, std::move(members), &together, {}};
    return &units[at].kernels;
  };
  for (const StepPair& pair : pairs) {
    put(pair.second, {pair.first, pair.second}, pair.together)->push_back(&pair.together.kernel);
  }
  for (const Siblings& all : siblings) {
    auto* const kernels = put(all.at, all.members, all.together);
    for (const Kernel& kernel : all.kernels) kernels->push_back(&kernel);
  }
  std::erase_if(units, [](const Unit& unit) { return unit.step == nullptr; });
  return units;
}

void add(Siblings& chain, const Unit& unit) {
  chain.at = unit.at;
  chain.members.insert(chain.members.end(), unit.members.begin(), unit.members.end());
  chain.add(unit.kernels, *unit.step);
}

}  // namespace

void join_makers(const Backend& backend, const std::vector<Entry>& entries, const std::vector<Step>& steps,
                 std::vector<StepPair>& pairs, std::vector<Siblings>& siblings) {
  const std::vector<Unit> units = units_of(steps, pairs, siblings);
  std::vector<int> readers(entries.size(), 0);
  for (const Unit& unit : units) {
    for (const int entry : unit.step->slots) ++readers[as_index(entry)];
  }
  std::vector<Siblings> chains;
  for (std::size_t u = 1; u < units.size(); ++u) {
    const Unit& maker = units[u - 1];  // what stands between could not wait
    const Unit& reader = units[u];
    const int entry = left_of(reader);
    const std::vector<int>& made = maker.step->writes;
    if (entry < 0 || std::find(made.begin(), made.end(), entry) == made.end()) continue;
    // A slot of who makes it, and one of who reads it.
    if (entries[as_index(entry)].wanted || readers[as_index(entry)] != 2) continue;
    if (!may_be_joined(maker) || !may_be_joined(reader)) continue;
    const bool goes_on = !chains.empty() && chains.back().at == maker.at;
    Siblings chain = goes_on ? chains.back() : Siblings();
    if (!goes_on) add(chain, maker);
    add(chain, reader);
    const int slot = slot_of(chain.together, entry);
    KernelList kernels;
    for (const Kernel& kernel : chain.kernels) kernels.push_back(&kernel);
    const auto first = kernels.end() - static_cast<std::ptrdiff_t>(reader.kernels.size());
    const auto reads_twice = [&](const Kernel* kernel) { return reads_otherwise(*kernel, slot); };
    if (std::any_of(first, kernels.end(), reads_twice) || !backend.runs_together(kernels)) continue;
    std::erase(chain.together.writes, entry);  // nobody looks for it in memory
    if (goes_on) chains.pop_back();
    chains.push_back(std::move(chain));
  }
  for (const Siblings& chain : chains) {
    const auto has = [&](std::size_t step) {
      return std::find(chain.members.begin(), chain.members.end(), step) != chain.members.end();
    };
    std::erase_if(pairs, [&](const StepPair& pair) { return has(pair.first); });
    std::erase_if(siblings, [&](const Siblings& all) { return has(all.at); });
  }
  for (Siblings& chain : chains) siblings.push_back(std::move(chain));
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
