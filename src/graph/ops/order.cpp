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

ValuesIndices chosen(const char* op, const Tensor& input, const Tensor& order, int dim, CallSite site) {
  return {graph::gather(input, dim, order, site, op), order};
}

Tensor narrowed(const Tensor& tensor, int dim, const Tensor& like, CallSite site) {
  Tensor result = tensor;
  for (int d = 0; d < like.rank(); ++d) {
    if (d != dim && like.shape()[d] != tensor.shape()[d]) result = result.narrow(d, 0, like.shape()[d], site);
  }
  return result;
}

}  // namespace
}  // namespace graph

using namespace graph;

ValuesIndices sort(const Operand& a, int dim, bool descending) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("sort", a);
  const Tensor x = at_least_1d(input, site);
  const int d = check_dim("sort", x, dim, site);
  const ValuesIndices sorted = chosen("sort", x, sort_indices(x, d, descending, site), d, site);
  return {sorted.values.reshape(input.shape(), site), sorted.indices.reshape(input.shape(), site)};
}

Tensor argsort(const Operand& a, int dim, bool descending) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("argsort", a);
  const Tensor x = at_least_1d(input, site);
  return sort_indices(x, check_dim("argsort", x, dim, site), descending, site).reshape(input.shape(), site);
}

ValuesIndices topk(const Operand& a, std::int64_t k, int dim, bool largest) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("topk", a);
  const Tensor x = at_least_1d(input, site);
  const int d = check_dim("topk", x, dim, site);
  if (k < 0 || k > x.shape()[d]) {
    fail<ValueError>("topk", fmt::format("k {} is not between 0 and the dimension's size {}", k, x.shape()[d]),
                     {{"input", input}}, "", site);
  }
  // The first k positions, stored so that the whole permutation need not stay.
  const Tensor order = stored(sort_indices(x, d, largest, site).narrow(d, 0, k, site), site);
  const ValuesIndices best = chosen("topk", x, order, d, site);
  if (input.rank() != 0) return best;
  return {best.values.reshape(k == 1 ? Shape{} : Shape{0}, site),
          best.indices.reshape(k == 1 ? Shape{} : Shape{0}, site)};
}

ValuesIndices kthvalue(const Operand& a, std::int64_t k, int dim, bool keepdim) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("kthvalue", a);
  const Tensor x = at_least_1d(input, site);
  const int d = check_dim("kthvalue", x, dim, site);
  if (k < 1 || k > x.shape()[d]) {
    fail<ValueError>("kthvalue", fmt::format("k {} is not between 1 and the dimension's size {}", k, x.shape()[d]),
                     {{"input", input}}, "", site);
  }
  const Tensor order = sort_indices(x, d, false, site).narrow(d, k - 1, 1, site);
  const ValuesIndices one = chosen("kthvalue", x, order, d, site);
  const std::uint32_t mask = 1u << d;
  const bool keep = keepdim && input.rank() > 0;
  return {drop_dims(one.values, mask, keep, site), drop_dims(one.indices, mask, keep, site)};
}

namespace {

// The first of each run in a 1-d tensor, and for each element the number of its run.
Unique runs_of(const Tensor& x, CallSite site) {
  const std::int64_t n = x.numel();
  const TensorOptions options{.dtype = DType::i64, .device = x.device()};
  if (n == 0) return {x, zeros({0}, options, site), zeros({0}, options, site)};
  const Tensor first = cat({ones({1}, {.dtype = DType::boolean, .device = x.device()}, site),
                            ne(Operand(x.narrow(0, 1, n - 1, site), site), x.narrow(0, 0, n - 1, site))},
                           0, site);
  const Tensor starts = nonzero(Operand(first, site)).select(1, 0, site);
  const Tensor run = scan(ScanOp::sum, cast(first, DType::i64, site), 0, site) - 1;
  const Tensor ends =
      cat({starts.narrow(0, 1, starts.numel() - 1, site), full({1}, static_cast<double>(n), options, site)}, 0, site);
  return {graph::gather(x, 0, starts, site, "unique"), run, ends - starts};
}

}  // namespace

Unique unique(const Operand& a) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("unique", a);
  const Tensor x = input.reshape({-1}, site);
  const Tensor order = stored(sort_indices(x, 0, false, site), site);
  const Unique runs = runs_of(graph::gather(x, 0, order, site, "unique"), site);
  const Tensor inverse =
      graph::scatter(ScatterOp::set, zeros_like(order, site), 0, order, runs.inverse, true, site, "unique");
  return {runs.values, inverse.reshape(input.shape(), site), runs.counts};
}

Unique unique_consecutive(const Operand& a) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("unique_consecutive", a);
  const Unique runs = runs_of(input.reshape({-1}, site), site);
  return {runs.values, runs.inverse.reshape(input.shape(), site), runs.counts};
}

Tensor searchsorted(const Operand& a, const Operand& v, bool right) {
  const CallSite site = a.site();
  const Tensor& sorted = tensor_of("searchsorted", a);
  Tensor values =
      v.is_scalar() ? full({}, v.scalar(), {.dtype = sorted.dtype(), .device = sorted.device()}, site) : v.tensor();
  const std::vector<Shown> shown{{"sorted", sorted}, {"values", values}};
  check_same_device("searchsorted", shown, site);
  check_same_dtype("searchsorted", shown, site);
  bool fits = sorted.rank() >= 1;
  if (sorted.rank() > 1) {
    fits = values.rank() == sorted.rank();
    for (int d = 0; fits && d + 1 < sorted.rank(); ++d) fits = values.shape()[d] == sorted.shape()[d];
  }
  if (!fits) fail<ShapeError>("searchsorted", "sorted must be 1-d, or of the values' leading sizes", shown, "", site);
  const Shape shape = values.shape();
  if (sorted.rank() == 1) values = values.reshape({-1}, site);
  const std::int64_t n = sorted.shape().back();
  const int last = sorted.rank() - 1;
  Tensor found = zeros(values.shape(), {.dtype = DType::i64, .device = sorted.device()}, site);
  if (n == 0 || values.numel() == 0) return found.reshape(shape, site);
  // Binary search: `found` elements are known to come before the value.
  for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n))); step > 0; step /= 2) {
    const Tensor next = found + step;
    const Tensor at = minimum(next, n) - 1;
    const Tensor element = graph::gather(narrowed(sorted, last, at, site), last, at, site, "searchsorted");
    const Tensor before = right ? logical_not(element > values) : logical_not(element >= values);
    found = where(bitwise_and(next <= n, before), next, found);
  }
  return found.reshape(shape, site);
}

Tensor bucketize(const Operand& a, const Tensor& boundaries, bool right) {
  if (boundaries.defined() && boundaries.rank() != 1) {
    fail<ShapeError>("bucketize", "boundaries must be 1-d", {{"input", a}, {"boundaries", boundaries}}, "", a.site());
  }
  return searchsorted(Operand(boundaries, a.site()), a, right);
}

Tensor bincount(const Operand& a, const std::optional<Tensor>& weights, std::int64_t minlength) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("bincount", a);
  if (is_float(input.dtype()) || input.dtype() == DType::boolean) {
    fail<DTypeError>("bincount", "counts integers", {{"input", input}}, "cast: input.to(DType::i64)", site);
  }
  if (input.rank() != 1) fail<ShapeError>("bincount", "the input must be 1-d", {{"input", input}}, "flatten it", site);
  if (minlength < 0) fail<ValueError>("bincount", fmt::format("minlength {} is negative", minlength), {}, "", site);
  if (weights) {
    check_same_device("bincount", {{"input", input}, {"weights", *weights}}, site);
    if (weights->shape() != input.shape()) {
      fail<ShapeError>("bincount", "weights must have the input's shape", {{"input", input}, {"weights", *weights}}, "",
                       site);
    }
  }
  const Tensor places = cast(input, DType::i64, site);
  std::int64_t bins = minlength;
  if (input.numel() > 0) {
    if (amin(Operand(places, site)).item<std::int64_t>() < 0) {
      fail<IndexError>("bincount", "the input holds a negative number", {{"input", input}}, "", site);
    }
    bins = std::max(bins, amax(Operand(places, site)).item<std::int64_t>() + 1);
  }
  const DType dtype = !weights ? DType::i64 : is_float(weights->dtype()) ? weights->dtype() : DType::f64;
  check_shape("bincount", {bins}, dtype, site);
  const TensorOptions options{.dtype = dtype, .device = input.device()};
  const Tensor values = weights ? cast(*weights, dtype, site) : ones(input.shape(), options, site);
  return graph::scatter(ScatterOp::add, zeros({bins}, options, site), 0, places, values, true, site, "bincount");
}

Tensor histc(const Operand& a, std::int64_t bins, double min, double max) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("histc", a);
  check_float("histc", {"input", input}, site);
  if (bins < 1) fail<ValueError>("histc", fmt::format("{} bins", bins), {{"input", input}}, "use at least one", site);
  const DType working = wide(input.dtype());
  const Tensor x = cast(input.reshape({-1}, site), working, site);
  if (min == max && x.numel() > 0) {
    min = amin(Operand(x, site)).item<double>(site);
    max = amax(Operand(x, site)).item<double>(site);
  }
  if (min == max) {
    min -= 1;
    max += 1;
  }
  if (!(min < max) || !std::isfinite(min) || !std::isfinite(max)) {
    fail<ValueError>("histc", fmt::format("the range from {} to {} is not finite or not ascending", min, max),
                     {{"input", input}}, "", site);
  }
  // What is outside (or NaN) goes to a place of its own, which is cut off.
  const Tensor inside = bitwise_and(x >= min, x <= max);
  const Tensor scaled = cast((x - min) / (max - min) * static_cast<double>(bins), DType::i64, site);
  const Tensor place = where(inside, minimum(scaled, bins - 1), static_cast<double>(bins));
  const TensorOptions options{.dtype = working, .device = input.device()};
  const Tensor counts = graph::scatter(ScatterOp::add, zeros({bins + 1}, options, site), 0, place,
                                       ones(place.shape(), options, site), true, site, "histc");
  return cast(counts.narrow(0, 0, bins, site), input.dtype(), site);
}

}  // namespace v0
}  // namespace lockstep
