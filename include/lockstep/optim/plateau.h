// A schedule that lowers the learning rate when a metric stops getting better.
#pragma once

#include <cstdint>

#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct PlateauOptions {
  enum class Mode : std::uint8_t { min, max };
  enum class ThresholdMode : std::uint8_t { rel, abs };
  Mode mode = Mode::min;  ///< whether lower or higher is better
  double factor = 0.1;
  std::int64_t patience = 10;  ///< bad metrics in a row that are put up with
  double threshold = 1e-4;     ///< what counts as better
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;  ///< metrics that are not counted after a reduction
  double min_lr = 0;
  double eps = 1e-8;  ///< smaller changes are not made
};

/// The optimiser must outlive it.  PyTorch: ReduceLROnPlateau.
class LOCKSTEP_API ReduceLROnPlateau {
 public:
  /// ValueError unless 0 <= factor < 1 and nothing else is negative.
  explicit ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options = {}, CallSite site = {});

  /// To be called with e.g. the validation loss of each epoch. NaN is never better.
  void step(double metric);

  /// "best" (f64 []), "bad" and "cooldown" (i64 []). The rates are in the optimiser's state.
  nn::StateDict state_dict() const;
  /// Throws what Optimizer::load_state_dict does.
  void load_state_dict(const nn::StateDict& state, CallSite site = {});

 private:
  bool is_better(double metric) const;

  Optimizer& optimizer_;
  PlateauOptions options_;
  double best_;
  std::int64_t bad_ = 0;
  std::int64_t cooldown_ = 0;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
