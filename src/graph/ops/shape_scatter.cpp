// A tensor with the elements of one of its views replaced.
#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// `region` takes a tensor of the same shape to the elements to replace.
template <typename Region> Tensor replaced(const char* op, const Operand& a, const Operand& b, Region region) {
  const CallSite site = a.site();
  const Tensor& input = tensor_operand(op, a);
  const Tensor& source = tensor_operand(op, b);
  const std::vector<Shown> shown{{"input", input}, {"source", source}};
  check_same_device(op, shown, site);
  check_same_dtype(op, shown, site);
  // The view is made over a stand-in with input's dense elements, whatever input itself is a view of.
  const Tensor dense = Access::tensor(make_node(Iota{}, {}, input.shape(), DType::i64, input.device(), site));
  const Tensor part = region(dense);
  if (source.shape() != part.shape()) {
    fail<ShapeError>(op, fmt::format("the source must have shape {}", part.shape().to_string()), shown, "", site);
  }
  if (part.numel() == 0) return input;
  return update(input, read(part).view, source, site);
}

}  // namespace

Tensor slice_scatter(const Operand& a, const Operand& source, int dim, Slice range) {
  return replaced("slice_scatter", a, source, [&](const Tensor& x) { return x.slice(dim, range, a.site()); });
}

Tensor select_scatter(const Operand& a, const Operand& source, int dim, std::int64_t index) {
  return replaced("select_scatter", a, source, [&](const Tensor& x) { return x.select(dim, index, a.site()); });
}

Tensor diagonal_scatter(const Operand& a, const Operand& source, std::int64_t offset, int first, int second) {
  return replaced("diagonal_scatter", a, source,
                  [&](const Tensor& x) { return x.diagonal(offset, first, second, a.site()); });
}

}  // namespace v0
}  // namespace lockstep
