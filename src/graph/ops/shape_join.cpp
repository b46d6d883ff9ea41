// Tensors side by side.
#include <algorithm>

#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

void check_list(const char* op, const std::vector<Tensor>& tensors, std::vector<Shown>& shown, CallSite site) {
  if (tensors.empty()) fail<ValueError>(op, "the list of tensors is empty", {}, "give at least one tensor", site);
  for (std::size_t i = 0; i < tensors.size(); ++i) shown.emplace_back(fmt::format("tensors[{}]", i), tensors[i]);
  check_same_device(op, shown, site);
  check_same_dtype(op, shown, site);
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int dim, CallSite site) {
  std::vector<Shown> shown;
  check_list("cat", tensors, shown, site);
  const int d = check_dim("cat", tensors[0], dim, site);
  std::int64_t total = 0;
  for (const Tensor& tensor : tensors) {
    Shape shape = tensor.shape();
    bool same = shape.rank() == tensors[0].rank();
    if (same) {
      same = !__builtin_add_overflow(total, shape[d], &total);
      shape[d] = tensors[0].shape()[d];
    }
    if (!same || shape != tensors[0].shape()) {
      fail<ShapeError>("cat", fmt::format("shapes must be equal in all dimensions but {}", d), shown, "", site);
    }
  }
  if (tensors.size() == 1) return tensors[0];
  // Every tensor as a zero-padded view of the whole; the words of one are joined with the zero words of the others.
  Tensor result;
  std::int64_t before = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t size = tensor.shape()[d];
    const Tensor padded =
        change_view(tensor, site, [&](const View& view) { return view.padded(d, before, total - before - size, 0); });
    result = result.defined() ? elementwise(Op::merge, {Operand(result, site), Operand(padded, site)}) : padded;
    before += size;
  }
  return result;
}

Tensor stack(const std::vector<Tensor>& tensors, int dim, CallSite site) {
  std::vector<Shown> shown;
  check_list("stack", tensors, shown, site);
  std::vector<Tensor> unsqueezed;
  for (const Tensor& tensor : tensors) {
    if (tensor.shape() != tensors[0].shape()) fail<ShapeError>("stack", "shapes must be equal", shown, "", site);
    unsqueezed.push_back(tensor.unsqueeze(dim, site));
  }
  return cat(unsqueezed, dim, site);
}

namespace {

// cat of what has been given at least `rank` dimensions.
template <typename Lift>
Tensor joined(const char* op, const std::vector<Tensor>& tensors, Lift lift, int dim, CallSite site) {
  std::vector<Shown> shown;
  check_list(op, tensors, shown, site);
  std::vector<Tensor> lifted;
  for (const Tensor& tensor : tensors) lifted.push_back(lift(Operand(tensor, site)));
  return cat(lifted, std::min(dim, lifted[0].rank() - 1), site);
}

}  // namespace

Tensor hstack(const std::vector<Tensor>& tensors, CallSite site) {
  return joined("hstack", tensors, atleast_1d, 1, site);
}
Tensor vstack(const std::vector<Tensor>& tensors, CallSite site) {
  return joined("vstack", tensors, atleast_2d, 0, site);
}
Tensor dstack(const std::vector<Tensor>& tensors, CallSite site) {
  return joined("dstack", tensors, atleast_3d, 2, site);
}

Tensor column_stack(const std::vector<Tensor>& tensors, CallSite site) {
  const auto column = [](const Operand& a) {
    return a.tensor().rank() < 2 ? a.tensor().reshape({a.tensor().numel(), 1}, a.site()) : a.tensor();
  };
  return joined("column_stack", tensors, column, 1, site);
}

Tensor atleast_1d(const Operand& a) {
  const Tensor& input = tensor_operand("atleast_1d", a);
  return input.rank() == 0 ? input.reshape({1}, a.site()) : input;
}

Tensor atleast_2d(const Operand& a) {
  const Tensor& input = tensor_operand("atleast_2d", a);
  return input.rank() < 2 ? input.reshape({1, input.numel()}, a.site()) : input;
}

Tensor atleast_3d(const Operand& a) {
  const Tensor& input = tensor_operand("atleast_3d", a);
  if (input.rank() < 2) return input.reshape({1, input.numel(), 1}, a.site());
  return input.rank() == 2 ? input.unsqueeze(2, a.site()) : input;
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors, CallSite site) {
  const char* const op = "broadcast_tensors";
  if (tensors.empty()) fail<ValueError>(op, "the list of tensors is empty", {}, "give at least one tensor", site);
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < tensors.size(); ++i) shown.emplace_back(fmt::format("tensors[{}]", i), tensors[i]);
  check_same_device(op, shown, site);
  const Shape shape = broadcast_shape(op, shown, site);
  std::vector<Tensor> results;
  for (const Tensor& tensor : tensors) results.push_back(tensor.expand(shape, site));
  return results;
}

}  // namespace v0
}  // namespace lockstep
