// Random integers, choices and orders. docs/numerics.md section 8.
#include <fmt/format.h>

#include "backends/backend.h"
#include "graph/ops/operand.h"
#include "graph/ops/random.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

constexpr double kLow32 = 0x1p32 - 1;

// The upper 32 bits of an unsigned 64-bit number that an i64 carries.
Tensor upper32(const Tensor& x) {
  return bitwise_and(shift_right(x, 32), kLow32);
}

// floor(word * range / 2^64) of 64-bit words given by their halves: the upper half of a 128-bit product, in 32-bit
// steps.
Tensor multiply_high(const Tensor& high, const Tensor& low, std::uint64_t range) {
  const Operand range_low(static_cast<double>(range & 0xffffffffu));
  const Tensor carry = upper32(low * range_low);
  const Tensor middle = high * range_low + carry;
  if (range >> 32 == 0) return upper32(middle);
  const Operand range_high(static_cast<double>(range >> 32));
  const Tensor other = low * range_high + bitwise_and(middle, kLow32);
  return high * range_high + upper32(middle) + upper32(other);
}

void check_probability(double p) {
  if (p >= 0 && p <= 1) return;
  fail<ValueError>(fmt::format("{} is not a probability", p), {}, "use a number from 0 to 1");
}

}  // namespace

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options, Generator* generator,
               CallSite site) {
  const CallScope call("randint", site);
  check_shape(shape, options.dtype);
  backend_of(options.device);
  if (low >= high) {
    fail<ValueError>(fmt::format("no integers from {} to below {}", low, high), {}, "use low < high");
  }
  if (!is_float(options.dtype)) {
    encode_scalar(static_cast<double>(low), options.dtype);
    if (size_of(options.dtype) < 8) encode_scalar(static_cast<double>(high - 1), options.dtype);
  }
  Generator& source = given_or_default(generator);
  const Tensor upper = cast(random_words(shape, options.device, source), DType::i64);
  const Tensor lower = cast(random_words(shape, options.device, source), DType::i64);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const Tensor drawn = multiply_high(upper, lower, range);
  // In two parts, since a scalar travels as a double.
  const std::int64_t low_bits = low & 0xffffffff;
  return cast(drawn + (low - low_bits) + low_bits, options.dtype);
}

Tensor randint_like(const Tensor& like, std::int64_t low, std::int64_t high, std::optional<DType> dtype,
                    Generator* generator, CallSite site) {
  const CallScope call("randint_like", site);
  check_defined({{"like", like}});
  return randint(low, high, like.shape(), {.dtype = dtype.value_or(like.dtype()), .device = like.device()}, generator);
}

Tensor randperm(std::int64_t n, TensorOptions options, Generator* generator, CallSite site) {
  const CallScope call("randperm", site);
  check_shape({n}, DType::i64);
  backend_of(options.device);
  if (!is_float(options.dtype) && n > 0) encode_scalar(static_cast<double>(n - 1), options.dtype);
  const Tensor words = random_words64({n}, options.device, given_or_default(generator));
  return cast(sort_indices(words, 0, false), options.dtype);
}

Tensor bernoulli(double p, const Shape& shape, TensorOptions options, Generator* generator, CallSite site) {
  const CallScope call("bernoulli", site);
  check_shape(shape, options.dtype);
  backend_of(options.device);
  check_probability(p);
  const Tensor keep = random_keep(p, shape, options.device, given_or_default(generator));
  return cast(logical_not(keep), options.dtype);
}

Tensor bernoulli(const Operand& p, Generator* generator) {
  const CallScope call("bernoulli", p);
  const Tensor probability = widened(p);
  const Tensor words = random_words(probability.shape(), probability.device(), given_or_default(generator));
  // Scaling by 2^32 is exact; the cast drops the fraction, saturates, and makes 0 of NaN.
  const Tensor bound = cast(probability * 0x1p32, DType::i64);
  return cast(lt(cast(words, DType::i64), bound), p.tensor().dtype());
}

Tensor multinomial(const Operand& weights, std::int64_t samples, bool replacement, Generator* generator) {
  const CallScope call("multinomial", weights);
  const Tensor w = widened(weights);
  if (w.rank() < 1 || w.rank() > 2 || w.shape().back() == 0) {
    fail<ShapeError>("weights must be [n] or [rows, n] with n > 0", {{"weights", weights}});
  }
  const std::int64_t n = w.shape().back();
  if (samples <= 0 || (!replacement && samples > n)) {
    fail<ValueError>(fmt::format("{} samples of {} categories", samples, n), {{"weights", weights}},
                     samples > n ? "draw with replacement, or fewer" : "draw at least one");
  }
  Generator& source = given_or_default(generator);
  const int last = w.rank() - 1;
  const TensorOptions options{.dtype = w.dtype(), .device = w.device()};
  if (!replacement) {
    // A race: category i arrives at a time that is exponential with rate w_i; the first to arrive are the sample.
    const Tensor time = div(exponential(w.shape(), 1, options, &source), w);
    return sort_indices(time, last, false).narrow(last, 0, samples);
  }
  // The number of categories whose cumulative weight does not exceed a uniform share of the total; never one past the
  // last with weight, which rounding could reach.
  const Tensor cumulative = scan(ScanOp::sum, w, last);
  const Tensor total = cumulative.narrow(last, n - 1, 1);
  Shape drawn = w.shape();
  drawn[last] = samples;
  const Tensor share = rand(drawn, options, &source) * total;
  const auto count = [&](const Tensor& holds) {
    return reduce(ReduceOp::sum, cast(holds, DType::i64), 1u << (holds.rank() - 1));
  };
  const Tensor below = count(le(cumulative.unsqueeze(-2), share.unsqueeze(-1))).squeeze(-1);
  return minimum(below, count(lt(cumulative, total)));
}

}  // namespace v0
}  // namespace lockstep
