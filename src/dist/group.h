// What a group is made of, for tests that make one without an environment, and collectives under way for those who have
// something else to do meanwhile.
#pragma once

#include <functional>

#include <lockstep/dist.h>

#include "dist/engines.h"
#include "dist/launch.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

/// Gives the result of a collective that was started, once; throws what the group's calls throw. On devices whose
/// memory the engine reaches it waits until all ranks have agreed, and kernels that read the result wait for the rest;
/// where that fails, GroupAccess::finish() and every later call tell, and what was computed of it has any bits.
using Result = std::function<std::vector<Tensor>()>;

struct GroupAccess {
  static Group make(const Launch& launch, const GroupOptions& options = {}, EngineKind kind = EngineKind::tcp,
                    bool may_use_nccl = false);
  // Group::all_to_all and all_gather with shapes, beside the calling thread. Every rank starts them in the same order,
  // also among its other calls.
  static Result start_all_to_all(const Group& group, const std::vector<Tensor>& parts,
                                 const std::vector<Shape>& shapes);
  /// `what` is compared, too: ranks that gather different things of one size are told.
  static Result start_all_gather(const Group& group, const Tensor& x, const std::vector<Shape>& shapes,
                                 const std::string& what = {});
  static Result start_broadcast(const Group& group, const Tensor& x, int from);
  /// Waits until all that was started has come.
  static void finish(const Group& group);
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
