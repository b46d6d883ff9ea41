// The exponential moving average of a module's parameters, which often tests better than the parameters.
//
//   ls::optim::EMA average(net, {.decay = 0.999});
//   for (...) { optimizer.step(loss); average.update(); }
//   { const auto scope = average.applied(); evaluate(net); }   // with the averages
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct EMAOptions {
  double decay = 0.999;
  /// Averages float buffers too; otherwise averages go with the module's latest buffers.
  bool use_buffers = false;
};

/// The module must outlive it. Averages of f16 and bf16 values are f32.
/// PyTorch: optim.swa_utils.AveragedModel with get_ema_multi_avg_fn.
class LOCKSTEP_API EMA {
 public:
  /// Starts from the values of the first update. ValueError unless 0 <= decay <= 1.
  explicit EMA(nn::Module& module, EMAOptions options = {}, CallSite site = {});

  /// average = average + (1 - decay) * (value - average). Computes everything pending on the devices.
  void update(CallSite site = {});
  std::int64_t updates() const { return updates_; }

  /// Puts the averages into the module until it goes out of scope, which puts the values back.
  class LOCKSTEP_API Applied {
   public:
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    friend class EMA;
    explicit Applied(const EMA& average, CallSite site);
    std::vector<std::pair<Cell, Tensor>> values_;
  };
  /// ValueError before the first update.
  Applied applied(CallSite site = {}) const;

  /// "updates" (i64 []), and "average.<name>" of every average.
  nn::StateDict state_dict() const;
  /// Throws what Optimizer::load_state_dict does.
  void load_state_dict(const nn::StateDict& state, CallSite site = {});

 private:
  struct Average {
    std::string name;
    Cell cell;
    Tensor value;  ///< undefined before the first update
  };

  EMAOptions options_;
  std::vector<Average> averages_;
  std::int64_t updates_ = 0;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
