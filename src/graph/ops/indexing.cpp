// Gathers and scatters along one dimension.
#include <fmt/format.h>

#include "graph/make.h"
#include "graph/ops/indexing.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

void check_index(const char* op, const Tensor& input, const Tensor& index, CallSite site) {
  check_same_device(op, {{"input", input}, {"index", index}}, site);
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32) {
    fail<DTypeError>(op, "indices are i64 or i32", {{"input", input}, {"index", index}}, "cast: index.to(DType::i64)",
                     site);
  }
}

const Tensor& tensor_of(const char* op, const Operand& a) {
  check_defined(op, {{"input", a}}, a.site());
  if (a.is_scalar())
    fail<ValueError>(op, "needs a tensor operand", {{"input", a}}, "make the scalar a tensor", a.site());
  return a.tensor();
}

Tensor at_least_1d(const Tensor& tensor, CallSite site) {
  return tensor.rank() == 0 ? tensor.reshape({1}, site) : tensor;
}

namespace {

// The sizes of `inner` do not exceed those of `outer`, outside `dim`.
void check_fits(const char* op, const Tensor& inner, const Tensor& outer, int dim, const std::vector<Shown>& shown,
                const char* rule, CallSite site) {
  bool fits = inner.rank() == outer.rank();
  for (int d = 0; fits && d < inner.rank(); ++d) fits = d == dim || inner.shape()[d] <= outer.shape()[d];
  if (!fits) fail<ShapeError>(op, rule, shown, "", site);
}

// The leading part of a tensor that `shape` covers outside `dim`.
Tensor covered(const Tensor& tensor, const Shape& shape, int dim, CallSite site) {
  Tensor result = tensor;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != dim && shape[d] != tensor.shape()[d]) result = result.narrow(d, 0, shape[d], site);
  }
  return result;
}

Tensor scatter_along(const char* op, ScatterOp how, const Operand& a, int dim, const Tensor& given_index,
                     const Tensor& given_source, bool include_self) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of(op, a);
  check_index(op, input, given_index, site);
  const std::vector<Shown> shown{{"input", input}, {"index", given_index}, {"source", given_source}};
  check_same_device(op, shown, site);
  check_same_dtype(op, {{"input", input}, {"source", given_source}}, site);
  const Tensor self = at_least_1d(input, site);
  const Tensor index = at_least_1d(given_index, site);
  const Tensor source = at_least_1d(given_source, site);
  const int d = check_dim(op, self, dim, site);
  check_fits(op, index, self, d, shown, "the index must not be larger than the input outside the dimension", site);
  check_fits(op, index, source, -1, shown, "the index must not be larger than the source", site);
  const Tensor values = covered(source, index.shape(), -1, site);
  return graph::scatter(how, self, d, index, values, include_self, site, op).reshape(input.shape(), site);
}

// A 1-d index along `dim` of `like`'s shape.
Tensor spread_index(const char* op, const Tensor& input, const Tensor& index, int dim, const Shape& other,
                    CallSite site) {
  check_index(op, input, index, site);
  if (index.rank() > 1) fail<ShapeError>(op, "the index must be 1-d", {{"input", input}, {"index", index}}, "", site);
  Shape column = Shape::filled(other.rank(), 1);
  column[dim] = index.numel();
  Shape full_shape = other;
  full_shape[dim] = index.numel();
  return index.reshape(column, site).expand(full_shape, site);
}

Tensor scatter_slices(const char* op, ScatterOp how, const Operand& a, int dim, const Tensor& index,
                      const Tensor& source) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of(op, a);
  const Tensor self = at_least_1d(input, site);
  const Tensor values = at_least_1d(source, site);
  const int d = check_dim(op, self, dim, site);
  const std::vector<Shown> shown{{"input", input}, {"index", index}, {"source", source}};
  check_same_device(op, shown, site);
  check_same_dtype(op, {{"input", input}, {"source", source}}, site);
  Shape expected = self.shape();
  expected[d] = index.numel();
  if (values.shape() != expected) {
    fail<ShapeError>(op, fmt::format("the source must have shape {}", expected.to_string()), shown,
                     "one slice per index, of the input's sizes elsewhere", site);
  }
  const Tensor places = spread_index(op, self, index, d, self.shape(), site);
  return graph::scatter(how, self, d, places, values, true, site, op).reshape(input.shape(), site);
}

}  // namespace
}  // namespace graph

using namespace graph;

Tensor gather(const Operand& a, int dim, const Tensor& given_index) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("gather", a);
  check_index("gather", input, given_index, site);
  const Tensor source = at_least_1d(input, site);
  const Tensor index = at_least_1d(given_index, site);
  const int d = check_dim("gather", source, dim, site);
  check_fits("gather", index, source, d, {{"input", input}, {"index", given_index}},
             "the index must not be larger than the input outside the dimension", site);
  return graph::gather(covered(source, index.shape(), d, site), d, index, site).reshape(given_index.shape(), site);
}

Tensor take_along_dim(const Operand& a, const Tensor& index, std::optional<int> dim) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("take_along_dim", a);
  check_index("take_along_dim", input, index, site);
  if (!dim) return graph::gather(input.reshape({-1}, site), 0, index.reshape({-1}, site), site, "take_along_dim");
  const int d = check_dim("take_along_dim", input, *dim, site);
  Shape shape = input.shape();
  bool fits = index.rank() == input.rank();
  for (int i = 0; fits && i < input.rank(); ++i) {
    if (i == d) continue;
    fits = shape[i] == index.shape()[i] || shape[i] == 1 || index.shape()[i] == 1;
    if (shape[i] == 1) shape[i] = index.shape()[i];
  }
  if (!fits) {
    fail<ShapeError>("take_along_dim", "input and index do not broadcast outside the dimension",
                     {{"input", input}, {"index", index}}, "", site);
  }
  Shape index_shape = shape;
  index_shape[d] = index.shape()[d];
  return graph::gather(input.expand(shape, site), d, index.expand(index_shape, site), site, "take_along_dim");
}

Tensor take(const Operand& a, const Tensor& index) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("take", a);
  check_index("take", input, index, site);
  return graph::gather(input.reshape({-1}, site), 0, index.reshape({-1}, site), site, "take")
      .reshape(index.shape(), site);
}

Tensor index_select(const Operand& a, int dim, const Tensor& index) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("index_select", a);
  const Tensor source = at_least_1d(input, site);
  const int d = check_dim("index_select", source, dim, site);
  const Tensor result = graph::gather(source, d, spread_index("index_select", source, index, d, source.shape(), site),
                                      site, "index_select");
  return input.rank() == 0 ? result.reshape({}, site) : result;
}

Tensor embedding(const Operand& a, const Tensor& ids) {
  const CallSite site = a.site();
  const Tensor& weight = tensor_of("embedding", a);
  check_index("embedding", weight, ids, site);
  if (weight.rank() < 1) fail<ShapeError>("embedding", "the weight must be [V, ...]", {{"weight", weight}}, "", site);
  const Tensor places = spread_index("embedding", weight, ids.reshape({-1}, site), 0, weight.shape(), site);
  Shape shape = ids.shape();
  for (int d = 1; d < weight.rank(); ++d) shape.push_back(weight.shape()[d]);
  check_shape("embedding", shape, weight.dtype(), site);
  return graph::gather(weight, 0, places, site, "embedding").reshape(shape, site);
}

Tensor one_hot(const Operand& a, std::optional<std::int64_t> num_classes) {
  const CallSite site = a.site();
  const Tensor& classes = tensor_of("one_hot", a);
  check_index("one_hot", classes, classes, site);
  if (!num_classes && classes.numel() == 0) {
    fail<ValueError>("one_hot", "no classes to count", {{"classes", classes}}, "give num_classes", site);
  }
  const std::int64_t count = num_classes ? *num_classes : amax(classes).item<std::int64_t>() + 1;
  if (count < 0)
    fail<ValueError>("one_hot", fmt::format("num_classes {} is negative", count), {{"classes", classes}}, "", site);
  Shape shape = classes.shape();
  shape.push_back(count);
  check_shape("one_hot", shape, DType::i64, site);
  const TensorOptions options{.dtype = DType::i64, .device = classes.device()};
  const Tensor index = classes.reshape({classes.numel(), 1}, site);
  return graph::scatter(ScatterOp::set, zeros({classes.numel(), count}, options, site), 1, index,
                        ones({classes.numel(), 1}, options, site), true, site, "one_hot")
      .reshape(shape, site);
}

Tensor scatter(const Operand& a, int dim, const Tensor& index, const Operand& source) {
  if (!source.is_scalar()) return scatter_along("scatter", ScatterOp::set, a, dim, index, source.tensor(), true);
  const Tensor& input = tensor_of("scatter", a);
  check_index("scatter", input, index, a.site());
  const Tensor value =
      full(index.shape(), source.scalar(), {.dtype = input.dtype(), .device = input.device()}, a.site());
  return scatter_along("scatter", ScatterOp::set, a, dim, index, value, true);
}

Tensor scatter_add(const Operand& input, int dim, const Tensor& index, const Tensor& source) {
  return scatter_along("scatter_add", ScatterOp::add, input, dim, index, source, true);
}

Tensor scatter_reduce(const Operand& a, int dim, const Tensor& index, const Tensor& source, ReduceMode mode,
                      bool include_self) {
  constexpr const char* kOp = "scatter_reduce";
  switch (mode) {
    case ReduceMode::sum: return scatter_along(kOp, ScatterOp::add, a, dim, index, source, include_self);
    case ReduceMode::prod: return scatter_along(kOp, ScatterOp::prod, a, dim, index, source, include_self);
    case ReduceMode::amax: return scatter_along(kOp, ScatterOp::max, a, dim, index, source, include_self);
    case ReduceMode::amin: return scatter_along(kOp, ScatterOp::min, a, dim, index, source, include_self);
    case ReduceMode::mean: break;
  }
  const CallSite site = a.site();
  const Tensor& input = tensor_of(kOp, a);
  check_float(kOp, {"input", input}, site);
  const DType working = wide(input.dtype());
  const Tensor self = cast(input, working, site);
  const Tensor total =
      scatter_along(kOp, ScatterOp::add, Operand(self, site), dim, index,
                    source.dtype() == input.dtype() ? cast(source, working, site) : source, include_self);
  const Tensor one = ones(index.shape(), {.dtype = working, .device = input.device()}, site);
  const Tensor sources =
      scatter_along(kOp, ScatterOp::add, Operand(zeros_like(self, site), site), dim, index, one, true);
  // What nothing goes to stays as it is, bit for bit.
  const Tensor count = include_self ? sources + 1.0 : maximum(sources, 1.0);
  return where(sources > 0.0, cast(total / count, input.dtype(), site), input);
}

Tensor index_copy(const Operand& input, int dim, const Tensor& index, const Tensor& source) {
  return scatter_slices("index_copy", ScatterOp::set, input, dim, index, source);
}

Tensor index_add(const Operand& input, int dim, const Tensor& index, const Tensor& source, double alpha) {
  return scatter_slices("index_add", ScatterOp::add, input, dim, index,
                        alpha == 1 ? source : mul(Operand(source, input.site()), alpha));
}

Tensor index_fill(const Operand& a, int dim, const Tensor& index, double value) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("index_fill", a);
  const Tensor self = at_least_1d(input, site);
  const int d = check_dim("index_fill", self, dim, site);
  const Tensor places = spread_index("index_fill", self, index, d, self.shape(), site);
  const Tensor values = full(places.shape(), value, {.dtype = input.dtype(), .device = input.device()}, site);
  return graph::scatter(ScatterOp::set, self, d, places, values, true, site, "index_fill").reshape(input.shape(), site);
}

}  // namespace v0
}  // namespace lockstep
