// Gathers and scatters along one dimension.
#include <fmt/format.h>

#include "graph/make.h"
#include "graph/ops/indexing.h"
#include "graph/recording.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

void check_index(const Tensor& input, const Tensor& index) {
  check_same_device({{"input", input}, {"index", index}});
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32) {
    fail<DTypeError>("indices are i64 or i32", {{"input", input}, {"index", index}}, "cast: index.to(DType::i64)");
  }
}

const Tensor& tensor_of(const Operand& a) {
  check_defined({{"input", a}});
  if (a.is_scalar()) fail<ValueError>("needs a tensor operand", {{"input", a}}, "make the scalar a tensor");
  return a.tensor();
}

Tensor at_least_1d(const Tensor& tensor) {
  return tensor.rank() == 0 ? tensor.reshape({1}) : tensor;
}

namespace {

// The sizes of `inner` do not exceed those of `outer`, outside `dim`.
void check_fits(const Tensor& inner, const Tensor& outer, int dim, const std::vector<Shown>& shown, const char* rule) {
  bool fits = inner.rank() == outer.rank();
  for (int d = 0; fits && d < inner.rank(); ++d) fits = d == dim || inner.shape()[d] <= outer.shape()[d];
  if (!fits) fail<ShapeError>(rule, shown);
}

// The leading part of a tensor that `shape` covers outside `dim`.
Tensor covered(const Tensor& tensor, const Shape& shape, int dim) {
  Tensor result = tensor;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != dim && shape[d] != tensor.shape()[d]) result = result.narrow(d, 0, shape[d]);
  }
  return result;
}

Tensor scatter_along(ScatterOp how, const Operand& a, int dim, const Tensor& given_index, const Tensor& given_source,
                     bool include_self) {
  const Tensor& input = tensor_of(a);
  check_index(input, given_index);
  const std::vector<Shown> shown{{"input", input}, {"index", given_index}, {"source", given_source}};
  check_same_device(shown);
  check_same_dtype({{"input", input}, {"source", given_source}});
  const Tensor self = at_least_1d(input);
  const Tensor index = at_least_1d(given_index);
  const Tensor source = at_least_1d(given_source);
  const int d = check_dim(self, dim);
  check_fits(index, self, d, shown, "the index must not be larger than the input outside the dimension");
  check_fits(index, source, -1, shown, "the index must not be larger than the source");
  const Tensor values = covered(source, index.shape(), -1);
  return graph::scatter(how, self, d, index, values, include_self, GivenIndex{"input", input, given_index})
      .reshape(input.shape());
}

// A 1-d index along `dim` of `like`'s shape.
Tensor spread_index(const Tensor& input, const Tensor& index, int dim, const Shape& other) {
  check_index(input, index);
  if (index.rank() > 1) fail<ShapeError>("the index must be 1-d", {{"input", input}, {"index", index}});
  Shape column = Shape::filled(other.rank(), 1);
  column[dim] = index.numel();
  Shape full_shape = other;
  full_shape[dim] = index.numel();
  return index.reshape(column).expand(full_shape);
}

Tensor scatter_slices(ScatterOp how, const Operand& a, int dim, const Tensor& index, const Tensor& source) {
  const Tensor& input = tensor_of(a);
  const Tensor self = at_least_1d(input);
  const Tensor values = at_least_1d(source);
  const int d = check_dim(self, dim);
  const std::vector<Shown> shown{{"input", input}, {"index", index}, {"source", source}};
  check_same_device(shown);
  check_same_dtype({{"input", input}, {"source", source}});
  Shape expected = self.shape();
  expected[d] = index.numel();
  if (values.shape() != expected) {
    fail<ShapeError>(fmt::format("the source must have shape {}", expected.to_string()), shown,
                     "one slice per index, of the input's sizes elsewhere");
  }
  const Tensor places = spread_index(self, index, d, self.shape());
  return graph::scatter(how, self, d, places, values, true, GivenIndex{"input", input, index}).reshape(input.shape());
}

}  // namespace
}  // namespace graph

using namespace graph;

Tensor gather(const Operand& a, int dim, const Tensor& given_index) {
  const CallScope call("gather", a);
  const Tensor& input = tensor_of(a);
  check_index(input, given_index);
  const Tensor source = at_least_1d(input);
  const Tensor index = at_least_1d(given_index);
  const int d = check_dim(source, dim);
  check_fits(index, source, d, {{"input", input}, {"index", given_index}},
             "the index must not be larger than the input outside the dimension");
  return recorded(graph::gather(covered(source, index.shape(), d), d, index, GivenIndex{"input", input, given_index})
                      .reshape(given_index.shape()),
                  "gather", {&input, &given_index}, {{dim < 0 ? dim + input.rank() : dim}});
}

Tensor take_along_dim(const Operand& a, const Tensor& index, std::optional<int> dim) {
  const CallScope call("take_along_dim", a);
  const Tensor& input = tensor_of(a);
  check_index(input, index);
  const GivenIndex given{"input", input, index};
  if (!dim) return graph::gather(input.reshape({-1}), 0, index.reshape({-1}), given);
  const int d = check_dim(input, *dim);
  Shape shape = input.shape();
  bool fits = index.rank() == input.rank();
  for (int i = 0; fits && i < input.rank(); ++i) {
    if (i == d) continue;
    fits = shape[i] == index.shape()[i] || shape[i] == 1 || index.shape()[i] == 1;
    if (shape[i] == 1) shape[i] = index.shape()[i];
  }
  if (!fits) {
    fail<ShapeError>("input and index do not broadcast outside the dimension", {{"input", input}, {"index", index}});
  }
  Shape index_shape = shape;
  index_shape[d] = index.shape()[d];
  return graph::gather(input.expand(shape), d, index.expand(index_shape), given);
}

Tensor take(const Operand& a, const Tensor& index) {
  const CallScope call("take", a);
  const Tensor& input = tensor_of(a);
  check_index(input, index);
  return graph::gather(input.reshape({-1}), 0, index.reshape({-1}), GivenIndex{"input", input, index})
      .reshape(index.shape());
}

Tensor index_select(const Operand& a, int dim, const Tensor& index) {
  const CallScope call("index_select", a);
  const Tensor& input = tensor_of(a);
  const Tensor source = at_least_1d(input);
  const int d = check_dim(source, dim);
  const Tensor result = graph::gather(source, d, spread_index(source, index, d, source.shape()),
                                      GivenIndex{"input", input, index});
  return recorded(input.rank() == 0 ? result.reshape({}) : result, "index_select", {&input, &index}, {{d}});
}

Tensor embedding(const Operand& a, const Tensor& ids) {
  const CallScope call("embedding", a);
  const Tensor& weight = tensor_of(a);
  check_index(weight, ids);
  if (weight.rank() < 1) fail<ShapeError>("the weight must be [V, ...]", {{"weight", weight}});
  const Tensor places = spread_index(weight, ids.reshape({-1}), 0, weight.shape());
  Shape shape = ids.shape();
  for (int d = 1; d < weight.rank(); ++d) shape.push_back(weight.shape()[d]);
  check_shape(shape, weight.dtype());
  return recorded(graph::gather(weight, 0, places, GivenIndex{"weight", weight, ids}).reshape(shape), "index_select",
                  {&weight, &ids}, {{0}});
}

Tensor one_hot(const Operand& a, std::optional<std::int64_t> num_classes) {
  const CallScope call("one_hot", a);
  const Tensor& classes = tensor_of(a);
  check_index(classes, classes);
  if (!num_classes && classes.numel() == 0) {
    fail<ValueError>("no classes to count", {{"classes", classes}}, "give num_classes");
  }
  const std::int64_t count = num_classes ? *num_classes : amax(classes).item<std::int64_t>() + 1;
  if (count < 0) fail<ValueError>(fmt::format("num_classes {} is negative", count), {{"classes", classes}});
  Shape shape = classes.shape();
  shape.push_back(count);
  check_shape(shape, DType::i64);
  const TensorOptions options{.dtype = DType::i64, .device = classes.device()};
  const Tensor index = classes.reshape({classes.numel(), 1});
  return graph::scatter(ScatterOp::set, zeros({classes.numel(), count}, options), 1, index,
                        ones({classes.numel(), 1}, options), true, GivenIndex{"classes", classes, classes})
      .reshape(shape);
}

Tensor scatter(const Operand& a, int dim, const Tensor& index, const Operand& source) {
  const CallScope call("scatter", a);
  if (!source.is_scalar()) return scatter_along(ScatterOp::set, a, dim, index, source.tensor(), true);
  const Tensor& input = tensor_of(a);
  check_index(input, index);
  const Tensor value = full(index.shape(), source.scalar(), {.dtype = input.dtype(), .device = input.device()});
  return scatter_along(ScatterOp::set, a, dim, index, value, true);
}

Tensor scatter_add(const Operand& input, int dim, const Tensor& index, const Tensor& source) {
  const CallScope call("scatter_add", input);
  return scatter_along(ScatterOp::add, input, dim, index, source, true);
}

Tensor scatter_reduce(const Operand& a, int dim, const Tensor& index, const Tensor& source, ReduceMode mode,
                      bool include_self) {
  const CallScope call("scatter_reduce", a);
  switch (mode) {
    case ReduceMode::sum: return scatter_along(ScatterOp::add, a, dim, index, source, include_self);
    case ReduceMode::prod: return scatter_along(ScatterOp::prod, a, dim, index, source, include_self);
    case ReduceMode::amax: return scatter_along(ScatterOp::max, a, dim, index, source, include_self);
    case ReduceMode::amin: return scatter_along(ScatterOp::min, a, dim, index, source, include_self);
    case ReduceMode::mean: break;
  }
  const Tensor& input = tensor_of(a);
  check_float({"input", input});
  const DType working = wide(input.dtype());
  const Tensor self = cast(input, working);
  const Tensor total = scatter_along(ScatterOp::add, self, dim, index,
                                     source.dtype() == input.dtype() ? cast(source, working) : source, include_self);
  const Tensor one = ones(index.shape(), {.dtype = working, .device = input.device()});
  const Tensor sources = scatter_along(ScatterOp::add, zeros_like(self), dim, index, one, true);
  // What nothing goes to stays as it is, bit for bit.
  const Tensor count = include_self ? sources + 1.0 : maximum(sources, 1.0);
  return where(sources > 0.0, cast(total / count, input.dtype()), input);
}

Tensor index_copy(const Operand& input, int dim, const Tensor& index, const Tensor& source) {
  const CallScope call("index_copy", input);
  return scatter_slices(ScatterOp::set, input, dim, index, source);
}

Tensor index_add(const Operand& input, int dim, const Tensor& index, const Tensor& source, double alpha) {
  const CallScope call("index_add", input);
  return scatter_slices(ScatterOp::add, input, dim, index, alpha == 1 ? source : mul(source, alpha));
}

Tensor index_fill(const Operand& a, int dim, const Tensor& index, double value) {
  const CallScope call("index_fill", a);
  const Tensor& input = tensor_of(a);
  const Tensor self = at_least_1d(input);
  const int d = check_dim(self, dim);
  const Tensor places = spread_index(self, index, d, self.shape());
  const Tensor values = full(places.shape(), value, {.dtype = input.dtype(), .device = input.device()});
  return graph::scatter(ScatterOp::set, self, d, places, values, true, GivenIndex{"input", input, index})
      .reshape(input.shape());
}

}  // namespace v0
}  // namespace lockstep
