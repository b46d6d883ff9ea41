#include "graph/siblings.h"

#include <algorithm>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

constexpr std::size_t kMostSiblings = 4;
/// Steps: what is computed earlier than it would be stays in memory that much longer.
constexpr std::size_t kFarthestSibling = 16;

std::size_t place(int i) {
  return static_cast<std::size_t>(i);
}

const ContractionKernel* product_of(const Step& step) {
  const auto* const kernel = std::get_if<ContractionKernel>(&step.kernel);
  if (kernel == nullptr || kernel->paired || !step.checks.empty() || step.replaces >= 0) return nullptr;
  const Program& epilogue = kernel->epilogue;
  const bool has_numbers = std::any_of(epilogue.code.begin(), epilogue.code.end(), [](const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::random;
  });
  return epilogue.tables.empty() && !has_numbers ? kernel : nullptr;
}

bool read_the_same(const Step& first, const ContractionKernel& a, const Step& second, const ContractionKernel& b) {
  Input other = b.a;
  other.slot = a.a.slot;
  return first.slots[place(a.a.slot)] == second.slots[place(b.a.slot)] && a.a == other && a.b == b.b && a.m == b.m &&
         a.k == b.k && a.type == b.type && a.numerics == b.numerics;
}

}  // namespace

void Siblings::add(const std::vector<const Kernel*>& more, const Step& step) {
  const auto before = static_cast<int>(together.parameters.size());
  together.parameters.insert(together.parameters.end(), step.parameters.begin(), step.parameters.end());
  together.writes.insert(together.writes.end(), step.writes.begin(), step.writes.end());
  const auto move = [&](int& slot) { slot = slot_of(together, step.slots[place(slot)]); };
  const auto move_program = [&](Program& program) {
    for (Input& input : program.inputs) move(input.slot);
    for (Output& output : program.outputs) move(output.slot);
    for (Instruction& instruction : program.code) {
      if (instruction.kind == Instruction::Kind::constant) instruction.index += before;
    }
    program.parameters = static_cast<int>(together.parameters.size());
  };
  for (const Kernel* const one : more) {
    Kernel kernel = *one;
    if (auto* const product = std::get_if<ContractionKernel>(&kernel)) {
      move(product->a.slot);
      move(product->b_operand.slot);
      if (product->paired) move(product->second.slot);
      move_program(product->epilogue);
    } else if (auto* const attention = std::get_if<AttentionKernel>(&kernel)) {
      for (Input* const input : {&attention->query, &attention->key, &attention->value}) move(input->slot);
      if (attention->masked) move(attention->mask.slot);
      move(attention->out);
      attention->scale += before;
    } else {
      move_program(std::get<RowKernel>(kernel).program);
    }
    kernels.push_back(std::move(kernel));
  }
}

std::vector<Siblings> find_siblings(const std::vector<Entry>& entries, const std::vector<Step>& steps,
                                    const std::vector<bool>& taken,
                                    const std::function<bool(const std::vector<Kernel>&)>& run_together) {
  std::vector<Siblings> found;
  std::vector<bool> is_taken = taken;
  std::vector<int> makers(entries.size(), -1);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const int entry : steps[s].writes) makers[place(entry)] = static_cast<int>(s);
  }
  for (std::size_t first = 0; first < steps.size(); ++first) {
    const ContractionKernel* const kernel = is_taken[first] ? nullptr : product_of(steps[first]);
    if (kernel == nullptr) continue;
    Siblings siblings;
    const std::size_t end = std::min(steps.size(), first + 1 + kFarthestSibling);
    for (std::size_t s = first + 1; s < end && siblings.members.size() < kMostSiblings; ++s) {
      const ContractionKernel* const other = is_taken[s] ? nullptr : product_of(steps[s]);
      if (other == nullptr || !read_the_same(steps[first], *kernel, steps[s], *other)) continue;
      if (siblings.members.empty()) {
        siblings.at = first;
        siblings.members = {first};
        siblings.add({&steps[first].kernel}, steps[first]);
      }
      // What it reads is there where the first one stands, or made by these.
      const bool is_ready = std::all_of(steps[s].slots.begin(), steps[s].slots.end(), [&](int entry) {
        const int maker = makers[place(entry)];
        return maker < static_cast<int>(first) || maker == static_cast<int>(s) ||
               std::find(siblings.members.begin(), siblings.members.end(), place(maker)) != siblings.members.end();
      });
      if (!is_ready) continue;
      Siblings more = siblings;
      more.members.push_back(s);
      more.add({&steps[s].kernel}, steps[s]);
      if (run_together(more.kernels)) siblings = std::move(more);
    }
    if (siblings.members.size() < 2) continue;
    for (const std::size_t s : siblings.members) is_taken[s] = true;
    found.push_back(std::move(siblings));
  }
  return found;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
