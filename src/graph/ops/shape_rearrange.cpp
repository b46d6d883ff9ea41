// Other orders of the same elements: permuted, flipped and regrouped dimensions, rolls and shuffles.
#include <algorithm>

#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor Tensor::view(const Shape& to, CallSite site) const {
  const Tensor result = reshape(to, site);
  if (read(result).base != read(*this).base) {
    fail<ShapeError>("view", fmt::format("the elements do not lie as {} without a copy", to.to_string()),
                     {{"input", *this}}, "use reshape, which copies where it must", site);
  }
  return result;
}

Tensor Tensor::unflatten(int dim, const Shape& sizes, CallSite site) const {
  check_defined("unflatten", {{"input", *this}}, site);
  const int d = check_dim("unflatten", *this, dim, site);
  Shape inner = sizes;
  std::int64_t known = 1;
  int unknown = -1;
  bool valid = sizes.rank() > 0 && rank() - 1 + sizes.rank() <= kMaxRank;
  for (int i = 0; i < sizes.rank(); ++i) {
    if (sizes[i] == -1 && unknown < 0) {
      unknown = i;
    } else {
      valid = valid && sizes[i] >= 0 && !__builtin_mul_overflow(known, sizes[i], &known);
    }
  }
  if (valid && unknown >= 0) {
    valid = known > 0 && shape()[d] % known == 0;
    if (valid) inner[unknown] = shape()[d] / known;
  } else {
    valid = valid && known == shape()[d];
  }
  if (!valid) {
    fail<ShapeError>("unflatten",
                     fmt::format("{} does not split dimension {} of size {}", sizes.to_string(), d, shape()[d]),
                     {{"input", *this}}, "the product of the sizes must be the dimension's; one may be -1", site);
  }
  Shape target = shape().slice(0, d);
  for (const std::int64_t size : inner) target.push_back(size);
  for (int i = d + 1; i < rank(); ++i) target.push_back(shape()[i]);
  return reshape(target, site);
}

Tensor Tensor::squeeze(const Dims& dims, CallSite site) const {
  check_defined("squeeze", {{"input", *this}}, site);
  if (rank() == 0 && dims.empty()) return *this;
  const std::uint32_t mask = check_dims("squeeze", *this, dims, site);
  Shape target;
  for (int d = 0; d < rank(); ++d) {
    if (shape()[d] != 1 || (mask >> d & 1u) == 0) target.push_back(shape()[d]);
  }
  return target.rank() == rank() ? *this : reshape(target, site);
}

Tensor Tensor::movedim(const Dims& from, const Dims& to, CallSite site) const {
  check_defined("movedim", {{"input", *this}}, site);
  if (from.size() != to.size()) {
    fail<ShapeError>("movedim", fmt::format("{} and {} differ in length", from.to_string(), to.to_string()),
                     {{"input", *this}}, "list a new position for every dimension that moves", site);
  }
  if (from.empty()) return *this;
  const std::uint32_t moving = check_dims("movedim", *this, from, site);
  check_dims("movedim", *this, to, site);
  Shape order = Shape::filled(rank(), -1);
  for (int i = 0; i < from.size(); ++i) {
    order[static_cast<int>(to[i] < 0 ? to[i] + rank() : to[i])] = from[i] < 0 ? from[i] + rank() : from[i];
  }
  int next = 0;
  for (int d = 0; d < rank(); ++d) {
    if (order[d] >= 0) continue;
    while ((moving >> next & 1u) != 0) ++next;
    order[d] = next++;
  }
  return permute(Dims(order), site);
}

Tensor swapaxes(const Operand& a, int first, int second) {
  return tensor_operand("swapaxes", a).transpose(first, second, a.site());
}

Tensor rot90(const Operand& a, std::int64_t turns, const Dims& dims) {
  const Tensor& input = tensor_operand("rot90", a);
  const CallSite site = a.site();
  if (dims.size() != 2) {
    fail<ShapeError>("rot90", fmt::format("{} are not two dimensions", dims.to_string()), {{"input", input}}, "", site);
  }
  check_dims("rot90", input, dims, site);
  const int from = check_dim("rot90", input, dims[0], site);
  const int to = check_dim("rot90", input, dims[1], site);
  switch ((turns % 4 + 4) % 4) {
    case 1: return input.flip({to}, site).transpose(from, to, site);
    case 2: return input.flip({from, to}, site);
    case 3: return input.flip({from}, site).transpose(from, to, site);
    default: return input;
  }
}

Tensor fliplr(const Operand& a) {
  const Tensor& input = tensor_operand("fliplr", a);
  if (input.rank() < 2) {
    fail<ShapeError>("fliplr", "needs at least two dimensions", {{"input", input}}, "use flip", a.site());
  }
  return input.flip({1}, a.site());
}

Tensor flipud(const Operand& a) {
  const Tensor& input = tensor_operand("flipud", a);
  if (input.rank() < 1) {
    fail<ShapeError>("flipud", "needs at least one dimension", {{"input", input}}, "", a.site());
  }
  return input.flip({0}, a.site());
}

Tensor roll(const Operand& a, const Shape& shifts, const Dims& dims) {
  const Tensor& input = tensor_operand("roll", a);
  const CallSite site = a.site();
  if (dims.empty() && shifts.rank() == 1) {
    return roll(Operand(input.reshape({-1}, site), site), shifts, {0}).reshape(input.shape(), site);
  }
  if (shifts.rank() != dims.size() || dims.empty()) {
    fail<ShapeError>("roll",
                     fmt::format("shifts {} and dims {} differ in length", shifts.to_string(), dims.to_string()),
                     {{"input", input}}, "give one shift per dimension", site);
  }
  Tensor result = input;
  for (int i = 0; i < dims.size(); ++i) {
    const int d = check_dim("roll", input, dims[i], site);
    const std::int64_t size = input.shape()[d];
    const std::int64_t shift = size == 0 ? 0 : (shifts[i] % size + size) % size;
    if (shift == 0) continue;
    result = cat({result.narrow(d, size - shift, shift, site), result.narrow(d, 0, size - shift, site)}, d, site);
  }
  return result;
}

namespace {

[[noreturn]] void fail_shuffle(const char* op, const Tensor& input, std::int64_t factor, const char* fix,
                               CallSite site) {
  fail<ShapeError>(op, fmt::format("does not regroup {} by {}", input.shape().to_string(), factor), {{"input", input}},
                   fix, site);
}

// All dimensions before the last three as one, so that few are enough whatever the rank.
Tensor images_of(const Tensor& input, CallSite site) {
  return input.reshape({input.shape().slice(0, input.rank() - 3).numel(), input.shape()[input.rank() - 3],
                        input.shape()[input.rank() - 2], input.shape()[input.rank() - 1]},
                       site);
}

Tensor with_batch(const Tensor& image, const Tensor& input, CallSite site) {
  Shape target = input.shape().slice(0, input.rank() - 3);
  for (int d = 1; d < 4; ++d) target.push_back(image.shape()[d]);
  return image.reshape(target, site);
}

}  // namespace

Tensor pixel_shuffle(const Operand& a, std::int64_t factor) {
  const char* const op = "pixel_shuffle";
  const Tensor& input = tensor_operand(op, a);
  const CallSite site = a.site();
  const std::int64_t r = factor;
  if (input.rank() < 3 || r < 1 || r > (std::int64_t{1} << 20) || input.shape()[input.rank() - 3] % (r * r) != 0) {
    fail_shuffle(op, input, r, "the input is [..., C, H, W] with C a multiple of the factor's square", site);
  }
  const Tensor x = images_of(input, site);
  const Shape s = x.shape();
  const Tensor apart = x.reshape({s[0], s[1] / (r * r), r, r, s[2], s[3]}, site);
  return with_batch(apart.permute({0, 1, 4, 2, 5, 3}, site).reshape({s[0], s[1] / (r * r), s[2] * r, s[3] * r}, site),
                    input, site);
}

Tensor pixel_unshuffle(const Operand& a, std::int64_t factor) {
  const char* const op = "pixel_unshuffle";
  const Tensor& input = tensor_operand(op, a);
  const CallSite site = a.site();
  const std::int64_t r = factor;
  if (input.rank() < 3 || r < 1 || r > (std::int64_t{1} << 20) || input.shape()[input.rank() - 2] % r != 0 ||
      input.shape()[input.rank() - 1] % r != 0) {
    fail_shuffle(op, input, r, "the input is [..., C, H, W] with H and W multiples of the factor", site);
  }
  const Tensor x = images_of(input, site);
  const Shape s = x.shape();
  const Tensor apart = x.reshape({s[0], s[1], s[2] / r, r, s[3] / r, r}, site);
  return with_batch(apart.permute({0, 1, 3, 5, 2, 4}, site).reshape({s[0], s[1] * r * r, s[2] / r, s[3] / r}, site),
                    input, site);
}

Tensor channel_shuffle(const Operand& a, std::int64_t groups) {
  const char* const op = "channel_shuffle";
  const Tensor& input = tensor_operand(op, a);
  const CallSite site = a.site();
  if (input.rank() < 3 || groups < 1 || input.shape()[1] % groups != 0) {
    fail_shuffle(op, input, groups, "the input is [N, C, ...] with C a multiple of the groups", site);
  }
  const Shape s = input.shape();
  const Shape apart{s[0], groups, s[1] / groups, s.slice(2, s.rank()).numel()};
  return input.reshape(apart, site).transpose(1, 2, site).reshape(s, site);
}

}  // namespace v0
}  // namespace lockstep
