// A scaler whose steps somebody else takes: one who has only a part of the gradients.
#pragma once

#include <lockstep/optim/grad_scaler.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct GradScalerAccess {
  /// Whether the optimiser's gradients are finite.
  static bool sees_finite(const GradScaler& scaler, Optimizer& optimizer) { return scaler.look(optimizer, 1); }
  /// What update() does after a step, or after none because a gradient was not finite.
  static void adapt(GradScaler& scaler, bool finite) { scaler.adapt(finite); }
  static bool is_enabled(const GradScaler& scaler) { return scaler.options_.enabled; }
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
