// Adam with Nesterov's momentum.
#pragma once

#include <array>

#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;              ///< added to the gradient, times the value
  double momentum_decay = 4e-3;         ///< how fast the momentum grows to betas[0]
  bool decoupled_weight_decay = false;  ///< times lr and the value, taken from the value instead
  bool maximize = false;
  bool master_weights = false;  ///< f16 and bf16 parameters are rounded from f32 copies
};

/// State: exp_avg and exp_avg_sq (PyTorch's mu_product follows from the number of steps).  Dozat (2016).
/// PyTorch: torch.optim.NAdam.
class LOCKSTEP_API NAdam : public Optimizer {
 public:
  explicit NAdam(ParameterGroups parameters, NAdamOptions options = {}, CallSite site = {});

 protected:
  std::vector<State> states(const Shape& parameter) const override;
  void update(Change& change) const override;

 private:
  NAdamOptions options_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
