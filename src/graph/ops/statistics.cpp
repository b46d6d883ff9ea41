// Medians, quantiles and modes: positions in the stable sorted order (docs/numerics.md section 4, NaN last).
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/operand.h"
#include "graph/ops/reduction.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// A row's elements in order. `missing` counts its NaN, [..., 1]; absent for integers.
struct Sorted {
  Tensor order;
  int dim;
  std::int64_t length;
  Tensor missing;
};

Sorted sorted(const Tensor& x, int dim) {
  Sorted result{sort_indices(x, dim, false), dim, x.shape()[dim], {}};
  if (result.length == 0) {
    fail<ShapeError>("of no elements has no value", {{"input", x}}, "reduce dimensions of size > 0");
  }
  if (is_float(x.dtype())) {
    result.missing = reduce(ReduceOp::sum, cast(isnan(x), DType::i64), 1u << dim);
  }
  return result;
}

// The elements at `rank` (i64, size 1 along the dimension) of the sorted order.
ValuesIndices at_rank(const Tensor& x, const Sorted& rows, const Tensor& rank, bool keepdim) {
  const Tensor index = gather(rows.order, rows.dim, rank);
  const Tensor value = gather(x, rows.dim, index);
  return {drop_dims(value, 1u << rows.dim, keepdim), drop_dims(index, 1u << rows.dim, keepdim)};
}

ValuesIndices middle(const Operand& a, int dim, bool keepdim, bool ignore_nan) {
  const Tensor& input = tensor_operand(a);
  const bool scalar = input.rank() == 0;
  const Tensor x = scalar ? input.reshape({1}) : input;
  const Sorted rows = sorted(x, check_dim(x, dim));
  Shape shape = x.shape();
  shape[rows.dim] = 1;
  const std::int64_t half = (rows.length - 1) / 2;
  Tensor rank = full(shape, static_cast<double>(half), {.dtype = DType::i64, .device = x.device()});
  if (rows.missing.defined()) {
    const Tensor present = rows.length - rows.missing;
    rank = ignore_nan ? maximum(shift_right(present - 1, 1), 0) : where(rows.missing > 0, present, rank);
  }
  return at_rank(x, rows, rank, scalar ? false : keepdim);
}

}  // namespace

ValuesIndices median(const Operand& a, int dim, bool keepdim) {
  const CallScope call("median", a);
  return middle(a, dim, keepdim, false);
}
ValuesIndices nanmedian(const Operand& a, int dim, bool keepdim) {
  const CallScope call("nanmedian", a);
  return middle(a, dim, keepdim, true);
}
Tensor median(const Operand& a) {
  const CallScope call("median", a);
  const Tensor flat = tensor_operand(a).reshape({-1});
  return median(flat, 0).values;
}
Tensor nanmedian(const Operand& a) {
  const CallScope call("nanmedian", a);
  const Tensor flat = tensor_operand(a).reshape({-1});
  return nanmedian(flat, 0).values;
}

ValuesIndices mode(const Operand& a, int dim, bool keepdim) {
  const CallScope call("mode", a);
  const Tensor& input = tensor_operand(a);
  const bool scalar = input.rank() == 0;
  const Tensor x = scalar ? input.reshape({1}) : input;
  const Sorted rows = sorted(x, check_dim(x, dim));
  const int d = rows.dim;
  const Tensor values = gather(x, d, rows.order);
  // Where each run of equal values starts; an element's place in its run is largest at the end of the longest run, and
  // argmax takes the first of these: the smallest value.
  Shape along = Shape::filled(x.rank(), 1);
  along[d] = rows.length;
  const Tensor place =
      arange(0, static_cast<double>(rows.length), 1, {.dtype = DType::i64, .device = x.device()}).reshape(along);
  Shape one = x.shape();
  one[d] = 1;
  const Tensor differs = cat({ones(one, {.dtype = DType::boolean, .device = x.device()}),
                              ne(values.narrow(d, 1, rows.length - 1), values.narrow(d, 0, rows.length - 1))},
                             d);
  const Tensor start = scan(ScanOp::max, where(differs, place.expand(x.shape()), 0), d);
  const Tensor rank = reduce(ReduceOp::argmax, place - start, 1u << d);
  return at_rank(x, rows, rank, scalar ? false : keepdim);
}

// --- quantiles ------------------------------------------------------------------------------------------------------

namespace {

Tensor quantile_of(const Operand& a, const Operand& q, std::optional<int> dim, bool keepdim, QuantileMode interpolation,
                   bool ignore_nan) {
  Tensor x = widened(a);
  const int original_rank = x.rank();
  const int d = dim && original_rank > 0 ? check_dim(a.tensor(), *dim) : 0;
  if (!dim || original_rank == 0) {
    x = x.reshape({-1});
  } else {
    x = x.unsqueeze(-1).transpose(d, -1).squeeze(d);  // the dimension last, the others in order
  }
  Tensor shares;
  if (q.is_scalar()) {
    if (!(q.scalar() >= 0 && q.scalar() <= 1)) {
      fail<ValueError>(fmt::format("q is {}", q.scalar()), {{"input", a}}, "use a q from 0 to 1");
    }
    shares = full({1}, q.scalar(), {.dtype = x.dtype(), .device = x.device()});
  } else {
    check_same_device({{"input", a}, {"q", q}});
    shares = cast(q.tensor(), wide(q.tensor().dtype()));
    if (shares.dtype() != x.dtype() || shares.rank() > 1) {
      fail<DTypeError>(fmt::format("q must be {} with at most one dimension", name_of(x.dtype())),
                       {{"input", a}, {"q", q}}, "cast or reshape q");
    }
    shares = shares.reshape({-1});
  }
  const int last = x.rank() - 1;
  const Sorted rows = sorted(x, last);
  const Tensor values = gather(x, last, rows.order);
  const double largest = static_cast<double>(rows.length - 1);
  Tensor rank;  // [..., q]
  if (ignore_nan) {
    const Tensor present = cast((rows.length - 1) - rows.missing, x.dtype());
    rank = maximum(shares * present, 0.0);
  } else {
    rank = where(rows.missing > 0, largest, shares * largest);
  }
  if (interpolation == QuantileMode::lower) rank = floor(rank);
  if (interpolation == QuantileMode::higher) rank = ceil(rank);
  if (interpolation == QuantileMode::nearest) rank = round(rank);
  const auto at = [&](const Tensor& place) { return gather(values, last, cast(place, DType::i64)); };
  const Tensor below = floor(rank);
  Tensor result = at(below);
  if (interpolation == QuantileMode::linear) result = lerp(result, at(ceil(rank)), rank - below);
  if (interpolation == QuantileMode::midpoint) result = lerp(result, at(ceil(rank)), 0.5);
  result = cast(result, a.tensor().dtype());
  // The q dimension first, or gone.
  const bool drop = q.is_scalar() || q.tensor().rank() == 0;
  Dims order{last};
  for (int i = 0; i < last; ++i) order.push_back(i);
  result = result.permute(order);
  if (keepdim) {
    if (dim && original_rank > 0) {
      result = result.unsqueeze(d + 1);
    } else {
      Shape shape = Shape::filled(original_rank + 1, 1);
      shape[0] = result.shape()[0];
      result = result.reshape(shape);
    }
  }
  return drop ? result.squeeze(0) : result;
}

}  // namespace

Tensor quantile(const Operand& a, const Operand& q, std::optional<int> dim, bool keepdim, QuantileMode interpolation) {
  const CallScope call("quantile", a);
  return quantile_of(a, q, dim, keepdim, interpolation, false);
}
Tensor nanquantile(const Operand& a, const Operand& q, std::optional<int> dim, bool keepdim,
                   QuantileMode interpolation) {
  const CallScope call("nanquantile", a);
  return quantile_of(a, q, dim, keepdim, interpolation, true);
}

}  // namespace v0
}  // namespace lockstep
