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

Sorted sorted(const char* op, const Tensor& x, int dim, CallSite site) {
  Sorted result{sort_indices(x, dim, false, site), dim, x.shape()[dim], {}};
  if (result.length == 0) {
    fail<ShapeError>(op, "of no elements has no value", {{"input", x}}, "reduce dimensions of size > 0", site);
  }
  if (is_float(x.dtype())) {
    result.missing = reduce(ReduceOp::sum, cast(isnan(Operand(x, site)), DType::i64, site), 1u << dim, site);
  }
  return result;
}

// The elements at `rank` (i64, size 1 along the dimension) of the sorted order.
ValuesIndices at_rank(const char* op, const Tensor& x, const Sorted& rows, const Tensor& rank, bool keepdim,
                      CallSite site) {
  const Tensor index = gather(rows.order, rows.dim, rank, site, op);
  const Tensor value = gather(x, rows.dim, index, site, op);
  return {drop_dims(value, 1u << rows.dim, keepdim, site), drop_dims(index, 1u << rows.dim, keepdim, site)};
}

ValuesIndices middle(const char* op, const Operand& a, int dim, bool keepdim, bool ignore_nan) {
  const Tensor& input = tensor_operand(op, a);
  const CallSite site = a.site();
  const bool scalar = input.rank() == 0;
  const Tensor x = scalar ? input.reshape({1}, site) : input;
  const Sorted rows = sorted(op, x, check_dim(op, x, dim, site), site);
  Shape shape = x.shape();
  shape[rows.dim] = 1;
  const std::int64_t half = (rows.length - 1) / 2;
  Tensor rank = full(shape, static_cast<double>(half), {.dtype = DType::i64, .device = x.device()}, site);
  if (rows.missing.defined()) {
    const Tensor present = Operand(rows.length, site) - rows.missing;
    rank = ignore_nan ? maximum(shift_right(present - 1, 1), 0) : where(rows.missing > 0, present, rank);
  }
  return at_rank(op, x, rows, rank, scalar ? false : keepdim, site);
}

}  // namespace

ValuesIndices median(const Operand& a, int dim, bool keepdim) {
  return middle("median", a, dim, keepdim, false);
}
ValuesIndices nanmedian(const Operand& a, int dim, bool keepdim) {
  return middle("nanmedian", a, dim, keepdim, true);
}
Tensor median(const Operand& a) {
  const Tensor flat = tensor_operand("median", a).reshape({-1}, a.site());
  return median(Operand(flat, a.site()), 0).values;
}
Tensor nanmedian(const Operand& a) {
  const Tensor flat = tensor_operand("nanmedian", a).reshape({-1}, a.site());
  return nanmedian(Operand(flat, a.site()), 0).values;
}

ValuesIndices mode(const Operand& a, int dim, bool keepdim) {
  const Tensor& input = tensor_operand("mode", a);
  const CallSite site = a.site();
  const bool scalar = input.rank() == 0;
  const Tensor x = scalar ? input.reshape({1}, site) : input;
  const Sorted rows = sorted("mode", x, check_dim("mode", x, dim, site), site);
  const int d = rows.dim;
  const Tensor values = gather(x, d, rows.order, site, "mode");
  // Where each run of equal values starts; an element's place in its run is largest at the end of the longest run, and
  // argmax takes the first of these: the smallest value.
  Shape along = Shape::filled(x.rank(), 1);
  along[d] = rows.length;
  const Tensor place = arange(0, static_cast<double>(rows.length), 1, {.dtype = DType::i64, .device = x.device()}, site)
                           .reshape(along, site);
  Shape one = x.shape();
  one[d] = 1;
  const Tensor differs =
      cat({ones(one, {.dtype = DType::boolean, .device = x.device()}, site),
           ne(values.narrow(d, 1, rows.length - 1, site), values.narrow(d, 0, rows.length - 1, site))},
          d, site);
  const Tensor start = scan(ScanOp::max, where(differs, place.expand(x.shape(), site), 0), d, site);
  const Tensor rank = reduce(ReduceOp::argmax, place - start, 1u << d, site);
  return at_rank("mode", x, rows, rank, scalar ? false : keepdim, site);
}

// --- quantiles ------------------------------------------------------------------------------------------------------

namespace {

Tensor quantile_of(const char* op, const Operand& a, const Operand& q, std::optional<int> dim, bool keepdim,
                   QuantileMode interpolation, bool ignore_nan) {
  const CallSite site = a.site();
  Tensor x = widened(op, a);
  const int original_rank = x.rank();
  const int d = dim && original_rank > 0 ? check_dim(op, a.tensor(), *dim, site) : 0;
  if (!dim || original_rank == 0) {
    x = x.reshape({-1}, site);
  } else {
    x = x.unsqueeze(-1, site).transpose(d, -1, site).squeeze(d, site);  // the dimension last, the others in order
  }
  Tensor shares;
  if (q.is_scalar()) {
    if (!(q.scalar() >= 0 && q.scalar() <= 1)) {
      fail<ValueError>(op, fmt::format("q is {}", q.scalar()), {{"input", a}}, "use a q from 0 to 1", site);
    }
    shares = full({1}, q.scalar(), {.dtype = x.dtype(), .device = x.device()}, site);
  } else {
    check_same_device(op, {{"input", a}, {"q", q}}, site);
    shares = cast(q.tensor(), wide(q.tensor().dtype()), site);
    if (shares.dtype() != x.dtype() || shares.rank() > 1) {
      fail<DTypeError>(op, fmt::format("q must be {} with at most one dimension", name_of(x.dtype())),
                       {{"input", a}, {"q", q}}, "cast or reshape q", site);
    }
    shares = shares.reshape({-1}, site);
  }
  const int last = x.rank() - 1;
  const Sorted rows = sorted(op, x, last, site);
  const Tensor values = gather(x, last, rows.order, site, op);
  const double largest = static_cast<double>(rows.length - 1);
  Tensor rank;  // [..., q]
  if (ignore_nan) {
    const Tensor present = cast(Operand(rows.length - 1, site) - rows.missing, x.dtype(), site);
    rank = maximum(shares * present, 0.0);
  } else {
    rank = where(rows.missing > 0, largest, shares * largest);
  }
  if (interpolation == QuantileMode::lower) rank = floor(rank);
  if (interpolation == QuantileMode::higher) rank = ceil(rank);
  if (interpolation == QuantileMode::nearest) rank = round(rank);
  const auto at = [&](const Tensor& place) { return gather(values, last, cast(place, DType::i64, site), site, op); };
  const Tensor below = floor(rank);
  Tensor result = at(below);
  if (interpolation == QuantileMode::linear) result = lerp(result, at(ceil(rank)), rank - below);
  if (interpolation == QuantileMode::midpoint) result = lerp(result, at(ceil(rank)), 0.5);
  result = cast(result, a.tensor().dtype(), site);
  // The q dimension first, or gone.
  const bool drop = q.is_scalar() || q.tensor().rank() == 0;
  Dims order{last};
  for (int i = 0; i < last; ++i) order.push_back(i);
  result = result.permute(order, site);
  if (keepdim) {
    if (dim && original_rank > 0) {
      result = result.unsqueeze(d + 1, site);
    } else {
      Shape shape = Shape::filled(original_rank + 1, 1);
      shape[0] = result.shape()[0];
      result = result.reshape(shape, site);
    }
  }
  return drop ? result.squeeze(0, site) : result;
}

}  // namespace

Tensor quantile(const Operand& a, const Operand& q, std::optional<int> dim, bool keepdim, QuantileMode interpolation) {
  return quantile_of("quantile", a, q, dim, keepdim, interpolation, false);
}
Tensor nanquantile(const Operand& a, const Operand& q, std::optional<int> dim, bool keepdim,
                   QuantileMode interpolation) {
  return quantile_of("nanquantile", a, q, dim, keepdim, interpolation, true);
}

}  // namespace v0
}  // namespace lockstep
