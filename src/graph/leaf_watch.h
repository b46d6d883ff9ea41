// Who is told of each gradient that backward() has added to a leaf, as soon as nothing of this value's graph can add to
// it any more: exchanges of gradients that run beside the rest of the backward pass.
#pragma once

#include <functional>
#include <utility>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

/// `sink` is where the gradient is. Computes what it likes; calls no backward().
using LeafWatch = std::function<void(const Tensor* sink)>;

/// While it lives, backward() of this thread tells `watch`. Without one, leaves come last.
class WatchedLeaves {
 public:
  explicit WatchedLeaves(const LeafWatch& watch);
  ~WatchedLeaves();
  WatchedLeaves(const WatchedLeaves&) = delete;
  WatchedLeaves& operator=(const WatchedLeaves&) = delete;

 private:
  const LeafWatch* before_;
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
