// Runs a contraction: cuts the results into blocks, packs what they need, multiplies block of k by block of k, and runs
// the epilogue on each block of results while it is in cache. Blocks are the unit of work of the threads.

#include <algorithm>
#include <memory>
#include <optional>

#include <lockstep/threads.h>

#include "backends/cpu/contraction/contraction.h"
#include "backends/cpu/contraction/decode.h"
#include "backends/cpu/contraction/epilogue.h"
#include "backends/cpu/contraction/in_place.h"
#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/plan.h"
#include "backends/cpu/contraction/thin.h"
#include "backends/cpu/contraction/tiling.h"
#include "backends/cpu/contraction/window.h"
#include "backends/cpu/contraction/workspace.h"
#include "backends/cpu/threads.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// Pieces (vectors) of results that one thin call computes, and multiply-adds worth a task of its own.
constexpr std::int64_t kThinPieces = 512;
constexpr std::int64_t kThinWork = 40000;
// Blocks of k in a task that reads rows in place, elements of its padded copy, and bytes of all tasks' partial sums.
constexpr std::int64_t kInPlaceBlocks = 16;
constexpr std::int64_t kInPlaceCopy = 96 << 10;
constexpr std::int64_t kInPlacePartialSums = 4 << 20;

class ContractionExecutable final : public Executable {
 public:
  ContractionExecutable(const ContractionKernel& kernel, Isa isa)
      : kernels_(kernel_set(kernel.type, isa)),
        multiply_in_place_(in_place_function(isa)),
        plan_(make_plan(kernel, kernels_.lanes, kernels_.tile_columns)),
        epilogue_(kernel.epilogue, plan_, element_size(), isa) {
    if (kernels_.thin != nullptr) thin_ = make_thin_table(plan_, kernels_.lanes, kernels_.tile_rows);
    if (kernels_.window != nullptr && !thin_) window_ = make_window_table(plan_, kernels_.lanes);
    if (multiply_in_place_ != nullptr && !thin_ && !window_) in_place_ = make_in_place_table(plan_);
  }

  void run(const Binding& binding) const override {
    if (plan_.batches * plan_.rows * plan_.columns == 0) return;
    if (thin_) return run_thin(binding);
    if (window_) return run_windows(binding);
    if (in_place_) {
      for (std::int64_t batch = 0; batch < plan_.batches; ++batch) run_in_place(binding, batch);
      return;
    }
    Job job;
    job.binding = &binding;
    job.tiling = choose_tiling(plan_, kernels_, num_threads());
    const Tiling& tiling = job.tiling;
    SharedPanels& shared = SharedPanels::of_this_thread();
    if (tiling.pack_rows_once) job.rows = pack_all(job, Operand::rows, shared.rows);
    if (tiling.pack_columns_once) job.columns = pack_all(job, Operand::columns, shared.columns);
    const std::int64_t per_batch = tiling.row_blocks * tiling.column_blocks;
    const std::int64_t units = plan_.batches * per_batch;
    parallel_for(units, tiling.serial ? units : 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t block = unit % per_batch;
        compute(job, unit / per_batch, block / tiling.column_blocks, block % tiling.column_blocks);
      }
    });
  }

 private:
  enum class Operand : std::uint8_t { rows, columns };

  struct Job {
    const Binding* binding = nullptr;
    Tiling tiling;
    const std::byte* rows = nullptr;  ///< packed as a whole, or null
    const std::byte* columns = nullptr;
  };

  std::int64_t width(Operand operand) const {
    return operand == Operand::rows ? kernels_.tile_rows : kernels_.tile_columns;
  }
  std::int64_t outer(Operand operand) const { return operand == Operand::rows ? plan_.rows : plan_.columns; }
  std::int64_t element_size() const { return static_cast<std::int64_t>(kernels_.element_size); }
  std::int64_t k_blocks() const { return std::max<std::int64_t>(1, divide_up(plan_.k, kBlock)); }
  std::int64_t k_count(std::int64_t block) const { return std::min(kBlock, plan_.k - block * kBlock); }

  /// Elements from one panel to the next; the same for every block of k.
  std::int64_t panel_stride(Operand operand) const {
    return width(operand) * std::min(kBlock, plan_.k) + kPanelSlack / element_size();
  }
  std::int64_t block_stride(Operand operand) const {
    return divide_up(outer(operand), width(operand)) * panel_stride(operand);
  }

  void pack(const Job& job, Operand operand, const Position& batch, std::int64_t outer_begin, std::int64_t outer_count,
            std::int64_t k_block, void* panels, Workspace& workspace) const {
    const Side& side = operand == Operand::rows ? plan_.row_side : plan_.column_side;
    PackArgs args;
    args.side = &side;
    args.data = job.binding->slots[static_cast<std::size_t>(side.slot)];
    args.batch = batch;
    args.outer_begin = outer_begin;
    args.outer_count = outer_count;
    args.k_begin = k_block * kBlock;
    args.k_count = k_count(k_block);
    args.panels = panels;
    args.panel_stride = panel_stride(operand);
    args.workspace = &workspace.pack;
    (operand == Operand::rows ? kernels_.pack_rows : kernels_.pack_columns)(args);
  }

  // [batch][block of k][panel]
  const std::byte* pack_all(const Job& job, Operand operand, GrowingBuffer& buffer) const {
    const Side& side = operand == Operand::rows ? plan_.row_side : plan_.column_side;
    const std::int64_t stride = block_stride(operand) * element_size();
    std::byte* const data = buffer.reserve(plan_.batches * k_blocks() * stride);
    constexpr std::int64_t kPanels = 4;  // one task
    const std::int64_t group = kPanels * width(operand);
    const std::int64_t groups = divide_up(outer(operand), group);
    const std::int64_t tasks = plan_.batches * k_blocks() * groups;
    parallel_for(tasks, job.tiling.serial ? tasks : 1, [&](std::int64_t begin, std::int64_t end) {
      Workspace& workspace = Workspace::of_this_thread();
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t block = task / groups;
        const std::int64_t at = task % groups * group;
        std::byte* panels = data + block * stride + task % groups * kPanels * panel_stride(operand) * element_size();
        pack(job, operand, side.geometry.batch_position(block / k_blocks()), at, std::min(group, outer(operand) - at),
             block % k_blocks(), panels, workspace);
      }
    });
    return data;
  }

  void compute(const Job& job, std::int64_t batch, std::int64_t row_block, std::int64_t column_block) const {
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
      args.results = direct_results(job, block);
      args.results_stride = plan_.direct->row_stride;
    } else {
      // A distance that is no multiple of 4096 bytes keeps the rows of a tile in different cache sets.
      args.results_stride = round_up(block.columns, kernels_.tile_columns) + 64 / element_size();
      args.results = workspace.results.reserve(block.rows * args.results_stride * element_size());
      args.padded = true;
    }
    const Position row_batch = plan_.row_side.geometry.batch_position(batch);
    const Position column_batch = plan_.column_side.geometry.batch_position(batch);
    for (std::int64_t k = 0; k < k_blocks(); ++k) {
      args.row_panels =
          panels(job, Operand::rows, job.rows, row_batch, block.batch, block.row, block.rows, k, workspace);
      args.column_panels = panels(job, Operand::columns, job.columns, column_batch, block.batch, block.column,
                                  block.columns, k, workspace);
      args.k_count = k_count(k);
      args.first = k == 0;
      args.finish = plan_.direct.has_value() && k + 1 == k_blocks();
      kernels_.multiply(args);
    }
    if (!plan_.direct) epilogue_.run(*job.binding, block, args.results, args.results_stride, workspace);
  }

  const void* panels(const Job& job, Operand operand, const std::byte* packed, const Position& position,
                     std::int64_t batch, std::int64_t begin, std::int64_t count, std::int64_t k_block,
                     Workspace& workspace) const {
    if (packed != nullptr) {
      const std::int64_t panel = begin / width(operand);
      return packed +
             ((batch * k_blocks() + k_block) * block_stride(operand) + panel * panel_stride(operand)) * element_size();
    }
    GrowingBuffer& buffer = operand == Operand::rows ? workspace.rows : workspace.columns;
    std::byte* to = buffer.reserve(divide_up(count, width(operand)) * panel_stride(operand) * element_size());
    pack(job, operand, position, begin, count, k_block, to, workspace);
    return to;
  }

  void* direct_results(const Job& job, const Block& block) const {
    const DirectOutput& direct = *plan_.direct;
    std::int64_t address = direct.offset + block.row * direct.row_stride + block.column;
    std::int64_t index = block.batch;
    for (int d = plan_.batch.rank() - 1; d >= 0; --d) {
      address += index % plan_.batch[d] * direct.batch_strides[d];
      index /= plan_.batch[d];
    }
    return job.binding->slots[static_cast<std::size_t>(direct.slot)] + address * element_size();
  }

  void run_thin(const Binding& binding) const {
    Job job;
    job.binding = &binding;
    // Work per thread in multiply-adds of a vector, for pieces that stay in the first caches.
    const std::int64_t pieces = thin_->pieces();
    const std::int64_t parts = divide_up(pieces, std::max<std::int64_t>(kThinPieces, divide_up(pieces, num_threads())));
    const std::int64_t blocks = divide_up(pieces, kThinPieces);
    const std::int64_t per_batch = plan_.batches >= 4 * num_threads() ? blocks : std::max(parts, blocks);
    const std::int64_t step = divide_up(pieces, per_batch);
    const std::int64_t units = plan_.batches * divide_up(pieces, step);
    const std::int64_t work = step * std::max<std::int64_t>(plan_.k, 1) * plan_.rows;
    const std::int64_t together = step == pieces ? thin_batches() : 1;
    parallel_for(units, std::max<std::int64_t>(1, kThinWork / work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; unit += together) {
        const std::int64_t piece = unit % divide_up(pieces, step) * step;
        const std::int64_t batches = std::min(together, end - unit);
        compute_thin(job, unit / divide_up(pieces, step), batches, piece, std::min(piece + step, pieces));
      }
    });
  }

  // The rows of one batch for all of k, as [k][row]. Returns the distance between neighbouring k.
  std::int64_t load_thin_rows(const Job& job, std::int64_t batch, float* rows, Workspace& workspace) const {
    const Side& side = plan_.row_side;
    const Geometry& geometry = side.geometry;
    if (plan_.rows == 1 && side.dtype == DType::f32 && geometry.limits.empty() && geometry.k.sizes.rank() <= 1) {
      const float* from = reinterpret_cast<const float*>(job.binding->slots[static_cast<std::size_t>(side.slot)]) +
                          geometry.batch_address(batch);
      const std::int64_t stride = geometry.k.inner_stride();
      for (std::int64_t k = 0; k < plan_.k; ++k) rows[k] = decode<float>(from[k * stride], side.flush);
      return 1;
    }
    const Position position = geometry.batch_position(batch);
    for (std::int64_t k = 0; k * kBlock < plan_.k; ++k) {
      pack(job, Operand::rows, position, 0, plan_.rows, k, rows + k * kBlock * kernels_.tile_rows, workspace);
    }
    return kernels_.tile_rows;
  }

  // Several batches only if each is one row of the kernel (thin_batches).
  void compute_thin(const Job& job, std::int64_t batch, std::int64_t batches, std::int64_t piece_begin,
                    std::int64_t piece_end) const {
    Workspace& workspace = Workspace::of_this_thread();
    const std::int64_t lanes = kernels_.lanes;
    const auto panel_bytes = (plan_.k + 1) * kernels_.tile_rows * element_size() + kPanelSlack;
    float* rows = reinterpret_cast<float*>(workspace.rows.reserve(panel_bytes));
    const Side& side = plan_.column_side;
    ThinArgs args;
    args.table = &*thin_;
    args.flush = side.flush;
    args.piece_begin = piece_begin;
    args.piece_end = piece_end;
    args.rows = rows;
    args.row_count = plan_.rows;
    args.k = plan_.k;
    args.results_stride = (piece_end - piece_begin + 1) * lanes;
    const std::int64_t count = plan_.rows * batches;
    float* const results =
        reinterpret_cast<float*>(workspace.results.reserve(count * args.results_stride * element_size()));
    for (std::int64_t b = 0; b < batches; ++b) {
      args.rows_stride = load_thin_rows(job, batch + b, rows, workspace);
      args.data = reinterpret_cast<const float*>(job.binding->slots[static_cast<std::size_t>(side.slot)]) +
                  side.geometry.batch_address(batch + b);
      args.results = results + b * plan_.rows * args.results_stride;
      kernels_.thin(args);
    }
    const std::int64_t column = thin_->begin[static_cast<std::size_t>(piece_begin)];
    const Block block{.batch = batch,
                      .row = 0,
                      .rows = count,
                      .column = column,
                      .columns = thin_->begin[static_cast<std::size_t>(piece_end)] - column};
    epilogue_.run(*job.binding, block, results, args.results_stride, workspace);
  }

  // How many batches fit in one call: their results stay in the first cache.
  std::int64_t thin_batches() const {
    const bool rows_follow = plan_.rows == 1 && !plan_.swapped && plan_.batch_map.identity();
    return rows_follow ? std::clamp<std::int64_t>(kThinPieces / thin_->pieces(), 1, 64) : 1;
  }

  // Results that the tiles of a whole row group fill, in units of (batch, plane, segment of the plane, row group).
  void run_windows(const Binding& binding) const {
    const WindowTable& table = *window_;
    const double work = static_cast<double>(plan_.batches) * static_cast<double>(plan_.rows) *
                        static_cast<double>(plan_.columns) * static_cast<double>(plan_.k);
    Job job;
    job.binding = &binding;
    job.tiling.serial = work < kSerialWork;
    const WindowTiling tiling =
        choose_window_tiling(plan_, table, kernels_.tile_rows, job.tiling.serial ? 1 : num_threads());
    job.rows = pack_all(job, Operand::rows, SharedPanels::of_this_thread().rows);
    const std::int64_t per_plane = tiling.segments * tiling.row_groups;
    const std::int64_t units = plan_.batches * table.planes * per_plane;
    parallel_for(units, job.tiling.serial ? units : 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        compute_window(job, tiling, unit / per_plane, unit % per_plane);
      }
    });
  }

  void compute_window(const Job& job, const WindowTiling& tiling, std::int64_t plane, std::int64_t unit) const {
    const WindowTable& table = *window_;
    const Side& side = plan_.column_side;
    Workspace& workspace = Workspace::of_this_thread();
    const std::int64_t batch = plane / table.planes;
    plane %= table.planes;
    const std::int64_t vector = unit % tiling.segments * tiling.vectors;
    const std::int64_t row = unit / tiling.segments * tiling.rows;
    WindowArgs args;
    args.table = &table;
    args.data = reinterpret_cast<const float*>(job.binding->slots[static_cast<std::size_t>(side.slot)]) +
                side.geometry.batch_position(batch).address + table.plane_address[static_cast<std::size_t>(plane)];
    args.flush = side.flush;
    args.vector_begin = vector;
    args.vector_end = std::min(vector + tiling.vectors, table.vectors);
    args.row_panel_stride = panel_stride(Operand::rows);
    args.rows = std::min(tiling.rows, plan_.rows - row);
    // A distance that is no multiple of 4096 bytes keeps the rows of a tile in different cache sets.
    args.results_stride = (args.vector_end - vector + 1) * kernels_.lanes;
    args.results = reinterpret_cast<float*>(
        workspace.results.reserve(round_up(args.rows, kernels_.tile_rows) * args.results_stride * element_size()));
    const Position row_batch = plan_.row_side.geometry.batch_position(batch);
    for (std::int64_t k = 0; k < k_blocks(); ++k) {
      args.row_panels = static_cast<const float*>(
          panels(job, Operand::rows, job.rows, row_batch, batch, row, args.rows, k, workspace));
      args.k_begin = k * kBlock;
      args.k_end = args.k_begin + k_count(k);
      kernels_.window(args);
    }
    const std::int64_t column = vector * kernels_.lanes;
    const Block block{.batch = batch,
                      .row = row,
                      .rows = args.rows,
                      .column = plane * plan_.n + column,
                      .columns = std::min(args.vector_end * kernels_.lanes, plan_.n) - column};
    epilogue_.run(*job.binding, block, args.results, args.results_stride, workspace);
  }

  // Stretches of k are the unit of work. Every block of k has its own partial sums, which are added in order; a single
  // thread adds them at once.
  void run_in_place(const Binding& binding, std::int64_t batch) const {
    const InPlaceTable& table = *in_place_;
    const double work =
        static_cast<double>(plan_.rows) * static_cast<double>(plan_.columns) * static_cast<double>(plan_.k);
    const std::int64_t threads = work < kSerialWork ? 1 : num_threads();
    const std::int64_t stride = round_up(plan_.columns, in_place_width());
    const std::int64_t count = plan_.rows * stride;

    // As many images at once as fill the second cache with padded copies.
    std::int64_t step = kInPlaceBlocks;
    if (table.copies()) {
      const std::int64_t planes = std::max<std::int64_t>(1, kInPlaceCopy / padded_size(table, 1));
      step = std::min(kInPlaceBlocks, std::max<std::int64_t>(1, divide_up(planes * table.k_per_plane, kBlock)));
    }
    step = std::min(step, divide_up(k_blocks(), threads));
    SharedPanels& shared = SharedPanels::of_this_thread();
    auto* const results = reinterpret_cast<float*>(shared.results.reserve(count * element_size()));
    if (threads == 1) {
      for (std::int64_t block = 0; block < k_blocks(); block += step) {
        multiply_in_place(binding, batch, block, std::min(block + step, k_blocks()), stride, results, 0);
      }
    } else {
      const std::int64_t tasks = std::max(threads, kInPlacePartialSums / (step * count * element_size()));
      auto* const sums = reinterpret_cast<float*>(
          shared.partial_sums.reserve(std::min(tasks * step, k_blocks()) * count * element_size()));
      for (std::int64_t begin = 0; begin < k_blocks(); begin += tasks * step) {
        const std::int64_t end = std::min(begin + tasks * step, k_blocks());
        parallel_for(divide_up(end - begin, step), 1, [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t task = first; task < last; ++task) {
            const std::int64_t block = begin + task * step;
            multiply_in_place(binding, batch, block, std::min(block + step, end), stride, sums + task * step * count,
                              count);
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

  std::int64_t in_place_width() const {
    return plan_.columns <= kernels_.lanes ? kernels_.lanes : kernels_.tile_columns;
  }

  // Blocks of k [begin, end). `distance`: of the partial sums of neighbouring blocks; 0: they are added up.
  void multiply_in_place(const Binding& binding, std::int64_t batch, std::int64_t begin, std::int64_t end,
                         std::int64_t stride, float* results, std::int64_t distance) const {
    const InPlaceTable& table = *in_place_;
    Workspace& workspace = Workspace::of_this_thread();
    const Side& side = plan_.row_side;
    const Position position = side.geometry.batch_position(batch);
    const float* data =
        reinterpret_cast<const float*>(binding.slots[static_cast<std::size_t>(side.slot)]) + position.address;
    std::int64_t first_plane = 0;
    if (table.copies()) {
      first_plane = begin * kBlock / table.k_per_plane;
      const std::int64_t planes = (std::min(end * kBlock, plan_.k) - 1) / table.k_per_plane + 1 - first_plane;
      auto* const copy = reinterpret_cast<float*>(workspace.rows.reserve(padded_size(table, planes) * element_size()));
      copy_padded(table, position, data, first_plane, first_plane + planes, copy);
      data = copy;
    }
    const std::int64_t width = in_place_width();
    const std::int64_t panel_stride = width * kBlock + kPanelSlack / element_size();
    auto* const panels = reinterpret_cast<float*>(
        workspace.columns.reserve(divide_up(plan_.columns, width) * panel_stride * element_size()));
    InPlaceRun runs[kBlock];
    InPlaceArgs args;
    args.data = data;
    args.row_address = table.row_address.data();
    args.rows = plan_.rows;
    args.runs = runs;
    args.run_stride = table.run_stride;
    args.vectors = width == kernels_.lanes ? 1 : 2;
    args.results_stride = stride;
    PackArgs pack;
    pack.side = &plan_.column_side;
    pack.data = binding.slots[static_cast<std::size_t>(plan_.column_side.slot)];
    pack.batch = plan_.column_side.geometry.batch_position(batch);
    pack.outer_count = plan_.columns;
    pack.panels = panels;
    pack.panel_stride = panel_stride;
    pack.workspace = &workspace.pack;
    for (std::int64_t block = begin; block < end; ++block) {
      pack.k_begin = block * kBlock;
      pack.k_count = k_count(block);
      (args.vectors == 1 ? kernels_.pack_lanes : kernels_.pack_columns)(pack);
      args.run_count = cut_runs(table, pack.k_begin, pack.k_count, first_plane, runs);
      args.first = distance != 0 || block == 0;
      for (std::int64_t column = 0; column < plan_.columns; column += width) {
        args.columns = panels + column / width * panel_stride;
        args.results = results + (block - begin) * distance + column;
        multiply_in_place_(args);
      }
    }
  }

  const KernelSet& kernels_;
  InPlaceFunction multiply_in_place_;
  Plan plan_;
  Epilogue epilogue_;
  std::optional<ThinTable> thin_;
  std::optional<WindowTable> window_;
  std::optional<InPlaceTable> in_place_;
};

}  // namespace
}  // namespace contraction

std::unique_ptr<Executable> compile_contraction(const ContractionKernel& kernel) {
  return compile_contraction(kernel, selected_isa());
}

std::unique_ptr<Executable> compile_contraction(const ContractionKernel& kernel, Isa isa) {
  return std::make_unique<contraction::ContractionExecutable>(kernel, isa);
}

}  // namespace v0
}  // namespace lockstep
