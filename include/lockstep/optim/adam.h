// Adam and its form with decoupled weight decay.
#pragma once

#include <array>

#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  ///< added to the gradient, times the value
  bool amsgrad = false;
  bool maximize = false;
  bool master_weights = false;  ///< f16 and bf16 parameters are rounded from f32 copies
};

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  ///< times lr and the value, taken from the value
  bool amsgrad = false;
  bool maximize = false;
  bool master_weights = false;  ///< f16 and bf16 parameters are rounded from f32 copies
};

/// State: exp_avg, exp_avg_sq, and max_exp_avg_sq with amsgrad.  PyTorch: torch.optim.Adam.
class LOCKSTEP_API Adam : public Optimizer {
 public:
  explicit Adam(ParameterGroups parameters, AdamOptions options = {}, CallSite site = {});

 protected:
  Adam(const char* name, ParameterGroups parameters, const AdamOptions& options, bool decoupled, CallSite site);
  std::vector<State> states(const Shape& parameter) const override;
  void update(Change& change) const override;

 private:
  AdamOptions options_;
  bool decoupled_;
};

/// PyTorch: torch.optim.AdamW.
class LOCKSTEP_API AdamW : public Adam {
 public:
  explicit AdamW(ParameterGroups parameters, AdamWOptions options = {}, CallSite site = {});
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
