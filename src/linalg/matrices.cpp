#include "linalg/matrices.h"

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace linalg {

const Tensor& matrix_operand(const Operand& a, const char* label) {
  const Tensor& tensor = tensor_operand(a);
  check_float({label, tensor});
  if (tensor.dtype() != DType::f32 && tensor.dtype() != DType::f64) {
    fail<DTypeError>("computes in f32 and f64 only", {{label, tensor}},
                     fmt::format("cast it: {}.to(ls::DType::f32)", label));
  }
  check<ShapeError>(tensor.rank() >= 2, fmt::format("{} must be a matrix or a batch of them", label), {{label, tensor}},
                    "add dimensions with unsqueeze");
  return tensor;
}

const Tensor& square_operand(const Operand& a, const char* label) {
  const Tensor& tensor = matrix_operand(a, label);
  check<ShapeError>(tensor.size(-1) == tensor.size(-2), fmt::format("{} must be square", label), {{label, tensor}},
                    "lstsq, qr and svd take other matrices");
  return tensor;
}

Shape batch_of(const Tensor& a) {
  return a.shape().slice(0, a.rank() - 2);
}

Tensor flat_batch(const Tensor& a, int kept) {
  Shape shape{a.shape().slice(0, a.rank() - kept).numel()};
  for (int d = a.rank() - kept; d < a.rank(); ++d) shape.push_back(a.shape()[d]);
  return a.reshape(shape);
}

Tensor with_batch(const Tensor& a, const Shape& leading) {
  Shape shape = leading;
  for (int d = 1; d < a.rank(); ++d) shape.push_back(a.shape()[d]);
  return a.reshape(shape);
}

Tensor numbers(std::int64_t count, const Tensor& like) {
  return arange(static_cast<double>(count), {.dtype = DType::i64, .device = like.device()});
}

Tensor identity(std::int64_t rows, std::int64_t columns, const Tensor& like) {
  return eye(rows, columns, {.dtype = like.dtype(), .device = like.device()});
}

Tensor take_rows(const Tensor& x, const Tensor& order) {
  return lockstep::gather(x, 1, order.unsqueeze(2).expand({order.size(0), order.size(1), x.size(2)}));
}

Tensor first_true(const Tensor& holds) {
  const std::int64_t n = holds.size(1);
  if (n == 0) return zeros({holds.size(0)}, {.dtype = DType::i64, .device = holds.device()});
  const Tensor number = where(holds, numbers(n, holds) + 1, n + 1);
  const Tensor first = amin(number, {1});
  return where(eq(first, n + 1), 0, first);
}

Tensor guarded(const Tensor& x, const Tensor& info, graph::Failure failure) {
  if (x.numel() == 0) return x;
  const std::int64_t batch = x.size(0);
  const Tensor rows = x.reshape({batch, 1, -1});
  const std::int64_t elements = rows.size(2);
  const Tensor result = graph::gather(rows, 1, info.reshape({batch, 1, 1}).expand({batch, 1, elements}), {}, failure);
  return result.reshape(x.shape());
}

Scaling scaling_of(const Tensor& a) {
  const double limit = a.dtype() == DType::f64 ? 1000 : 100;  // so that the factors are normal numbers
  const Tensor largest = amax(abs(a), {1, 2}, true);
  const Tensor usable = bitwise_and(isfinite(largest), gt(largest, 0));
  const Tensor exponent = clamp(floor(log2(where(usable, largest, 1))), -limit, limit);
  return {exp2(neg(exponent)), exp2(exponent)};
}

System system_of(const Tensor& a, const Tensor& b) {
  System system;
  Shape as_vector = a.shape().slice(0, a.rank() - 1);
  system.vector = b.rank() == 1 || b.shape() == as_vector;
  const Tensor right = system.vector ? b.unsqueeze(-1) : b;
  check_same_device({{"a", a}, {"b", b}});
  check_same_dtype({{"a", a}, {"b", b}});
  check<ShapeError>(right.rank() >= 2 && right.size(-2) == a.size(-2), "b must have as many rows as a",
                    {{"a", a}, {"b", b}});
  const Shape batches[] = {batch_of(a), batch_of(right)};
  const int rank = std::max(batches[0].rank(), batches[1].rank());
  for (int d = 0; d < rank; ++d) {
    std::int64_t size = 1;
    for (const Shape& batch : batches) {
      const int own = d - (rank - batch.rank());
      if (own < 0 || batch[own] == 1) continue;
      check<ShapeError>(size == 1 || size == batch[own], "the batches of a and b do not broadcast",
                        {{"a", a}, {"b", b}});
      size = batch[own];
    }
    system.batch.push_back(size);
  }
  const auto over_batch = [&](const Tensor& x) {
    Shape shape = system.batch;
    shape.push_back(x.size(-2));
    shape.push_back(x.size(-1));
    return x.expand(shape);
  };
  system.a = over_batch(a);
  system.b = over_batch(right);
  return system;
}

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
