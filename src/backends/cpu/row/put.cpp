// Writing: a dense array becomes the elements of a tile.
#include <array>
#include <cstring>

#include "backends/cpu/row/access.h"
#include "backends/cpu/row/walk.h"

namespace lockstep {
inline namespace v0 {
void put(const Access& access, const Storer& storer, std::byte* data, std::int64_t outer_index, std::int64_t begin,
         std::int64_t count, const std::byte* values) {
  const auto element = static_cast<std::int64_t>(size_of(access.dtype));
  const auto size = static_cast<std::int64_t>(storer.size);
  if (access.pattern.offsets.empty()) {
    const std::int64_t stride = access.along.back();
    const std::int64_t ahead = walk::distance_ahead(access);
    return walk::for_each_run(access, outer_index, begin, count,
                              [&](const walk::Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                                if (ahead != 0) {
                                  const std::byte* next = data + (cursor.position() + at + ahead) * element;
                                  for (std::int64_t byte = 0; byte < n * element; byte += 64) {
                                    __builtin_prefetch(next + byte, 1);
                                  }
                                }
                                storer.store(data + (cursor.position() + stride * at) * element, stride,
                                             values + done * size, static_cast<std::size_t>(n));
                              });
  }
  walk::for_each_pattern(access, outer_index, begin, count,
                         [&](const walk::Cursor& cursor, std::int64_t at, std::int64_t n, std::int64_t done) {
                           alignas(64) std::array<std::byte, walk::kPattern * 8> words;
                           storer.store(words.data(), 1, values + done * size, static_cast<std::size_t>(n));
                           const std::int32_t* offsets = access.pattern.offsets.data() + at;
                           std::byte* to = data + (cursor.position() + access.pattern.lowest) * element;
                           walk::with_word(static_cast<std::size_t>(element), [&](auto zero) {
                             using Word = decltype(zero);
                             constexpr auto word = static_cast<std::int64_t>(sizeof(Word));
                             for (std::int64_t i = 0; i < n; ++i) {
                               std::memcpy(to + offsets[i] * word, words.data() + i * word, sizeof(Word));
                             }
                           });
                         });
}

}  // namespace v0
}  // namespace lockstep
