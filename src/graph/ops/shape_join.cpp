// Tensors side by side.
#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "graph/autocast.h"
#include "graph/groups.h"
#include "graph/ops/operand.h"
#include "graph/recording.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

bool is_mixed_list(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> each;
  for (const Tensor& tensor : tensors) each.push_back(&tensor);
  return is_mixed(each);
}

void check_list(const std::vector<Tensor>& tensors, std::vector<Shown>& shown) {
  if (tensors.empty()) fail<ValueError>("the list of tensors is empty", {}, "give at least one tensor");
  for (std::size_t i = 0; i < tensors.size(); ++i) shown.emplace_back(fmt::format("tensors[{}]", i), tensors[i]);
  check_same_device(shown);
  check_same_dtype(shown);
}

// As many tensors as a kernel has buffers for, beside the result.
constexpr std::size_t kMostJoined = kMaxBuffers - 1;

// Every tensor as a zero-padded view of the whole; the words of one are joined with the zero words of the others. Many
// are joined in groups first: a kernel that adds some to what is there copies all of that.
Tensor join(std::span<const Tensor> tensors, int dim, std::int64_t total) {
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> groups;
  if (tensors.size() > kMostJoined) {
    std::size_t each = kMostJoined;
    while (each * kMostJoined < tensors.size()) each *= kMostJoined;
    for (std::size_t i = 0; i < tensors.size(); i += each) {
      const std::span<const Tensor> group = tensors.subspan(i, std::min(each, tensors.size() - i));
      std::int64_t size = 0;
      for (const Tensor& tensor : group) size += tensor.shape()[dim];
      groups.push_back(join(group, dim, size));
    }
    tensors = groups;
  }
  Tensor result;
  std::int64_t before = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t size = tensor.shape()[dim];
    const Tensor padded =
        change_view(tensor, [&](const View& view) { return view.padded(dim, before, total - before - size, 0); });
    result = result.defined() ? elementwise(Op::merge, result, padded) : padded;
    before += size;
  }
  return result;
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int dim, CallSite site) {
  const CallScope call("cat", site);
  if (is_autocasting() && is_mixed_list(tensors)) {
    return with_autocast(
        DType::f32, [&](const auto& with) { return cat(with, dim); }, tensors);
  }
  std::vector<Shown> shown;
  check_list(tensors, shown);
  const int d = check_dim(tensors[0], dim);
  std::int64_t total = 0;
  for (const Tensor& tensor : tensors) {
    Shape shape = tensor.shape();
    bool same = shape.rank() == tensors[0].rank();
    if (same) {
      same = !__builtin_add_overflow(total, shape[d], &total);
      shape[d] = tensors[0].shape()[d];
    }
    if (!same || shape != tensors[0].shape()) {
      fail<ShapeError>(fmt::format("shapes must be equal in all dimensions but {}", d), shown);
    }
  }
  if (tensors.size() == 1) return tensors[0];
  const Tensor result = join(tensors, d, total);
  if (is_recording()) {
    RecordedCall joins{.op = "cat", .operands = {}, .lists = {{d}}, .numbers = {}};
    for (const Tensor& tensor : tensors) joins.operands.push_back(node_of(tensor));
    record_call(result, std::move(joins));
  }
  return result;
}

Tensor stack(const std::vector<Tensor>& tensors, int dim, CallSite site) {
  const CallScope call("stack", site);
  if (is_autocasting() && is_mixed_list(tensors)) {
    return with_autocast(
        DType::f32, [&](const auto& with) { return stack(with, dim); }, tensors);
  }
  std::vector<Shown> shown;
  check_list(tensors, shown);
  std::vector<Tensor> unsqueezed;
  for (const Tensor& tensor : tensors) {
    if (tensor.shape() != tensors[0].shape()) fail<ShapeError>("shapes must be equal", shown);
    unsqueezed.push_back(tensor.unsqueeze(dim));
  }
  return cat(unsqueezed, dim);
}

namespace {

// cat of what has been given at least `rank` dimensions.
template <typename Lift> Tensor joined(const std::vector<Tensor>& tensors, Lift lift, int dim) {
  std::vector<Shown> shown;
  check_list(tensors, shown);
  std::vector<Tensor> lifted;
  for (const Tensor& tensor : tensors) lifted.push_back(lift(tensor));
  return cat(lifted, std::min(dim, lifted[0].rank() - 1));
}

}  // namespace

Tensor hstack(const std::vector<Tensor>& tensors, CallSite site) {
  const CallScope call("hstack", site);
  return joined(tensors, atleast_1d, 1);
}
Tensor vstack(const std::vector<Tensor>& tensors, CallSite site) {
  const CallScope call("vstack", site);
  return joined(tensors, atleast_2d, 0);
}
Tensor dstack(const std::vector<Tensor>& tensors, CallSite site) {
  const CallScope call("dstack", site);
  return joined(tensors, atleast_3d, 2);
}

Tensor column_stack(const std::vector<Tensor>& tensors, CallSite site) {
  const CallScope call("column_stack", site);
  const auto column = [](const Operand& a) {
    return a.tensor().rank() < 2 ? a.tensor().reshape({a.tensor().numel(), 1}) : a.tensor();
  };
  return joined(tensors, column, 1);
}

Tensor atleast_1d(const Operand& a) {
  const CallScope call("atleast_1d", a);
  const Tensor& input = tensor_operand(a);
  return input.rank() == 0 ? input.reshape({1}) : input;
}

Tensor atleast_2d(const Operand& a) {
  const CallScope call("atleast_2d", a);
  const Tensor& input = tensor_operand(a);
  return input.rank() < 2 ? input.reshape({1, input.numel()}) : input;
}

Tensor atleast_3d(const Operand& a) {
  const CallScope call("atleast_3d", a);
  const Tensor& input = tensor_operand(a);
  if (input.rank() < 2) return input.reshape({1, input.numel(), 1});
  return input.rank() == 2 ? input.unsqueeze(2) : input;
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors, CallSite site) {
  const CallScope call("broadcast_tensors", site);
  if (tensors.empty()) fail<ValueError>("the list of tensors is empty", {}, "give at least one tensor");
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < tensors.size(); ++i) shown.emplace_back(fmt::format("tensors[{}]", i), tensors[i]);
  check_same_device(shown);
  const Shape shape = broadcast_shape(shown);
  std::vector<Tensor> results;
  for (const Tensor& tensor : tensors) results.push_back(tensor.expand(shape));
  return results;
}

}  // namespace v0
}  // namespace lockstep
