// Random numbers of float types, and the generators they come from. docs/numerics.md section 8.
#include <lockstep/random.h>

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "backends/backend.h"
#include "core/elements.h"
#include "graph/capture_watch.h"
#include "graph/ops/operand.h"
#include "graph/ops/random.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Generator::Generator() {
  std::random_device device;
  seed_ = static_cast<std::uint64_t>(device()) << 32 | device();
}

Generator& default_generator() {
  static thread_local Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) {
  default_generator() = Generator(seed);
}

namespace graph {
namespace {

Random next_of(Generator& generator) {
  capture_draw(generator);
  return {.seed = generator.seed(), .draw = generator.next_draw()};
}

Tensor words_of(const Shape& shape, Random random, Device device) {
  return Access::tensor(make_node(random, {}, shape, DType::u32, device));
}

}  // namespace

Tensor random_words(const Shape& shape, Device device, Generator& generator) {
  return words_of(shape, next_of(generator), device);
}

Tensor random_words64(const Shape& shape, Device device, Generator& generator) {
  const Tensor high = cast(random_words(shape, device, generator), DType::i64);
  const Tensor low = cast(random_words(shape, device, generator), DType::i64);
  return high * 0x1p32 + low;
}

Tensor random_keep(double p, const Shape& shape, Device device, Generator& generator) {
  const Tensor words = random_words(shape, device, generator);
  const double bound = std::floor(p * 0x1p32);
  if (bound >= 0x1p32) return zeros(shape, {.dtype = DType::boolean, .device = device});
  return ge(words, bound);
}

}  // namespace graph

namespace {

void check_random(const Shape& shape, TensorOptions options) {
  check_shape(shape, options.dtype);
  backend_of(options.device);
  if (is_float(options.dtype)) return;
  fail<DTypeError>(fmt::format("draws floats, not {}", name_of(options.dtype)), {}, "use a float dtype");
}

// The upper `bits` of a 32-bit word as a number in [0, 1).
Tensor fraction(const Tensor& words, int bits, DType dtype) {
  const Tensor top = bitwise_and(words, std::ldexp(std::ldexp(1, bits) - 1, 32 - bits));
  return cast(top, dtype) * 0x1p-32;
}

// 53 bits from the words of two draws: 27 above, 26 below.
Tensor fraction64(const Tensor& high, const Tensor& low) {
  return fraction(high, 27, DType::f64) + fraction(low, 26, DType::f64) * 0x1p-27;
}

// Uniform numbers with `bits` bits (f32; f64 where the working type is that).
Tensor uniform_numbers(const Shape& shape, DType working, int bits, Device device, Generator& generator) {
  const Tensor words = random_words(shape, device, generator);
  if (working != DType::f64) return fraction(words, bits, working);
  return fraction64(words, random_words(shape, device, generator));
}

// The numbers of the even and of the odd element of each element's pair.
struct Pairs {
  Tensor even, odd;
};
Pairs uniform_pairs(const Shape& shape, DType working, Device device, Generator& generator) {
  Random random = next_of(generator);
  const auto words = [&](Random::Word word) {
    random.word = word;
    return words_of(shape, random, device);
  };
  const Tensor even = words(Random::Word::even);
  const Tensor odd = words(Random::Word::odd);
  if (working != DType::f64) return {fraction(even, 24, working), fraction(odd, 24, working)};
  random = next_of(generator);
  return {fraction64(even, words(Random::Word::even)), fraction64(odd, words(Random::Word::odd))};
}

Tensor normal_numbers(const Shape& shape, DType working, Device device, Generator& generator) {
  const Pairs pairs = uniform_pairs(shape, working, device, generator);
  // Box-Muller on the pair: u1 in (0, 1], cosine for even elements, sine for odd ones.
  const Tensor u1 = pairs.even + (working == DType::f64 ? 0x1p-53 : 0x1p-24);
  const Tensor angle = pairs.odd * 6.283185307179586;
  const Tensor radius = sqrt(log(u1) * -2.0);
  const Tensor position = Access::tensor(make_node(Iota{}, {}, shape, DType::i64, device));
  const Tensor is_odd = eq(bitwise_and(position, 1), 1);
  const Tensor wave = where(is_odd, sin(angle), cos(angle));
  return radius * wave;
}

}  // namespace

Tensor rand(const Shape& shape, TensorOptions options, Generator* generator, CallSite site) {
  const CallScope call("rand", site);
  check_random(shape, options);
  const int bits = std::min(limits_of(options.dtype).digits, 24);  // of one word; f64 takes two draws
  return cast(uniform_numbers(shape, wide(options.dtype), bits, options.device, given_or_default(generator)),
              options.dtype);
}

Tensor randn(const Shape& shape, TensorOptions options, Generator* generator, CallSite site) {
  const CallScope call("randn", site);
  check_random(shape, options);
  return cast(normal_numbers(shape, wide(options.dtype), options.device, given_or_default(generator)), options.dtype);
}

Tensor uniform(double low, double high, const Shape& shape, TensorOptions options, Generator* generator,
               CallSite site) {
  const CallScope call("uniform", site);
  check_random(shape, options);
  if (!(low <= high) || !std::isfinite(high - low)) {
    fail<ValueError>(fmt::format("no numbers from {} to {}", low, high), {}, "use finite, ordered ends");
  }
  const Tensor u = uniform_numbers(shape, wide(options.dtype), 24, options.device, given_or_default(generator));
  return cast(u * (high - low) + low, options.dtype);
}

Tensor normal(double mean, double deviation, const Shape& shape, TensorOptions options, Generator* generator,
              CallSite site) {
  const CallScope call("normal", site);
  check_random(shape, options);
  if (!(deviation >= 0)) {
    fail<ValueError>(fmt::format("the deviation is {}", deviation), {}, "use one that is not negative");
  }
  const Tensor n = normal_numbers(shape, wide(options.dtype), options.device, given_or_default(generator));
  return cast(n * deviation + mean, options.dtype);
}

Tensor normal(const Operand& mean, const Operand& deviation, Generator* generator) {
  const CallScope call("normal", mean);
  const std::vector<Shown> shown{{"mean", mean}, {"deviation", deviation}};
  const Promoted types = promote(shown, true);
  const Shape shape = broadcast_shape(shown);
  const Device device = mean.is_scalar() ? deviation.tensor().device() : mean.tensor().device();
  const Tensor n = normal_numbers(shape, types.working, device, given_or_default(generator));
  const Tensor scaled = mul(n, Working(deviation, types.working));
  return cast(add(scaled, Working(mean, types.working)), types.dtype);
}

Tensor exponential(const Shape& shape, double rate, TensorOptions options, Generator* generator, CallSite site) {
  const CallScope call("exponential", site);
  check_random(shape, options);
  if (!(rate > 0)) {
    fail<ValueError>(fmt::format("the rate is {}", rate), {}, "use a rate above 0");
  }
  const DType working = wide(options.dtype);
  const Tensor u = uniform_numbers(shape, working, 24, options.device, given_or_default(generator));
  // 1 - u is exact and never 0; 0 - log keeps zeros positive.
  const Tensor positive = sub(0, log(sub(1, u)));
  return cast(positive / rate, options.dtype);
}

Tensor rand_like(const Tensor& like, std::optional<DType> dtype, Generator* generator, CallSite site) {
  const CallScope call("rand_like", site);
  check_defined({{"like", like}});
  return rand(like.shape(), {.dtype = dtype.value_or(like.dtype()), .device = like.device()}, generator);
}

Tensor randn_like(const Tensor& like, std::optional<DType> dtype, Generator* generator, CallSite site) {
  const CallScope call("randn_like", site);
  check_defined({{"like", like}});
  return randn(like.shape(), {.dtype = dtype.value_or(like.dtype()), .device = like.device()}, generator);
}

}  // namespace v0
}  // namespace lockstep
