#include "backends/cpu/contraction/tiling.h"

#include <algorithm>
#include <array>

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// Bytes of raw results that stay in cache between the last block of k and the epilogue.
constexpr std::int64_t kResultBytes = 768 << 10;
// Bytes of one row of results: the epilogue's segments.
constexpr std::int64_t kSegmentBytes = 2048;
constexpr std::int64_t kDirectRows = 4096;
// Operands larger than this are packed piece by piece, if need be again and again.
constexpr std::int64_t kSharedBytes = std::int64_t{96} << 20;
// Relative costs: one multiply-add of a whole vector is 1.
constexpr double kPackElement = 0.6;
constexpr double kStartBlock = 1500;
// Of rows of results that two threads compute, whoever reads them next has a part in the other's cache.
constexpr double kSharedRows = 1.1;

// `blocks` nearly equal blocks that are multiples of `unit`.
std::int64_t block_size(std::int64_t count, std::int64_t blocks, std::int64_t unit) {
  return round_up(divide_up(count, blocks), unit);
}

class Chooser {
 public:
  Chooser(const Plan& plan, const KernelSet& kernels, int threads)
      : plan_(plan), kernels_(kernels), threads_(threads) {}

  Tiling choose() {
    const double work = static_cast<double>(plan_.batches) * static_cast<double>(plan_.rows) *
                        static_cast<double>(plan_.columns) * static_cast<double>(std::max<std::int64_t>(plan_.k, 1));
    if (work < kSerialWork) threads_ = 1;
    const std::int64_t size = static_cast<std::int64_t>(kernels_.element_size);
    const std::int64_t column_blocks = divide_up(plan_.columns, kSegmentBytes / size);
    const std::int64_t columns = block_size(plan_.columns, column_blocks, kernels_.tile_columns);
    const std::int64_t row_limit = plan_.direct ? kDirectRows : kResultBytes / size / columns;
    const std::int64_t row_blocks = divide_up(plan_.rows, std::max<std::int64_t>(row_limit, kernels_.tile_rows));
    if (threads_ == 1) return make(row_blocks, column_blocks);
    Tiling best;
    double best_cost = -1;
    for (const std::int64_t r : candidates(row_blocks, divide_up(plan_.rows, kernels_.tile_rows))) {
      for (const std::int64_t c : candidates(column_blocks, divide_up(plan_.columns, kernels_.tile_columns))) {
        const Tiling tiling = make(r, c);
        const double price = cost(tiling);
        if (best_cost >= 0 && price >= best_cost) continue;
        best = tiling;
        best_cost = price;
      }
    }
    return best;
  }

 private:
  // The fewest blocks, a few more, and as many as there are threads.
  std::array<std::int64_t, 8> candidates(std::int64_t least, std::int64_t most) const {
    std::array<std::int64_t, 8> counts = {least,     least + 1, least + 2,    least + 3,
                                          least + 5, threads_,  2 * threads_, divide_up(threads_, 2)};
    for (std::int64_t& count : counts) count = std::clamp(count, std::min(least, most), std::max(least, most));
    return counts;
  }

  Tiling make(std::int64_t row_blocks, std::int64_t column_blocks) const {
    Tiling tiling;
    tiling.block_rows = block_size(plan_.rows, row_blocks, kernels_.tile_rows);
    tiling.block_columns = block_size(plan_.columns, column_blocks, kernels_.tile_columns);
    tiling.row_blocks = divide_up(plan_.rows, tiling.block_rows);
    tiling.column_blocks = divide_up(plan_.columns, tiling.block_columns);
    tiling.pack_rows_once = tiling.column_blocks > 1 && fits(plan_.rows);
    tiling.pack_columns_once = tiling.row_blocks > 1 && fits(plan_.columns);
    tiling.serial = threads_ == 1;
    return tiling;
  }

  bool fits(std::int64_t outer) const {
    return static_cast<double>(plan_.batches) * static_cast<double>(outer) * static_cast<double>(plan_.k) *
               static_cast<double>(kernels_.element_size) <
           static_cast<double>(kSharedBytes);
  }

  double cost(const Tiling& tiling) const {
    const auto real = [](std::int64_t value) { return static_cast<double>(value); };
    const double k = real(std::max<std::int64_t>(plan_.k, 1));
    const std::int64_t units = plan_.batches * tiling.row_blocks * tiling.column_blocks;
    const double rows = real(std::min(tiling.block_rows, plan_.rows));
    const double columns = real(round_up(std::min(tiling.block_columns, plan_.columns), kernels_.lanes));
    double block = kStartBlock + rows * columns * k / kernels_.lanes;
    double shared = 0;
    const auto packing = [&](bool once, double in_block, std::int64_t whole) {
      if (once) {
        shared += kPackElement * real(plan_.batches) * real(whole) * k / real(threads_);
      } else {
        block += kPackElement * in_block * k;
      }
    };
    packing(tiling.pack_rows_once, rows, plan_.rows);
    packing(tiling.pack_columns_once, columns, plan_.columns);
    const bool shares_rows = !plan_.swapped && plan_.batches * tiling.row_blocks % threads_ != 0;
    return (shared + block * real(divide_up(units, threads_))) * (shares_rows ? kSharedRows : 1);
  }

  const Plan& plan_;
  const KernelSet& kernels_;
  std::int64_t threads_;
};

}  // namespace

Tiling choose_tiling(const Plan& plan, const KernelSet& kernels, int threads) {
  return Chooser(plan, kernels, threads).choose();
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
