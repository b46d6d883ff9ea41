// Adam whose step is rectified by the variance of its second moment.
#pragma once

#include <array>

#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;              ///< added to the gradient, times the value
  bool decoupled_weight_decay = false;  ///< times lr and the value, taken from the value instead
  bool maximize = false;
  bool master_weights = false;  ///< f16 and bf16 parameters are rounded from f32 copies
};

/// State: exp_avg and exp_avg_sq. The first steps, while the variance is unknown, are those of momentum alone.
/// Liu et al. (2019).  PyTorch: torch.optim.RAdam.
class LOCKSTEP_API RAdam : public Optimizer {
 public:
  explicit RAdam(ParameterGroups parameters, RAdamOptions options = {}, CallSite site = {});

 protected:
  std::vector<State> states(const Shape& parameter) const override;
  void update(Change& change) const override;

 private:
  RAdamOptions options_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
