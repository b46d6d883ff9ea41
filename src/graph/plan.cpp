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

Plan::Launches launches_of(const std::vector<Plan::Prepared>& steps, bool pairs) {
  Plan::Launches result;
  std::vector<int>& entries = result.entries;
  const auto place = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
  const auto append = [](auto& list, const auto& more) { list.insert(list.end(), more.begin(), more.end()); };
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Plan::Prepared& prepared = steps[s];
    if (pairs && prepared.is_in_later) continue;
    const Plan::Prepared::Together* const together = pairs ? prepared.together.get() : nullptr;
    const Step& step = together != nullptr ? together->step : prepared.step;
    Plan::Launch& launch = result.kernels.emplace_back();
    launch.executable = together != nullptr ? together->executable.get() : prepared.executable.get();
    launch.step = static_cast<std::uint32_t>(s);
    launch.slots = place(entries);
    append(entries, step.slots);
    launch.made = place(entries);
    append(entries, prepared.step.writes);
    launch.released = place(entries);
    append(entries, prepared.released);
    launch.end = place(entries);
    result.bytes.resize(launch.made);
    append(result.bytes, prepared.made);
    launch.parameters = place(result.parameters);
    append(result.parameters, step.parameters);
    launch.parameters_end = place(result.parameters);
    launch.checks = place(prepared.step.checks);
    launch.replaces = prepared.may_replace ? prepared.step.replaces : -1;
    launch.bytes = together != nullptr ? together->bytes : prepared.bytes;
    launch.bytes_in_place = prepared.bytes_in_place;
  }
  return result;
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
    plan->checked.insert(plan->checked.end(), step.checks.begin(), step.checks.end());
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
  plan->checks = plan->checked.size();
  plan->launches = launches_of(plan->steps, true);
  if (!pairs.empty()) plan->apart = launches_of(plan->steps, false);
  return plan;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
