// Reading: the elements of a tile, or the numbers of an iota, become a dense array, or are one where they lie.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "backends/cpu/row/access.h"
#include "backends/cpu/row/walk.h"

namespace lockstep {
inline namespace v0 {
namespace {

/// One fetch: the access, the buffer, and how its elements are read.
class Fetch {
 public:
  Fetch(const Access& access, const Loader& loader, const std::byte* data)
      : access_(access), loader_(loader), data_(data), element_(static_cast<std::int64_t>(size_of(access.dtype))) {}

  void runs(std::int64_t outer_index, std::int64_t begin, std::int64_t count, std::byte* out) const {
    const std::int64_t ahead = walk::distance_ahead(access_);
    walk::for_each_run(access_, outer_index, begin, count,
                       [&](const walk::Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                         if (ahead != 0) {
                           const std::byte* next = data_ + (cursor.position() + at + ahead) * element_;
                           for (std::int64_t byte = 0; byte < n * element_; byte += 64) __builtin_prefetch(next + byte);
                         }
                         run(cursor, at, n, out + done * size());
                       });
  }

  void patterns(std::int64_t outer_index, std::int64_t begin, std::int64_t count, std::byte* out) const {
    walk::for_each_pattern(access_, outer_index, begin, count,
                           [&](const walk::Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
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
  void run(const walk::Cursor& cursor, std::int64_t at, std::int64_t n, std::byte* out) const {
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
        const std::int64_t move = walk::modulo(m, check.step);
        std::int64_t rest = walk::modulo(c, check.step);
        std::int64_t skipped = 0;
        for (; rest != 0 && skipped < check.step; ++skipped) {
          rest += move;
          if (rest >= check.step) rest -= check.step;
        }
        if (rest != 0 || skipped >= left) return fill(out, n);
        drop(skipped);
        c += m * skipped;
        const std::int64_t apart = check.step / std::gcd(move, check.step);
        left = walk::ceil_div(left, apart);
        period *= apart;
        m *= apart;
        address += check.stride * (c / check.step);
        step = step * apart + check.stride * (m / check.step);
      }
      // Those with lo <= c + m * j < hi.
      if (m == 0) {
        if (c < check.lo || c >= check.hi) left = 0;
      } else {
        const std::int64_t before = m > 0 ? walk::ceil_div(check.lo - c, m) : walk::ceil_div(c - check.hi + 1, -m);
        const std::int64_t end = m > 0 ? walk::ceil_div(check.hi - c, m) : walk::ceil_div(c - check.lo + 1, -m);
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
      walk::with_word(loader_.size, [&](auto zero) {
        using Word = decltype(zero);
        std::byte* to = out + (first + period * j) * size();
        for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * period * size(), line + i * size(), sizeof(Word));
      });
    }
  }

  /// Elements [at, at + n) of a block of the pattern, or false where only some of it pass a check.
  bool block(const walk::Cursor& cursor, std::int64_t at, std::int64_t n, std::byte* out) const {
    std::int64_t address = cursor.position() + access_.pattern.lowest;
    bool outside = false, cut = false;
    for (std::size_t k = 0; k < access_.checks.size(); ++k) {
      const Check& check = access_.checks[k];
      if (check.part == Check::Part::of_pattern) continue;
      const std::int64_t c = cursor.coordinate(k);
      outside = outside || c + check.most < check.lo || c + check.least >= check.hi;
      cut = cut || c + check.least < check.lo || c + check.most >= check.hi;
      if (check.step == 1) continue;
      outside = outside || walk::modulo(c, check.step) != 0;
      address += check.stride * (c / check.step);
    }
    if (outside) {
      fill(out, n);
      return true;
    }
    if (cut) return false;
    const std::int32_t* offsets = access_.pattern.offsets.data() + at;
    const std::byte* from = data_ + address * element_;
    walk::with_word(static_cast<std::size_t>(element_), [&](auto zero) {
      using Word = decltype(zero);
      if (sizeof(Word) == loader_.size) {
        collect<Word>(from, offsets, n, out);
        if (!loader_.as_stored) loader_.load(out, out, 1, static_cast<std::size_t>(n));
      } else {
        alignas(64) std::array<std::byte, walk::kPattern * sizeof(Word)> words;
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

}  // namespace

void fetch(const Access& access, const Loader& loader, const std::byte* data, std::int64_t outer_index,
           std::int64_t begin, std::int64_t count, std::byte* out) {
  if (access.checks.empty() && access.along.rank() == 1) {
    const std::int64_t stride = access.along[0];
    const std::int64_t address = walk::locate(access, outer_index) + stride * begin;
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

void count_along(const Access& access, const ConvertTable& convert, std::int64_t outer_index, std::int64_t begin,
                 std::int64_t count, std::int64_t* out) {
  if (access.pattern.offsets.empty()) {
    const std::int64_t stride = access.along.back();
    return walk::for_each_run(access, outer_index, begin, count,
                              [&](const walk::Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                                convert.iota(out + done, cursor.position() + stride * at, stride,
                                             static_cast<std::size_t>(n));
                              });
  }
  walk::for_each_pattern(access, outer_index, begin, count,
                         [&](const walk::Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                           const std::int32_t* offsets = access.pattern.offsets.data() + at;
                           const std::int64_t base = cursor.position() + access.pattern.lowest;
                           for (std::int64_t i = 0; i < n; ++i) out[done + i] = base + offsets[i];
                         });
}

namespace {

/// Whether all of [begin, begin + count) along the only dim pass.
bool all_pass(const Access& access, std::int64_t outer_index, std::int64_t begin, std::int64_t count) {
  if (access.along.rank() > 1) return false;
  walk::Index outer;
  walk::unravel(access.outer_dims, access.outer.rank(), outer_index, outer);
  return std::all_of(access.checks.begin(), access.checks.end(), [&](const Check& check) {
    const std::int64_t first =
        check.offset + walk::dot(check.outer, outer, access.outer.rank()) + check.along[0] * begin;
    const std::int64_t last = first + check.along[0] * (count - 1);
    return check.step == 1 && std::min(first, last) >= check.lo && std::max(first, last) < check.hi;
  });
}

}  // namespace

namespace {

// By itself: what it needs on the stack is not made for those that are one addition.
__attribute__((noinline)) std::int64_t contiguous_part(const Access& access, std::int64_t outer_index,
                                                       std::int64_t begin, std::int64_t count) {
  const int last = access.along.rank() - 1;
  if (access.along[last] != 1) return -1;
  if (!access.checks.empty() && !all_pass(access, outer_index, begin, count)) return -1;
  if (last == 0) return walk::locate(access, outer_index) + begin;
  const auto [run, at] = walk::divide(begin, access.along_dims[last]);
  if (at + count > access.along_dims[last]) return -1;
  walk::Index index;
  walk::unravel(access.along_dims, last, run, index);
  return walk::locate(access, outer_index) + walk::dot(access.along, index, last) + at;
}

}  // namespace

std::int64_t contiguous_run(const Access& access, std::int64_t outer_index, std::int64_t begin, std::int64_t count) {
  if (access.along.rank() > 1 || access.outer.rank() > 1 || !access.checks.empty()) {
    return contiguous_part(access, outer_index, begin, count);
  }
  if (access.along[0] != 1) return -1;
  return access.offset + (access.outer.rank() == 0 ? 0 : access.outer[0] * outer_index) + begin;
}

std::int64_t contiguous_block(const Access& access, std::int64_t outer_index, std::int64_t depth, std::int64_t begin,
                              std::int64_t count) {
  if (depth == 1 && (count > 1 || begin > 0)) return contiguous_run(access, outer_index, begin, count);
  const int last = access.outer.rank() - 1;
  if (!access.checks.empty() || begin != 0) return -1;
  if (depth > 1 && access.outer[last] != count) return -1;
  if (count > 1 && (access.along.rank() > 1 || access.along[0] != 1)) return -1;
  if (last > 0 && walk::divide(outer_index, access.outer_dims[last]).rest + depth > access.outer_dims[last]) return -1;
  return walk::locate(access, outer_index);
}

Runs contiguous_rows(const Access& access, std::int64_t outer_index, std::int64_t depth, std::int64_t begin,
                     std::int64_t count) {
  const int last = access.outer.rank() - 1;
  if (depth == 1 || last < 0) return {contiguous_run(access, outer_index, begin, count), 0};
  if (!access.checks.empty()) return {};
  if (last > 0 && walk::divide(outer_index, access.outer_dims[last]).rest + depth > access.outer_dims[last]) return {};
  return {contiguous_run(access, outer_index, begin, count), access.outer[last]};
}

Runs contiguous_pieces(const Access& access, std::int64_t outer_index, std::int64_t piece, std::int64_t begin) {
  const int last = access.along.rank() - 1;
  if (!access.checks.empty() || access.along[last] != 1) return {};
  if (last == 0) return {walk::locate(access, outer_index) + begin, piece};
  if (last > 1 || access.along_dims[1] != piece) return {};
  return {walk::locate(access, outer_index) + access.along[0] * (begin / piece), access.along[0]};
}

}  // namespace v0
}  // namespace lockstep
