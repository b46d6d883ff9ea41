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

}  // namespace

std::vector<Tensor> elementwise_gradients(Op op, const std::vector<Tensor>& inputs, const Tensor& result,
                                          const Tensor& g) {
  // The names of the table's gradient column.
  const Tensor& a = inputs[0];
  const Tensor& b = inputs.size() > 1 ? inputs[1] : a;
  const Tensor& r = result;
  switch (op) {
#define GRADIENTS(...) {__VA_ARGS__}
#define ROW(name, arity, kind, types, floats, integers, gradients, what) \
  case Op::name: return std::vector<Tensor> GRADIENTS gradients;
#include "kernels/ops.def"
#undef ROW
#undef GRADIENTS
  }
  return {};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
