// Activations as layers: the ops of ops/activation.h under the names and defaults of torch.nn.
#pragma once

#include <lockstep/nn/op_layer.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

// PyTorch: nn.ReLU and so on. Constructed by (parent, name), or by nothing.
using ReLU = OpLayer<relu>;
using ReLU6 = OpLayer<relu6>;
using SELU = OpLayer<selu>;
using SiLU = OpLayer<silu>;
using Mish = OpLayer<mish>;
using Softsign = OpLayer<softsign>;
using Hardswish = OpLayer<hardswish>;
using Hardsigmoid = OpLayer<hardsigmoid>;
using Tanh = OpLayer<tanh>;
using Tanhshrink = OpLayer<tanhshrink>;
using Sigmoid = OpLayer<sigmoid>;
using LogSigmoid = OpLayer<logsigmoid>;

/// PyTorch: nn.LeakyReLU.
class LOCKSTEP_API LeakyReLU : public OpLayer<leaky_relu, double> {
 public:
  LeakyReLU(Module& parent, std::string name, double negative_slope = 0.01)
      : OpLayer(parent, std::move(name), negative_slope) {}
  explicit LeakyReLU(double negative_slope = 0.01) : LeakyReLU(no_parent(), {}, negative_slope) {}
};

/// PyTorch: nn.ELU.
class LOCKSTEP_API ELU : public OpLayer<elu, double> {
 public:
  ELU(Module& parent, std::string name, double alpha = 1) : OpLayer(parent, std::move(name), alpha) {}
  explicit ELU(double alpha = 1) : ELU(no_parent(), {}, alpha) {}
};

/// PyTorch: nn.CELU.
class LOCKSTEP_API CELU : public OpLayer<celu, double> {
 public:
  CELU(Module& parent, std::string name, double alpha = 1) : OpLayer(parent, std::move(name), alpha) {}
  explicit CELU(double alpha = 1) : CELU(no_parent(), {}, alpha) {}
};

/// PyTorch: nn.Softplus.
class LOCKSTEP_API Softplus : public OpLayer<softplus, double, double> {
 public:
  Softplus(Module& parent, std::string name, double beta = 1, double threshold = 20)
      : OpLayer(parent, std::move(name), beta, threshold) {}
  explicit Softplus(double beta = 1, double threshold = 20) : Softplus(no_parent(), {}, beta, threshold) {}
};

/// PyTorch: nn.Hardtanh.
class LOCKSTEP_API Hardtanh : public OpLayer<hardtanh, double, double> {
 public:
  Hardtanh(Module& parent, std::string name, double min = -1, double max = 1)
      : OpLayer(parent, std::move(name), min, max) {}
  explicit Hardtanh(double min = -1, double max = 1) : Hardtanh(no_parent(), {}, min, max) {}
};

/// PyTorch: nn.Hardshrink.
class LOCKSTEP_API Hardshrink : public OpLayer<hardshrink, double> {
 public:
  Hardshrink(Module& parent, std::string name, double lambda = 0.5) : OpLayer(parent, std::move(name), lambda) {}
  explicit Hardshrink(double lambda = 0.5) : Hardshrink(no_parent(), {}, lambda) {}
};

/// PyTorch: nn.Softshrink.
class LOCKSTEP_API Softshrink : public OpLayer<softshrink, double> {
 public:
  Softshrink(Module& parent, std::string name, double lambda = 0.5) : OpLayer(parent, std::move(name), lambda) {}
  explicit Softshrink(double lambda = 0.5) : Softshrink(no_parent(), {}, lambda) {}
};

/// PyTorch: nn.GLU.
class LOCKSTEP_API GLU : public OpLayer<glu, int> {
 public:
  GLU(Module& parent, std::string name, int dim = -1) : OpLayer(parent, std::move(name), dim) {}
  explicit GLU(int dim = -1) : GLU(no_parent(), {}, dim) {}
};

/// silu of the first half along `dim` times the second, as in language models' feed-forward layers. ShapeError if the
/// size is odd.
class LOCKSTEP_API SwiGLU : public Layer {
 public:
  SwiGLU(Module& parent, std::string name, int dim = -1) : Layer(parent, std::move(name)), dim_(dim) {}
  explicit SwiGLU(int dim = -1) : SwiGLU(no_parent(), {}, dim) {}
  Tensor forward(const Operand& x) const override;

 private:
  int dim_;
};

struct GELUOptions {
  bool tanh = false;  ///< PyTorch: approximate='tanh'.
};

/// PyTorch: nn.GELU.
class LOCKSTEP_API GELU : public Layer {
 public:
  GELU(Module& parent, std::string name, GELUOptions options = {})
      : Layer(parent, std::move(name)), options_(options) {}
  explicit GELU(GELUOptions options = {}) : GELU(no_parent(), {}, options) {}
  Tensor forward(const Operand& x) const override { return options_.tanh ? gelu_tanh(x) : gelu(x); }

 private:
  GELUOptions options_;
};

/// x where x > 0, else weight * x, with one weight or one per channel.  PyTorch: nn.PReLU.
class LOCKSTEP_API PReLU : public Layer {
 public:
  PReLU(Module& parent, std::string name, std::int64_t parameters = 1, double init = 0.25);
  explicit PReLU(std::int64_t parameters = 1, double init = 0.25) : PReLU(no_parent(), {}, parameters, init) {}
  Tensor forward(const Operand& x) const override { return prelu(x, weight); }

  Parameter weight;  ///< [parameters]
};

/// PyTorch: nn.Softmax.
class LOCKSTEP_API Softmax : public Layer {
 public:
  Softmax(Module& parent, std::string name, int dim) : Layer(parent, std::move(name)), dim_(dim) {}
  explicit Softmax(int dim) : Softmax(no_parent(), {}, dim) {}
  Tensor forward(const Operand& x) const override { return softmax(x, dim_); }

 private:
  int dim_;
};

/// PyTorch: nn.LogSoftmax.
class LOCKSTEP_API LogSoftmax : public Layer {
 public:
  LogSoftmax(Module& parent, std::string name, int dim) : Layer(parent, std::move(name)), dim_(dim) {}
  explicit LogSoftmax(int dim) : LogSoftmax(no_parent(), {}, dim) {}
  Tensor forward(const Operand& x) const override { return log_softmax(x, dim_); }

 private:
  int dim_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
