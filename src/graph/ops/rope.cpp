// Rotary embeddings. Angles are made on the host with our own f64 functions, so that every device has the same tables.
#include <cmath>

#include <fmt/format.h>

#include <lockstep/ops/attention.h>

#include "graph/make.h"
#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

Tensor table(const std::vector<double>& values, const Shape& shape, TensorOptions options) {
  if (options.dtype == DType::f64) return Tensor::from(values, shape, options.device);
  const std::vector<float> rounded(values.begin(), values.end());
  return Tensor::from(rounded, shape, options.device);
}

}  // namespace

RopeTables rope_tables(std::int64_t length, std::int64_t dims, const RopeOptions& options, TensorOptions tensor,
                       CallSite site) {
  const CallScope call("rope_tables", site);
  if (dims < 2 || dims % 2 != 0 || length < 0) {
    fail<ValueError>(fmt::format("cannot rotate {} elements at {} positions", dims, length), {},
                     "rotate an even number of elements");
  }
  if (!(options.base > 0)) fail<ValueError>(fmt::format("base {} is not positive", options.base));
  check_shape({length, dims / 2}, DType::f64);
  const std::int64_t pairs = dims / 2;
  std::vector<double> cosines;
  std::vector<double> sines;
  cosines.reserve(static_cast<std::size_t>(length * pairs));
  sines.reserve(static_cast<std::size_t>(length * pairs));
  std::vector<double> frequency;
  for (std::int64_t i = 0; i < pairs; ++i) {
    frequency.push_back(scalar::ls_pow(options.base, -static_cast<double>(2 * i) / static_cast<double>(dims)));
  }
  for (std::int64_t p = 0; p < length; ++p) {
    const double position = static_cast<double>(options.offset + p) * options.position_scale;
    for (const double f : frequency) {
      cosines.push_back(scalar::ls_cos(position * f));
      sines.push_back(scalar::ls_sin(position * f));
    }
  }
  return {table(cosines, {length, pairs}, tensor), table(sines, {length, pairs}, tensor)};
}

Tensor rope(const Operand& a, const RopeTables& tables, bool interleaved) {
  const CallScope call("rope", a);
  const std::vector<Shown> shown{{"input", a}, {"cos", tables.cos}, {"sin", tables.sin}};
  if (a.is_scalar()) fail<ValueError>("needs a tensor operand", shown, "make the scalar a tensor");
  check_same_device(shown);
  check_float(shown[0]);
  const Tensor& input = a.tensor();
  const DType working = wide(input.dtype());
  const Shape& t = tables.cos.shape();
  const int rank = input.rank();
  const bool fits = rank >= 2 && rank < kMaxRank && t.rank() == 2 && t == tables.sin.shape() &&
                    t[0] == input.shape()[rank - 2] && 2 * t[1] <= input.shape().back();
  if (!fits) {
    fail<ShapeError>("tables [L, dims / 2] do not fit an input [..., L, D]", shown,
                     "make tables for this many positions and at most D elements");
  }
  if (tables.cos.dtype() != working || tables.sin.dtype() != working) {
    fail<DTypeError>(fmt::format("tables for this input must be {}", name_of(working)), shown);
  }
  const std::int64_t pairs = t[1];
  const std::int64_t dims = 2 * pairs;
  const std::int64_t all = input.shape().back();
  const Tensor turned = dims == all ? input : input.narrow(-1, 0, dims);
  // The two of a pair as a dimension of their own: y = x cos + (the other) * (-sin or sin).
  const int pair_dim = interleaved ? rank : rank - 1;
  Shape split = turned.shape().slice(0, rank - 1);
  split.push_back(interleaved ? pairs : 2);
  split.push_back(interleaved ? 2 : pairs);
  const Tensor x = change_view(turned, [&](const View& view) { return view.reshaped(split); });
  const Tensor both = x.flip({pair_dim});
  const int at = interleaved ? 2 : 1;
  const Tensor cosine = tables.cos.unsqueeze(at);
  const Tensor sine = tables.sin.unsqueeze(at);
  Shape sign_shape{1, 1, 1};
  sign_shape[at] = 2;
  const Tensor is_first = eq(Access::tensor(make_node(Iota{}, {}, sign_shape, DType::i64, input.device())), 0);
  const Tensor wide_x = cast(x, working);
  const Tensor product = cast(both, working) * sine;
  Tensor y = wide_x * cosine + where(is_first, neg(product), product);
  y = cast(y, input.dtype()).reshape(turned.shape());
  if (dims == all) return y;
  return cat({y, input.narrow(-1, dims, all - dims)}, -1);
}

Tensor rope(const Operand& x, const RopeOptions& options) {
  const CallScope call("rope", x);
  check_defined({{"input", x}});
  if (x.is_scalar() || x.tensor().rank() < 2) {
    fail<ShapeError>("input must be [..., L, D]", {{"input", x}});
  }
  const Tensor& input = x.tensor();
  check_float({"input", input});
  const std::int64_t dims = options.dims == 0 ? input.shape().back() : options.dims;
  if (dims > input.shape().back()) {
    fail<ValueError>(fmt::format("cannot rotate {} of {} elements", dims, input.shape().back()), {{"input", input}},
                     "rotate an even number of elements, at most all");
  }
  const RopeTables tables = rope_tables(input.shape()[input.rank() - 2], dims, options,
                                        {.dtype = wide(input.dtype()), .device = input.device()});
  return rope(x, tables, options.interleaved);
}

Tensor alibi_slopes(std::int64_t heads, TensorOptions options, CallSite site) {
  const CallScope call("alibi_slopes", site);
  if (heads < 1) fail<ValueError>(fmt::format("{} heads", heads), {}, "use at least one head");
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  const auto slope = [](std::int64_t i, std::int64_t count) {
    return scalar::ls_exp2(-8.0 * static_cast<double>(i) / static_cast<double>(count));
  };
  for (std::int64_t i = 1; i <= power; ++i) slopes.push_back(slope(i, power));
  // The others are every second slope of twice as many heads.
  for (std::int64_t i = 1; static_cast<std::int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(slope(i, 2 * power));
  return table(slopes, {heads}, options);
}

}  // namespace v0
}  // namespace lockstep
