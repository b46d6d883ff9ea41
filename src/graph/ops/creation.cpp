// Tensors from nothing: constants, ranges, random numbers.
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "backends/backend.h"
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace graph {

std::uint64_t element_bits(double value, DType dtype) {
  switch (dtype) {
    case DType::f16: return to_f16(static_cast<float>(value)).bits;
    case DType::bf16: return to_bf16(static_cast<float>(value)).bits;
    case DType::f32: return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::f64: return std::bit_cast<std::uint64_t>(value);
    default: {
      const auto bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
      const std::size_t size = size_of(dtype);
      return size == 8 ? bits : bits & ((std::uint64_t{1} << (8 * size)) - 1);
    }
  }
}

}  // namespace graph

Tensor full(const Shape& shape, double value, TensorOptions options, CallSite site) {
  check_shape("full", shape, options.dtype, site);
  backend_of(options.device);
  if (is_storage_only(options.dtype) && value == 0) {
    const std::vector<std::byte> bytes(static_cast<std::size_t>(shape.numel()) * size_of(options.dtype));
    return Tensor::from_bytes(bytes.data(), bytes.size(), shape, options.dtype, options.device, site);
  }
  // The element as it is stored, so that a half reads back what arithmetic sees.
  double rounded = value;
  if (options.dtype == DType::f16) rounded = static_cast<double>(to_f32(to_f16(static_cast<float>(value))));
  if (options.dtype == DType::bf16) rounded = static_cast<double>(to_f32(to_bf16(static_cast<float>(value))));
  const Scalar scalar = encode_scalar("full", rounded, options.dtype, site);
  return Access::tensor(make_node(Full{scalar}, {}, shape, options.dtype, options.device, site));
}

Tensor zeros(const Shape& shape, TensorOptions options, CallSite site) { return full(shape, 0, options, site); }
Tensor ones(const Shape& shape, TensorOptions options, CallSite site) { return full(shape, 1, options, site); }

Tensor full_like(const Tensor& like, double value, CallSite site) {
  check_defined("full_like", {{"like", like}}, site);
  return full(like.shape(), value, {.dtype = like.dtype(), .device = like.device()}, site);
}
Tensor zeros_like(const Tensor& like, CallSite site) { return full_like(like, 0, site); }
Tensor ones_like(const Tensor& like, CallSite site) { return full_like(like, 1, site); }

Tensor arange(double start, double stop, double step, TensorOptions options, CallSite site) {
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step)) {
    fail<ValueError>("arange", fmt::format("no range from {} to {} in steps of {}", start, stop, step), {},
                     "use finite ends and a step other than 0", site);
  }
  const double count = std::ceil((stop - start) / step);
  if (count > 0x1p62) fail<ValueError>("arange", fmt::format("{} elements", count), {}, "", site);
  const Shape shape{count > 0 ? static_cast<std::int64_t>(count) : 0};
  check_shape("arange", shape, options.dtype, site);
  backend_of(options.device);
  if (!is_float(options.dtype)) {
    const Tensor position = Access::tensor(make_node(Iota{}, {}, shape, DType::i64, options.device, site));
    return cast(add(Operand(mul(position, Operand(step, site)), site), Operand(start, site)), options.dtype, site);
  }
  // Made on the host in f64 and rounded once, so that devices without f64 get the same values.
  std::vector<double> values(static_cast<std::size_t>(shape[0]));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * step;
  return Tensor::from(values, shape, Device{}, site).to(options.dtype, site).to(options.device, site);
}

// --- random -------------------------------------------------------------------------------------------------------

Generator::Generator() {
  std::random_device device;
  seed_ = static_cast<std::uint64_t>(device()) << 32 | device();
}

Generator& default_generator() {
  static thread_local Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator() = Generator(seed); }

namespace {

Tensor random_words(const Shape& shape, Random random, Device device, CallSite site) {
  return Access::tensor(make_node(random, {}, shape, DType::u32, device, site));
}

void check_random(const char* op, const Shape& shape, TensorOptions options, CallSite site) {
  check_shape(op, shape, options.dtype, site);
  backend_of(options.device);
  if (is_float(options.dtype)) return;
  fail<DTypeError>(op, fmt::format("draws floats, not {}", name_of(options.dtype)), {}, "use a float dtype", site);
}

// The upper `bits` of a 32-bit word as a number in [0, 1).
Tensor fraction(const Tensor& words, int bits, CallSite site) {
  const Tensor top = cast(bitwise_and(words, Operand(std::ldexp(std::ldexp(1, bits) - 1, 32 - bits), site)), DType::f32, site);
  return top * Operand(0x1p-32, site);
}

}  // namespace

Tensor rand(const Shape& shape, TensorOptions options, Generator* generator, CallSite site) {
  check_random("rand", shape, options, site);
  Generator& source = generator != nullptr ? *generator : default_generator();
  if (options.dtype == DType::f64) {
    // 53 bits from two words of their own draw each: 27 above, 26 below.
    const Random high{.seed = source.seed(), .draw = source.next_draw()};
    const Random low{.seed = source.seed(), .draw = source.next_draw()};
    const auto part = [&](Random random, double mask, double scale) {
      const Tensor words = random_words(shape, random, options.device, site);
      return cast(bitwise_and(words, Operand(mask, site)), DType::f64, site) * Operand(scale, site);
    };
    return part(high, 0xffffffe0u, 0x1p-32) + part(low, 0xffffffc0u, 0x1p-59);
  }
  const Random random{.seed = source.seed(), .draw = source.next_draw()};
  const int bits = options.dtype == DType::f32 ? 24 : options.dtype == DType::f16 ? 11 : 8;
  return cast(fraction(random_words(shape, random, options.device, site), bits, site), options.dtype, site);
}

Tensor randn(const Shape& shape, TensorOptions options, Generator* generator, CallSite site) {
  check_random("randn", shape, options, site);
  Generator& source = generator != nullptr ? *generator : default_generator();
  Random random{.seed = source.seed(), .draw = source.next_draw()};
  random.word = Random::Word::even;
  const Tensor even = random_words(shape, random, options.device, site);
  random.word = Random::Word::odd;
  const Tensor odd = random_words(shape, random, options.device, site);
  // Box-Muller on the pair: u1 in (0, 1], cosine for even elements, sine for odd ones.
  const Tensor u1 = fraction(even, 24, site) + Operand(0x1p-24, site);
  const Tensor angle = fraction(odd, 24, site) * Operand(6.283185307179586, site);
  const Tensor radius = sqrt(Operand(log(Operand(u1, site)) * Operand(-2.0, site), site));
  const Tensor position = Access::tensor(make_node(Iota{}, {}, shape, DType::i64, options.device, site));
  const Tensor is_odd = eq(Operand(bitwise_and(position, Operand(1, site)), site), Operand(1, site));
  const Tensor wave = where(Operand(is_odd, site), Operand(sin(Operand(angle, site)), site), Operand(cos(Operand(angle, site)), site));
  return cast(radius * wave, options.dtype, site);
}

}  // namespace v0
}  // namespace lockstep
