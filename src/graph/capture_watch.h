// How a Capture (captured.h) learns what its thread records and reads: those who record need not know what it is.
#pragma once

#include <lockstep/random.h>

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

class CaptureWatch {
 public:
  virtual void made(const NodeRef& node) = 0;
  /// Somebody wants a value's elements.
  virtual void wanted(const NodeRef& node) = 0;
  /// Numbers are drawn, of which nodes are made next.
  virtual void drew(const Generator& generator) = 0;

 protected:
  ~CaptureWatch() = default;
};

/// Sets that of this thread, null for none; returns what it was.
CaptureWatch* set_capture_watch(CaptureWatch* watch);

/// For make_node.
void capture_node(const NodeRef& node);
/// For who computes a value because somebody wants it.
void capture_reading(const NodeRef& node);
/// For who draws numbers.
void capture_draw(const Generator& generator);
/// Whether what the thread records is noted: values that come without nodes would be lost to who notes them.
bool is_capturing();

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
