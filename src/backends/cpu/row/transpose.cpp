// Transposing: tiles of buffers that are contiguous across the tile rather than along it.
#include <algorithm>
#include <cstring>

#include "backends/cpu/quads.h"
#include "backends/cpu/row/access.h"
#include "backends/cpu/row/walk.h"

namespace lockstep {
inline namespace v0 {
namespace {

/// One piece of `depth` neighbours becomes a column: values `count` apart.
void turn_piece(const Loader& loader, const std::byte* piece, std::int64_t element, std::int64_t depth, std::byte* to,
                std::int64_t count) {
  constexpr std::int64_t kMost = 64;
  alignas(64) std::byte line[kMost * 8];
  const auto size = static_cast<std::int64_t>(loader.size);
  for (std::int64_t d = 0; d < depth; d += kMost) {
    const std::int64_t n = std::min(kMost, depth - d);
    loader.load(line, piece + d * element, 1, static_cast<std::size_t>(n));
    walk::with_word(loader.size, [&](auto zero) {
      using Word = decltype(zero);
      for (std::int64_t k = 0; k < n; ++k) std::memcpy(to + (d + k) * count * size, line + k * size, sizeof(Word));
    });
  }
}

/// Four pieces of four-byte words, `stride` apart, become four neighbouring columns.
void transpose_quads(const std::byte* pieces, std::int64_t stride, std::int64_t depth, std::byte* to,
                     std::int64_t count) {
  std::int64_t d = 0;
  for (; d + kQuad <= depth; d += kQuad) transpose_quad(pieces + d * 4, stride * 4, to + d * count * 4, count * 4);
  for (; d < depth; ++d) {
    for (std::int64_t i = 0; i < kQuad; ++i) std::memcpy(to + (d * count + i) * 4, pieces + (stride * i + d) * 4, 4);
  }
}

}  // namespace

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
  walk::for_each_run(access, outer_index, begin, count,
                     [&](const walk::Cursor& cursor, std::int64_t at, std::int64_t length, std::int64_t done) {
                       const std::byte* from = data + (cursor.position() + stride * at) * element;
                       std::byte* to = out + done * size;
                       for (std::int64_t i = 0; i < length;) {
                         // Every piece is on another page, where the processor does not fetch ahead by itself.
                         const std::int64_t n = words && length - i >= kQuad ? kQuad : 1;
                         for (std::int64_t k = 0; k < n; ++k) {
                           const std::byte* next = from + stride * element * std::min(i + k + kAhead, length - 1);
                           for (std::int64_t byte = 0; byte < depth * element; byte += 64)
                             __builtin_prefetch(next + byte);
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

}  // namespace v0
}  // namespace lockstep
