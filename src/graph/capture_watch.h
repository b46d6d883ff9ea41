// How a Capture (captured.h) learns what its thread records and reads: those who record need not know what it is.
#pragma once

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

class CaptureWatch {
 public:
  virtual void made(const NodeRef& node) = 0;
  /// Somebody wants a value's elements.
  virtual void wanted(const NodeRef& node) = 0;

 protected:
  ~CaptureWatch() = default;
};

/// Sets that of this thread, null for none; returns what it was.
CaptureWatch* set_capture_watch(CaptureWatch* watch);

/// For make_node.
void capture_node(const NodeRef& node);
/// For who computes a value because somebody wants it.
void capture_reading(const NodeRef& node);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
