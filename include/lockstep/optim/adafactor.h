// Adafactor: second moments of matrices kept as a row and a column. "Adafactor: Adaptive Learning Rates with Sublinear
// Memory Cost", Shazeer and Stern 2018.
#pragma once

#include <optional>

#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;
  std::optional<double> eps1 = std::nullopt;  ///< absent: the distance from 1 to the next f32 (f64 for f64 parameters)
  double eps2 = 1e-3;
  double d = 1;             ///< updates with a root mean square above it are scaled down
  double weight_decay = 0;  ///< times lr and the value, taken from the value
  bool maximize = false;
  bool master_weights = false;  ///< f16 and bf16 parameters are rounded from f32 copies
};

/// State: row_var and col_var of the last two dimensions, or variance of parameters with fewer. Every parameter has
/// norms of its own, so every parameter has kernels of its own.  PyTorch: torch.optim.Adafactor.
class LOCKSTEP_API Adafactor : public Optimizer {
 public:
  explicit Adafactor(ParameterGroups parameters, AdafactorOptions options = {}, CallSite site = {});

 protected:
  std::vector<State> states(const Shape& parameter) const override;
  void update(Change& change) const override;
  bool is_elementwise() const override { return false; }

 private:
  AdafactorOptions options_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
