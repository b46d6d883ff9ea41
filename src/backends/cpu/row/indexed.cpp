#include "backends/cpu/row/indexed.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::size_t kBlock = 512;
using Addresses = std::array<std::int64_t, kBlock>;

/// Places of elements [begin, begin + n), -1 where the index is bad. Returns whether none is.
bool locate(const Table& table, const IndexedPlaces& places, std::size_t begin, std::size_t n, Addresses& addresses) {
  const std::int64_t* index = places.index + (places.one_index ? 0 : begin);
  const std::int64_t* first = places.first + (places.one_first ? 0 : begin);
  const std::size_t index_step = places.one_index ? 0 : 1;
  const std::size_t first_step = places.one_first ? 0 : 1;
  const auto size = static_cast<std::uint64_t>(table.size);
  bool all_inside = true;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t at = index[i * index_step];
    const bool inside = static_cast<std::uint64_t>(at) < size;
    addresses[i] = inside ? first[i * first_step] + table.stride * at : -1;
    all_inside = all_inside && inside;
  }
  return all_inside;
}

bool are_neighbours(const Addresses& addresses, std::size_t n) {
  std::int64_t difference = 0;
  for (std::size_t i = 0; i < n; ++i) difference |= addresses[i] - addresses[0] - static_cast<std::int64_t>(i);
  return difference == 0 && addresses[0] >= 0;
}

template <typename Word>
void collect(const std::byte* data, const Addresses& addresses, std::size_t n, std::byte* words) {
  for (std::size_t i = 0; i < n; ++i) {
    Word word = 0;
    if (addresses[i] >= 0) std::memcpy(&word, data + addresses[i] * static_cast<std::int64_t>(sizeof(Word)), sizeof word);
    std::memcpy(words + i * sizeof word, &word, sizeof word);
  }
}

void decode_packed(const Table& table, const std::byte* data, const Addresses& addresses, std::size_t n,
                   std::byte* words) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t word = addresses[i] < 0 ? 0 : load_word(table.encoding, table.dtype, data, addresses[i]);
    store_word(table.dtype, words, static_cast<std::int64_t>(i), word);
  }
}

}  // namespace

bool fetch_indexed(const Table& table, const IndexedPlaces& places, const std::byte* data, LoadFn load,
                   std::size_t value_size, std::size_t n, std::byte* out) {
  alignas(64) std::array<std::byte, kBlock * 8> words;
  Addresses addresses;
  bool all_inside = true;
  const std::size_t size = size_of(table.dtype);
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t count = std::min(kBlock, n - begin);
    all_inside = locate(table, places, begin, count, addresses) && all_inside;
    const std::byte* from = words.data();
    if (table.encoding != Encoding::dense) {
      decode_packed(table, data, addresses, count, words.data());
    } else if (are_neighbours(addresses, count)) {
      from = data + addresses[0] * static_cast<std::int64_t>(size);
    } else {
      switch (size) {
        case 1: collect<std::uint8_t>(data, addresses, count, words.data()); break;
        case 2: collect<std::uint16_t>(data, addresses, count, words.data()); break;
        case 4: collect<std::uint32_t>(data, addresses, count, words.data()); break;
        default: collect<std::uint64_t>(data, addresses, count, words.data());
      }
    }
    load(out + begin * value_size, from, 1, count);
  }
  return all_inside;
}

}  // namespace v0
}  // namespace lockstep
