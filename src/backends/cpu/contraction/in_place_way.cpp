// The way of few columns and a long k. Of many rows, some with all of their k are the unit of work; otherwise stretches
// of k are, batch by batch: every block of k has its own partial sums, which are added in order; a single thread adds
// them at once.
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
// Rows of a thread from which on each packs the columns, rather than adds partial sums.
constexpr std::int64_t kLeastRows = 32;
constexpr std::int64_t kInPlaceCopy = 96 << 10;
constexpr std::int64_t kInPlacePartialSums = 4 << 20;
// Bytes of the results of some rows, which stay in cache from one block of k to the next.
constexpr std::int64_t kInPlaceResults = 64 << 10;

class InPlaceWay final : public Way {
 public:
  InPlaceWay(Task task, InPlaceTable table, InPlaceFunction loop)
      : Way(std::move(task)), table_(std::move(table)), loop_(loop) {}

 private:
  struct Range {
    std::int64_t begin, end;
    std::int64_t count() const { return end - begin; }
  };

  void compute(const Binding& binding) const override {
    const double work =
        static_cast<double>(plan_.rows) * static_cast<double>(plan_.columns) * static_cast<double>(plan_.k);
    const std::int64_t threads = work < kSerialWork ? 1 : num_threads();
    const std::int64_t of_a_batch = divide_up(threads, plan_.batches);
    if (!table_.copy && plan_.rows >= std::min(plan_.k, kLeastRows * of_a_batch)) {
      return compute_rows(binding, threads, of_a_batch);
    }
    for (std::int64_t batch = 0; batch < plan_.batches; ++batch) compute_batch(binding, batch, threads);
  }

  void compute_batch(const Binding& binding, std::int64_t batch, std::int64_t threads) const {
    const std::int64_t stride = round_up(plan_.columns, kernels_.lanes);
    const std::int64_t step = std::min(blocks_of_a_task(), divide_up(k_blocks(), threads));
    const Range all{0, plan_.rows};
    auto* const results =
        reinterpret_cast<float*>(SharedPanels::of_this_thread().results.reserve(plan_.rows * stride * element_size()));
    if (threads == 1) {
      for (std::int64_t block = 0; block < k_blocks(); block += step) {
        multiply(binding, batch, all, {block, std::min(block + step, k_blocks())}, stride, results, 0);
      }
    } else {
      multiply_in_parallel(binding, batch, threads, step, stride, results);
    }
    const std::int64_t grain = divide_up(plan_.rows, threads);
    parallel_for(divide_up(plan_.rows, grain), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t row = part * grain;
        finish(binding, batch, {row, std::min(row + grain, plan_.rows)}, stride, results + row * stride);
      }
    });
  }

  // `of_a_batch`: threads that share the rows of one.
  void compute_rows(const Binding& binding, std::int64_t threads, std::int64_t of_a_batch) const {
    const std::int64_t stride = round_up(plan_.columns, kernels_.lanes);
    const std::int64_t most = std::max<std::int64_t>(1, kInPlaceResults / (stride * element_size()));
    const std::int64_t grain = divide_up(plan_.rows, round_up(divide_up(plan_.rows, most), of_a_batch));
    const std::int64_t parts = divide_up(plan_.rows, grain);
    const std::int64_t tasks = plan_.batches * parts;
    parallel_for(tasks, threads == 1 ? tasks : 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t batch = task / parts;
        const std::int64_t first = task % parts * grain;
        const Range rows{first, std::min(first + grain, plan_.rows)};
        auto* const results = reinterpret_cast<float*>(
            Workspace::of_this_thread().results.reserve(rows.count() * stride * element_size()));
        multiply(binding, batch, rows, {0, k_blocks()}, stride, results, 0);
        finish(binding, batch, rows, stride, results);
      }
    });
  }

  void finish(const Binding& binding, std::int64_t batch, Range rows, std::int64_t stride, const float* results) const {
    const Block block{.batch = batch, .row = rows.begin, .rows = rows.count(), .column = 0, .columns = plan_.columns};
    epilogue_.run(binding, block, results, stride, Workspace::of_this_thread());
  }

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
          multiply(binding, batch, {0, plan_.rows}, {block, std::min(block + step, end)}, stride,
                   sums + task * step * count, count);
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

  // `distance`: of the partial sums of neighbouring blocks of k; 0: they are added up.
  void multiply(const Binding& binding, std::int64_t batch, Range some_rows, Range blocks, std::int64_t stride,
                float* results, std::int64_t distance) const {
    Workspace& workspace = Workspace::of_this_thread();
    const Position position = plan_.row_side.geometry.batch_position(batch);
    const float* rows = reinterpret_cast<const float*>(data(binding, Operand::rows)) + position.address;
    std::int64_t first_plane = 0;
    if (table_.copy) {
      first_plane = blocks.begin * kBlock / table_.k_per_plane;
      const std::int64_t planes = (std::min(blocks.end * kBlock, plan_.k) - 1) / table_.k_per_plane + 1 - first_plane;
      auto* const copy = reinterpret_cast<float*>(workspace.rows.reserve(padded_size(table_, planes) * element_size()));
      copy_padded(table_, position, rows, first_plane, first_plane + planes, kernels_.copy, copy);
      rows = copy;
    }
    const std::int64_t panel_stride = in_place_panel_stride(kernels_.lanes);
    const std::int64_t vectors = stride / kernels_.lanes;
    auto* const panels = reinterpret_cast<float*>(workspace.columns.reserve(vectors * panel_stride * element_size()));
    InPlaceRun runs[kBlock];
    InPlaceArgs args;
    args.data = rows;
    args.row_address = table_.row_address.data() + some_rows.begin;
    args.rows = some_rows.count();
    args.runs = runs;
    args.run_stride = table_.run_stride;
    args.results_stride = stride;
    PackArgs pack;
    pack.side = &plan_.column_side;
    pack.data = data(binding, Operand::columns);
    pack.batch = plan_.column_side.geometry.batch_position(batch);
    pack.outer_count = plan_.columns;
    pack.panels = panels;
    pack.panel_stride = panel_stride;
    pack.workspace = &workspace.pack;
    const std::int64_t passes = divide_up(vectors, kMaxInPlaceVectors);
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      pack.k_begin = block * kBlock;
      pack.k_count = k_count(block);
      kernels_.pack_lanes(pack);
      args.run_count = cut_runs(table_, pack.k_begin, pack.k_count, first_plane, runs);
      args.first = distance != 0 || block == 0;
      for (std::int64_t pass = 0; pass < passes; ++pass) {
        const std::int64_t vector = pass * vectors / passes;
        args.vectors = static_cast<int>((pass + 1) * vectors / passes - vector);
        args.columns = panels + vector * panel_stride;
        args.results = results + (block - blocks.begin) * distance + vector * kernels_.lanes;
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
