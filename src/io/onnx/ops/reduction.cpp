// Reductions, extrema with positions, softmax and its kin, running sums.
#include <lockstep/ops.h>

#include <limits>
#include <numeric>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"
#include "io/onnx/ops/unsigned.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// What is reduced: nothing at all is a request to return the input (noop_with_empty_axes).
struct Reduced {
  Tensor x;
  Dims dims;
  bool keeps = true;
  bool nothing = false;
};

Reduced reduced(const Call& call) {
  Reduced result{.x = call.input(0), .keeps = call.integer("keepdims", 1) != 0};
  std::vector<int> axes = axes_of(call, integers_or_input(call, "axes", 1), result.x.rank());
  if (axes.empty()) {
    result.nothing = call.integer("noop_with_empty_axes", 0) != 0;
    axes.resize(static_cast<std::size_t>(result.x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  result.dims = dims_of(axes);
  return result;
}

Tensor sum_of(const Reduced& r, const Tensor& x) {
  return is_float(x.dtype()) ? sum(x, r.dims, r.keeps) : sum(x, r.dims, r.keeps, x.dtype());
}

using Reduce = Tensor (*)(const Reduced&);
// `before` is what is summed of each element; it also applies where nothing is reduced.
template <Reduce Function, Tensor (*Before)(const Tensor&), Tensor (*After)(const Tensor&)>
std::vector<Tensor> reduce(const Call& call) {
  Reduced r = reduced(call);
  r.x = Before(r.x);
  return {After(r.nothing || r.x.rank() == 0 ? r.x : Function(r))};
}

Tensor as_it_is(const Tensor& x) {
  return x;
}
Tensor squared(const Tensor& x) {
  return mul(x, x);
}
Tensor absolute(const Tensor& x) {
  return abs(x);
}
Tensor root(const Tensor& x) {
  return is_float(x.dtype()) ? sqrt(x) : sqrt(x.to(DType::f32)).to(x.dtype());
}
Tensor logarithm(const Tensor& x) {
  return is_float(x.dtype()) ? log(x) : log(x.to(DType::f32)).to(x.dtype());
}

Tensor reduce_sum(const Reduced& r) {
  return sum_of(r, r.x);
}
Tensor reduce_prod(const Reduced& r) {
  return is_float(r.x.dtype()) ? prod(r.x, r.dims, r.keeps) : prod(r.x, r.dims, r.keeps, r.x.dtype());
}
Tensor reduce_mean(const Reduced& r) {
  if (is_float(r.x.dtype())) return mean(r.x, r.dims, r.keeps);
  const Tensor total = sum_of(r, r.x);
  return div(total, static_cast<double>(r.x.numel() / std::max<std::int64_t>(1, total.numel())), Rounding::trunc);
}

// Of nothing: the value that no other is beyond.
Tensor extremum(const Reduced& r, bool largest) {
  if (r.x.dtype() == DType::boolean) return largest ? any(r.x, r.dims, r.keeps) : all(r.x, r.dims, r.keeps);
  if (r.x.numel() == 0 && is_float(r.x.dtype())) {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    return add(sum(r.x, r.dims, r.keeps), largest ? -kInfinite : kInfinite);
  }
  return largest ? amax(r.x, r.dims, r.keeps) : amin(r.x, r.dims, r.keeps);
}
Tensor reduce_max(const Reduced& r) {
  return extremum(r, true);
}
Tensor reduce_min(const Reduced& r) {
  return extremum(r, false);
}

std::vector<Tensor> log_sum_exp(const Call& call) {
  const Reduced r = reduced(call);
  if (r.nothing || r.x.rank() == 0) return {r.x};
  if (!is_float(r.x.dtype())) return {logsumexp(r.x.to(DType::f32), r.dims, r.keeps).to(r.x.dtype())};
  if (r.x.numel() == 0) return {log(sum(r.x, r.dims, r.keeps))};
  return {logsumexp(r.x, r.dims, r.keeps)};
}

std::vector<Tensor> position(const Call& call, bool largest) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  const bool keeps = call.integer("keepdims", 1) != 0;
  const bool last = call.integer("select_last_index", 0) != 0;
  const Tensor seen = last ? x.flip({axis}) : x;
  const Tensor found = largest ? argmax(seen, axis, keeps) : argmin(seen, axis, keeps);
  return {last ? rsub(found, x.shape()[axis] - 1) : found};
}
std::vector<Tensor> arg_max(const Call& call) {
  return position(call, true);
}
std::vector<Tensor> arg_min(const Call& call) {
  return position(call, false);
}

// Before version 13 everything from the axis on is one row.
Dims softmax_dims(const Call& call) {
  const int rank = call.input(0).rank();
  if (call.version() >= 13) return {axis_of(call, call.integer("axis", -1), rank)};
  Dims dims;
  for (int d = axis_of(call, call.integer("axis", 1), rank); d < rank; ++d) dims.push_back(d);
  return dims;
}
std::vector<Tensor> softmax_of(const Call& call) {
  return {softmax(call.input(0), softmax_dims(call))};
}
std::vector<Tensor> log_softmax_of(const Call& call) {
  return {log_softmax(call.input(0), softmax_dims(call))};
}

// One at the first of the largest elements.
std::vector<Tensor> hardmax(const Call& call) {
  const Tensor& x = call.input(0);
  const Dims dims = softmax_dims(call);
  const int first = static_cast<int>(dims[0]);
  const Tensor rows = call.version() >= 13 ? x : x.flatten(first, -1);
  const Tensor best = argmax(rows, first, true);
  Shape shape = Shape::filled(rows.rank(), 1);
  shape[first] = rows.shape()[first];
  const Tensor places =
      arange(static_cast<double>(shape[first]), {.dtype = DType::i64, .device = call.device()}).reshape(shape);
  return {eq(places, best).to(x.dtype()).reshape(x.shape())};
}

template <Tensor (*Run)(const Operand&, int, DType)> std::vector<Tensor> running(const Call& call, double neutral) {
  Tensor x = call.input(0);
  const int axis = axis_of(call, call.host_integer(1), x.rank());
  const bool backwards = call.integer("reverse", 0) != 0;
  if (backwards) x = x.flip({axis});
  if (call.integer("exclusive", 0) != 0 && x.shape()[axis] > 0) {
    Shape first = x.shape();
    first[axis] = 1;
    x = cat({full(first, neutral, {.dtype = x.dtype(), .device = x.device()}), x.slice(axis, {0, x.shape()[axis] - 1})},
            axis);
  }
  const Tensor result = Run(x, axis, x.dtype()).to(x.dtype());  // sums of integers are i64
  return {backwards ? result.flip({axis}) : result};
}
Tensor running_sum(const Operand& x, int axis, DType dtype) {
  return cumsum(x, axis, dtype);
}
Tensor running_product(const Operand& x, int axis, DType dtype) {
  return cumprod(x, axis, dtype);
}
std::vector<Tensor> cumulative_sum(const Call& call) {
  return running<running_sum>(call, 0);
}
std::vector<Tensor> cumulative_product(const Call& call) {
  return running<running_product>(call, 1);
}

std::vector<Tensor> top_k(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", -1), x.rank());
  const std::int64_t k = call.version() < 10 ? call.integer("k") : call.host_integer(1);
  const ValuesIndices result = topk(ordered(x), k, axis, call.integer("largest", 1) != 0);
  return {from_ordered(result.values, x.dtype()), result.indices};
}

constexpr Operator kReductionOperators[] = {
    {.name = "ReduceSum", .run = reduce<reduce_sum, as_it_is, as_it_is>},
    {.name = "ReduceMean", .run = reduce<reduce_mean, as_it_is, as_it_is>},
    {.name = "ReduceProd", .run = reduce<reduce_prod, as_it_is, as_it_is>},
    {.name = "ReduceMax", .run = reduce<reduce_max, as_it_is, as_it_is>},
    {.name = "ReduceMin", .run = reduce<reduce_min, as_it_is, as_it_is>},
    {.name = "ReduceL1", .run = reduce<reduce_sum, absolute, as_it_is>},
    {.name = "ReduceL2", .run = reduce<reduce_sum, squared, root>},
    {.name = "ReduceSumSquare", .run = reduce<reduce_sum, squared, as_it_is>},
    {.name = "ReduceLogSum", .run = reduce<reduce_sum, as_it_is, logarithm>},
    {.name = "ReduceLogSumExp", .run = log_sum_exp},
    {.name = "ArgMax", .run = arg_max},
    {.name = "ArgMin", .run = arg_min},
    {.name = "Softmax", .run = softmax_of},
    {.name = "LogSoftmax", .run = log_softmax_of},
    {.name = "Hardmax", .run = hardmax},
    {.name = "CumSum", .run = cumulative_sum},
    {.name = "CumProd", .run = cumulative_product},
    {.name = "TopK", .run = top_k},
};

}  // namespace

std::span<const Operator> reduction_operators() {
  return kReductionOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
