// Where the epilogue writes the results of a block, and what it reads for each of them. Tiles of packed operands ask
// for these lines before they multiply for the last time, so that memory works meanwhile: an epilogue that only then
// touches them waits for two thirds of its time. High tiles of which something is read, too, have so many that they
// would hold up what the tile itself reads: they ask for a line with each k. Not where results are turned pixel by
// pixel, or come from few channels: there asking costs what it saves.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {
inline namespace v0 {
namespace contraction {

inline void ask_to_write(const std::byte* line) {
#if defined(__x86_64__)
  // __builtin_prefetch says so only where it is told of a processor that can. Others do nothing.
  __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1, 3);
#endif
}
inline void ask_to_read(const std::byte* line) {
  __builtin_prefetch(line, 0, 3);
}

/// Elements of a block of results in some memory.
struct Lines {
  std::byte* data = nullptr;                         ///< of the first one; null: not known, or not worth it
  std::ptrdiff_t row_stride = 0, column_stride = 0;  ///< bytes, within an image
  std::ptrdiff_t image_gap = 0;                      ///< bytes more where a column begins an image

  /// Calls visit(address) for the lines of `rows` x `columns` elements of one image, number `image` from the block's
  /// first, whose rows or columns lie side by side.
  template <typename Visit>
  void for_each(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, std::int64_t image,
                Visit visit) const {
    if (data == nullptr) return;
    constexpr std::ptrdiff_t kLine = 64;
    const bool lines_are_rows = column_stride < row_stride;
    const std::ptrdiff_t bytes = lines_are_rows ? columns * column_stride : rows * row_stride;
    const std::ptrdiff_t stride = lines_are_rows ? row_stride : column_stride;
    const std::byte* line = data + row * row_stride + column * column_stride + image * image_gap;
    for (std::int64_t left = lines_are_rows ? rows : columns; left > 0; --left, line += stride) {
      for (std::ptrdiff_t at = 0; at < bytes; at += kLine) visit(line + at);
    }
  }
};

struct Destination {
  Lines results;
  Lines operand;                    ///< what is added to each of them, for example
  std::int64_t image_columns = 0;   ///< where columns may belong to several images; otherwise 0
  std::int64_t columns_before = 0;  ///< of the block's first image

  /// Calls write(address) for the lines of a tile's results, and read(address) for those of the operand.
  template <typename Write, typename Read>
  void for_each_line(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, Write write,
                     Read read) const {
    while (columns > 0) {
      std::int64_t image = 0, some = columns;
      if (image_columns != 0) {
        const std::int64_t at = columns_before + column;
        image = at / image_columns;
        some = std::min(columns, image_columns - at % image_columns);
      }
      results.for_each(row, rows, column, some, image, write);
      operand.for_each(row, rows, column, some, image, read);
      column += some;
      columns -= some;
    }
  }
  void ask_for(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) const {
    if (results.data == nullptr && operand.data == nullptr) return;
    for_each_line(
        row, rows, column, columns, [](const std::byte* line) { ask_to_write(line); },
        [](const std::byte* line) { ask_to_read(line); });
  }
};

/// The lines that a tile asks for, one with each k, and again from the first.
struct AskedLines {
  static constexpr std::int64_t kMost = 64;
  std::array<const std::byte*, kMost> lines;

  AskedLines() = default;  ///< of nowhere yet
  explicit constexpr AskedLines(const std::byte* any) : lines{} { lines.fill(any); }

  /// Those of a tile of `k_count` terms; what it has no k for is asked for now.
  void find(const Destination& destination, std::int64_t row, std::int64_t rows, std::int64_t column,
            std::int64_t columns, std::int64_t k_count) {
    const std::int64_t most = std::min(k_count, kMost);
    std::int64_t count = 0;
    const auto put = [&](const std::byte* line) {
      if (count < most) {
        lines[static_cast<std::size_t>(count++)] = line;
      } else {
        ask_to_read(line);
      }
    };
    destination.for_each_line(row, rows, column, columns, put, put);
  }
};

inline constexpr std::byte kAnyLine[64]{};
/// Of a tile that has nothing to ask for.
inline constexpr AskedLines kNothingAsked{kAnyLine};

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
