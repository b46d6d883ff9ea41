#include "graph/ops/contraction.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <lockstep/autograd.h>

#include "backends/backend.h"
#include "graph/numerics.h"
#include "graph/recording.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

constexpr std::int64_t kOutputsOfFloats = 16;  ///< what cuBLASLt takes a multiple of
// Dimensions that a group of the primitive may have.
constexpr int kGroupRank = 4;

Shape sizes_of(const Tensor& tensor, const Shape& dims) {
  Shape sizes;
  for (const std::int64_t d : dims) sizes.push_back(tensor.shape()[static_cast<int>(d)]);
  return sizes;
}

// A group as the primitive takes it: sizes of 1 say nothing, and too many dimensions become one.
Shape merged(const Shape& sizes) {
  Shape result;
  for (const std::int64_t size : sizes) {
    if (size != 1) result.push_back(size);
  }
  if (result.rank() > kGroupRank) result = {result.numel()};
  return result;
}

Shape joined(std::initializer_list<const Shape*> groups) {
  Shape result;
  for (const Shape* group : groups) {
    for (const std::int64_t size : *group) result.push_back(size);
  }
  return result;
}

// Fast numerics are asked for, and so are given or refused; what is too small for tensor cores, and computed exactly,
// is within their bound, too.
void check_fast(const Contract& product, const Reading& a, const Reading& b) {
  const Device device = a.base->device;
  const Backend& backend = backend_of(device);
  std::string missing = backend.missing_for_fast();
  if (missing.empty() && has_fast_form(b.base->encoding, product.b_view, product.b.rank(), product.k.rank())) {
    missing = backend.missing_for_fast_floats();
    const std::int64_t outputs = product.n.numel();
    if (missing.empty() && outputs % kOutputsOfFloats != 0)
      missing =
          fmt::format("weights of 8-bit floats take outputs in multiples of {}, not {}", kOutputsOfFloats, outputs);
  } else if (missing.empty() && (a.base->encoding != Encoding::dense || b.base->encoding != Encoding::dense)) {
    missing = "of packed weights only e4m3 along whole blocks, without batches, has them";
  }
  check<DeviceError>(missing.empty(), fmt::format("fast numerics on {}: {}", device.to_string(), missing), {},
                     "Numerics::blocked or exact, which every device has, for this op");
}

}  // namespace

DType accumulated(DType dtype) {
  if (is_float(dtype)) return wide(dtype);
  return dtype == DType::i64 || dtype == DType::u32 ? DType::i64 : DType::i32;
}

DType returned(DType dtype) {
  return is_float(dtype) ? dtype : accumulated(dtype);
}

void check_operands(const Operands& shown) {
  for (const Shown& operand : shown) {
    if (operand.tensor == nullptr) {
      fail<ValueError>(fmt::format("{} must be a tensor", operand.label), shown, "make the scalar a tensor");
    }
  }
  check_same_device(shown);
  // Floats of 16 bits multiply packed weights as they are.
  std::vector<Shown> alike;
  for (const Shown& operand : shown) {
    const Tensor& tensor = *operand.tensor;
    const DType first = alike.empty() ? tensor.dtype() : alike.front().tensor->dtype();
    const bool is_narrow = first == DType::f16 || first == DType::bf16;
    if (is_narrow && tensor.encoding() != Encoding::dense && tensor.dtype() == DType::f32) continue;
    alike.push_back(operand);
  }
  check_same_dtype(alike);
}

Tensor contract(Contract primitive, const Reading& a, const Reading& b, DType dtype) {
  const Shape shape = joined({&primitive.b, &primitive.m, &primitive.n});
  const Device device = a.base->device;
  primitive.numerics = numerics_of(dtype, primitive, b.base->encoding);
  if (primitive.numerics == Numerics::fast) check_fast(primitive, a, b);
  return Access::tensor(make_node(std::move(primitive), {a.base, b.base}, shape, accumulated(dtype), device));
}

Tensor as_multiplied(const Tensor& gradient, DType dtype, Numerics numerics) {
  return numerics == Numerics::fast ? cast(gradient, dtype) : gradient;
}

View repeated(const View& view, int position, const Shape& sizes) {
  View result = view;
  for (int d = 0; d < sizes.rank(); ++d) {
    result.shape.insert(position + d, sizes[d]);
    result.strides.insert(position + d, 0);
    for (Bound& bound : result.bounds) bound.m.insert(position + d, 0);
  }
  return result;
}

namespace {

Tensor product_of_dims(const Tensor& a, const Tensor& b, const ContractionDims& dims);
Tensor product_of_matrices(const Tensor& a, const Tensor& b);

Shape counted(int first, int count) {
  Shape dims;
  for (int d = 0; d < count; ++d) dims.push_back(first + d);
  return dims;
}

// The product of a gradient with the other operand has the dims `order` of an operand: put them in its own order.
Tensor in_own_order(const Tensor& gradient, const Shape& order) {
  Shape inverse = order;
  for (int d = 0; d < order.rank(); ++d) inverse[static_cast<int>(order[d])] = d;
  return gradient.permute(Dims(inverse));
}

// Of packed weights fast products have no gradients: those are exact.
Numerics numerics_of_gradient(const Tensor& a, const Tensor& b) {
  const Numerics numerics = numerics_of(a.dtype());
  return numerics == Numerics::fast && b.encoding() != Encoding::dense ? Numerics::exact : numerics;
}

// y[batch, m, n] = sum_k a b: the gradient of a sums over n, that of b over m.
Tensor trace_dims(const Tensor& product, const Tensor& a, const Tensor& b, const ContractionDims& dims) {
  const Numerics numerics = numerics_of_gradient(a, b);
  return traced(product, {&a, &b}, [=](const Tensor& upstream, const std::vector<bool>& wanted, const Tensor&) {
    const InnerNumerics inner(numerics);
    const Tensor g = as_multiplied(upstream, a.dtype(), numerics);
    const int batch = dims.batch_a.rank();
    const int m = dims.m.rank();
    const int n = dims.n.rank();
    std::vector<Tensor> gradients(2);
    if (wanted[0]) {
      const Tensor of_a = contract_dims(g, cast(b, g.dtype()),
                                        {.batch_a = counted(0, batch),
                                         .batch_b = dims.batch_b,
                                         .m = counted(batch, m),
                                         .n = dims.k_b,
                                         .k_a = counted(batch + m, n),
                                         .k_b = dims.n});
      gradients[0] = in_own_order(of_a, joined({&dims.batch_a, &dims.m, &dims.k_a}));
    }
    if (wanted[1]) {
      const Tensor of_b = contract_dims(cast(a, g.dtype()), g,
                                        {.batch_a = dims.batch_a,
                                         .batch_b = counted(0, batch),
                                         .m = dims.k_a,
                                         .n = counted(batch + m, n),
                                         .k_a = dims.m,
                                         .k_b = counted(batch, m)});
      gradients[1] = in_own_order(of_b, joined({&dims.batch_b, &dims.k_b, &dims.n}));
    }
    return gradients;
  });
}

}  // namespace

Tensor contract_dims(const Tensor& a, const Tensor& b, const ContractionDims& dims) {
  const Tensor product = [&] {
    const NoGrad scope;
    return product_of_dims(a, b, dims);
  }();
  return is_tracing({&a, &b}) && is_float(product.dtype()) ? trace_dims(product, a, b, dims) : product;
}

namespace {

Tensor product_of_dims(const Tensor& a, const Tensor& b, const ContractionDims& dims) {
  const Shape batch = sizes_of(a, dims.batch_a);
  const Shape m = sizes_of(a, dims.m);
  const Shape n = sizes_of(b, dims.n);
  Contract primitive;
  primitive.b = merged(batch);
  primitive.m = merged(m);
  primitive.n = merged(n);
  primitive.k = merged(sizes_of(a, dims.k_a));
  // Merging needs a reshape, which a permuted view may not have; only then are elements stored.
  const auto grouped = [&](const Tensor& tensor, const Shape& order, const Shape& shape) {
    return reading_as(tensor.permute(Dims(order)), [&](const View& view) { return view.reshaped(shape); });
  };
  const Reading ra =
      grouped(a, joined({&dims.batch_a, &dims.m, &dims.k_a}), joined({&primitive.b, &primitive.m, &primitive.k}));
  const Reading rb =
      grouped(b, joined({&dims.batch_b, &dims.k_b, &dims.n}), joined({&primitive.b, &primitive.k, &primitive.n}));
  primitive.a_view = ra.view;
  primitive.b_view = rb.view;
  return contract(std::move(primitive), ra, rb, a.dtype()).reshape(joined({&batch, &m, &n}));
}

// The gradient for one operand of a batched product: `product(g, other)` sums over the batch dimensions that the
// operand does not have as well, outermost.
struct BatchRoles {
  Shape kept;
  Shape summed;
};
BatchRoles batch_roles(const Shape& operand, const Shape& result) {
  BatchRoles roles;
  const int added = result.rank() - operand.rank();
  for (int d = 0; d + 2 < result.rank(); ++d) {
    const bool has = d >= added && operand[d - added] == result[d];
    (has ? roles.kept : roles.summed).push_back(d);
  }
  return roles;
}

Shape with(const Shape& dims, std::int64_t last) {
  Shape result = dims;
  result.push_back(last);
  return result;
}

Tensor trace_matmul(const Tensor& product, const Tensor& a, const Tensor& b) {
  const Numerics numerics = numerics_of_gradient(a, b);
  return traced(product, {&a, &b}, [=](const Tensor& upstream, const std::vector<bool>& wanted, const Tensor&) {
    const InnerNumerics inner(numerics);
    const Tensor g = as_multiplied(upstream, a.dtype(), numerics);
    const int rank = g.rank();
    std::vector<Tensor> gradients(2);
    const auto spread = [&](const Tensor& operand) {
      Shape shape = g.shape().slice(0, rank - 2);
      for (int d = operand.rank() - 2; d < operand.rank(); ++d) shape.push_back(operand.shape()[d]);
      return cast(operand, g.dtype()).expand(shape);
    };
    if (wanted[0]) {
      const BatchRoles roles = batch_roles(a.shape(), g.shape());
      const Shape k = with(roles.summed, rank - 1);
      gradients[0] =
          contract_dims(
              g, spread(b),
              {.batch_a = roles.kept, .batch_b = roles.kept, .m = {rank - 2}, .n = {rank - 2}, .k_a = k, .k_b = k})
              .reshape(a.shape());
    }
    if (wanted[1]) {
      const BatchRoles roles = batch_roles(b.shape(), g.shape());
      const Shape k = with(roles.summed, rank - 2);
      const ContractionDims dims{
          .batch_a = roles.kept, .batch_b = roles.kept, .m = {rank - 1}, .n = {rank - 1}, .k_a = k, .k_b = k};
      // As b lies: a transposed weight's gradient is stored as the weight is.
      const Shape strides = read(b).view.strides;
      const bool transposed = strides[b.rank() - 2] < strides[b.rank() - 1];
      const Tensor of_b =
          transposed ? contract_dims(g, spread(a), dims).transpose(-1, -2) : contract_dims(spread(a), g, dims);
      gradients[1] = of_b.reshape(b.shape());
    }
    return gradients;
  });
}

}  // namespace

Tensor batched_matmul(const Tensor& a, const Tensor& b) {
  const Tensor product = [&] {
    const NoGrad scope;
    return product_of_matrices(a, b);
  }();
  if (numerics_of(a.dtype()) == Numerics::exact && current_numerics() != Numerics::q8) recorded(product, "matmul", {&a, &b});
  return is_tracing({&a, &b}) && is_float(product.dtype()) ? trace_matmul(product, a, b) : product;
}

namespace {

Tensor product_of_matrices(const Tensor& a, const Tensor& b) {
  const Shape& sa = a.shape();
  const Shape& sb = b.shape();
  const std::int64_t m = sa[sa.rank() - 2];
  const std::int64_t k = sa.back();
  const std::int64_t n = sb.back();
  Contract primitive;
  primitive.n = {n};
  primitive.k = {k};
  Reading ra;
  Reading rb;
  Shape result;
  if (sb.rank() == 2) {
    // One matrix b for the whole batch: the batch is more rows.
    Shape rows = sa.slice(0, sa.rank() - 1);
    const std::int64_t count = rows.numel();
    result = rows;
    ra = reading_as(a, [&](const View& view) { return view.reshaped({count, k}); });
    rb = read(b);
    primitive.m = {count};
  } else {
    const Shape batch_a = sa.slice(0, sa.rank() - 2);
    const Shape batch_b = sb.slice(0, sb.rank() - 2);
    Shape batch = batch_a.rank() >= batch_b.rank() ? batch_a : batch_b;
    for (int i = 1; i <= std::min(batch_a.rank(), batch_b.rank()); ++i) {
      const std::int64_t size_a = batch_a[batch_a.rank() - i];
      const std::int64_t size_b = batch_b[batch_b.rank() - i];
      batch[batch.rank() - i] = size_a == 1 ? size_b : size_a;
    }
    result = batch;
    result.push_back(m);
    const auto expanded = [&](const Tensor& tensor, std::int64_t rows, std::int64_t columns) {
      Shape target = batch;
      target.push_back(rows);
      target.push_back(columns);
      Reading reading = read(tensor);
      return Reading{reading.base, reading.view.expanded(target)};
    };
    ra = expanded(a, m, k);
    rb = expanded(b, k, n);
    // At most four batch dimensions reach the kernel: merge where both views allow, else store.
    if (batch.rank() > kGroupRank) {
      const std::int64_t count = batch.numel();
      ra = reading_as(a.expand(ra.view.shape), [&](const View& view) { return view.reshaped({count, m, k}); });
      rb = reading_as(b.expand(rb.view.shape), [&](const View& view) { return view.reshaped({count, k, n}); });
      batch = {count};
    }
    primitive.b = batch;
    primitive.m = {m};
  }
  primitive.a_view = ra.view;
  primitive.b_view = rb.view;
  const Tensor product = contract(std::move(primitive), ra, rb, a.dtype());
  result.push_back(n);
  return product.reshape(result);
}

}  // namespace

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
