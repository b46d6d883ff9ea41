// Other orders of the same elements: permuted, flipped and regrouped dimensions, rolls and shuffles.
#include <algorithm>

#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor Tensor::view(const Shape& to, CallSite site) const {
  const CallScope call("view", site);
  const Tensor result = reshape(to);
  if (read(result).base != read(*this).base) {
    fail<ShapeError>(fmt::format("the elements do not lie as {} without a copy", to.to_string()), {{"input", *this}},
                     "use reshape, which copies where it must");
  }
  return result;
}

Tensor Tensor::unflatten(int dim, const Shape& sizes, CallSite site) const {
  const CallScope call("unflatten", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
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
    fail<ShapeError>(fmt::format("{} does not split dimension {} of size {}", sizes.to_string(), d, shape()[d]),
                     {{"input", *this}}, "the product of the sizes must be the dimension's; one may be -1");
  }
  Shape target = shape().slice(0, d);
  for (const std::int64_t size : inner) target.push_back(size);
  for (int i = d + 1; i < rank(); ++i) target.push_back(shape()[i]);
  return reshape(target);
}

Tensor Tensor::squeeze(const Dims& dims, CallSite site) const {
  const CallScope call("squeeze", site);
  check_defined({{"input", *this}});
  if (rank() == 0 && dims.empty()) return *this;
  const std::uint32_t mask = check_dims(*this, dims);
  Shape target;
  for (int d = 0; d < rank(); ++d) {
    if (shape()[d] != 1 || (mask >> d & 1u) == 0) target.push_back(shape()[d]);
  }
  return target.rank() == rank() ? *this : reshape(target);
}

Tensor Tensor::movedim(const Dims& from, const Dims& to, CallSite site) const {
  const CallScope call("movedim", site);
  check_defined({{"input", *this}});
  if (from.size() != to.size()) {
    fail<ShapeError>(fmt::format("{} and {} differ in length", from.to_string(), to.to_string()), {{"input", *this}},
                     "list a new position for every dimension that moves");
  }
  if (from.empty()) return *this;
  const std::uint32_t moving = check_dims(*this, from);
  check_dims(*this, to);
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
  return permute(Dims(order));
}

Tensor swapaxes(const Operand& a, int first, int second) {
  const CallScope call("swapaxes", a);
  return tensor_operand(a).transpose(first, second);
}

Tensor rot90(const Operand& a, std::int64_t turns, const Dims& dims) {
  const CallScope call("rot90", a);
  const Tensor& input = tensor_operand(a);
  if (dims.size() != 2) {
    fail<ShapeError>(fmt::format("{} are not two dimensions", dims.to_string()), {{"input", input}});
  }
  check_dims(input, dims);
  const int from = check_dim(input, dims[0]);
  const int to = check_dim(input, dims[1]);
  switch ((turns % 4 + 4) % 4) {
    case 1: return input.flip({to}).transpose(from, to);
    case 2: return input.flip({from, to});
    case 3: return input.flip({from}).transpose(from, to);
    default: return input;
  }
}

Tensor fliplr(const Operand& a) {
  const CallScope call("fliplr", a);
  const Tensor& input = tensor_operand(a);
  if (input.rank() < 2) {
    fail<ShapeError>("needs at least two dimensions", {{"input", input}}, "use flip");
  }
  return input.flip({1});
}

Tensor flipud(const Operand& a) {
  const CallScope call("flipud", a);
  const Tensor& input = tensor_operand(a);
  if (input.rank() < 1) {
    fail<ShapeError>("needs at least one dimension", {{"input", input}});
  }
  return input.flip({0});
}

Tensor roll(const Operand& a, const Shape& shifts, const Dims& dims) {
  const CallScope call("roll", a);
  const Tensor& input = tensor_operand(a);
  if (dims.empty() && shifts.rank() == 1) {
    return roll(input.reshape({-1}), shifts, {0}).reshape(input.shape());
  }
  if (shifts.rank() != dims.size() || dims.empty()) {
    fail<ShapeError>(fmt::format("shifts {} and dims {} differ in length", shifts.to_string(), dims.to_string()),
                     {{"input", input}}, "give one shift per dimension");
  }
  Tensor result = input;
  for (int i = 0; i < dims.size(); ++i) {
    const int d = check_dim(input, dims[i]);
    const std::int64_t size = input.shape()[d];
    const std::int64_t shift = size == 0 ? 0 : (shifts[i] % size + size) % size;
    if (shift == 0) continue;
    result = cat({result.narrow(d, size - shift, shift), result.narrow(d, 0, size - shift)}, d);
  }
  return result;
}

namespace {

[[noreturn]] void fail_shuffle(const Tensor& input, std::int64_t factor, const char* fix) {
  fail<ShapeError>(fmt::format("does not regroup {} by {}", input.shape().to_string(), factor), {{"input", input}},
                   fix);
}

// All dimensions before the last three as one, so that few are enough whatever the rank.
Tensor images_of(const Tensor& input) {
  return input.reshape({input.shape().slice(0, input.rank() - 3).numel(), input.shape()[input.rank() - 3],
                        input.shape()[input.rank() - 2], input.shape()[input.rank() - 1]});
}

Tensor with_batch(const Tensor& image, const Tensor& input) {
  Shape target = input.shape().slice(0, input.rank() - 3);
  for (int d = 1; d < 4; ++d) target.push_back(image.shape()[d]);
  return image.reshape(target);
}

}  // namespace

Tensor pixel_shuffle(const Operand& a, std::int64_t factor) {
  const CallScope call("pixel_shuffle", a);
  const Tensor& input = tensor_operand(a);
  const std::int64_t r = factor;
  if (input.rank() < 3 || r < 1 || r > (std::int64_t{1} << 20) || input.shape()[input.rank() - 3] % (r * r) != 0) {
    fail_shuffle(input, r, "the input is [..., C, H, W] with C a multiple of the factor's square");
  }
  const Tensor x = images_of(input);
  const Shape s = x.shape();
  const Tensor apart = x.reshape({s[0], s[1] / (r * r), r, r, s[2], s[3]});
  return with_batch(apart.permute({0, 1, 4, 2, 5, 3}).reshape({s[0], s[1] / (r * r), s[2] * r, s[3] * r}), input);
}

Tensor pixel_unshuffle(const Operand& a, std::int64_t factor) {
  const CallScope call("pixel_unshuffle", a);
  const Tensor& input = tensor_operand(a);
  const std::int64_t r = factor;
  if (input.rank() < 3 || r < 1 || r > (std::int64_t{1} << 20) || input.shape()[input.rank() - 2] % r != 0 ||
      input.shape()[input.rank() - 1] % r != 0) {
    fail_shuffle(input, r, "the input is [..., C, H, W] with H and W multiples of the factor");
  }
  const Tensor x = images_of(input);
  const Shape s = x.shape();
  const Tensor apart = x.reshape({s[0], s[1], s[2] / r, r, s[3] / r, r});
  return with_batch(apart.permute({0, 1, 3, 5, 2, 4}).reshape({s[0], s[1] * r * r, s[2] / r, s[3] / r}), input);
}

Tensor channel_shuffle(const Operand& a, std::int64_t groups) {
  const CallScope call("channel_shuffle", a);
  const Tensor& input = tensor_operand(a);
  if (input.rank() < 3 || groups < 1 || input.shape()[1] % groups != 0) {
    fail_shuffle(input, groups, "the input is [N, C, ...] with C a multiple of the groups");
  }
  const Shape s = input.shape();
  const Shape apart{s[0], groups, s[1] / groups, s.slice(2, s.rank()).numel()};
  return input.reshape(apart).transpose(1, 2).reshape(s);
}

}  // namespace v0
}  // namespace lockstep
