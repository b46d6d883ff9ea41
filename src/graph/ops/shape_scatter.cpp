// A tensor with the elements of one of its views replaced.
#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// `region` takes a tensor of the same shape to the elements to replace.
template <typename Region> Tensor replaced(const Operand& a, const Operand& b, Region region) {
  const Tensor& input = tensor_operand(a);
  const Tensor& source = tensor_operand(b);
  const std::vector<Shown> shown{{"input", input}, {"source", source}};
  check_same_device(shown);
  check_same_dtype(shown);
  // The view is made over a stand-in with input's dense elements, whatever input itself is a view of.
  const Tensor dense = Access::tensor(make_node(Iota{}, {}, input.shape(), DType::i64, input.device()));
  const Tensor part = region(dense);
  if (source.shape() != part.shape()) {
    fail<ShapeError>(fmt::format("the source must have shape {}", part.shape().to_string()), shown);
  }
  if (part.numel() == 0) return input;
  return update(input, read(part).view, source);
}

}  // namespace

Tensor slice_scatter(const Operand& a, const Operand& source, int dim, Slice range) {
  const CallScope call("slice_scatter", a);
  return replaced(a, source, [&](const Tensor& x) { return x.slice(dim, range); });
}

Tensor select_scatter(const Operand& a, const Operand& source, int dim, std::int64_t index) {
  const CallScope call("select_scatter", a);
  return replaced(a, source, [&](const Tensor& x) { return x.select(dim, index); });
}

Tensor diagonal_scatter(const Operand& a, const Operand& source, std::int64_t offset, int first, int second) {
  const CallScope call("diagonal_scatter", a);
  return replaced(a, source, [&](const Tensor& x) { return x.diagonal(offset, first, second); });
}

}  // namespace v0
}  // namespace lockstep
