// The way of few columns and a long k: stretches of k are the unit of work. Every block of k has its own partial sums,
// which are added in order; a single thread adds them at once.
#include <algorithm>
#include <utility>

#include <lockstep/threads.h>

#include "backends/cpu/contraction/tiling.h"
#include "backends/cpu/contraction/way.h"
#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// Blocks of k in a task that reads rows in place, elements of its padded copy, and bytes of all tasks' partial sums.
constexpr std::int64_t kInPlaceBlocks = 16;
constexpr std::int64_t kInPlaceCopy = 96 << 10;
constexpr std::int64_t kInPlacePartialSums = 4 << 20;

class InPlaceWay final : public Way {
 public:
  InPlaceWay(Task task, InPlaceTable table, InPlaceFunction loop)
      : Way(std::move(task)), table_(std::move(table)), loop_(loop) {}

 private:
  void compute(const Binding& binding) const override {
    for (std::int64_t batch = 0; batch < plan_.batches; ++batch) compute_batch(binding, batch);
  }

  void compute_batch(const Binding& binding, std::int64_t batch) const {
    const double work =
        static_cast<double>(plan_.rows) * static_cast<double>(plan_.columns) * static_cast<double>(plan_.k);
    const std::int64_t threads = work < kSerialWork ? 1 : num_threads();
    const std::int64_t stride = round_up(plan_.columns, width());
    const std::int64_t step = std::min(blocks_of_a_task(), divide_up(k_blocks(), threads));
    SharedPanels& shared = SharedPanels::of_this_thread();
    auto* const results = reinterpret_cast<float*>(shared.results.reserve(plan_.rows * stride * element_size()));
    if (threads == 1) {
      for (std::int64_t block = 0; block < k_blocks(); block += step) {
        multiply(binding, batch, block, std::min(block + step, k_blocks()), stride, results, 0);
      }
    } else {
      multiply_in_parallel(binding, batch, threads, step, stride, results);
    }
    const std::int64_t grain = divide_up(plan_.rows, threads);
    parallel_for(divide_up(plan_.rows, grain), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t row = part * grain;
        const Block block{.batch = batch,
                          .row = row,
                          .rows = std::min(grain, plan_.rows - row),
                          .column = 0,
                          .columns = plan_.columns};
        epilogue_.run(binding, block, results + row * stride, stride, Workspace::of_this_thread());
      }
    });
  }

  // Width of a row of results, and of a panel of columns.
  std::int64_t width() const { return plan_.columns <= kernels_.lanes ? kernels_.lanes : kernels_.tile_columns; }

  // As many images at once as fill the second cache with padded copies.
  std::int64_t blocks_of_a_task() const {
    if (!table_.copy) return kInPlaceBlocks;
    const std::int64_t planes = std::max<std::int64_t>(1, kInPlaceCopy / padded_size(table_, 1));
    return std::min(kInPlaceBlocks, std::max<std::int64_t>(1, divide_up(planes * table_.k_per_plane, kBlock)));
  }

  void multiply_in_parallel(const Binding& binding, std::int64_t batch, std::int64_t threads, std::int64_t step,
                            std::int64_t stride, float* results) const {
    const std::int64_t count = plan_.rows * stride;
    const std::int64_t tasks = std::max(threads, kInPlacePartialSums / (step * count * element_size()));
    auto* const sums = reinterpret_cast<float*>(SharedPanels::of_this_thread().partial_sums.reserve(
        std::min(tasks * step, k_blocks()) * count * element_size()));
    for (std::int64_t begin = 0; begin < k_blocks(); begin += tasks * step) {
      const std::int64_t end = std::min(begin + tasks * step, k_blocks());
      parallel_for(divide_up(end - begin, step), 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t task = first; task < last; ++task) {
          const std::int64_t block = begin + task * step;
          multiply(binding, batch, block, std::min(block + step, end), stride, sums + task * step * count, count);
        }
      });
      constexpr std::int64_t kGrain = 4096;
      parallel_for(count, kGrain, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t block = begin; block < end; ++block) {
          const float* const from = sums + (block - begin) * count;
          if (block == 0) {
            std::copy(from + first, from + last, results + first);
          } else {
            for (std::int64_t i = first; i < last; ++i) results[i] += from[i];
          }
        }
      });
    }
  }

  // Blocks of k [begin, end). `distance`: of the partial sums of neighbouring blocks; 0: they are added up.
  void multiply(const Binding& binding, std::int64_t batch, std::int64_t begin, std::int64_t end, std::int64_t stride,
                float* results, std::int64_t distance) const {
    Workspace& workspace = Workspace::of_this_thread();
    const Position position = plan_.row_side.geometry.batch_position(batch);
    const float* rows = reinterpret_cast<const float*>(data(binding, Operand::rows)) + position.address;
    std::int64_t first_plane = 0;
    if (table_.copy) {
      first_plane = begin * kBlock / table_.k_per_plane;
      const std::int64_t planes = (std::min(end * kBlock, plan_.k) - 1) / table_.k_per_plane + 1 - first_plane;
      auto* const copy = reinterpret_cast<float*>(workspace.rows.reserve(padded_size(table_, planes) * element_size()));
      copy_padded(table_, position, rows, first_plane, first_plane + planes, copy);
      rows = copy;
    }
    const std::int64_t panel_stride = width() * kBlock + kPanelSlack / element_size();
    auto* const panels = reinterpret_cast<float*>(
        workspace.columns.reserve(divide_up(plan_.columns, width()) * panel_stride * element_size()));
    InPlaceRun runs[kBlock];
    InPlaceArgs args;
    args.data = rows;
    args.row_address = table_.row_address.data();
    args.rows = plan_.rows;
    args.runs = runs;
    args.run_stride = table_.run_stride;
    args.vectors = width() == kernels_.lanes ? 1 : 2;
    args.results_stride = stride;
    PackArgs pack;
    pack.side = &plan_.column_side;
    pack.data = data(binding, Operand::columns);
    pack.batch = plan_.column_side.geometry.batch_position(batch);
    pack.outer_count = plan_.columns;
    pack.panels = panels;
    pack.panel_stride = panel_stride;
    pack.workspace = &workspace.pack;
    for (std::int64_t block = begin; block < end; ++block) {
      pack.k_begin = block * kBlock;
      pack.k_count = k_count(block);
      (args.vectors == 1 ? kernels_.pack_lanes : kernels_.pack_columns)(pack);
      args.run_count = cut_runs(table_, pack.k_begin, pack.k_count, first_plane, runs);
      args.first = distance != 0 || block == 0;
      for (std::int64_t column = 0; column < plan_.columns; column += width()) {
        args.columns = panels + column / width() * panel_stride;
        args.results = results + (block - begin) * distance + column;
        loop_(args);
      }
    }
  }

  InPlaceTable table_;
  InPlaceFunction loop_;
};

}  // namespace

std::unique_ptr<Executable> make_in_place_way(Task task, InPlaceTable table, InPlaceFunction loop) {
  return std::make_unique<InPlaceWay>(std::move(task), std::move(table), loop);
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
