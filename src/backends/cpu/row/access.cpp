#include "backends/cpu/row/access.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace lockstep {
inline namespace v0 {
namespace {

bool all_zero(const Shape& strides) {
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 0; });
}

struct Quotient {
  std::int64_t quotient, rest;
};

/// Of numbers that are not negative. Short divisions take half as long.
Quotient divide(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) {
    const auto x = static_cast<std::uint32_t>(a), y = static_cast<std::uint32_t>(b);
    return {x / y, x % y};
  }
  return {a / b, a % b};
}

/// Quotient rounded up, for a positive divisor.
std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  if (b == 1) return a;
  return a >= 0 ? divide(a + b - 1, b).quotient : -divide(-a, b).quotient;
}

/// The rest in [0, b).
std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (a >= 0) return divide(a, b).rest;
  const std::int64_t rest = divide(-a, b).rest;
  return rest == 0 ? 0 : b - rest;
}

using Index = std::array<std::int64_t, Shape::kCapacity>;

/// The index over the first `rank` dims.
void unravel(const Shape& dims, int rank, std::int64_t linear, Index& index) {
  for (int d = rank - 1; d > 0; --d) {
    const Quotient split = divide(linear, dims[d]);
    index[static_cast<std::size_t>(d)] = split.rest;
    linear = split.quotient;
  }
  if (rank > 0) index[0] = linear;
}

std::int64_t dot(const Shape& strides, const Index& index, int rank) {
  std::int64_t sum = 0;
  for (int d = 0; d < rank; ++d) sum += strides[d] * index[static_cast<std::size_t>(d)];
  return sum;
}

std::int64_t locate(const Access& access, std::int64_t outer_index) {
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

template <typename Word> Word read(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// A pattern is at most this long, and worth it where the last dim is shorter than that.
constexpr std::int64_t kPattern = 512;
constexpr std::int64_t kShortRun = 32;

/// How many elements further a later run is, for runs on pages of their own: the processor does not fetch them ahead by
/// itself. Else 0.
std::int64_t distance_ahead(const Access& access) {
  constexpr std::int64_t kRunsAhead = 8;
  constexpr std::int64_t kPage = 4096;
  const int last = access.along.rank() - 1;
  const auto element = static_cast<std::int64_t>(size_of(access.dtype));
  if (last == 0 || access.along[last] != 1 || std::abs(access.along[last - 1]) * element < kPage / 4) return 0;
  return access.along_dims[last] * element <= kPage ? kRunsAhead * access.along[last - 1] : 0;
}

/// One fetch: the access, the buffer, and how its elements are read.
class Fetch {
 public:
  Fetch(const Access& access, const Loader& loader, const std::byte* data)
      : access_(access), loader_(loader), data_(data), element_(static_cast<std::int64_t>(size_of(access.dtype))) {}

  void runs(std::int64_t outer_index, std::int64_t begin, std::int64_t count, std::byte* out) const {
    const std::int64_t ahead = distance_ahead(access_);
    for_each_run(access_, outer_index, begin, count,
                 [&](const Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                   if (ahead != 0) {
                     const std::byte* next = data_ + (cursor.position() + at + ahead) * element_;
                     for (std::int64_t byte = 0; byte < n * element_; byte += 64) __builtin_prefetch(next + byte);
                   }
                   run(cursor, at, n, out + done * size());
                 });
  }

  void patterns(std::int64_t outer_index, std::int64_t begin, std::int64_t count, std::byte* out) const {
    for_each_pattern(access_, outer_index, begin, count,
                     [&](const Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                       std::byte* to = out + done * size();
                       if (!block(cursor, at, n, to)) runs(outer_index, begin + done, n, to);
                     });
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(loader_.size); }

  void load(std::byte* out, std::int64_t address, std::int64_t stride, std::int64_t n) const {
    loader_.load(out, data_ + address * element_, stride, static_cast<std::size_t>(n));
  }
  void fill(std::byte* out, std::int64_t n) const {
    if (n > 0) loader_.load(out, reinterpret_cast<const std::byte*>(&access_.fill), 0, static_cast<std::size_t>(n));
  }

  /// Elements [at, at + n) along the last dim. Those that pass the checks are first + period * j, j < left; their
  /// addresses are address + step * j.
  void run(const Cursor& cursor, std::int64_t at, std::int64_t n, std::byte* out) const {
    const int last = access_.along.rank() - 1;
    std::int64_t step = access_.along[last];
    std::int64_t address = cursor.position() + step * at;
    std::int64_t first = 0, period = 1, left = n;
    const auto drop = [&](std::int64_t j) {
      first += period * j;
      address += step * j;
      left -= j;
    };
    for (std::size_t k = 0; k < access_.checks.size(); ++k) {
      const Check& check = access_.checks[k];
      std::int64_t c = cursor.coordinate(k) + check.along[last] * (at + first);
      std::int64_t m = check.along[last] * period;
      if (check.step > 1) {
        const std::int64_t move = modulo(m, check.step);
        std::int64_t rest = modulo(c, check.step);
        std::int64_t skipped = 0;
        for (; rest != 0 && skipped < check.step; ++skipped) {
          rest += move;
          if (rest >= check.step) rest -= check.step;
        }
        if (rest != 0 || skipped >= left) return fill(out, n);
        drop(skipped);
        c += m * skipped;
        const std::int64_t apart = check.step / std::gcd(move, check.step);
        left = ceil_div(left, apart);
        period *= apart;
        m *= apart;
        address += check.stride * (c / check.step);
        step = step * apart + check.stride * (m / check.step);
      }
      // Those with lo <= c + m * j < hi.
      if (m == 0) {
        if (c < check.lo || c >= check.hi) left = 0;
      } else {
        const std::int64_t before = m > 0 ? ceil_div(check.lo - c, m) : ceil_div(c - check.hi + 1, -m);
        const std::int64_t end = m > 0 ? ceil_div(check.hi - c, m) : ceil_div(c - check.lo + 1, -m);
        left = std::min(left, end);
        if (before > 0) drop(before);
      }
      if (left <= 0) return fill(out, n);
    }
    if (period != 1) return spread(out, n, first, period, address, step, left);
    fill(out, first);
    load(out + first * size(), address, step, left);
    fill(out + (first + left) * size(), n - first - left);
  }

  void spread(std::byte* out, std::int64_t n, std::int64_t first, std::int64_t period, std::int64_t address,
              std::int64_t step, std::int64_t left) const {
    constexpr std::int64_t kLine = 64;
    alignas(64) std::byte line[kLine * 8];
    fill(out, n);
    for (std::int64_t j = 0; j < left; j += kLine) {
      const std::int64_t count = std::min(kLine, left - j);
      load(line, address + step * j, step, count);
      with_word(loader_.size, [&](auto zero) {
        using Word = decltype(zero);
        std::byte* to = out + (first + period * j) * size();
        for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * period * size(), line + i * size(), sizeof(Word));
      });
    }
  }

  /// Elements [at, at + n) of a block of the pattern, or false where only some of it pass a check.
  bool block(const Cursor& cursor, std::int64_t at, std::int64_t n, std::byte* out) const {
    std::int64_t address = cursor.position() + access_.pattern.lowest;
    bool outside = false, cut = false;
    for (std::size_t k = 0; k < access_.checks.size(); ++k) {
      const Check& check = access_.checks[k];
      if (check.part == Check::Part::of_pattern) continue;
      const std::int64_t c = cursor.coordinate(k);
      outside = outside || c + check.most < check.lo || c + check.least >= check.hi;
      cut = cut || c + check.least < check.lo || c + check.most >= check.hi;
      if (check.step == 1) continue;
      outside = outside || modulo(c, check.step) != 0;
      address += check.stride * (c / check.step);
    }
    if (outside) {
      fill(out, n);
      return true;
    }
    if (cut) return false;
    const std::int32_t* offsets = access_.pattern.offsets.data() + at;
    const std::byte* from = data_ + address * element_;
    with_word(static_cast<std::size_t>(element_), [&](auto zero) {
      using Word = decltype(zero);
      if (sizeof(Word) == loader_.size) {
        collect<Word>(from, offsets, n, out);
        if (!loader_.as_stored) loader_.load(out, out, 1, static_cast<std::size_t>(n));
      } else {
        alignas(64) std::array<std::byte, kPattern * sizeof(Word)> words;
        collect<Word>(from, offsets, n, words.data());
        loader_.load(out, words.data(), 1, static_cast<std::size_t>(n));
      }
    });
    return true;
  }

  template <typename Word>
  void collect(const std::byte* from, const std::int32_t* offsets, std::int64_t n, std::byte* out) const {
    constexpr auto size = static_cast<std::int64_t>(sizeof(Word));
    if (!access_.pattern.has_fill) {
      for (std::int64_t i = 0; i < n; ++i) std::memcpy(out + i * size, from + offsets[i] * size, sizeof(Word));
      return;
    }
    const std::byte* const fill = reinterpret_cast<const std::byte*>(&access_.fill);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::byte* const element = offsets[i] < 0 ? fill : from + offsets[i] * size;
      std::memcpy(out + i * size, element, sizeof(Word));
    }
  }

  const Access& access_;
  const Loader& loader_;
  const std::byte* data_;
  std::int64_t element_;
};

/// One piece of `depth` neighbours becomes a column: values `count` apart.
void turn_piece(const Loader& loader, const std::byte* piece, std::int64_t element, std::int64_t depth, std::byte* to,
                std::int64_t count) {
  constexpr std::int64_t kMost = 64;
  alignas(64) std::byte line[kMost * 8];
  const auto size = static_cast<std::int64_t>(loader.size);
  for (std::int64_t d = 0; d < depth; d += kMost) {
    const std::int64_t n = std::min(kMost, depth - d);
    loader.load(line, piece + d * element, 1, static_cast<std::size_t>(n));
    with_word(loader.size, [&](auto zero) {
      using Word = decltype(zero);
      for (std::int64_t k = 0; k < n; ++k) std::memcpy(to + (d + k) * count * size, line + k * size, sizeof(Word));
    });
  }
}

/// Four pieces of four-byte words, `stride` apart, become four neighbouring columns.
constexpr std::int64_t kQuad = 4;
void transpose_quads(const std::byte* pieces, std::int64_t stride, std::int64_t depth, std::byte* to,
                     std::int64_t count) {
  using Quad = std::uint32_t __attribute__((vector_size(16)));
  using Pairs = std::uint64_t __attribute__((vector_size(16)));
  std::int64_t d = 0;
  for (; d + kQuad <= depth; d += kQuad) {
    Quad row[kQuad];
    for (std::int64_t i = 0; i < kQuad; ++i) std::memcpy(&row[i], pieces + (stride * i + d) * 4, sizeof(Quad));
    const auto low01 = reinterpret_cast<Pairs>(__builtin_shufflevector(row[0], row[1], 0, 4, 1, 5));
    const auto high01 = reinterpret_cast<Pairs>(__builtin_shufflevector(row[0], row[1], 2, 6, 3, 7));
    const auto low23 = reinterpret_cast<Pairs>(__builtin_shufflevector(row[2], row[3], 0, 4, 1, 5));
    const auto high23 = reinterpret_cast<Pairs>(__builtin_shufflevector(row[2], row[3], 2, 6, 3, 7));
    const Pairs column[kQuad] = {
        __builtin_shufflevector(low01, low23, 0, 2), __builtin_shufflevector(low01, low23, 1, 3),
        __builtin_shufflevector(high01, high23, 0, 2), __builtin_shufflevector(high01, high23, 1, 3)};
    for (std::int64_t i = 0; i < kQuad; ++i) std::memcpy(to + (d + i) * count * 4, &column[i], sizeof(Pairs));
  }
  for (; d < depth; ++d) {
    for (std::int64_t i = 0; i < kQuad; ++i) std::memcpy(to + (d * count + i) * 4, pieces + (stride * i + d) * 4, 4);
  }
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
  while (first > 0 && size * along_dims[first - 1] <= kPattern) size *= along_dims[--first];
  if (first > 0 && along.rank() < Shape::kCapacity) {
    // A part of the next dim: the largest that divides it.
    std::int64_t part = kPattern / size;
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
    Index index;
    unravel(dims, dims.rank(), i, index);
    std::int64_t address = dot(along.slice(first, rank), index, dims.rank());
    bool passes = true;
    for (const Check& check : checks) {
      if (check.part == Check::Part::of_block) continue;
      const bool whole = check.part == Check::Part::of_pattern;
      const std::int64_t c = (whole ? check.offset : 0) + dot(check.along.slice(first, rank), index, dims.rank());
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

void fetch(const Access& access, const Loader& loader, const std::byte* data, std::int64_t outer_index,
           std::int64_t begin, std::int64_t count, std::byte* out) {
  if (access.checks.empty() && access.along.rank() == 1) {
    const std::int64_t stride = access.along[0];
    const std::int64_t address = locate(access, outer_index) + stride * begin;
    const auto element = static_cast<std::int64_t>(size_of(access.dtype));
    return loader.load(out, data + address * element, stride, static_cast<std::size_t>(count));
  }
  const Fetch fetch(access, loader, data);
  if (access.pattern.offsets.empty()) {
    fetch.runs(outer_index, begin, count, out);
  } else {
    fetch.patterns(outer_index, begin, count, out);
  }
}

bool is_better_across(const Access& access) {
  return access.checks.empty() && access.outer.rank() == 1 && access.outer[0] == 1 && access.along.back() != 0 &&
         access.along.back() != 1;
}

void fetch_across(const Access& access, const Loader& loader, const std::byte* data, std::int64_t outer_index,
                  std::int64_t depth, std::int64_t begin, std::int64_t count, std::byte* out) {
  constexpr std::int64_t kAhead = 16;
  const auto element = static_cast<std::int64_t>(size_of(access.dtype));
  const auto size = static_cast<std::int64_t>(loader.size);
  const std::int64_t stride = access.along.back();
  const bool words = loader.as_stored && size == 4;
  for_each_run(access, outer_index, begin, count,
               [&](const Cursor& cursor, std::int64_t at, std::int64_t length, std::int64_t done) {
                 const std::byte* from = data + (cursor.position() + stride * at) * element;
                 std::byte* to = out + done * size;
                 for (std::int64_t i = 0; i < length;) {
                   // Every piece is on another page, where the processor does not fetch ahead by itself.
                   const std::int64_t n = words && length - i >= kQuad ? kQuad : 1;
                   for (std::int64_t k = 0; k < n; ++k) {
                     const std::byte* next = from + stride * element * std::min(i + k + kAhead, length - 1);
                     for (std::int64_t byte = 0; byte < depth * element; byte += 64) __builtin_prefetch(next + byte);
                   }
                   const std::byte* piece = from + stride * element * i;
                   if (n == kQuad) {
                     transpose_quads(piece, stride, depth, to + i * size, count);
                   } else {
                     turn_piece(loader, piece, element, depth, to + i * size, count);
                   }
                   i += n;
                 }
               });
}

void put(const Access& access, const Storer& storer, std::byte* data, std::int64_t outer_index, std::int64_t begin,
         std::int64_t count, const std::byte* values) {
  const auto element = static_cast<std::int64_t>(size_of(access.dtype));
  const auto size = static_cast<std::int64_t>(storer.size);
  if (access.pattern.offsets.empty()) {
    const std::int64_t stride = access.along.back();
    const std::int64_t ahead = distance_ahead(access);
    return for_each_run(access, outer_index, begin, count,
                        [&](const Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                          if (ahead != 0) {
                            const std::byte* next = data + (cursor.position() + at + ahead) * element;
                            for (std::int64_t byte = 0; byte < n * element; byte += 64) {
                              __builtin_prefetch(next + byte, 1);
                            }
                          }
                          storer.store(data + (cursor.position() + stride * at) * element, stride, values + done * size,
                                       static_cast<std::size_t>(n));
                        });
  }
  for_each_pattern(access, outer_index, begin, count,
                   [&](const Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                     alignas(64) std::array<std::byte, kPattern * 8> words;
                     storer.store(words.data(), 1, values + done * size, static_cast<std::size_t>(n));
                     const std::int32_t* offsets = access.pattern.offsets.data() + at;
                     std::byte* to = data + (cursor.position() + access.pattern.lowest) * element;
                     with_word(static_cast<std::size_t>(element), [&](auto zero) {
                       using Word = decltype(zero);
                       constexpr auto word = static_cast<std::int64_t>(sizeof(Word));
                       for (std::int64_t i = 0; i < n; ++i) {
                         std::memcpy(to + offsets[i] * word, words.data() + i * word, sizeof(Word));
                       }
                     });
                   });
}

void count_along(const Access& access, const ConvertTable& convert, std::int64_t outer_index, std::int64_t begin,
                 std::int64_t count, std::int64_t* out) {
  if (access.pattern.offsets.empty()) {
    const std::int64_t stride = access.along.back();
    return for_each_run(access, outer_index, begin, count,
                        [&](const Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                          convert.iota(out + done, cursor.position() + stride * at, stride,
                                       static_cast<std::size_t>(n));
                        });
  }
  for_each_pattern(access, outer_index, begin, count,
                   [&](const Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                     const std::int32_t* offsets = access.pattern.offsets.data() + at;
                     const std::int64_t base = cursor.position() + access.pattern.lowest;
                     for (std::int64_t i = 0; i < n; ++i) out[done + i] = base + offsets[i];
                   });
}

std::int64_t contiguous_run(const Access& access, std::int64_t outer_index, std::int64_t begin, std::int64_t count) {
  const int last = access.along.rank() - 1;
  if (!access.checks.empty() || access.along[last] != 1) return -1;
  if (last == 0) return locate(access, outer_index) + begin;
  const auto [run, at] = divide(begin, access.along_dims[last]);
  if (at + count > access.along_dims[last]) return -1;
  Index index;
  unravel(access.along_dims, last, run, index);
  return locate(access, outer_index) + dot(access.along, index, last) + at;
}

std::int64_t contiguous_block(const Access& access, std::int64_t outer_index, std::int64_t depth, std::int64_t begin,
                              std::int64_t count) {
  if (depth == 1 && (count > 1 || begin > 0)) return contiguous_run(access, outer_index, begin, count);
  const int last = access.outer.rank() - 1;
  if (!access.checks.empty() || begin != 0) return -1;
  if (depth > 1 && access.outer[last] != count) return -1;
  if (count > 1 && (access.along.rank() > 1 || access.along[0] != 1)) return -1;
  if (last > 0 && divide(outer_index, access.outer_dims[last]).rest + depth > access.outer_dims[last]) return -1;
  return locate(access, outer_index);
}

}  // namespace v0
}  // namespace lockstep
