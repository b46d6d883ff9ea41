// Loss scaling for f16: gradients too small for f16 are computed from a loss times a large factor, which adapts.
//
//   ls::optim::AdamW optimizer(net.parameters(), {.master_weights = true});  // after net.to(ls::DType::f16)
//   ls::optim::GradScaler scaler;
//   scaler.step(optimizer, ls::cross_entropy(net.forward(x), y));
//
// bf16 has the range of f32 and needs no scaling.
#pragma once

#include <cstdint>
#include <map>

#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< steps without infinities until the scale grows
  bool enabled = true;                  ///< otherwise everything is as without a scaler
};

/// PyTorch: torch.amp.GradScaler.
class LOCKSTEP_API GradScaler {
 public:
  /// ValueError unless init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1, growth_interval > 0.
  explicit GradScaler(GradScalerOptions options = {}, CallSite site = {});

  /// The loss times the scale, to call backward() on.
  Tensor scale(const Tensor& loss, CallSite site = {}) const;
  /// Divides the gradients by the scale, for clipping. f16 gradients would lose what scaling saved: DTypeError, clip
  /// them with max_norm * scale() instead. ValueError if called twice before update().
  void unscale(Optimizer& optimizer, CallSite site = {});
  /// Steps with unscaled gradients, unless one is infinite or NaN. Reads whether one is. Returns whether it stepped.
  bool step(Optimizer& optimizer, CallSite site = {});
  /// Adapts the scale to what the steps since the last update met. ValueError if there was none.
  void update(CallSite site = {});
  /// A whole step: clears the gradients, computes those of the scaled loss, step, update, and clears them again.
  bool step(Optimizer& optimizer, const Tensor& loss, CallSite site = {});

  double scale() const { return options_.enabled ? scale_ : 1; }

  /// "scale" (f64 []) and "growth_tracker" (i64 []).
  nn::StateDict state_dict() const;
  /// Throws what Optimizer::load_state_dict does.
  void load_state_dict(const nn::StateDict& state, CallSite site = {});

 private:
  friend struct GradScalerAccess;
  struct Seen {
    bool unscaled = false;
    bool stepped = false;
    bool finite = true;
  };
  /// Looks at the gradients, and multiplies them.
  bool look(Optimizer& optimizer, double factor) const;
  void adapt(bool finite);

  GradScalerOptions options_;
  double scale_;
  std::int64_t growth_tracker_ = 0;
  std::map<const Optimizer*, Seen> seen_;  ///< since the last update
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
