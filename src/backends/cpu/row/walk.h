// The walk over the elements of an access, which reading, transposing and writing share: addresses and the coordinates
// of checks, run by run or pattern by pattern. Additions only, but for the start.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "backends/cpu/row/access.h"

namespace lockstep {
inline namespace v0 {
namespace walk {

/// A pattern is at most this long.
inline constexpr std::int64_t kPattern = 512;

struct Quotient {
  std::int64_t quotient, rest;
};

/// Of numbers that are not negative. Short divisions take half as long.
inline Quotient divide(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) {
    const auto x = static_cast<std::uint32_t>(a), y = static_cast<std::uint32_t>(b);
    return {x / y, x % y};
  }
  return {a / b, a % b};
}

/// Quotient rounded up, for a positive divisor.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  if (b == 1) return a;
  return a >= 0 ? divide(a + b - 1, b).quotient : -divide(-a, b).quotient;
}

/// The rest in [0, b).
inline std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (a >= 0) return divide(a, b).rest;
  const std::int64_t rest = divide(-a, b).rest;
  return rest == 0 ? 0 : b - rest;
}

using Index = std::array<std::int64_t, Shape::kCapacity>;

/// The index over the first `rank` dims.
inline void unravel(const Shape& dims, int rank, std::int64_t linear, Index& index) {
  for (int d = rank - 1; d > 0; --d) {
    const Quotient split = divide(linear, dims[d]);
    index[static_cast<std::size_t>(d)] = split.rest;
    linear = split.quotient;
  }
  if (rank > 0) index[0] = linear;
}

inline std::int64_t dot(const Shape& strides, const Index& index, int rank) {
  std::int64_t sum = 0;
  for (int d = 0; d < rank; ++d) sum += strides[d] * index[static_cast<std::size_t>(d)];
  return sum;
}

inline std::int64_t locate(const Access& access, std::int64_t outer_index) {
  Index index;
  unravel(access.outer_dims, access.outer.rank(), outer_index, index);
  return access.offset + dot(access.outer, index, access.outer.rank());
}

/// The address of an index over the first `dims` along dims, and the coordinates of the checks there.
class Cursor {
 public:
  Cursor(const Access& access, int dims, std::int64_t outer_index, std::int64_t index) : access_(access), dims_(dims) {
    Index outer;
    const int outer_rank = access.outer.rank();
    unravel(access.outer_dims, outer_rank, outer_index, outer);
    unravel(access.along_dims, dims, index, index_);
    position_ = access.offset + dot(access.outer, outer, outer_rank) + dot(access.along, index_, dims);
    if (access.checks.size() > few_.size()) {
      many_.resize(access.checks.size());
      coordinates_ = many_.data();
    }
    for (std::size_t k = 0; k < access.checks.size(); ++k) {
      const Check& check = access.checks[k];
      coordinates_[k] = check.offset + dot(check.outer, outer, outer_rank) + dot(check.along, index_, dims);
    }
  }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  void next() {
    for (int d = dims_ - 1; d >= 0; --d) {
      std::int64_t& i = index_[static_cast<std::size_t>(d)];
      move(d, 1);
      if (++i < access_.along_dims[d]) return;
      move(d, -i);
      i = 0;
    }
  }

  std::int64_t position() const { return position_; }
  std::int64_t coordinate(std::size_t check) const { return coordinates_[check]; }

 private:
  void move(int d, std::int64_t by) {
    position_ += access_.along[d] * by;
    for (std::size_t k = 0; k < access_.checks.size(); ++k) coordinates_[k] += access_.checks[k].along[d] * by;
  }

  const Access& access_;
  int dims_;
  Index index_;
  std::int64_t position_;
  std::array<std::int64_t, 8> few_;
  std::vector<std::int64_t> many_;
  std::int64_t* coordinates_ = few_.data();
};

/// Walks elements [begin, begin + count) in blocks of `size`, the size of the along dims from `first_dim` on:
/// fn(cursor at the start of the block, the element of the block to begin with, how many, done so far).
template <typename Fn>
void for_each_block(const Access& access, int first_dim, std::int64_t size, std::int64_t outer_index,
                    std::int64_t begin, std::int64_t count, Fn fn) {
  if (count == 0) return;
  if (size == 0) size = count;  // An empty row still has row values, which are read at its index 0.
  auto [block, at] = first_dim == 0 ? Quotient{0, begin} : divide(begin, size);
  Cursor cursor(access, first_dim, outer_index, block);
  for (std::int64_t done = 0;;) {
    const std::int64_t n = std::min(size - at, count - done);
    fn(cursor, at, n, done);
    done += n;
    if (done == count) return;
    at = 0;
    cursor.next();
  }
}

/// Blocks along the last dim.
template <typename Fn>
void for_each_run(const Access& access, std::int64_t outer_index, std::int64_t begin, std::int64_t count, Fn fn) {
  const int last = access.along.rank() - 1;
  for_each_block(access, last, access.along_dims[last], outer_index, begin, count, fn);
}

template <typename Fn>
void for_each_pattern(const Access& access, std::int64_t outer_index, std::int64_t begin, std::int64_t count, Fn fn) {
  const Pattern& pattern = access.pattern;
  for_each_block(access, pattern.first_dim, static_cast<std::int64_t>(pattern.offsets.size()), outer_index, begin,
                 count, fn);
}

/// Calls fn with an unsigned word of `size` bytes.
template <typename Fn> void with_word(std::size_t size, Fn fn) {
  switch (size) {
    case 1: return fn(std::uint8_t());
    case 2: return fn(std::uint16_t());
    case 4: return fn(std::uint32_t());
    default: return fn(std::uint64_t());
  }
}

/// How many elements further a later run is, for runs on pages of their own: the processor does not fetch them ahead by
/// itself. Else 0.
inline std::int64_t distance_ahead(const Access& access) {
  constexpr std::int64_t kRunsAhead = 8;
  constexpr std::int64_t kPage = 4096;
  const int last = access.along.rank() - 1;
  const auto element = static_cast<std::int64_t>(size_of(access.dtype));
  if (last == 0 || access.along[last] != 1 || std::abs(access.along[last - 1]) * element < kPage / 4) return 0;
  return access.along_dims[last] * element <= kPage ? kRunsAhead * access.along[last - 1] : 0;
}

}  // namespace walk
}  // namespace v0
}  // namespace lockstep
