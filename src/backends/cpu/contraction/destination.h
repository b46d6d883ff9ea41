// Where the epilogue writes the results of a block. Tiles of packed operands ask for these lines before they multiply
// for the last time, so that memory works meanwhile: an epilogue that only then touches them waits for two thirds of
// its time. Not where results are turned pixel by pixel, or come from few channels: there asking costs what it saves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {
inline namespace v0 {
namespace contraction {

inline void ask_for_line(const std::byte* line) {
#if defined(__x86_64__)
  // To be written: __builtin_prefetch says so only where it is told of a processor that can. Others do nothing.
  __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1, 3);
#endif
}

struct Destination {
  std::byte* data = nullptr;                         ///< of the block's first result; null: not known, or not worth it
  std::ptrdiff_t row_stride = 0, column_stride = 0;  ///< bytes

  /// Asks for the lines of `rows` x `columns` results, of whose rows or columns neighbours lie side by side.
  void ask_for(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) const {
    if (data == nullptr) return;
    constexpr std::ptrdiff_t kLine = 64;
    const bool lines_are_rows = column_stride < row_stride;
    const std::ptrdiff_t bytes = lines_are_rows ? columns * column_stride : rows * row_stride;
    const std::ptrdiff_t stride = lines_are_rows ? row_stride : column_stride;
    const std::byte* line = data + row * row_stride + column * column_stride;
    for (std::int64_t left = lines_are_rows ? rows : columns; left > 0; --left, line += stride) {
      for (std::ptrdiff_t at = 0; at < bytes; at += kLine) ask_for_line(line + at);
    }
  }
};

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
