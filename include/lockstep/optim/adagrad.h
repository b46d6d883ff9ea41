// Adagrad: gradients divided by the size of all before them.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;      ///< step t has the rate lr / (1 + (t - 1) * lr_decay)
  double weight_decay = 0;  ///< added to the gradient, times the value
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
  bool master_weights = false;  ///< f16 and bf16 parameters are rounded from f32 copies
};

/// State: sum.  PyTorch: torch.optim.Adagrad.
class LOCKSTEP_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(ParameterGroups parameters, AdagradOptions options = {}, CallSite site = {});

 protected:
  std::vector<State> states(const Shape& parameter) const override;
  void update(Change& change) const override;
  std::int64_t phase(std::int64_t step) const override { return options_.lr_decay == 0 ? 0 : step; }

 private:
  AdagradOptions options_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
