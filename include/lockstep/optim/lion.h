// Lion: the sign of an interpolated momentum. "Symbolic Discovery of Optimization Algorithms", Chen et al. 2023,
// algorithm 2.
#pragma once

#include <array>

#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;  ///< times lr and the value, taken from the value
  bool maximize = false;
  bool master_weights = false;  ///< f16 and bf16 parameters are rounded from f32 copies
};

/// State: exp_avg. Wants a rate 3 to 10 times smaller, and a weight decay as much larger, than AdamW.
class LOCKSTEP_API Lion : public Optimizer {
 public:
  explicit Lion(ParameterGroups parameters, LionOptions options = {}, CallSite site = {});

 protected:
  std::vector<State> states(const Shape& parameter) const override;
  void update(Change& change) const override;
  std::int64_t phase(std::int64_t) const override { return 0; }

 private:
  LionOptions options_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
