#include "graph/ops/contraction.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

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

}  // namespace

DType accumulated(DType dtype) {
  if (is_float(dtype)) return wide(dtype);
  return dtype == DType::i64 || dtype == DType::u32 ? DType::i64 : DType::i32;
}

DType returned(DType dtype) {
  return is_float(dtype) ? dtype : accumulated(dtype);
}

void check_operands(const char* op, const std::vector<Shown>& shown, CallSite site) {
  for (const Shown& operand : shown) {
    if (operand.tensor == nullptr) {
      fail<ValueError>(op, fmt::format("{} must be a tensor", operand.label), shown, "make the scalar a tensor", site);
    }
  }
  check_same_device(op, shown, site);
  check_same_dtype(op, shown, site);
}

Tensor contract(Contract primitive, const Reading& a, const Reading& b, DType dtype, CallSite site) {
  const Shape shape = joined({&primitive.b, &primitive.m, &primitive.n});
  const Device device = a.base->device;
  return Access::tensor(make_node(std::move(primitive), {a.base, b.base}, shape, accumulated(dtype), device, site));
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

Tensor contract_dims(const Tensor& a, const Tensor& b, const ContractionDims& dims, CallSite site) {
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
    return reading_as(tensor.permute(order, site), site, [&](const View& view) { return view.reshaped(shape); });
  };
  const Reading ra =
      grouped(a, joined({&dims.batch_a, &dims.m, &dims.k_a}), joined({&primitive.b, &primitive.m, &primitive.k}));
  const Reading rb =
      grouped(b, joined({&dims.batch_b, &dims.k_b, &dims.n}), joined({&primitive.b, &primitive.k, &primitive.n}));
  primitive.a_view = ra.view;
  primitive.b_view = rb.view;
  return contract(std::move(primitive), ra, rb, a.dtype(), site).reshape(joined({&batch, &m, &n}), site);
}

Tensor batched_matmul(const Tensor& a, const Tensor& b, CallSite site) {
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
    ra = reading_as(a, site, [&](const View& view) { return view.reshaped({count, k}); });
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
      ra = reading_as(a.expand(ra.view.shape, site), site, [&](const View& view) {
        return view.reshaped({count, m, k});
      });
      rb = reading_as(b.expand(rb.view.shape, site), site, [&](const View& view) {
        return view.reshaped({count, k, n});
      });
      batch = {count};
    }
    primitive.b = batch;
    primitive.m = {m};
  }
  primitive.a_view = ra.view;
  primitive.b_view = rb.view;
  const Tensor product = contract(std::move(primitive), ra, rb, a.dtype(), site);
  result.push_back(n);
  return product.reshape(result, site);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
