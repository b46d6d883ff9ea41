#include "backends/cpu/irregular/radix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cpu/irregular/scratch.h"
#include "backends/cpu/threads.h"
#include "core/elements.h"
#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

constexpr std::int64_t kFew = 384;       // below, comparing is faster than counting
constexpr std::int64_t kMany = 1 << 14;  // from here on larger digits pay
constexpr int kSmallDigit = 8;
constexpr int kLargeDigit = 11;

template <typename T> using Key = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// The ordering key as an unsigned number.
template <typename T> Key<T> key_of(T value, int dropped_bits) {
  constexpr Key<T> kSign = Key<T>(1) << (8 * sizeof(T) - 1);
  return (static_cast<Key<T>>(scalar::max_key(value)) ^ kSign) >> dropped_bits;
}

struct Wide {
  std::uint64_t key;
  std::uint64_t index;
  friend bool operator<(const Wide& a, const Wide& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }
};
std::size_t digit_of(std::uint64_t word, int shift, std::size_t mask) {
  return (word >> shift) & mask;
}
std::size_t digit_of(const Wide& word, int shift, std::size_t mask) {
  return (word.key >> shift) & mask;
}

/// fn(part, begin, end) for `parts` parts of [0, n).
template <typename Fn> void for_each_part(int parts, std::int64_t n, Fn fn) {
  if (parts == 1) return fn(0, std::int64_t{0}, n);
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      fn(static_cast<int>(part), n / parts * part + std::min(part, n % parts),
         n / parts * (part + 1) + std::min(part + 1, n % parts));
    }
  });
}

/// Which bits of the words are keys, and what is above them.
struct Field {
  int first = 0;
  int bits = 0;
};

/// Sorts by the field, with `other` as room for the digits' moves; `put` gets every word with its place in the end.
template <typename Word, typename Put>
void radix_sort(Word* words, Word* other, std::int64_t n, Field field, int threads, MemoryPool& memory, Put put) {
  const int widest = n < kMany ? kSmallDigit : kLargeDigit;
  const int passes = (field.bits + widest - 1) / widest;
  const int digit = (field.bits + passes - 1) / passes;
  const std::size_t digits = std::size_t{1} << digit;
  const Scratch<std::int64_t> counts(memory, static_cast<std::int64_t>(digits) * threads);
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = field.first + pass * digit;
    // The last digit has what is left of the field, so that no other bits are looked at.
    const std::size_t mask = (std::size_t{1} << std::min(digit, field.bits - pass * digit)) - 1;
    for_each_part(threads, n, [&](int part, std::int64_t begin, std::int64_t end) {
      std::int64_t* count = counts.get() + static_cast<std::size_t>(part) * digits;
      std::fill(count, count + digits, 0);
      for (std::int64_t i = begin; i < end; ++i) ++count[digit_of(words[i], shift, mask)];
    });
    std::int64_t place = 0;
    bool is_one_digit = false;
    for (std::size_t d = 0; d < digits; ++d) {
      const std::int64_t before = place;
      for (int part = 0; part < threads; ++part) {
        std::int64_t& count = counts[static_cast<std::int64_t>(static_cast<std::size_t>(part) * digits + d)];
        place += std::exchange(count, place);
      }
      is_one_digit = is_one_digit || place - before == n;
    }
    const bool last = pass + 1 == passes;
    if (is_one_digit && !last) continue;
    for_each_part(threads, n, [&](int part, std::int64_t begin, std::int64_t end) {
      std::int64_t* next = counts.get() + static_cast<std::size_t>(part) * digits;
      if (last) {
        for (std::int64_t i = begin; i < end; ++i) put(next[digit_of(words[i], shift, mask)]++, words[i]);
      } else {
        for (std::int64_t i = begin; i < end; ++i) other[next[digit_of(words[i], shift, mask)]++] = words[i];
      }
    });
    std::swap(words, other);
  }
}

/// Fills words through make(i), sorts them, and puts index(word) out.
template <typename Word, typename Make, typename Index>
void sort_words(std::int64_t n, Field field, int threads, MemoryPool& memory, std::int64_t* out, std::int64_t stride,
                Make make, Index index) {
  if (n <= kFew) {
    std::array<Word, kFew> words;
    for (std::int64_t i = 0; i < n; ++i) words[static_cast<std::size_t>(i)] = make(i);
    std::sort(words.begin(), words.begin() + n);
    for (std::int64_t i = 0; i < n; ++i) out[i * stride] = index(words[static_cast<std::size_t>(i)]);
    return;
  }
  const Scratch<Word> words(memory, n), other(memory, n);
  for_each_part(threads, n, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) words[i] = make(i);
  });
  radix_sort(words.get(), other.get(), n, field, threads, memory,
             [&](std::int64_t place, const Word& word) { out[place * stride] = index(word); });
}

template <typename T> struct Range {
  Key<T> least = ~Key<T>(0);
  Key<T> most = 0;
};

template <typename T> Range<T> key_range(const T* x, std::int64_t n, const SortOptions& options) {
  std::vector<Range<T>> ranges(static_cast<std::size_t>(options.threads));
  for_each_part(options.threads, n, [&](int part, std::int64_t begin, std::int64_t end) {
    Range<T> range;
    for (std::int64_t i = begin; i < end; ++i) {
      const Key<T> key = key_of(x[i], options.dropped_bits);
      range.least = std::min(range.least, key);
      range.most = std::max(range.most, key);
    }
    ranges[static_cast<std::size_t>(part)] = range;
  });
  Range<T> all = ranges[0];
  for (const Range<T>& range : ranges) {
    all.least = std::min(all.least, range.least);
    all.most = std::max(all.most, range.most);
  }
  return all;
}

}  // namespace

int dropped_key_bits(DType dtype) {
  return is_float(dtype) ? limits_of(dtype_of(compute_type(dtype))).digits - limits_of(dtype).digits : 0;
}

template <typename T>
void sort_positions(const T* x, std::int64_t n, const SortOptions& options, MemoryPool& memory, std::int64_t* out,
                    std::int64_t stride) {
  if (n <= 0) return;
  const Range<T> range = key_range(x, n, options);
  const auto key_bits = static_cast<int>(std::bit_width(range.most - range.least));
  const int index_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
  if (key_bits == 0) {
    for (std::int64_t i = 0; i < n; ++i) out[i * stride] = i;
    return;
  }
  const auto key = [&](std::int64_t i) -> std::uint64_t {
    const Key<T> k = key_of(x[i], options.dropped_bits);
    return options.descending ? range.most - k : k - range.least;
  };
  if (key_bits + index_bits <= 64) {
    const std::uint64_t mask = (std::uint64_t{1} << index_bits) - 1;
    sort_words<std::uint64_t>(
        n, {index_bits, key_bits}, options.threads, memory, out, stride,
        [&](std::int64_t i) { return (key(i) << index_bits) | static_cast<std::uint64_t>(i); },
        [&](std::uint64_t word) { return static_cast<std::int64_t>(word & mask); });
  } else {
    sort_words<Wide>(
        n, {0, key_bits}, options.threads, memory, out, stride,
        [&](std::int64_t i) {
          return Wide{key(i), static_cast<std::uint64_t>(i)};
        },
        [](const Wide& word) { return static_cast<std::int64_t>(word.index); });
  }
}

template void sort_positions<float>(const float*, std::int64_t, const SortOptions&, MemoryPool&, std::int64_t*,
                                    std::int64_t);
template void sort_positions<double>(const double*, std::int64_t, const SortOptions&, MemoryPool&, std::int64_t*,
                                     std::int64_t);
template void sort_positions<std::int32_t>(const std::int32_t*, std::int64_t, const SortOptions&, MemoryPool&,
                                           std::int64_t*, std::int64_t);
template void sort_positions<std::int64_t>(const std::int64_t*, std::int64_t, const SortOptions&, MemoryPool&,
                                           std::int64_t*, std::int64_t);

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
