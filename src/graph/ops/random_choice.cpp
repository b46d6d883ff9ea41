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
Tensor upper32(const Tensor& x, CallSite site) {
  return bitwise_and(shift_right(x, Operand(32, site)), Operand(kLow32, site));
}

// floor(word * range / 2^64) of 64-bit words given by their halves: the upper half of a 128-bit product, in 32-bit
// steps.
Tensor multiply_high(const Tensor& high, const Tensor& low, std::uint64_t range, CallSite site) {
  const Operand range_low(static_cast<double>(range & 0xffffffffu), site);
  const Tensor carry = upper32(low * range_low, site);
  const Tensor middle = high * range_low + carry;
  if (range >> 32 == 0) return upper32(middle, site);
  const Operand range_high(static_cast<double>(range >> 32), site);
  const Tensor other = low * range_high + bitwise_and(middle, Operand(kLow32, site));
  return high * range_high + upper32(middle, site) + upper32(other, site);
}

void check_probability(const char* op, double p, CallSite site) {
  if (p >= 0 && p <= 1) return;
  fail<ValueError>(op, fmt::format("{} is not a probability", p), {}, "use a number from 0 to 1", site);
}

}  // namespace

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options, Generator* generator,
               CallSite site) {
  check_shape("randint", shape, options.dtype, site);
  backend_of(options.device);
  if (low >= high) {
    fail<ValueError>("randint", fmt::format("no integers from {} to below {}", low, high), {}, "use low < high", site);
  }
  if (!is_float(options.dtype)) {
    encode_scalar("randint", static_cast<double>(low), options.dtype, site);
    if (size_of(options.dtype) < 8) encode_scalar("randint", static_cast<double>(high - 1), options.dtype, site);
  }
  Generator& source = given_or_default(generator);
  const Tensor upper = cast(random_words(shape, options.device, source, site), DType::i64, site);
  const Tensor lower = cast(random_words(shape, options.device, source, site), DType::i64, site);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const Tensor drawn = multiply_high(upper, lower, range, site);
  // In two parts, since a scalar travels as a double.
  const std::int64_t low_bits = low & 0xffffffff;
  return cast(drawn + Operand(low - low_bits, site) + Operand(low_bits, site), options.dtype, site);
}

Tensor randint_like(const Tensor& like, std::int64_t low, std::int64_t high, std::optional<DType> dtype,
                    Generator* generator, CallSite site) {
  check_defined("randint_like", {{"like", like}}, site);
  return randint(low, high, like.shape(), {.dtype = dtype.value_or(like.dtype()), .device = like.device()}, generator,
                 site);
}

Tensor randperm(std::int64_t n, TensorOptions options, Generator* generator, CallSite site) {
  check_shape("randperm", {n}, DType::i64, site);
  backend_of(options.device);
  if (!is_float(options.dtype) && n > 0) encode_scalar("randperm", static_cast<double>(n - 1), options.dtype, site);
  const Tensor words = random_words64({n}, options.device, given_or_default(generator), site);
  return cast(sort_indices(words, 0, false, site), options.dtype, site);
}

Tensor bernoulli(double p, const Shape& shape, TensorOptions options, Generator* generator, CallSite site) {
  check_shape("bernoulli", shape, options.dtype, site);
  backend_of(options.device);
  check_probability("bernoulli", p, site);
  const Tensor keep = random_keep(p, shape, options.device, given_or_default(generator), site);
  return cast(logical_not(keep), options.dtype, site);
}

Tensor bernoulli(const Operand& p, Generator* generator) {
  const Tensor probability = widened("bernoulli", p);
  const CallSite site = p.site();
  const Tensor words = random_words(probability.shape(), probability.device(), given_or_default(generator), site);
  // Scaling by 2^32 is exact; the cast drops the fraction, saturates, and makes 0 of NaN.
  const Tensor bound = cast(probability * Operand(0x1p32, site), DType::i64, site);
  return cast(lt(cast(words, DType::i64, site), bound), p.tensor().dtype(), site);
}

Tensor multinomial(const Operand& weights, std::int64_t samples, bool replacement, Generator* generator) {
  const Tensor w = widened("multinomial", weights);
  const CallSite site = weights.site();
  if (w.rank() < 1 || w.rank() > 2 || w.shape().back() == 0) {
    fail<ShapeError>("multinomial", "weights must be [n] or [rows, n] with n > 0", {{"weights", weights}}, "", site);
  }
  const std::int64_t n = w.shape().back();
  if (samples <= 0 || (!replacement && samples > n)) {
    fail<ValueError>("multinomial", fmt::format("{} samples of {} categories", samples, n), {{"weights", weights}},
                     samples > n ? "draw with replacement, or fewer" : "draw at least one", site);
  }
  Generator& source = given_or_default(generator);
  const int last = w.rank() - 1;
  const TensorOptions options{.dtype = w.dtype(), .device = w.device()};
  if (!replacement) {
    // A race: category i arrives at a time that is exponential with rate w_i; the first to arrive are the sample.
    const Tensor time = div(Operand(exponential(w.shape(), 1, options, &source, site), site), Operand(w, site));
    return sort_indices(time, last, false, site).narrow(last, 0, samples, site);
  }
  // The number of categories whose cumulative weight does not exceed a uniform share of the total; never one past the
  // last with weight, which rounding could reach.
  const Tensor cumulative = scan(ScanOp::sum, w, last, site);
  const Tensor total = cumulative.narrow(last, n - 1, 1, site);
  Shape drawn = w.shape();
  drawn[last] = samples;
  const Tensor share = rand(drawn, options, &source, site) * total;
  const auto count = [&](const Tensor& holds) {
    return reduce(ReduceOp::sum, cast(holds, DType::i64, site), 1u << (holds.rank() - 1), site);
  };
  const Tensor below = count(le(cumulative.unsqueeze(-2, site), share.unsqueeze(-1, site))).squeeze(-1, site);
  return minimum(below, count(lt(cumulative, total)));
}

}  // namespace v0
}  // namespace lockstep
