#include "graph/gradients.h"

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// 1 where `wins`, but equal operands share: half each, as in PyTorch.
Tensor half_where_equal(const Tensor& a, const Tensor& b, const Tensor& wins) {
  return where(eq(a, b), 0.5, wins.to(a.dtype()));
}

// The derivative of digamma: reflected to the right half, moved right by recurrence, then the asymptotic series.
Tensor trigamma(const Tensor& a) {
  const Tensor left = a < 0.5;
  Tensor x = where(left, 1 - a, a);
  Tensor sum = reciprocal(x * x);
  for (int i = 0; i < 9; ++i) {
    x = x + 1;
    sum = sum + reciprocal(x * x);
  }
  // The sum has the term of x already; the series is that of x, whose own term it holds.
  const Tensor y = reciprocal(x);
  const Tensor z = y * y;
  const Tensor series = (((z * (5.0 / 66) - 1.0 / 30) * z + 1.0 / 42) * z - 1.0 / 30) * z + 1.0 / 6;
  const Tensor right = sum + y - z * 0.5 + series * z * y;
  const Tensor sine = sin((a - floor(a)) * 3.141592653589793);
  return where(left, 9.869604401089358 / (sine * sine) - right, right);
}

}  // namespace

std::vector<Tensor> elementwise_gradients(Op op, const std::vector<Tensor>& inputs, const Tensor& result,
                                          const Tensor& g) {
  // The names of the table's gradient column.
  const Tensor& a = inputs[0];
  const Tensor& b = inputs.size() > 1 ? inputs[1] : a;
  const Tensor& r = result;
  switch (op) {
#define GRADIENTS(...) \
  { __VA_ARGS__ }
#define ROW(name, arity, kind, types, floats, integers, gradients, what) \
  case Op::name:                                                         \
    return std::vector<Tensor> GRADIENTS gradients;
#include "kernels/ops.def"
#undef ROW
#undef GRADIENTS
  }
  return {};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
