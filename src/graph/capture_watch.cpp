#include "graph/capture_watch.h"

#include <utility>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

thread_local constinit CaptureWatch* capture_watch = nullptr;

}  // namespace

CaptureWatch* set_capture_watch(CaptureWatch* watch) {
  return std::exchange(capture_watch, watch);
}

void capture_node(const NodeRef& node) {
  if (capture_watch != nullptr) capture_watch->made(node);
}

void capture_reading(const NodeRef& node) {
  if (capture_watch != nullptr) capture_watch->wanted(node);
}

void capture_draw(const Generator& generator) {
  if (capture_watch != nullptr) capture_watch->drew(generator);
}

bool is_capturing() {
  return capture_watch != nullptr;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
