// What is found out about an access once: whether it is constant, and its pattern.
#include <algorithm>

#include "backends/cpu/row/access.h"
#include "backends/cpu/row/walk.h"

namespace lockstep {
inline namespace v0 {
namespace {

// A pattern is worth it where the last dim is shorter than that.
constexpr std::int64_t kShortRun = 32;

bool all_zero(const Shape& strides) {
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 0; });
}

/// Dim d becomes two, the second one of size `inner`.
void split_dim(Access& access, int d, std::int64_t inner) {
  const auto split = [&](Shape& form) {
    form.insert(d + 1, form[d]);
    form[d] *= inner;
  };
  access.along_dims.insert(d + 1, inner);
  access.along_dims[d] /= inner;
  split(access.along);
  for (Check& check : access.checks) split(check.along);
}

}  // namespace

bool Access::is_constant_along() const {
  return all_zero(along) &&
         std::all_of(checks.begin(), checks.end(), [](const Check& check) { return all_zero(check.along); });
}

bool Access::is_constant_outer() const {
  return all_zero(outer) &&
         std::all_of(checks.begin(), checks.end(), [](const Check& check) { return all_zero(check.outer); });
}

void Access::find_pattern() {
  const int last = along.rank() - 1;
  if (last < 1 || along_dims[last] >= kShortRun) return;
  int first = last;
  std::int64_t size = along_dims[last];
  while (first > 0 && size * along_dims[first - 1] <= walk::kPattern) size *= along_dims[--first];
  if (first > 0 && along.rank() < Shape::kCapacity) {
    // A part of the next dim: the largest that divides it.
    std::int64_t part = walk::kPattern / size;
    while (along_dims[first - 1] % part != 0) --part;
    if (part > 1) {
      split_dim(*this, first - 1, part);
      size *= part;
    }
  }
  if (size < 2 * along_dims.back()) return;

  // What a check of a block leaves to the pattern.
  const int rank = along.rank();
  for (Check& check : checks) {
    const bool varies = !all_zero(check.along.slice(first, rank));
    const bool moves = !all_zero(check.outer) || !all_zero(check.along.slice(0, first));
    check.part = !varies ? Check::Part::of_block : moves ? Check::Part::of_both : Check::Part::of_pattern;
    check.least = check.most = 0;
    if (check.part == Check::Part::of_block) continue;
    const auto divides = [&](std::int64_t m) { return m % check.step == 0; };
    if (moves && !(divides(check.offset) && std::all_of(check.outer.begin(), check.outer.end(), divides) &&
                   std::all_of(check.along.begin(), check.along.begin() + first, divides))) {
      return;
    }
    for (int d = first; d < rank; ++d) {
      (check.along[d] < 0 ? check.least : check.most) += check.along[d] * (along_dims[d] - 1);
    }
  }

  std::vector<std::int64_t> found;
  std::vector<bool> inside;
  std::int64_t lowest = 0, highest = 0;
  bool any = false;
  const Shape dims = along_dims.slice(first, rank);
  for (std::int64_t i = 0; i < size; ++i) {
    walk::Index index;
    walk::unravel(dims, dims.rank(), i, index);
    std::int64_t address = walk::dot(along.slice(first, rank), index, dims.rank());
    bool passes = true;
    for (const Check& check : checks) {
      if (check.part == Check::Part::of_block) continue;
      const bool whole = check.part == Check::Part::of_pattern;
      const std::int64_t c = (whole ? check.offset : 0) + walk::dot(check.along.slice(first, rank), index, dims.rank());
      passes = passes && !(whole && (c < check.lo || c >= check.hi)) && c % check.step == 0;
      if (passes && check.step > 1) address += check.stride * (c / check.step);
    }
    found.push_back(address);
    inside.push_back(passes);
    if (!passes) continue;
    lowest = any ? std::min(lowest, address) : address;
    highest = any ? std::max(highest, address) : address;
    any = true;
  }
  if (highest - lowest > INT32_MAX / 8) return;
  pattern.first_dim = first;
  pattern.lowest = lowest;
  for (std::size_t i = 0; i < found.size(); ++i) {
    pattern.has_fill = pattern.has_fill || !inside[i];
    pattern.offsets.push_back(inside[i] ? static_cast<std::int32_t>(found[i] - lowest) : -1);
  }
}

}  // namespace v0
}  // namespace lockstep
