// Initial values of parameters: what PyTorch's layers choose by themselves, and torch.nn.init.
//
//   layer.weight.set(nn::init::kaiming_normal(layer.weight.shape(), {.nonlinearity = nn::Nonlinearity::relu}));
//
// Each function that draws takes one draw of the generator, so no two tensors share values, and a seed gives the same
// bits on every device.
#pragma once

#include <cstdint>

#include <lockstep/random.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// f32, uniform in [-bound, bound): rand * 2 bound - bound.
LOCKSTEP_API Tensor uniform_init(const Shape& shape, double bound);
/// 1 / sqrt(fan_in), the bound that PyTorch's Linear and Conv use for weight and bias; 0 for a fan-in of 0.
LOCKSTEP_API double fan_in_bound(std::int64_t fan_in);

enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };

namespace init {

/// 1, 1, 5/3, sqrt(2), sqrt(2 / (1 + slope^2)), 3/4.  PyTorch: calculate_gain.
LOCKSTEP_API double gain(Nonlinearity nonlinearity, double negative_slope = 0.01);

/// Elements that one output (in) or one input (out) of a weight [out, in, kernel...] is connected to.
struct Fans {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
/// ShapeError below two dimensions.
LOCKSTEP_API Fans fans(const Shape& shape, CallSite site = {});

/// Where values are made, and from which generator (null: the thread's).
struct Target {
  TensorOptions tensor = {};
  Generator* generator = nullptr;
};

LOCKSTEP_API Tensor uniform(const Shape& shape, double low = 0, double high = 1, Target target = {},
                            CallSite site = {});
LOCKSTEP_API Tensor normal(const Shape& shape, double mean = 0, double deviation = 1, Target target = {},
                           CallSite site = {});
/// Normal values of which only those within [low, high] occur (by the inverse distribution function, as in PyTorch).
/// ValueError unless deviation > 0 and low < high.
LOCKSTEP_API Tensor trunc_normal(const Shape& shape, double mean = 0, double deviation = 1, double low = -2,
                                 double high = 2, Target target = {}, CallSite site = {});
LOCKSTEP_API Tensor constant(const Shape& shape, double value, TensorOptions tensor = {}, CallSite site = {});
LOCKSTEP_API Tensor zeros(const Shape& shape, TensorOptions tensor = {}, CallSite site = {});
LOCKSTEP_API Tensor ones(const Shape& shape, TensorOptions tensor = {}, CallSite site = {});
/// The identity of a matrix [n, m]. ShapeError for other ranks.
LOCKSTEP_API Tensor eye(const Shape& shape, TensorOptions tensor = {}, CallSite site = {});
/// Keeps the channels of a convolution's input: weight [out, in, kernel...] with 1 at the kernel's centre where out and
/// in (in each of the groups) are equal. ShapeError unless there are 3 to 5 dimensions and the groups divide `out`.
LOCKSTEP_API Tensor dirac(const Shape& shape, std::int64_t groups = 1, TensorOptions tensor = {}, CallSite site = {});

enum class FanMode : std::uint8_t { in, out };
struct KaimingOptions {
  double negative_slope = 0;  ///< of leaky_relu.  PyTorch: a
  FanMode mode = FanMode::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/// Uniform within gain * sqrt(3 / fan), normal with deviation gain / sqrt(fan).  PyTorch: kaiming_uniform_ and so on.
LOCKSTEP_API Tensor kaiming_uniform(const Shape& shape, KaimingOptions options = {}, Target target = {},
                                    CallSite site = {});
LOCKSTEP_API Tensor kaiming_normal(const Shape& shape, KaimingOptions options = {}, Target target = {},
                                   CallSite site = {});
/// Uniform within gain * sqrt(6 / (in + out)), normal with deviation gain * sqrt(2 / (in + out)).
/// PyTorch: xavier_uniform_, xavier_normal_.
LOCKSTEP_API Tensor xavier_uniform(const Shape& shape, double gain = 1, Target target = {}, CallSite site = {});
LOCKSTEP_API Tensor xavier_normal(const Shape& shape, double gain = 1, Target target = {}, CallSite site = {});
/// Rows (or columns, where there are fewer) that are orthogonal and have length `gain`, of the matrix [shape[0], rest].
/// The f32 normals drawn on the target's device are orthonormalised on the host in f64, one vector after the other,
/// each twice against those before (Gram-Schmidt), and rounded once. ShapeError below two dimensions.
/// PyTorch: orthogonal_.
LOCKSTEP_API Tensor orthogonal(const Shape& shape, double gain = 1, Target target = {}, CallSite site = {});

}  // namespace init
}  // namespace nn
}  // namespace v0
}  // namespace lockstep
