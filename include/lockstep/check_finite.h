// Finds the op that made the first NaN or infinity.
#pragma once

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// While it lives, float ops of this thread are computed one by one, and the first whose result holds a NaN, or an
/// infinity, though none of its operands does throws ValueError: it names the op that was called (of a composition the
/// step, too), its operands and the caller's line; in gradients those of the op whose gradient it is. Fusion is off
/// meanwhile; it is for finding, not for training.
/// PyTorch: autograd.detect_anomaly.
class LOCKSTEP_API CheckFinite {
 public:
  CheckFinite();
  ~CheckFinite();
  CheckFinite(const CheckFinite&) = delete;
  CheckFinite& operator=(const CheckFinite&) = delete;

 private:
  bool before_;
};

}  // namespace v0
}  // namespace lockstep
