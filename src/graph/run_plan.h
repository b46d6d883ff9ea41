// Runs of a plan that its caller keeps, beside those of windows (window.cpp).
#pragma once

#include <optional>
#include <vector>

#include "core/buffer.h"
#include "graph/describe.h"
#include "graph/plan.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Runs the plan on the buffers of its window; returns those of the values that are wanted, others null. Nothing if an
/// index was bad; with checks it waits for the device.
std::optional<std::vector<BufferRef>> run_plan(Device device, const Window& window, const Plan& plan);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
