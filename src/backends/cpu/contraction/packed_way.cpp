// The way of every contraction that no other way suits: cuts the results into blocks (tiling.h), packs what they need,
// multiplies block of k by block of k, and runs the epilogue on each block of results while it is in cache. Blocks are
// the unit of work of the threads.
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

// Results of the last block of k that stay in the first cache until the epilogue has read them.
constexpr std::int64_t kStripBytes = 24 << 10;

class PackedWay final : public Way {
 public:
  explicit PackedWay(Task task) : Way(std::move(task)) {}

 private:
  struct Job {
    const Binding& binding;
    Tiling tiling;
    const std::byte* rows = nullptr;  ///< packed as a whole, or null
    const std::byte* columns = nullptr;
    bool halves = false;  ///< columns are in half as many bytes
  };

  Keeps keeps(Operand operand) const override {
    return operand == Operand::columns && kernels_.halve != nullptr ? Keeps::halves : Keeps::panels;
  }

  void compute(const Binding& binding) const override {
    const Tiling& tiling =
        tiling_.get(num_threads(), [&](int threads) { return choose_tiling(plan_, kernels_, threads); });
    Job job{.binding = binding, .tiling = tiling};
    SharedPanels& shared = SharedPanels::of_this_thread();
    const KeptPanels::Panels rows = kept(binding, Operand::rows, tiling.serial).panels;
    const Kept columns = kept(binding, Operand::columns, tiling.serial);
    job.rows = rows.get();
    job.columns = columns.panels.get();
    job.halves = columns.halves;
    if (job.rows == nullptr && tiling.pack_rows_once) {
      job.rows = pack_all(binding, Operand::rows, tiling.serial, shared.rows);
    }
    if (job.columns == nullptr && tiling.pack_columns_once) {
      job.columns = pack_all(binding, Operand::columns, tiling.serial, shared.columns);
    }
    const std::int64_t per_batch = tiling.row_blocks * tiling.column_blocks;
    const std::int64_t units = plan_.batches * per_batch;
    parallel_for(units, tiling.serial ? units : 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t block = unit % per_batch;
        compute_block(job, unit / per_batch, block / tiling.column_blocks, block % tiling.column_blocks);
      }
    });
  }

  void compute_block(const Job& job, std::int64_t batch, std::int64_t row_block, std::int64_t column_block) const {
    const Tiling& tiling = job.tiling;
    Workspace& workspace = Workspace::of_this_thread();
    Block block;
    block.batch = batch;
    block.row = row_block * tiling.block_rows;
    block.rows = std::min(tiling.block_rows, plan_.rows - block.row);
    block.column = column_block * tiling.block_columns;
    block.columns = std::min(tiling.block_columns, plan_.columns - block.column);

    MultiplyArgs args;
    args.rows = block.rows;
    args.columns = block.columns;
    args.row_panel_stride = panel_stride(Operand::rows);
    args.column_panel_stride = panel_stride(Operand::columns);
    if (plan_.direct) {
      args.results = direct_results(job.binding, block);
      args.results_stride = plan_.direct->row_stride;
    } else {
      // A distance that is no multiple of 4096 bytes keeps the rows of a tile in different cache sets.
      args.results_stride = round_up(block.columns, kernels_.tile_columns) + 64 / element_size();
      args.padded = true;
    }
    const std::int64_t strip = plan_.direct ? block.rows : strip_rows(block, args.results_stride);
    if (!plan_.direct) {
      const std::int64_t rows = k_blocks() == 1 ? strip : block.rows;
      args.results = workspace.results.reserve(rows * args.results_stride * element_size());
    }
    const Position row_batch = plan_.row_side.geometry.batch_position(batch);
    const Position column_batch = plan_.column_side.geometry.batch_position(batch);
    for (std::int64_t k = 0; k < k_blocks(); ++k) {
      args.row_panels =
          panels(job.binding, Operand::rows, job.rows, row_batch, block.batch, block.row, block.rows, k, workspace);
      if (job.halves) {
        args.column_panels =
            job.columns + panel_at(Operand::columns, block.batch, block.column, k) * element_size() / 2;
      } else {
        args.column_panels = panels(job.binding, Operand::columns, job.columns, column_batch, block.batch, block.column,
                                    block.columns, k, workspace);
      }
      args.k_count = k_count(k);
      args.first = k == 0;
      args.finish = plan_.direct.has_value() && k + 1 == k_blocks();
      if (k + 1 == k_blocks() && !plan_.direct) {
        multiply_strips(job, block, strip, args, workspace);
      } else {
        multiply(job, args);
      }
    }
  }

  void multiply(const Job& job, const MultiplyArgs& args) const {
    (job.halves ? kernels_.multiply_halves : kernels_.multiply)(args);
  }

  /// The rows whose results go through the epilogue together. Where it turns or joins rows, long stretches count more.
  std::int64_t strip_rows(const Block& block, std::int64_t stride) const {
    if (!epilogue_.takes_rows()) return block.rows;
    const std::int64_t rows = kStripBytes / (stride * element_size()) / kernels_.tile_rows * kernels_.tile_rows;
    return std::clamp<std::int64_t>(rows, std::min<std::int64_t>(kernels_.tile_rows, block.rows), block.rows);
  }

  /// The last block of k, and the epilogue. The partial sums of earlier blocks are all there.
  void multiply_strips(const Job& job, const Block& block, std::int64_t strip, MultiplyArgs args,
                       Workspace& workspace) const {
    for (std::int64_t row = 0; row < block.rows; row += strip) {
      Block part = block;
      part.row += row;
      part.rows = args.rows = std::min(strip, block.rows - row);
      args.destination = epilogue_.destination(job.binding, part);
      multiply(job, args);
      epilogue_.run(job.binding, part, args.results, args.results_stride, workspace);
      args.row_panels = static_cast<const std::byte*>(args.row_panels) +
                        strip / kernels_.tile_rows * args.row_panel_stride * element_size();
      if (!args.first)
        args.results = static_cast<std::byte*>(args.results) + strip * args.results_stride * element_size();
    }
  }

  mutable OfThreads<Tiling> tiling_;
};

}  // namespace

std::unique_ptr<Executable> make_packed_way(Task task) {
  return std::make_unique<PackedWay>(std::move(task));
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
