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
  if (call.op() == "Dropout") return std::make_unique<Generator>(static_cast<std::uint64_t>(call.integer("seed")));
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

// Rows of logarithms of weights, which need not add up to 1.
std::vector<Tensor> multinomial_of(const Call& call) {
  const auto generator = generator_of(call);
  const Tensor weights = softmax(call.input(0).to(DType::f32), -1);
  return {
      multinomial(weights, call.integer("sample_size", 1), true, generator.get()).to(call.dtype("dtype", DType::i32))};
}

// Nothing is dropped unless training_mode says so; what is kept is divided by its share.
std::vector<Tensor> dropout_of(const Call& call) {
  const Tensor& x = call.input(0);
  const DType of_mask = call.version() >= 10 ? DType::boolean : x.dtype();
  const double ratio = call.version() >= 12 ? number_or(call, 1, 0.5) : 0;
  const bool trains = call.version() >= 12 && call.has(2) && call.host_integer(2) != 0;
  if (!trains || ratio == 0) return {x, ones_like(x, of_mask)};
  call.require(ratio > 0 && ratio < 1, "the ratio is not in [0, 1)");
  const auto generator = generator_of(call);
  const Tensor share = full(x.shape(), 1 - ratio, {.dtype = DType::f32, .device = call.device()});
  const Tensor kept = bernoulli(share, generator.get()).to(DType::boolean);
  return {where(kept, div(x, 1 - ratio), zeros_like(x)), kept};
}

constexpr Operator kRandomOperators[] = {
    {.name = "RandomNormal", .run = random_normal<false>},   {.name = "RandomNormalLike", .run = random_normal<true>},
    {.name = "RandomUniform", .run = random_uniform<false>}, {.name = "RandomUniformLike", .run = random_uniform<true>},
    {.name = "Bernoulli", .since = 15, .run = bernoulli_of}, {.name = "Multinomial", .since = 7, .run = multinomial_of},
    {.name = "Dropout", .since = 7, .run = dropout_of},
};

}  // namespace

std::span<const Operator> random_operators() {
  return kRandomOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
