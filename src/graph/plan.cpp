#include "graph/plan.h"

#include <algorithm>

#include "graph/chains.h"
#include "graph/pairs.h"
#include "graph/schedule.h"
#include "graph/siblings.h"
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

std::vector<Siblings> siblings_of(const Backend& backend, const std::vector<Entry>& entries,
                                  const std::vector<Step>& steps, const std::vector<StepPair>& pairs) {
  std::vector<bool> taken(steps.size(), false);
  for (const StepPair& pair : pairs) taken[pair.first] = taken[pair.second] = true;
  return find_siblings(entries, steps, taken, [&](const std::vector<Kernel>& kernels) {
    KernelList list;
    for (const Kernel& kernel : kernels) list.push_back(&kernel);
    return backend.runs_together(list);
  });
}

Plan::Launches launches_of(const std::vector<Plan::Prepared>& steps, bool together_runs) {
  Plan::Launches result;
  std::vector<int>& entries = result.entries;
  const auto place = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
  const auto append = [](auto& list, const auto& more) { list.insert(list.end(), more.begin(), more.end()); };
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Plan::Prepared& prepared = steps[s];
    if (together_runs && prepared.is_in_other) {
      // Has run by now, if it does not run later.
      if (!prepared.released.empty()) {
        append(entries, prepared.released);
        result.kernels.back().end = place(entries);
      }
      continue;
    }
    const Plan::Prepared::Together* const together = together_runs ? prepared.together.get() : nullptr;
    const Step& step = together != nullptr ? together->step : prepared.step;
    Plan::Launch& launch = result.kernels.emplace_back();
    launch.executable = together != nullptr ? together->executable.get() : prepared.executable.get();
    launch.step = static_cast<std::uint32_t>(s);
    launch.slots = place(entries);
    append(entries, step.slots);
    launch.made = place(entries);
    append(entries, step.writes);
    launch.released = place(entries);
    append(entries, prepared.released);
    launch.end = place(entries);
    result.bytes.resize(launch.made);
    append(result.bytes, together != nullptr ? together->made : prepared.made);
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
  std::vector<Siblings> siblings = siblings_of(backend, entries, steps, pairs);
  join_makers(backend, entries, steps, pairs, siblings);
  std::vector<KernelList> lists;
  for (const Step& step : steps) lists.push_back({&step.kernel});
  for (const StepPair& pair : pairs) lists.push_back({&pair.together.kernel});
  for (const Siblings& all : siblings) {
    KernelList& list = lists.emplace_back();
    for (const Kernel& kernel : all.kernels) list.push_back(&kernel);
  }
  std::vector<std::unique_ptr<Executable>> executables = backend.compile_all(lists);
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
  auto next = executables.begin() + static_cast<std::ptrdiff_t>(steps.size());
  const auto run_in = [&](std::size_t s, Step& together, std::size_t bytes) {
    std::vector<std::size_t> made;
    for (const int entry : together.writes) made.push_back(window.nodes[static_cast<std::size_t>(entry)]->bytes());
    using Together = Plan::Prepared::Together;
    plan->steps[s].together =
        std::make_unique<Together>(Together{std::move(together), std::move(*next++), std::move(made), bytes});
  };
  for (StepPair& pair : pairs) {
    const std::size_t bytes = bytes_moved(pair.together.kernel, bytes_of_slots(pair.together));
    for (const int entry : pair.together.slots) {
      int& last = last_use[static_cast<std::size_t>(entry)];
      last = std::max(last, static_cast<int>(pair.second));
    }
    plan->steps[pair.first].is_in_other = true;
    run_in(pair.second, pair.together, bytes);
  }
  for (Siblings& all : siblings) {
    const std::vector<std::size_t> slot_bytes = bytes_of_slots(all.together);
    std::size_t bytes = 0;
    for (const Kernel& kernel : all.kernels) bytes += bytes_moved(kernel, slot_bytes);
    for (const std::size_t s : all.members) {
      plan->steps[s].is_in_other = s != all.at;
      for (const int entry : plan->steps[s].step.slots) {
        int& last = last_use[static_cast<std::size_t>(entry)];
        last = std::max(last, static_cast<int>(all.at));
      }
    }
    run_in(all.at, all.together, bytes);
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
  if (!pairs.empty() || !siblings.empty()) plan->apart = launches_of(plan->steps, false);
  return plan;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
