#include "backends/cpu/row/access.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep {
inline namespace v0 {
namespace {

bool all_zero(const Shape& strides) {
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 0; });
}

/// sum strides[d] * index[d] for a linear index over dims.
std::int64_t dot_index(const Shape& strides, const Shape& dims, std::int64_t linear) {
  const int rank = dims.rank();
  if (rank == 0) return 0;
  std::int64_t sum = 0;
  for (int d = rank - 1; d > 0; --d) {
    sum += strides[d] * (linear % dims[d]);
    linear /= dims[d];
  }
  return sum + strides[0] * linear;
}

/// Quotient rounded up, for a positive divisor.
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

/// Walks the along dims from `begin` in runs along the last one: fn(index of the run's start, its length, done so far).
template <typename Fn>
void for_each_run(const Shape& dims, std::int64_t begin, std::int64_t count, Fn fn) {
  const int last = dims.rank() - 1;
  std::array<std::int64_t, Shape::kCapacity> index{};
  std::int64_t rest = begin;
  for (int d = last; d > 0; --d) {
    index[static_cast<std::size_t>(d)] = rest % dims[d];
    rest /= dims[d];
  }
  index[0] = rest;
  std::int64_t done = 0;
  while (done < count) {
    const auto l = static_cast<std::size_t>(last);
    // An empty row still has row values, which are read at its index 0.
    const std::int64_t length = dims[last] == 0 ? count : std::min(count - done, dims[last] - index[l]);
    fn(index.data(), length, done);
    done += length;
    index[l] += length;
    for (int d = last; d > 0 && index[static_cast<std::size_t>(d)] == dims[d]; --d) {
      index[static_cast<std::size_t>(d)] = 0;
      ++index[static_cast<std::size_t>(d - 1)];
    }
  }
}

std::int64_t dot(const Shape& strides, const std::int64_t* index) {
  std::int64_t sum = 0;
  for (int d = 0; d < strides.rank(); ++d) sum += strides[d] * index[d];
  return sum;
}

/// One run of a fetch with checks.
class CheckedRun {
 public:
  CheckedRun(const Access& access, LoadFn load, std::size_t value_size, const std::byte* data)
      : access_(access), load_(load), value_size_(value_size), element_(size_of(access.dtype)), data_(data) {}

  /// `coordinates`: of each check at the run's start; `position`: the address there.
  void fetch(const std::int64_t* coordinates, std::int64_t position, std::int64_t length, std::byte* out) const {
    const int last = access_.along.rank() - 1;
    std::int64_t first = 0, end = length;
    bool stepped = false;
    for (std::size_t k = 0; k < access_.checks.size(); ++k) {
      const Check& check = access_.checks[k];
      const std::int64_t m = check.along[last];
      const std::int64_t c = coordinates[k];
      stepped = stepped || check.step > 1;
      if (m == 0) {
        if (c < check.lo || c >= check.hi) end = 0;
      } else if (m > 0) {
        first = std::max(first, ceil_div(check.lo - c, m));
        end = std::min(end, ceil_div(check.hi - c, m));
      } else {
        first = std::max(first, ceil_div(c - check.hi + 1, -m));
        end = std::min(end, ceil_div(c - check.lo + 1, -m));
      }
    }
    first = std::min(first, length);
    end = std::max(first, end);
    fill(out, first);
    if (stepped) {
      for (std::int64_t i = first; i < end; ++i) fetch_stepped(coordinates, position, i, out);
    } else if (end > first) {
      const std::int64_t stride = access_.along[last];
      load_(out + first * size(), data_ + (position + stride * first) * element(), stride,
            static_cast<std::size_t>(end - first));
    }
    fill(out + end * size(), length - end);
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(value_size_); }
  std::int64_t element() const { return static_cast<std::int64_t>(element_); }

  void fill(std::byte* out, std::int64_t n) const {
    if (n > 0) load_(out, reinterpret_cast<const std::byte*>(&access_.fill), 0, static_cast<std::size_t>(n));
  }

  void fetch_stepped(const std::int64_t* coordinates, std::int64_t position, std::int64_t i, std::byte* out) const {
    const int last = access_.along.rank() - 1;
    std::int64_t address = position + access_.along[last] * i;
    for (std::size_t k = 0; k < access_.checks.size(); ++k) {
      const Check& check = access_.checks[k];
      if (check.step == 1) continue;
      const std::int64_t c = coordinates[k] + check.along[last] * i;
      if (c % check.step != 0) return fill(out + i * size(), 1);
      address += check.stride * (c / check.step);
    }
    load_(out + i * size(), data_ + address * element(), 1, 1);
  }

  const Access& access_;
  LoadFn load_;
  std::size_t value_size_, element_;
  const std::byte* data_;
};

}  // namespace

bool Access::is_constant_along() const {
  return all_zero(along) &&
         std::all_of(checks.begin(), checks.end(), [](const Check& check) { return all_zero(check.along); });
}

bool Access::is_constant_outer() const {
  return all_zero(outer) &&
         std::all_of(checks.begin(), checks.end(), [](const Check& check) { return all_zero(check.outer); });
}

std::int64_t locate(const Access& access, const Space& space, std::int64_t outer_index) {
  return access.offset + dot_index(access.outer, space.outer, outer_index);
}

void fetch(const Access& access, const Space& space, LoadFn load, std::size_t value_size, const std::byte* data,
           std::int64_t outer_index, std::int64_t begin, std::int64_t count, std::byte* out) {
  const std::int64_t base = locate(access, space, outer_index);
  const auto element = static_cast<std::int64_t>(size_of(access.dtype));
  const auto size = static_cast<std::int64_t>(value_size);
  const int last = space.along.rank() - 1;
  if (access.checks.empty()) {
    if (last == 0) {
      const std::int64_t stride = access.along[0];
      return load(out, data + (base + stride * begin) * element, stride, static_cast<std::size_t>(count));
    }
    for_each_run(space.along, begin, count, [&](const std::int64_t* index, std::int64_t length, std::int64_t done) {
      load(out + done * size, data + (base + dot(access.along, index)) * element, access.along[last],
           static_cast<std::size_t>(length));
    });
    return;
  }
  const std::size_t checks = access.checks.size();
  constexpr std::size_t kManyChecks = 2 * Shape::kCapacity;
  std::array<std::int64_t, kManyChecks> coordinates, bases;
  std::vector<std::int64_t> more;
  std::int64_t* c = coordinates.data();
  std::int64_t* c_base = bases.data();
  if (checks > kManyChecks) {
    more.resize(2 * checks);
    c = more.data();
    c_base = c + checks;
  }
  for (std::size_t k = 0; k < checks; ++k) {
    const Check& check = access.checks[k];
    c_base[k] = check.offset + dot_index(check.outer, space.outer, outer_index);
  }
  const CheckedRun run(access, load, value_size, data);
  for_each_run(space.along, begin, count, [&](const std::int64_t* index, std::int64_t length, std::int64_t done) {
    for (std::size_t k = 0; k < checks; ++k) c[k] = c_base[k] + dot(access.checks[k].along, index);
    run.fetch(c, base + dot(access.along, index), length, out + done * size);
  });
}

bool is_better_across(const Access& access) {
  return access.checks.empty() && access.outer.rank() == 1 && access.outer[0] == 1 && access.along.back() != 0 &&
         access.along.back() != 1;
}

void fetch_across(const Access& access, const Space& space, LoadFn load, std::size_t value_size, const std::byte* data,
                  std::int64_t outer_index, std::int64_t depth, std::int64_t begin, std::int64_t count, std::byte* out) {
  constexpr std::int64_t kMost = 64;
  constexpr std::int64_t kAhead = 16;
  alignas(64) std::byte line[kMost * 8];
  const std::int64_t base = locate(access, space, outer_index);
  const auto element = static_cast<std::int64_t>(size_of(access.dtype));
  const auto size = static_cast<std::int64_t>(value_size);
  const int last = space.along.rank() - 1;
  for_each_run(space.along, begin, count, [&](const std::int64_t* index, std::int64_t length, std::int64_t done) {
    const std::int64_t start = base + dot(access.along, index);
    for (std::int64_t i = 0; i < length; ++i) {
      // Every piece is on another page, where the processor does not fetch ahead by itself.
      const std::byte* ahead = data + (start + access.along[last] * std::min(i + kAhead, length - 1)) * element;
      for (std::int64_t byte = 0; byte < depth * element; byte += 64) __builtin_prefetch(ahead + byte);
      for (std::int64_t d = 0; d < depth; d += kMost) {
        const std::int64_t n = std::min(kMost, depth - d);
        load(line, data + (start + access.along[last] * i + d) * element, 1, static_cast<std::size_t>(n));
        std::byte* to = out + (d * count + done + i) * size;
        if (size == 4) {
          for (std::int64_t k = 0; k < n; ++k) std::memcpy(to + k * count * 4, line + k * 4, 4);
        } else {
          for (std::int64_t k = 0; k < n; ++k) std::memcpy(to + k * count * 8, line + k * 8, 8);
        }
      }
    }
  });
}

void put(const Access& access, const Space& space, StoreFn store, std::size_t value_size, std::byte* data,
         std::int64_t outer_index, std::int64_t begin, std::int64_t count, const std::byte* values) {
  const std::int64_t base = locate(access, space, outer_index);
  const auto element = static_cast<std::int64_t>(size_of(access.dtype));
  const int last = space.along.rank() - 1;
  for_each_run(space.along, begin, count, [&](const std::int64_t* index, std::int64_t length, std::int64_t done) {
    store(data + (base + dot(access.along, index)) * element, access.along[last],
          values + done * static_cast<std::int64_t>(value_size), static_cast<std::size_t>(length));
  });
}

void count_along(const Access& access, const Space& space, const ConvertTable& convert, std::int64_t outer_index,
                 std::int64_t begin, std::int64_t count, std::int64_t* out) {
  const std::int64_t base = locate(access, space, outer_index);
  const int last = space.along.rank() - 1;
  for_each_run(space.along, begin, count, [&](const std::int64_t* index, std::int64_t length, std::int64_t done) {
    convert.iota(out + done, base + dot(access.along, index), access.along[last], static_cast<std::size_t>(length));
  });
}

std::int64_t contiguous_run(const Access& access, const Space& space, std::int64_t outer_index, std::int64_t begin,
                            std::int64_t count) {
  const int last = space.along.rank() - 1;
  if (!access.checks.empty() || access.along[last] != 1) return -1;
  if (last > 0 && begin % space.along[last] + count > space.along[last]) return -1;
  return locate(access, space, outer_index) + dot_index(access.along, space.along, begin);
}

}  // namespace v0
}  // namespace lockstep
