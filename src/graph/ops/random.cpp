// Random numbers of float types, and the generators they come from. docs/numerics.md section 8.
#include <lockstep/random.h>

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "backends/backend.h"
#include "core/elements.h"
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

Tensor words_of(const Shape& shape, Random random, Device device, CallSite site) {
  return Access::tensor(make_node(random, {}, shape, DType::u32, device, site));
}

}  // namespace

Tensor random_words(const Shape& shape, Device device, Generator& generator, CallSite site) {
  return words_of(shape, {.seed = generator.seed(), .draw = generator.next_draw()}, device, site);
}

Tensor random_words64(const Shape& shape, Device device, Generator& generator, CallSite site) {
  const Tensor high = cast(random_words(shape, device, generator, site), DType::i64, site);
  const Tensor low = cast(random_words(shape, device, generator, site), DType::i64, site);
  return high * Operand(0x1p32, site) + low;
}

Tensor random_keep(double p, const Shape& shape, Device device, Generator& generator, CallSite site) {
  const Tensor words = random_words(shape, device, generator, site);
  const double bound = std::floor(p * 0x1p32);
  if (bound >= 0x1p32) return zeros(shape, {.dtype = DType::boolean, .device = device}, site);
  return ge(Operand(words, site), Operand(bound, site));
}

}  // namespace graph

namespace {

void check_random(const char* op, const Shape& shape, TensorOptions options, CallSite site) {
  check_shape(op, shape, options.dtype, site);
  backend_of(options.device);
  if (is_float(options.dtype)) return;
  fail<DTypeError>(op, fmt::format("draws floats, not {}", name_of(options.dtype)), {}, "use a float dtype", site);
}

// The upper `bits` of a 32-bit word as a number in [0, 1).
Tensor fraction(const Tensor& words, int bits, DType dtype, CallSite site) {
  const Tensor top = bitwise_and(words, Operand(std::ldexp(std::ldexp(1, bits) - 1, 32 - bits), site));
  return cast(top, dtype, site) * Operand(0x1p-32, site);
}

// 53 bits from the words of two draws: 27 above, 26 below.
Tensor fraction64(const Tensor& high, const Tensor& low, CallSite site) {
  return fraction(high, 27, DType::f64, site) + fraction(low, 26, DType::f64, site) * Operand(0x1p-27, site);
}

// Uniform numbers with `bits` bits (f32; f64 where the working type is that).
Tensor uniform_numbers(const Shape& shape, DType working, int bits, Device device, Generator& generator,
                       CallSite site) {
  const Tensor words = random_words(shape, device, generator, site);
  if (working != DType::f64) return fraction(words, bits, working, site);
  return fraction64(words, random_words(shape, device, generator, site), site);
}

// The numbers of the even and of the odd element of each element's pair.
struct Pairs {
  Tensor even, odd;
};
Pairs uniform_pairs(const Shape& shape, DType working, Device device, Generator& generator, CallSite site) {
  Random random{.seed = generator.seed(), .draw = generator.next_draw()};
  const auto words = [&](Random::Word word) {
    random.word = word;
    return words_of(shape, random, device, site);
  };
  const Tensor even = words(Random::Word::even);
  const Tensor odd = words(Random::Word::odd);
  if (working != DType::f64) return {fraction(even, 24, working, site), fraction(odd, 24, working, site)};
  random.draw = generator.next_draw();
  return {fraction64(even, words(Random::Word::even), site), fraction64(odd, words(Random::Word::odd), site)};
}

Tensor normal_numbers(const Shape& shape, DType working, Device device, Generator& generator, CallSite site) {
  const Pairs pairs = uniform_pairs(shape, working, device, generator, site);
  // Box-Muller on the pair: u1 in (0, 1], cosine for even elements, sine for odd ones.
  const Tensor u1 = pairs.even + Operand(working == DType::f64 ? 0x1p-53 : 0x1p-24, site);
  const Tensor angle = pairs.odd * Operand(6.283185307179586, site);
  const Tensor radius = sqrt(Operand(log(Operand(u1, site)) * Operand(-2.0, site), site));
  const Tensor position = Access::tensor(make_node(Iota{}, {}, shape, DType::i64, device, site));
  const Tensor is_odd = eq(Operand(bitwise_and(position, Operand(1, site)), site), Operand(1, site));
  const Tensor wave =
      where(Operand(is_odd, site), Operand(sin(Operand(angle, site)), site), Operand(cos(Operand(angle, site)), site));
  return radius * wave;
}

}  // namespace

Tensor rand(const Shape& shape, TensorOptions options, Generator* generator, CallSite site) {
  check_random("rand", shape, options, site);
  const int bits = std::min(limits_of(options.dtype).digits, 24);  // of one word; f64 takes two draws
  return cast(uniform_numbers(shape, wide(options.dtype), bits, options.device, given_or_default(generator), site),
              options.dtype, site);
}

Tensor randn(const Shape& shape, TensorOptions options, Generator* generator, CallSite site) {
  check_random("randn", shape, options, site);
  return cast(normal_numbers(shape, wide(options.dtype), options.device, given_or_default(generator), site),
              options.dtype, site);
}

Tensor uniform(double low, double high, const Shape& shape, TensorOptions options, Generator* generator,
               CallSite site) {
  check_random("uniform", shape, options, site);
  if (!(low <= high) || !std::isfinite(high - low)) {
    fail<ValueError>("uniform", fmt::format("no numbers from {} to {}", low, high), {}, "use finite, ordered ends",
                     site);
  }
  const Tensor u = uniform_numbers(shape, wide(options.dtype), 24, options.device, given_or_default(generator), site);
  return cast(u * Operand(high - low, site) + Operand(low, site), options.dtype, site);
}

Tensor normal(double mean, double deviation, const Shape& shape, TensorOptions options, Generator* generator,
              CallSite site) {
  check_random("normal", shape, options, site);
  if (!(deviation >= 0)) {
    fail<ValueError>("normal", fmt::format("the deviation is {}", deviation), {}, "use one that is not negative", site);
  }
  const Tensor n = normal_numbers(shape, wide(options.dtype), options.device, given_or_default(generator), site);
  return cast(n * Operand(deviation, site) + Operand(mean, site), options.dtype, site);
}

Tensor normal(const Operand& mean, const Operand& deviation, Generator* generator) {
  const CallSite site = mean.site();
  const std::vector<Shown> shown{{"mean", mean}, {"deviation", deviation}};
  const Together types = together("normal", shown, site, true);
  const Shape shape = broadcast_shape("normal", shown, site);
  const Device device = mean.is_scalar() ? deviation.tensor().device() : mean.tensor().device();
  const Tensor n = normal_numbers(shape, types.working, device, given_or_default(generator), site);
  const Tensor scaled = mul(n, Working(deviation, types.working, site));
  return cast(add(scaled, Working(mean, types.working, site)), types.dtype, site);
}

Tensor exponential(const Shape& shape, double rate, TensorOptions options, Generator* generator, CallSite site) {
  check_random("exponential", shape, options, site);
  if (!(rate > 0)) {
    fail<ValueError>("exponential", fmt::format("the rate is {}", rate), {}, "use a rate above 0", site);
  }
  const DType working = wide(options.dtype);
  const Tensor u = uniform_numbers(shape, working, 24, options.device, given_or_default(generator), site);
  // 1 - u is exact and never 0; 0 - log keeps zeros positive.
  const Tensor positive = sub(Operand(0, site), Operand(log(Operand(sub(Operand(1, site), u), site)), site));
  return cast(positive / Operand(rate, site), options.dtype, site);
}

Tensor rand_like(const Tensor& like, std::optional<DType> dtype, Generator* generator, CallSite site) {
  check_defined("rand_like", {{"like", like}}, site);
  return rand(like.shape(), {.dtype = dtype.value_or(like.dtype()), .device = like.device()}, generator, site);
}

Tensor randn_like(const Tensor& like, std::optional<DType> dtype, Generator* generator, CallSite site) {
  check_defined("randn_like", {{"like", like}}, site);
  return randn(like.shape(), {.dtype = dtype.value_or(like.dtype()), .device = like.device()}, generator, site);
}

}  // namespace v0
}  // namespace lockstep
