#include "graph/plan.h"

#include <algorithm>

#include "graph/pairs.h"
#include "graph/schedule.h"
#include "graph/trace.h"
#include "kernels/traffic.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

namespace {

std::vector<StepPair> pairs_of(const Backend& backend, const std::vector<Entry>& entries,
                               const std::vector<Step>& steps) {
  std::vector<StepPair> pairs = find_pairs(entries, steps);
  std::erase_if(pairs, [&](const StepPair& pair) {
    return !backend.has_pair(std::get<ContractionKernel>(pair.together.kernel));
  });
  return pairs;
}

}  // namespace

std::shared_ptr<const Plan> make_plan(Backend& backend, const Window& window) {
  const TraceSpan compiling("compile", backend.device());
  auto plan = std::make_shared<Plan>();
  std::vector<int> last_use(window.nodes.size(), -1);
  const std::vector<Entry> entries = entries_of(window);
  std::vector<Step> steps = schedule(entries);
  std::vector<StepPair> pairs = pairs_of(backend, entries, steps);
  std::vector<const Kernel*> kernels;
  for (const Step& step : steps) kernels.push_back(&step.kernel);
  for (const StepPair& pair : pairs) kernels.push_back(&pair.together.kernel);
  std::vector<std::unique_ptr<Executable>> executables = backend.compile_all(kernels);
  const auto bytes_of_slots = [&](const Step& step) {
    std::vector<std::size_t> bytes;
    for (const int entry : step.slots) bytes.push_back(window.nodes[static_cast<std::size_t>(entry)]->bytes());
    return bytes;
  };
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Step& step = steps[s];
    const std::vector<std::size_t> slot_bytes = bytes_of_slots(step);
    for (const int entry : step.slots) last_use[static_cast<std::size_t>(entry)] = static_cast<int>(s);
    plan->checks += step.checks.size();
    std::vector<std::size_t> made;
    for (const int entry : step.writes) {
      made.push_back(window.nodes[static_cast<std::size_t>(entry)]->bytes());
      plan->largest = std::max(plan->largest, made.back());
    }
    const std::size_t bytes = bytes_moved(step.kernel, slot_bytes);
    const std::size_t in_place = bytes_moved(step.kernel, slot_bytes, true);
    plan->steps.push_back({std::move(step), std::move(executables[s]), std::move(made), {}, false, bytes, in_place});
  }
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    StepPair& pair = pairs[p];
    const std::size_t bytes = bytes_moved(pair.together.kernel, bytes_of_slots(pair.together));
    for (const int entry : pair.together.slots) {
      int& last = last_use[static_cast<std::size_t>(entry)];
      last = std::max(last, static_cast<int>(pair.second));
    }
    plan->steps[pair.first].is_in_later = true;
    using Together = Plan::Prepared::Together;
    plan->steps[pair.second].together = std::make_unique<Together>(
        Together{std::move(pair.together), std::move(executables[plan->steps.size() + p]), bytes});
  }
  for (std::size_t s = 0; s < plan->steps.size(); ++s) {
    const int replaced = plan->steps[s].step.replaces;
    plan->steps[s].may_replace = replaced >= 0 && !window.values[static_cast<std::size_t>(replaced)].wanted &&
                                 last_use[static_cast<std::size_t>(replaced)] == static_cast<int>(s);
  }
  for (std::size_t e = 0; e < last_use.size(); ++e) {
    if (last_use[e] >= 0 && !window.values[e].wanted) {
      plan->steps[static_cast<std::size_t>(last_use[e])].released.push_back(static_cast<int>(e));
    }
  }
  return plan;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
