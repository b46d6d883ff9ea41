#include "graph/gradient_rules.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "graph/gradients.h"
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

using Wanted = std::vector<bool>;
using Gradients = std::vector<Tensor>;

[[noreturn]] void fail_no_gradient(const Tensor& operand) {
  fail<ValueError>("has no gradient, but an operand is tracked", {{"input", operand}},
                   "detach the operand, or compute this part in a NoGrad scope");
}

Tensor zeros_of(const Shape& shape, const Tensor& like) {
  return zeros(shape, {.dtype = like.dtype(), .device = like.device()});
}

}  // namespace

Tensor sum_to(const Tensor& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const int added = g.rank() - shape.rank();
  std::uint32_t dims = 0;
  for (int d = 0; d < g.rank(); ++d) {
    if (g.shape()[d] != 1 && (d < added || shape[d - added] == 1)) dims |= 1u << d;
  }
  if (dims == 0) return g.reshape(shape);
  const Tensor wide_sum = reduce(ReduceOp::sum, cast(g, wide(g.dtype())), dims);
  return cast(wide_sum, g.dtype()).reshape(shape);
}

// --- elementwise and casts
// --------------------------------------------------------------------------------------------

Tensor trace_elementwise(const Tensor& result, Op op, std::span<const lockstep::Operand* const> operands) {
  constexpr std::size_t kMost = 3;
  std::array<const Tensor*, kMost> tensor_operands;
  std::array<std::uint8_t, kMost> position{};  // of each tensor operand among all
  std::size_t count = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->is_scalar()) continue;
    position[count] = static_cast<std::uint8_t>(i);
    tensor_operands[count++] = &operands[i]->tensor();
  }
  const std::span<const Tensor* const> tensors(tensor_operands.data(), count);
  if (!is_tracing(tensors) || !is_float(result.dtype())) return result;
  // What the gradients of tracked operands read; scalars become tensors that kernels see as constants.
  unsigned reads = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->is_scalar() || !is_tracing({&operands[i]->tensor()})) continue;
    if (i >= gradient_count(op)) fail_no_gradient(operands[i]->tensor());
    reads |= gradient_reads(op, i);
  }
  std::array<Kept, kMost> kept;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if ((reads >> i & 1u) == 0) continue;
    kept[i] = Kept(operands[i]->is_scalar()
                       ? full({}, operands[i]->scalar(), {.dtype = result.dtype(), .device = result.device()})
                       : operands[i]->tensor());
  }
  Rule rule = [op, kept = std::move(kept), position](const Tensor& g, const Wanted& wanted, const Tensor& value) {
    Gradients gradients(wanted.size());
    std::array<Tensor, kMost> read;
    for (std::size_t i = 0; i < kMost; ++i) {
      if (kept[i].is_set()) read[i] = kept[i].tensor();
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) gradients[i] = elementwise_gradient(op, position[i], read, value, g);
    }
    return gradients;
  };
  return traced(result, tensors, std::move(rule), (reads & kReadsResult) != 0);
}

Tensor trace_cast(const Tensor& result, const Tensor& from) {
  if (!is_tracing({&from}) || !is_float(result.dtype())) return result;
  return traced(result, {&from}, [dtype = from.dtype()](const Tensor& g, const Wanted&, const Tensor&) {
    return Gradients{cast(g, dtype)};
  });
}

// --- views
// ------------------------------------------------------------------------------------------------------------

namespace {

// Drops the elements of g that the view's last bound sends to the fill value, and the bound with them. False if it
// looks at several dimensions.
bool drop_outside(Tensor& g, View& view) {
  const Bound bound = view.bounds.back();
  int dim = -1;
  for (int d = 0; d < view.rank(); ++d) {
    if (bound.m[d] == 0 || view.shape[d] == 1) continue;
    if (dim >= 0) return false;
    dim = d;
  }
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 1;
  const auto inside = [&](std::int64_t i) {
    const std::int64_t c = bound.offset + (dim < 0 ? 0 : bound.m[dim] * i);
    return c >= bound.lo && c < bound.hi && c % bound.step == 0;
  };
  if (dim < 0) {
    count = inside(0) ? 1 : 0;
    if (count == 0) {
      if (view.rank() == 0) return false;
      dim = 0;
    }
  } else {
    // The indices inside are evenly spaced.
    const std::int64_t size = view.shape[dim];
    step = bound.step / std::gcd(bound.step, std::abs(bound.m[dim]));
    while (first < size && !inside(first)) ++first;
    std::int64_t last = size - 1;
    while (last > first && !inside(last)) --last;
    count = first >= size ? 0 : (last - first) / step + 1;
    if (first >= size) first = 0;
  }
  view.bounds.pop_back();
  if (dim >= 0) {
    g = g.slice(dim, {.start = first, .stop = count == 0 ? first : first + step * (count - 1) + 1, .step = step});
    view = view.sliced(dim, first, step, count);
  }
  if (bound.step > 1 && count > 0) {  // what the bound added to the address
    const std::int64_t m = dim < 0 ? 0 : bound.m[dim];
    view.offset += bound.stride * ((bound.offset + m * first) / bound.step);
    if (dim >= 0) view.strides[dim] += bound.stride * (m * step / bound.step);
  }
  return true;
}

// Whether no element is read twice: each stride reaches over all that the smaller ones span.
bool reads_once(const View& view) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;
  for (int d = 0; d < view.rank(); ++d) {
    if (view.shape[d] > 1) dims.emplace_back(std::abs(view.strides[d]), view.shape[d]);
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t span = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= span) return false;
    span += stride * (size - 1);
  }
  return true;
}

// g in the order of the elements that it goes to, if that is all of them.
std::optional<Tensor> reordered(const Tensor& g, const View& view, const Shape& shape) {
  if (view.offset != 0 || view.shape.numel() != shape.numel()) return std::nullopt;
  Shape order;
  for (int d = 0; d < view.rank(); ++d) {
    if (view.strides[d] < 0) return std::nullopt;
    order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return view.strides[static_cast<int>(a)] > view.strides[static_cast<int>(b)];
  });
  return g.permute(Dims(order)).reshape(shape);
}

// The dense position that each element of the view reads.
Tensor addresses(const View& view, const Tensor& like) {
  const TensorOptions options{.dtype = DType::i64, .device = like.device()};
  Tensor sum = full({}, static_cast<double>(view.offset), options);
  for (int d = 0; d < view.rank(); ++d) {
    Shape line = Shape::filled(view.rank(), 1);
    line[d] = view.shape[d];
    const Tensor positions = arange(0, static_cast<double>(view.shape[d]), 1, options).reshape(line);
    sum = sum + positions * static_cast<double>(view.strides[d]);
  }
  return sum.expand(view.shape);
}

}  // namespace

Tensor view_gradient(const Tensor& gradient, const View& of, const Shape& shape) {
  Tensor g = gradient;
  View view = of;
  while (!view.bounds.empty()) {
    if (!drop_outside(g, view)) break;
    if (view.shape.numel() == 0) return zeros_of(shape, g);
  }
  if (view.bounds.empty()) {
    Shape kept = view.shape;
    for (int d = 0; d < view.rank(); ++d) {
      if (view.strides[d] == 0) kept[d] = 1;
    }
    g = sum_to(g, kept);
    for (int d = 0; d < view.rank(); ++d) {
      if (view.strides[d] == 0 && view.shape[d] > 1) view = view.sliced(d, 0, 1, 1);
    }
    if (view.shape.numel() == 0) return zeros_of(shape, g);
    if (reads_once(view)) {
      if (std::optional<Tensor> all = reordered(g, view, shape)) return *all;
      return update(zeros_of(shape, g), view, g);
    }
  }
  // Elements that are read more than once (windows), or bounds over several dimensions.
  const Tensor flat = zeros_of({shape.numel()}, g);
  Tensor at;
  if (view.bounds.empty()) {
    at = addresses(view, g);
  } else {
    // The view itself, reading positions: what is outside reads -1, which is sent to a place of its own.
    const Tensor line = arange(0, static_cast<double>(shape.numel()), 1, {.dtype = DType::i64, .device = g.device()});
    View positions = view;
    positions.fill = static_cast<std::uint64_t>(shape.numel());
    const Tensor more = zeros_of({shape.numel() + 1}, g);
    at = view_tensor(node_of(stored(line)), positions, DType::i64);
    return scatter(ScatterOp::add, more, 0, at.reshape({-1}), g.reshape({-1}), true)
        .narrow(0, 0, shape.numel())
        .reshape(shape);
  }
  return scatter(ScatterOp::add, flat, 0, at.reshape({-1}), g.reshape({-1}), true).reshape(shape);
}

Tensor trace_view(const Tensor& result, const Tensor& from, const View& view) {
  return traced(result, {&from}, [view, shape = from.shape()](const Tensor& g, const Wanted&, const Tensor&) {
    return Gradients{view_gradient(g, view, shape)};
  });
}

// --- reductions
// -------------------------------------------------------------------------------------------------------

namespace {

// Everything but one element, multiplied: by division where no element is zero, else by hand.
Tensor product_gradient(const Tensor& g, const Tensor& a, const Tensor& product, std::uint32_t dims) {
  const Tensor is_zero = a == 0.0;
  const Tensor count = reduce(ReduceOp::sum, cast(is_zero, a.dtype()), dims);
  const Tensor others = reduce(ReduceOp::prod, where(is_zero, 1.0, a), dims);
  const Tensor at_zero = where(count == 1.0, others, 0.0);
  const Tensor elsewhere = where(count == 0.0, product / where(is_zero, 1.0, a), 0.0);
  return g * where(is_zero, at_zero, elsewhere);
}

}  // namespace

Tensor trace_reduce(const Tensor& result, ReduceOp op, std::uint32_t dims, const Tensor& a, const Tensor* b) {
  if (!is_tracing({&a, b}) || !is_float(result.dtype())) return result;
  switch (op) {
    case ReduceOp::sum:
      return traced(result, {&a}, [shape = a.shape()](const Tensor& g, const Wanted&, const Tensor&) {
        return Gradients{g.expand(shape)};
      });
    case ReduceOp::prod:
      return traced(
          result, {&a},
          [a, dims](const Tensor& g, const Wanted&, const Tensor& product) {
            return Gradients{product_gradient(g, a, product, dims)};
          },
          true);
    case ReduceOp::max:
    case ReduceOp::min:
      return traced(
          result, {&a},
          [a, dims](const Tensor& g, const Wanted&, const Tensor& best) {
            const Tensor wins = cast(a == best, a.dtype());
            const DType working = wide(a.dtype());
            const Tensor count = cast(reduce(ReduceOp::sum, cast(wins, working), dims), a.dtype());
            return Gradients{g / count * wins};
          },
          true);
    case ReduceOp::dot:
      return traced(result, {&a, b}, [x = Kept(a), y = Kept(*b)](const Tensor& g, const Wanted& wanted, const Tensor&) {
        return Gradients{wanted[0] ? g * y.tensor() : Tensor(), wanted[1] ? g * x.tensor() : Tensor()};
      });
    case ReduceOp::argmax:
    case ReduceOp::argmin: break;
  }
  return result;
}

// --- computed places
// --------------------------------------------------------------------------------------------------

Tensor trace_gather(const Tensor& result, const Tensor& source, int dim, const Tensor& index) {
  if (!is_tracing({&source}) || !is_float(result.dtype())) return result;
  return traced(result, {&source}, [index, dim, shape = source.shape()](const Tensor& g, const Wanted&, const Tensor&) {
    // One place of each line: a comparison joins what reads it. Like the sum of a scatter, it has no -0.
    if (index.shape()[dim] == 1) {
      Shape line = Shape::filled(shape.rank(), 1);
      line[dim] = shape[dim];
      const Tensor places =
          Access::tensor(make_node(Iota{}, {}, {shape[dim]}, DType::i64, index.device())).reshape(line);
      return Gradients{where(places == cast(index, DType::i64), g + 0.0, 0.0)};
    }
    return Gradients{scatter(ScatterOp::add, zeros_of(shape, g), dim, index, g, true)};
  });
}

namespace {

// What a scatter with this index wrote: the index may cover only a part of the other dimensions.
Tensor gather_back(const Tensor& from, int dim, const Tensor& index) {
  Tensor covered = from;
  for (int d = 0; d < from.rank(); ++d) {
    if (d != dim && index.shape()[d] != from.shape()[d]) covered = covered.narrow(d, 0, index.shape()[d]);
  }
  return gather(covered, dim, index);
}

// Which values a scatter left in its result: of several for one place the last.
Tensor stayed(const Shape& shape, int dim, const Tensor& index) {
  const TensorOptions options{.dtype = DType::i64, .device = index.device()};
  const Tensor order = arange(0, static_cast<double>(index.numel()), 1, options).reshape(index.shape());
  const Tensor last = scatter(ScatterOp::set, zeros(shape, options), dim, index, order, true);
  return gather_back(last, dim, index) == order;
}

// By division where no factor is zero, else by a product without the one that is; with two zeros there is nothing.
Tensor trace_scatter_product(const Tensor& result, const Tensor& self, int dim, const Tensor& index,
                             const Tensor& values, bool include_self) {
  Rule rule = [=](const Tensor& g, const Wanted& wanted, const Tensor& product) {
    const auto product_of = [&](const Tensor& to, const Tensor& from) {
      return scatter(ScatterOp::prod, to, dim, index, from, include_self);
    };
    Gradients gradients(2);
    if (wanted[0]) {
      const Tensor factor = where(self == 0.0, 1.0, self);
      gradients[0] = g * product_of(factor, values) / factor;
      if (!include_self) {
        gradients[0] = scatter(ScatterOp::set, gradients[0], dim, index, zeros_of(index.shape(), g), true);
      }
    }
    if (wanted[1]) {
      const Tensor is_zero = values == 0.0;
      const Tensor count = scatter(ScatterOp::add, zeros_like(self), dim, index, cast(is_zero, values.dtype()), true);
      const Tensor zeros_here = gather_back(count, dim, index);
      const Tensor alone = bitwise_and(is_zero, zeros_here == 1.0);
      const Tensor without = product_of(self, where(alone, 1.0, values));
      const Tensor others = gather_back(product, dim, index) / where(is_zero, 1.0, values);
      gradients[1] =
          gather_back(g, dim, index) * where(alone, gather_back(without, dim, index), where(is_zero, 0.0, others));
    }
    return gradients;
  };
  return traced(result, {&self, &values}, std::move(rule), true);
}

// d cumprod: element i has a share in every product from i on. Before the first zero that is their sum divided by the
// element; at the first zero the products without it; behind it nothing.
Tensor product_scan_gradient(const Tensor& g, const Tensor& a, const Tensor& products, int dim) {
  const auto from_here_on = [&](const Tensor& terms) { return scan(ScanOp::sum, terms.flip({dim}), dim).flip({dim}); };
  const Tensor is_zero = a == 0.0;
  const Tensor zeros_so_far = scan(ScanOp::sum, cast(is_zero, a.dtype()), dim);
  const Tensor first_zero = bitwise_and(is_zero, zeros_so_far == 1.0);
  const Tensor without = scan(ScanOp::prod, where(first_zero, 1.0, a), dim);
  return where(first_zero, from_here_on(g * without),
               where(zeros_so_far == 0.0, from_here_on(g * products) / where(is_zero, 1.0, a), 0.0));
}

}  // namespace

Tensor trace_scatter(const Tensor& result, ScatterOp op, const Tensor& self, int dim, const Tensor& index,
                     const Tensor& values, bool include_self) {
  if (!is_tracing({&self, &values}) || !is_float(result.dtype())) return result;
  if (op == ScatterOp::prod) return trace_scatter_product(result, self, dim, index, values, include_self);
  const bool sums = op == ScatterOp::add;
  const bool sets = op == ScatterOp::set;
  Rule rule = [=, self = sums || sets ? Tensor() : self, values = sums || sets ? Tensor() : values](
                  const Tensor& g, const Wanted& wanted, const Tensor& best) {
    Gradients gradients(2);
    if (sums || sets) {
      const Tensor none = zeros(index.shape(), {.dtype = g.dtype(), .device = g.device()});
      const bool passes = sums && include_self;
      if (wanted[0]) gradients[0] = passes ? g : scatter(ScatterOp::set, g, dim, index, none, true);
      if (wanted[1]) gradients[1] = gather_back(g, dim, index);
      if (wanted[1] && sets) gradients[1] = where(stayed(g.shape(), dim, index), gradients[1], 0.0);
      return gradients;
    }
    // max and min: those that are equal to the result share.
    const Tensor at_self = cast(self == best, g.dtype());
    const Tensor at_values = cast(values == gather_back(best, dim, index), g.dtype());
    const Tensor own =
        include_self ? at_self : scatter(ScatterOp::set, ones_like(g), dim, index, zeros_like(at_values), true);
    const Tensor share = g / scatter(ScatterOp::add, own, dim, index, at_values, true);
    if (wanted[0]) gradients[0] = share * own;
    if (wanted[1]) gradients[1] = gather_back(share, dim, index) * at_values;
    return gradients;
  };
  return traced(result, {&self, &values}, std::move(rule), !sums && !sets);
}

Tensor trace_scan(const Tensor& result, ScanOp op, const Tensor& a, int dim) {
  if (!is_tracing({&a}) || !is_float(result.dtype())) return result;
  if (op == ScanOp::sum) {
    return traced(result, {&a}, [dim](const Tensor& g, const Wanted&, const Tensor&) {
      return Gradients{scan(ScanOp::sum, g.flip({dim}), dim).flip({dim})};
    });
  }
  if (op == ScanOp::max || op == ScanOp::min) {
    const ScanOp where = op == ScanOp::max ? ScanOp::argmax : ScanOp::argmin;
    return traced(result, {&a}, [a, dim, where](const Tensor& g, const Wanted&, const Tensor&) {
      return Gradients{scatter(ScatterOp::add, zeros_of(a.shape(), g), dim, scan(where, a, dim), g, true)};
    });
  }
  if (op == ScanOp::prod) {
    return traced(
        result, {&a},
        [a, dim](const Tensor& g, const Wanted&, const Tensor& products) {
          return Gradients{product_scan_gradient(g, a, products, dim)};
        },
        true);
  }
  fail_no_gradient(a);
}

Tensor trace_update(const Tensor& result, const Tensor& self, const View& region, const Tensor& values) {
  if (!is_tracing({&self, &values}) || !is_float(result.dtype())) return result;
  return traced(result, {&self, &values}, [region](const Tensor& g, const Wanted& wanted, const Tensor&) {
    Gradients gradients(2);
    if (wanted[0]) gradients[0] = update(g, region, zeros_of(region.shape, g));
    if (wanted[1]) {
      const Tensor dense = contiguous(g);
      gradients[1] = is_tracing({&dense}) ? trace_view(view_tensor(node_of(dense), region, g.dtype()), dense, region)
                                          : view_tensor(node_of(dense), region, g.dtype());
    }
    return gradients;
  });
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
