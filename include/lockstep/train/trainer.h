// The loop around a training step: epochs, a schedule, evaluation, logs, checkpoints and going on from them.
//
//   ls::optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
//   ls::train::fit(net, optimizer, train_loader, {.epochs = 3, .test = &test_loader, .checkpoints = "run"});
//
// It holds nothing that a loop of one's own could not do: a step is optimizer.step(loss(model(input), target)).
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/data/loader.h>
#include <lockstep/nn/module.h>
#include <lockstep/numerics.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/train/log.h>

namespace lockstep {
inline namespace v0 {
namespace dist {
class Parallel;
}
namespace train {

namespace detail {
template <typename T, typename X>
concept ForwardOf = requires(T& module, const X& x) {
  { module.forward(x) } -> std::convertible_to<Tensor>;
};
}  // namespace detail

/// A module with a forward of one tensor to one: every nn::Layer, and every module of one's own that has one, const or
/// not.
template <typename T>
concept Forwarding = (detail::ForwardOf<T, Operand> || detail::ForwardOf<T, Tensor>) && std::derived_from<T, nn::Module>;

/// What is trained: a module and how it is computed. Made by passing the module itself, which must outlive it.
class Model {
 public:
  template <Forwarding T>
  Model(T& module)
      : module_(&module), forward_([&module](const Operand& x) -> Tensor {
          if constexpr (detail::ForwardOf<T, Operand>) {
            return module.forward(x);
          } else {
            return module.forward(x.tensor());
          }
        }) {}
  /// A module that is computed by a function of the input, e.g. because its forward takes more.
  Model(nn::Module& module, std::function<Tensor(const Tensor& input)> forward)
      : module_(&module), forward_([forward = std::move(forward)](const Operand& x) { return forward(x.tensor()); }) {}

  nn::Module& module() const { return *module_; }
  Tensor forward(const Operand& x) const { return forward_(x); }

 private:
  nn::Module* module_;
  std::function<Tensor(const Operand& x)> forward_;
};

/// A scalar from the model's output and the target of a batch.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

/// The part of the examples whose largest score, output [N, C, ...] along dimension 1, is that of the target's class
/// [N, ...]: a scalar in f32.
LOCKSTEP_API Tensor accuracy(const Operand& output, const Operand& target);

/// How good a model is on the examples of a loader.
struct Evaluation {
  double loss = Record::kNone;      ///< mean over the examples
  double accuracy = Record::kNone;  ///< of the targets that are not -100; NaN where targets are no classes
  std::int64_t examples = 0;
};

/// One pass over a loader in evaluation mode, without gradients; the model's mode is restored. The default loss is
/// cross_entropy.
LOCKSTEP_API Evaluation evaluate(const Model& model, data::DataLoader& loader, const Loss& loss = {},
                                 CallSite site = {});

struct FitOptions {
  std::int64_t epochs = 1;              ///< of the loader, counted from its epoch 0
  std::int64_t max_steps = 0;           ///< Stop after so many, whatever the epochs; 0: no limit.
  Loss loss = {};                       ///< absent: cross_entropy
  std::optional<double> clip_norm = {};  ///< Bounds the norm of all gradients together (optim::clip_grad_norm).
  optim::Schedule* schedule = nullptr;  ///< of the optimiser; takes a step after each of its
  data::DataLoader* test = nullptr;     ///< evaluated after each epoch, and at the end

  /// What model and loss compute in, in training and in tests: f32, as they are, or as the caller's scope says; bf16,
  /// in the scope Autocast. Parameters stay as they are.
  DType autocast = DType::f32;
  /// The scope that they are computed in, unless it is the caller's. Numerics::blocked concerns products of 16-bit
  /// operands: with `autocast`, or of a model in 16 bits. A checkpoint remembers both, and others are refused.
  Numerics numerics = Numerics::exact;

  std::string checkpoints = {};       ///< folder; empty: none are written
  std::int64_t checkpoint_every = 0;  ///< steps; 0: after each epoch. Always at the end.
  int keep_checkpoints = 3;
  /// Goes on from the newest checkpoint in the folder, with the same bits as if it had never stopped. Without one in it
  /// training starts anew.
  bool resume = false;
  /// Train as one rank of a group (lockstep/parallel.h), made for the same module and optimiser. Every rank calls fit()
  /// with the same options; checkpoints are written by rank 0, in a folder that all see, and read by all. Logs and the
  /// progress bar belong to the rank that is given them. A checkpoint continues with any number of ranks and the shards it
  /// was begun with.
  dist::Parallel* parallel = nullptr;
  std::string run = {};  ///< What is trained on what, in the user's words. A checkpoint with other words is refused.

  std::vector<Log*> logs = {};
  bool progress = true;  ///< The bar on standard error.
  /// Called after every record; training stops after this step if it returns false.
  std::function<bool(const Record& record)> on_record = {};
  /// Asked after every step, e.g. whether somebody pressed Ctrl-C: training stops there if it answers true, with a
  /// checkpoint and, unless the epoch is at its end, without a test. What goes on from it gets the bits and logs of a run
  /// that never stopped.
  std::function<bool()> stop = {};
};

/// What fit() did.
struct FitResult {
  std::int64_t steps = 0;       ///< done in all, those before a checkpoint included
  std::int64_t resumed_at = 0;  ///< steps of the checkpoint that it went on from
  bool stopped = false;         ///< by FitOptions::stop, before all steps were done
  std::vector<Record> records;  ///< of this call
  Evaluation test;              ///< the last
  double seconds = 0;
};

/// Trains the model by the optimiser on the batches of the loader, whose device is the model's. The part of a run that
/// is restored: model, optimiser, schedule, loader, and the calling thread's generator (dropout draws from it).
///
/// ValueError if the loss of a step is NaN or infinite (it names the step; nothing is saved after it), if an option is
/// out of range, or if a checkpoint is of another run; and what the model, the loader and save_checkpoint throw.
LOCKSTEP_API FitResult fit(const Model& model, optim::Optimizer& optimizer, data::DataLoader& loader,
                           const FitOptions& options = {}, CallSite site = {});

}  // namespace train
}  // namespace v0
}  // namespace lockstep
