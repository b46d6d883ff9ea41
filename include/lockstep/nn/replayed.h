// A layer whose inference comes again: its kernels are recorded once, and then run on other inputs.
#pragma once

#include <memory>

#include <lockstep/export.h>
#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// Calls a layer, and from the fourth call with an input of the same shape and dtype on only its kernels, without its
/// forward(): what takes the host's time in networks of short kernels. Same bits. PyTorch: torch.compile with CUDA
/// graphs.
///
///   ls::nn::Replayed fast(*model);
///   const ls::NoGrad no_grad;
///   for (...) use(fast(x));
///
/// forward() must compute its result from its input, parameters, buffers and what never changes. It is called in every
/// run that is more than its result: in training, where gradients are wanted, in scopes of Autocast and other numerics,
/// while somebody records or looks at modules; after a parameter or buffer has got another value; where it reads
/// elements that depend on the input or draws numbers; and for inputs that are views. The last four shapes are kept,
/// each with the memory of what is computed from weights alone. Calls that come again have computed their result when
/// they return. From any thread.
class LOCKSTEP_API Replayed {
 public:
  /// Of a layer that has all of its modules, and stays as long as this.
  explicit Replayed(const Layer& layer);
  ~Replayed();
  Replayed(const Replayed&) = delete;
  Replayed& operator=(const Replayed&) = delete;

  /// As layer(x), which throws for what it does not take.
  Tensor operator()(const Operand& x) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
