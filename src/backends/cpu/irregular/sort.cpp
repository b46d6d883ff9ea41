// Sorting: rows are read as dense arrays, sorted (radix.h), and their positions written. Many rows are sorted in
// parallel, few long ones one after the other with all threads.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/irregular/elements.h"
#include "backends/cpu/irregular/irregular.h"
#include "backends/cpu/irregular/radix.h"
#include "backends/cpu/irregular/rows.h"
#include "backends/cpu/irregular/scratch.h"
#include "backends/cpu/threads.h"
#include "core/fp_state.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

constexpr std::int64_t kLongRow = 1 << 15;        // that several threads sort together
constexpr std::int64_t kTaskElements = 1 << 12;   // that are worth a task
constexpr std::int64_t kBlock = 16;               // rows next to each other that are read together: a cache line
constexpr std::int64_t kBlockElements = 1 << 18;  // at most, so that a block stays in the caches

class SortExecutable final : public Executable {
 public:
  SortExecutable(const SortKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory)
      : kernel_(kernel),
        memory_(std::move(memory)),
        order_(order_of(kernel.rows, kernel.n, kernel.out_strides)),
        row_reader_(kernel.input, kernel.rows.rank(), Form::value, isa),
        row_writer_(DType::i64, kernel.input.view.shape, kernel.out_strides, 0, kernel.rows.rank(), Form::value, isa),
        block_reader_(across(kernel.input), order_.dims_before + 1, Form::value, isa),
        block_writer_(DType::i64, in_order(order_.across, kernel.input.view.shape),
                      in_order(order_.across, kernel.out_strides), 0, order_.dims_before + 1, Form::value, isa) {}

  void run(const Binding& binding) const override {
    const FloatingPointScope scope;
    if (kernel_.n == 0 || order_.before * order_.inner == 0) return;
    with_type(compute_type(kernel_.input.dtype), [&]<typename T>(T) { run_as<T>(binding); });
  }

 private:
  Input across(const Input& input) const {
    Input result = input;
    result.view = with_dims(input.view, order_.across);
    return result;
  }

  SortOptions options(int threads) const {
    return {kernel_.descending, dropped_key_bits(kernel_.input.dtype), threads};
  }

  template <typename T> void run_as(const Binding& binding) const {
    const std::int64_t n = kernel_.n;
    const std::int64_t rows = order_.before * order_.inner;
    const int threads = in_parallel_region() ? 1 : num_threads();
    if (n >= kLongRow && rows < 2 * threads) {
      const Scratch<T> values(*memory_, n);
      const Scratch<std::int64_t> positions(*memory_, n);
      for (std::int64_t row = 0; row < rows; ++row) {
        sort_row(binding, row, threads, values.get(), positions.get());
      }
      return;
    }
    const std::int64_t block = std::min({kBlock, order_.inner, kBlockElements / n});
    if (block > 1) return run_blocks<T>(binding, block);
    parallel_for(rows, std::max<std::int64_t>(1, kTaskElements / n), [&](std::int64_t first, std::int64_t last) {
      const Scratch<T> values(*memory_, n);
      const Scratch<std::int64_t> positions(*memory_, n);
      for (std::int64_t row = first; row < last; ++row) sort_row(binding, row, 1, values.get(), positions.get());
    });
  }

  template <typename T>
  void sort_row(const Binding& binding, std::int64_t row, int threads, T* values, std::int64_t* positions) const {
    const std::int64_t n = kernel_.n;
    std::byte* data = slot_of(binding, kernel_.out);
    const T* x = values;
    if (threads == 1) {
      x = static_cast<const T*>(row_reader_.read(binding, row, 0, n, values));
    } else if (const void* stored = row_reader_.stored(binding, row, 0, n)) {
      x = static_cast<const T*>(stored);
    } else {
      parallel_for(n, kTaskElements, [&](std::int64_t begin, std::int64_t end) {
        row_reader_.fetch(binding, row, begin, end - begin, values + begin);
      });
    }
    auto* place = static_cast<std::int64_t*>(row_writer_.place(data, row, 0, n));
    sort_positions(x, n, options(threads), *memory_, place != nullptr ? place : positions, 1);
    if (place != nullptr) return;
    parallel_for(n, kTaskElements, [&](std::int64_t begin, std::int64_t end) {
      row_writer_.write(data, row, begin, end - begin, positions + begin);
    });
  }

  /// Rows next to each other: read and written a piece of each at a time.
  template <typename T> void run_blocks(const Binding& binding, std::int64_t block) const {
    const std::int64_t n = kernel_.n;
    const std::int64_t blocks = (order_.inner + block - 1) / block;
    std::byte* data = slot_of(binding, kernel_.out);
    parallel_for(order_.before * blocks, std::max<std::int64_t>(1, kTaskElements / (n * block)),
                 [&](std::int64_t first, std::int64_t last) {
                   const Scratch<T> values(*memory_, n * block);
                   const Scratch<std::int64_t> positions(*memory_, n * block);
                   std::array<T, kBlock> piece;
                   for (std::int64_t task = first; task < last; ++task) {
                     const std::int64_t before = task / blocks;
                     const std::int64_t begin = task % blocks * block;
                     const std::int64_t width = std::min(block, order_.inner - begin);
                     for (std::int64_t i = 0; i < n; ++i) {
                       const auto* x = static_cast<const T*>(
                           block_reader_.read(binding, before * n + i, begin, width, piece.data()));
                       for (std::int64_t r = 0; r < width; ++r) values[r * n + i] = x[r];
                     }
                     for (std::int64_t r = 0; r < width; ++r) {
                       sort_positions(values.get() + r * n, n, options(1), *memory_, positions.get() + r, width);
                     }
                     for (std::int64_t i = 0; i < n; ++i) {
                       block_writer_.write(data, before * n + i, begin, width, positions.get() + i * width);
                     }
                   }
                 });
  }

  SortKernel kernel_;
  std::shared_ptr<MemoryPool> memory_;
  RowOrder order_;
  Reader row_reader_;
  Writer row_writer_;
  Reader block_reader_;
  Writer block_writer_;
};

}  // namespace
}  // namespace irregular

std::unique_ptr<Executable> compile_sort(const SortKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory) {
  return std::make_unique<irregular::SortExecutable>(kernel, isa, std::move(memory));
}

}  // namespace v0
}  // namespace lockstep
