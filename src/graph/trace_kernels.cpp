#include "graph/trace_kernels.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/memory.h>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

std::string type_and_shape(const Node& node) {
  return fmt::format("{} {}", name_of(node.dtype), node.shape.to_string());
}

}  // namespace

TraceKernels::TraceKernels(std::shared_ptr<TraceLog> log, const Window& window, const Plan& plan)
    : log_(std::move(log)), window_(window), names_(window, plan) {}

void TraceKernels::add(const Plan::Prepared& prepared, std::size_t bytes, TraceClock::time_point start) const {
  const TraceClock::time_point end = TraceClock::now();
  const Node& result = *window_.nodes[static_cast<std::size_t>(prepared.step.writes.front())];
  std::vector<std::string> reads;
  std::vector<std::string> writes;
  for (const int entry : prepared.step.slots) {
    const auto& written = prepared.step.writes;
    const bool writes_it = std::find(written.begin(), written.end(), entry) != written.end();
    (writes_it ? writes : reads).push_back(type_and_shape(*window_.nodes[static_cast<std::size_t>(entry)]));
  }
  nlohmann::ordered_json details;
  details["called at"] = fmt::format("{}:{}", result.where.file, result.where.line);
  details["module"] = names_.module_of(prepared.step);
  details["reads"] = reads;
  details["writes"] = writes;
  details["bytes"] = bytes;
  details["kernel"] = to_string(prepared.step.kernel);
  log_->add({names_.ops_of(prepared.step) + " " + type_and_shape(result), "kernel", result.device, start, end,
             details.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), memory_statistics(result.device).live});
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
