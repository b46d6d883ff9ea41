// Copies of a tensor's slices: expanded views, stored where copies along an existing dimension are asked for.
#include <fmt/format.h>

#include "graph/ops/take.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// x with its elements `count` times along dimension d: before the dimension (whole copies) or after it (each element).
Tensor copies(const Tensor& x, int d, std::int64_t count, bool whole) {
  Shape target = x.shape();
  if (__builtin_mul_overflow(target[d], count, &target[d])) {
    fail<ShapeError>(fmt::format("{} copies along dimension {} are too many", count, d), {{"input", x}});
  }
  check_shape(target, x.dtype());
  if (count == 1) return x;
  Shape split = x.shape();
  split.insert(whole ? d : d + 1, 1);
  Shape expanded = split;
  expanded[whole ? d : d + 1] = count;
  const Tensor copied = change_view(x, [&](const View& view) -> std::optional<View> {
    const std::optional<View> one = view.reshaped(split);
    return one ? std::optional(one->expanded(expanded)) : std::nullopt;
  });
  return copied.reshape(target);
}

}  // namespace

Tensor Tensor::repeat(const Shape& counts, CallSite site) const {
  const CallScope call("repeat", site);
  check_defined({{"input", *this}});
  bool valid = counts.rank() >= rank() && counts.rank() <= kMaxRank;
  for (const std::int64_t count : counts) valid = valid && count >= 0;
  if (!valid) {
    fail<ShapeError>(fmt::format("{} are no counts for {} dimensions", counts.to_string(), rank()), {{"input", *this}},
                     "give one count of at least 0 per dimension; leading ones add dimensions");
  }
  // New and size-1 dimensions expand. Of the others each takes one more dimension of a view while there are any left.
  const int added = counts.rank() - rank();
  Shape target;
  Shape split;
  Shape expanded;
  bool too_large = false;
  int extra = 0;
  for (int d = 0; d < counts.rank(); ++d) {
    const std::int64_t size = d < added ? 1 : shape()[d - added];
    std::int64_t product = 0;
    too_large = too_large || __builtin_mul_overflow(size, counts[d], &product);
    target.push_back(product);
    if (size != 1 && counts[d] != 1) ++extra;
  }
  if (too_large) fail<ShapeError>("too many elements", {{"input", *this}});
  check_shape(target, dtype());
  // Views, and kernels over them, have a few dimensions to spare, not eight: half of the counts first.
  if (counts.rank() + extra > kMaxRank + 2) {
    Shape first = Shape::filled(counts.rank(), 1);
    Shape second = counts;
    for (int d = added, moved = 0; moved < extra / 2; ++d) {
      if (shape()[d - added] == 1 || counts[d] == 1) continue;
      std::swap(first[d], second[d]);
      ++moved;
    }
    return repeat(second).repeat(first);
  }
  for (int d = 0; d < counts.rank(); ++d) {
    const std::int64_t size = d < added ? 1 : shape()[d - added];
    if (size != 1 && counts[d] != 1) {
      split.push_back(1);
      expanded.push_back(counts[d]);
      split.push_back(size);
      expanded.push_back(size);
    } else {
      split.push_back(size);
      expanded.push_back(size == 1 ? counts[d] : size);
    }
  }
  const Tensor copied = change_view(*this, [&](const View& view) -> std::optional<View> {
    const std::optional<View> one = view.reshaped(split);
    return one ? std::optional(one->expanded(expanded)) : std::nullopt;
  });
  return copied.reshape(target);
}

Tensor tile(const Operand& a, const Shape& counts) {
  const CallScope call("tile", a);
  const Tensor& input = tensor_operand(a);
  Shape full = counts;
  while (full.rank() < input.rank()) full.insert(0, 1);
  return input.repeat(full);
}

Tensor repeat_interleave(const Operand& a, std::int64_t repeats, std::optional<int> dim) {
  const CallScope call("repeat_interleave", a);
  const Tensor& input = tensor_operand(a);
  if (repeats < 0) {
    fail<ValueError>(fmt::format("{} repeats", repeats), {{"input", input}}, "use a count of at least 0");
  }
  const Tensor x = dim ? input : input.reshape({-1});
  return copies(x, check_dim(x, dim.value_or(0)), repeats, false);
}

Tensor repeat_interleave(const Operand& a, const Tensor& repeats, std::optional<int> dim) {
  const CallScope call("repeat_interleave", a);
  const Tensor& input = tensor_operand(a);
  const std::vector<Shown> shown{{"input", input}, {"repeats", repeats}};
  check_same_device(shown);
  if (repeats.dtype() != DType::i32 && repeats.dtype() != DType::i64) {
    fail<DTypeError>("the repeats must be i32 or i64", shown, "cast them, e.g. repeats.to(DType::i64)");
  }
  const Tensor x = dim ? input : input.reshape({-1});
  const int d = check_dim(x, dim.value_or(0));
  const std::int64_t size = x.shape()[d];
  if (repeats.rank() > 1 || (repeats.numel() != size && repeats.numel() != 1)) {
    fail<ShapeError>(fmt::format("there must be one count, or {} in a vector", size), shown);
  }
  const std::vector<std::int64_t> counts = repeats.to(DType::i64).to_vector<std::int64_t>();
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t count = counts[counts.size() == 1 ? 0 : static_cast<std::size_t>(i)];
    if (count < 0 || count > (std::int64_t{1} << 31) - static_cast<std::int64_t>(positions.size())) {
      fail<ValueError>(fmt::format("slice {} cannot be repeated {} times", i, count), shown,
                       "use counts of at least 0 that memory can hold");
    }
    positions.insert(positions.end(), static_cast<std::size_t>(count), i);
  }
  Shape target = x.shape();
  target[d] = static_cast<std::int64_t>(positions.size());
  check_shape(target, x.dtype());
  return take_along(x, d, positions);
}

}  // namespace v0
}  // namespace lockstep
