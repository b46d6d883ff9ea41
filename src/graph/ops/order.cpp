// Sorting and what is made of it: choices along a dimension, different values, positions in sorted data, histograms.
#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/indexing.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

ValuesIndices chosen(const Tensor& input, const Tensor& order, int dim) {
  return {graph::gather(input, dim, order), order};
}

Tensor narrowed(const Tensor& tensor, int dim, const Tensor& like) {
  Tensor result = tensor;
  for (int d = 0; d < like.rank(); ++d) {
    if (d != dim && like.shape()[d] != tensor.shape()[d]) result = result.narrow(d, 0, like.shape()[d]);
  }
  return result;
}

}  // namespace
}  // namespace graph

using namespace graph;

ValuesIndices sort(const Operand& a, int dim, bool descending) {
  const CallScope call("sort", a);
  const Tensor& input = tensor_of(a);
  const Tensor x = at_least_1d(input);
  const int d = check_dim(x, dim);
  const ValuesIndices sorted = chosen(x, sort_indices(x, d, descending), d);
  return {sorted.values.reshape(input.shape()), sorted.indices.reshape(input.shape())};
}

Tensor argsort(const Operand& a, int dim, bool descending) {
  const CallScope call("argsort", a);
  const Tensor& input = tensor_of(a);
  const Tensor x = at_least_1d(input);
  return sort_indices(x, check_dim(x, dim), descending).reshape(input.shape());
}

ValuesIndices topk(const Operand& a, std::int64_t k, int dim, bool largest) {
  const CallScope call("topk", a);
  const Tensor& input = tensor_of(a);
  const Tensor x = at_least_1d(input);
  const int d = check_dim(x, dim);
  if (k < 0 || k > x.shape()[d]) {
    fail<ValueError>(fmt::format("k {} is not between 0 and the dimension's size {}", k, x.shape()[d]),
                     {{"input", input}});
  }
  // The first k positions, stored so that the whole permutation need not stay.
  const Tensor order = stored(sort_indices(x, d, largest).narrow(d, 0, k));
  const ValuesIndices best = chosen(x, order, d);
  if (input.rank() != 0) return best;
  return {best.values.reshape(k == 1 ? Shape{} : Shape{0}), best.indices.reshape(k == 1 ? Shape{} : Shape{0})};
}

ValuesIndices kthvalue(const Operand& a, std::int64_t k, int dim, bool keepdim) {
  const CallScope call("kthvalue", a);
  const Tensor& input = tensor_of(a);
  const Tensor x = at_least_1d(input);
  const int d = check_dim(x, dim);
  if (k < 1 || k > x.shape()[d]) {
    fail<ValueError>(fmt::format("k {} is not between 1 and the dimension's size {}", k, x.shape()[d]),
                     {{"input", input}});
  }
  const Tensor order = sort_indices(x, d, false).narrow(d, k - 1, 1);
  const ValuesIndices one = chosen(x, order, d);
  const std::uint32_t mask = 1u << d;
  const bool keep = keepdim && input.rank() > 0;
  return {drop_dims(one.values, mask, keep), drop_dims(one.indices, mask, keep)};
}

namespace {

// The first of each run in a 1-d tensor, and for each element the number of its run.
Unique runs_of(const Tensor& x) {
  const std::int64_t n = x.numel();
  const TensorOptions options{.dtype = DType::i64, .device = x.device()};
  if (n == 0) return {x, zeros({0}, options), zeros({0}, options)};
  const Tensor first = cat(
      {ones({1}, {.dtype = DType::boolean, .device = x.device()}), ne(x.narrow(0, 1, n - 1), x.narrow(0, 0, n - 1))},
      0);
  const Tensor starts = nonzero(first).select(1, 0);
  const Tensor run = scan(ScanOp::sum, cast(first, DType::i64), 0) - 1;
  const Tensor ends = cat({starts.narrow(0, 1, starts.numel() - 1), full({1}, static_cast<double>(n), options)}, 0);
  return {graph::gather(x, 0, starts), run, ends - starts};
}

}  // namespace

Unique unique(const Operand& a) {
  const CallScope call("unique", a);
  const Tensor& input = tensor_of(a);
  const Tensor x = input.reshape({-1});
  const Tensor order = stored(sort_indices(x, 0, false));
  const Unique runs = runs_of(graph::gather(x, 0, order));
  const Tensor inverse = graph::scatter(ScatterOp::set, zeros_like(order), 0, order, runs.inverse, true);
  return {runs.values, inverse.reshape(input.shape()), runs.counts};
}

Unique unique_consecutive(const Operand& a) {
  const CallScope call("unique_consecutive", a);
  const Tensor& input = tensor_of(a);
  const Unique runs = runs_of(input.reshape({-1}));
  return {runs.values, runs.inverse.reshape(input.shape()), runs.counts};
}

Tensor searchsorted(const Operand& a, const Operand& v, bool right) {
  const CallScope call("searchsorted", a);
  const Tensor& sorted = tensor_of(a);
  Tensor values =
      v.is_scalar() ? full({}, v.scalar(), {.dtype = sorted.dtype(), .device = sorted.device()}) : v.tensor();
  const std::vector<Shown> shown{{"sorted", sorted}, {"values", values}};
  check_same_device(shown);
  check_same_dtype(shown);
  bool fits = sorted.rank() >= 1;
  if (sorted.rank() > 1) {
    fits = values.rank() == sorted.rank();
    for (int d = 0; fits && d + 1 < sorted.rank(); ++d) fits = values.shape()[d] == sorted.shape()[d];
  }
  if (!fits) fail<ShapeError>("sorted must be 1-d, or of the values' leading sizes", shown);
  const Shape shape = values.shape();
  if (sorted.rank() == 1) values = values.reshape({-1});
  const std::int64_t n = sorted.shape().back();
  const int last = sorted.rank() - 1;
  Tensor found = zeros(values.shape(), {.dtype = DType::i64, .device = sorted.device()});
  if (n == 0 || values.numel() == 0) return found.reshape(shape);
  // Binary search: `found` elements are known to come before the value.
  for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n))); step > 0; step /= 2) {
    const Tensor next = found + step;
    const Tensor at = minimum(next, n) - 1;
    const Tensor element = graph::gather(narrowed(sorted, last, at), last, at);
    const Tensor before = right ? logical_not(element > values) : logical_not(element >= values);
    found = where(bitwise_and(next <= n, before), next, found);
  }
  return found.reshape(shape);
}

Tensor bucketize(const Operand& a, const Tensor& boundaries, bool right) {
  const CallScope call("bucketize", a);
  if (boundaries.defined() && boundaries.rank() != 1) {
    fail<ShapeError>("boundaries must be 1-d", {{"input", a}, {"boundaries", boundaries}});
  }
  return searchsorted(boundaries, a, right);
}

Tensor bincount(const Operand& a, const std::optional<Tensor>& weights, std::int64_t minlength) {
  const CallScope call("bincount", a);
  const Tensor& input = tensor_of(a);
  if (is_float(input.dtype()) || input.dtype() == DType::boolean) {
    fail<DTypeError>("counts integers", {{"input", input}}, "cast: input.to(DType::i64)");
  }
  if (input.rank() != 1) fail<ShapeError>("the input must be 1-d", {{"input", input}}, "flatten it");
  if (minlength < 0) fail<ValueError>(fmt::format("minlength {} is negative", minlength));
  if (weights) {
    check_same_device({{"input", input}, {"weights", *weights}});
    if (weights->shape() != input.shape()) {
      fail<ShapeError>("weights must have the input's shape", {{"input", input}, {"weights", *weights}});
    }
  }
  const Tensor places = cast(input, DType::i64);
  std::int64_t bins = minlength;
  if (input.numel() > 0) {
    if (amin(places).item<std::int64_t>() < 0) {
      fail<IndexError>("the input holds a negative number", {{"input", input}});
    }
    bins = std::max(bins, amax(places).item<std::int64_t>() + 1);
  }
  const DType dtype = !weights ? DType::i64 : is_float(weights->dtype()) ? weights->dtype() : DType::f64;
  check_shape({bins}, dtype);
  const TensorOptions options{.dtype = dtype, .device = input.device()};
  const Tensor values = weights ? cast(*weights, dtype) : ones(input.shape(), options);
  return graph::scatter(ScatterOp::add, zeros({bins}, options), 0, places, values, true);
}

Tensor histc(const Operand& a, std::int64_t bins, double min, double max) {
  const CallScope call("histc", a);
  const Tensor& input = tensor_of(a);
  check_float({"input", input});
  if (bins < 1) fail<ValueError>(fmt::format("{} bins", bins), {{"input", input}}, "use at least one");
  const DType working = wide(input.dtype());
  const Tensor x = cast(input.reshape({-1}), working);
  if (min == max && x.numel() > 0) {
    min = amin(x).item<double>();
    max = amax(x).item<double>();
  }
  if (min == max) {
    min -= 1;
    max += 1;
  }
  if (!(min < max) || !std::isfinite(min) || !std::isfinite(max)) {
    fail<ValueError>(fmt::format("the range from {} to {} is not finite or not ascending", min, max),
                     {{"input", input}});
  }
  // What is outside (or NaN) goes to a place of its own, which is cut off.
  const Tensor inside = bitwise_and(x >= min, x <= max);
  const Tensor scaled = cast((x - min) / (max - min) * static_cast<double>(bins), DType::i64);
  const Tensor place = where(inside, minimum(scaled, bins - 1), static_cast<double>(bins));
  const TensorOptions options{.dtype = working, .device = input.device()};
  const Tensor counts =
      graph::scatter(ScatterOp::add, zeros({bins + 1}, options), 0, place, ones(place.shape(), options), true);
  return cast(counts.narrow(0, 0, bins), input.dtype());
}

}  // namespace v0
}  // namespace lockstep
