// Stochastic gradient descent.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  ///< added to the gradient, times the value
  bool nesterov = false;    ///< ValueError without momentum or with dampening
  bool maximize = false;
  bool master_weights = false;  ///< f16 and bf16 parameters are rounded from f32 copies
};

/// State: momentum_buffer, if there is momentum.  PyTorch: torch.optim.SGD.
class LOCKSTEP_API SGD : public Optimizer {
 public:
  explicit SGD(ParameterGroups parameters, SGDOptions options = {}, CallSite site = {});

 protected:
  std::vector<State> states(const Shape& parameter) const override;
  void update(Change& change) const override;
  std::int64_t phase(std::int64_t step) const override;

 private:
  SGDOptions options_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
