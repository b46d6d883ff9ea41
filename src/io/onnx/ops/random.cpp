// Random numbers, from our generator: the same on every device, but not those of another runtime. A node with a seed
// draws the same numbers in each run.
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include <bit>
#include <memory>

#include "io/onnx/model.h"
#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// The node's own generator, if it states a seed; else null, the thread's.
std::unique_ptr<Generator> generator_of(const Call& call) {
  if (!call.has_attribute("seed")) return nullptr;
  return std::make_unique<Generator>(std::bit_cast<std::uint32_t>(call.number("seed", 0)));
}

Shape shape_wanted(const Call& call, bool like) {
  return like ? call.shape(0) : shape_of(call.required_integers("shape"));
}
TensorOptions options_of(const Call& call, bool like) {
  const DType fallback = like ? call.dtype_of_input(0) : DType::f32;
  return {.dtype = call.dtype("dtype", fallback), .device = call.device()};
}

template <bool kLike> std::vector<Tensor> random_normal(const Call& call) {
  const auto generator = generator_of(call);
  const Shape shape = shape_wanted(call, kLike);
  return {normal(call.number("mean", 0), call.number("scale", 1), shape, options_of(call, kLike), generator.get())};
}
template <bool kLike> std::vector<Tensor> random_uniform(const Call& call) {
  const auto generator = generator_of(call);
  const Shape shape = shape_wanted(call, kLike);
  return {uniform(call.number("low", 0), call.number("high", 1), shape, options_of(call, kLike), generator.get())};
}

std::vector<Tensor> bernoulli_of(const Call& call) {
  const auto generator = generator_of(call);
  const Tensor& p = call.input(0);
  return {bernoulli(p, generator.get()).to(call.dtype("dtype", p.dtype()))};
}

constexpr Operator kRandomOperators[] = {
    {.name = "RandomNormal", .run = random_normal<false>},   {.name = "RandomNormalLike", .run = random_normal<true>},
    {.name = "RandomUniform", .run = random_uniform<false>}, {.name = "RandomUniformLike", .run = random_uniform<true>},
    {.name = "Bernoulli", .since = 15, .run = bernoulli_of},
};

}  // namespace

std::span<const Operator> random_operators() {
  return kRandomOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
