// RMSprop: gradients divided by a running average of their size.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;  ///< added to the gradient, times the value
  double momentum = 0;
  bool centered = false;  ///< divides by the standard deviation
  bool maximize = false;
  bool master_weights = false;  ///< f16 and bf16 parameters are rounded from f32 copies
};

/// State: square_avg, and momentum_buffer and grad_avg where there is momentum or it is centered.
/// PyTorch: torch.optim.RMSprop.
class LOCKSTEP_API RMSprop : public Optimizer {
 public:
  explicit RMSprop(ParameterGroups parameters, RMSpropOptions options = {}, CallSite site = {});

 protected:
  std::vector<State> states(const Shape& parameter) const override;
  void update(Change& change) const override;
  std::int64_t phase(std::int64_t) const override { return 0; }

 private:
  RMSpropOptions options_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
