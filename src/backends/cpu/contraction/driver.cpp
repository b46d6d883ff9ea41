// Runs a contraction: cuts the results into blocks, packs what they need, multiplies block of k by block of k, and runs
// the epilogue on each block of results while it is in cache. Blocks are the unit of work of the threads.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <lockstep/threads.h>

#include "backends/cpu/contraction/contraction.h"
#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/plan.h"
#include "backends/cpu/contraction/thin.h"
#include "backends/cpu/contraction/tiling.h"
#include "backends/cpu/contraction/workspace.h"
#include "backends/cpu/row/row_program.h"
#include "backends/cpu/threads.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr std::int64_t divide_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit;
}

// Pieces (vectors) of results that one thin call computes, and multiply-adds worth a task of its own.
constexpr std::int64_t kThinPieces = 512;
constexpr std::int64_t kThinWork = 40000;
// Epilogues with rows up to this long run as one long row.
constexpr std::int64_t kFlatColumns = 96;

/// The program with all dimensions inner. Without reductions, values per row may as well be values per element.
Program flattened(Program program) {
  for (const std::int64_t size : program.inner) program.rows.push_back(size);
  program.inner = program.rows;
  program.rows = {};
  for (Instruction& instruction : program.code) instruction.extent = Extent::vector;
  return program;
}

class ContractionExecutable final : public Executable {
 public:
  ContractionExecutable(const ContractionKernel& kernel, Isa isa)
      : kernels_(kernel_set(kernel.type, isa)),
        plan_(make_plan(kernel, kernels_.lanes, kernels_.tile_columns)),
        flat_(plan_.n <= kFlatColumns),
        epilogue_(RowProgram::epilogue(flat_ ? flattened(kernel.epilogue) : kernel.epilogue, isa)) {
    if (kernels_.thin != nullptr) thin_ = make_thin_table(plan_, kernels_.lanes);
  }

  void run(const Binding& binding) const override {
    if (plan_.batches * plan_.rows * plan_.columns == 0) return;
    if (thin_) return run_thin(binding);
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

  // Rows [row, row + rows) x columns [column, column + columns) of one batch.
  struct Block {
    std::int64_t batch, row, rows, column, columns;
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
    if (!plan_.direct) finish(job, block, args.results, args.results_stride, workspace);
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
    parallel_for(units, std::max<std::int64_t>(1, kThinWork / work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t piece = unit % divide_up(pieces, step) * step;
        compute_thin(job, unit / divide_up(pieces, step), piece, std::min(piece + step, pieces));
      }
    });
  }

  void compute_thin(const Job& job, std::int64_t batch, std::int64_t piece_begin, std::int64_t piece_end) const {
    Workspace& workspace = Workspace::of_this_thread();
    const std::int64_t lanes = kernels_.lanes;
    // The rows as one panel for all of k.
    float* rows = reinterpret_cast<float*>(
        workspace.rows.reserve((plan_.k + 1) * kernels_.tile_rows * element_size() + kPanelSlack));
    const Position row_batch = plan_.row_side.geometry.batch_position(batch);
    for (std::int64_t k = 0; k * kBlock < plan_.k; ++k) {
      pack(job, Operand::rows, row_batch, 0, plan_.rows, k, rows + k * kBlock * kernels_.tile_rows, workspace);
    }
    const Side& side = plan_.column_side;
    ThinArgs args;
    args.table = &*thin_;
    args.data = reinterpret_cast<const float*>(job.binding->slots[static_cast<std::size_t>(side.slot)]) +
                side.geometry.batch_position(batch).address;
    args.flush = side.flush;
    args.piece_begin = piece_begin;
    args.piece_end = piece_end;
    args.rows = rows;
    args.row_count = plan_.rows;
    args.k = plan_.k;
    args.results_stride = (piece_end - piece_begin + 1) * lanes;
    args.results =
        reinterpret_cast<float*>(workspace.results.reserve(plan_.rows * args.results_stride * element_size()));
    kernels_.thin(args);
    // Close the gaps behind pieces that are no whole vectors.
    for (std::int64_t row = 0; row < plan_.rows; ++row) {
      float* results = args.results + row * args.results_stride;
      for (std::int64_t piece = piece_begin; piece < piece_end; ++piece) {
        const auto p = static_cast<std::size_t>(piece);
        float* to = results + thin_->begin[p] - thin_->begin[static_cast<std::size_t>(piece_begin)];
        const float* from = results + (piece - piece_begin) * lanes;
        if (to != from) std::copy(from, from + thin_->begin[p + 1] - thin_->begin[p], to);
      }
    }
    const std::int64_t column = thin_->begin[static_cast<std::size_t>(piece_begin)];
    const Block block{.batch = batch,
                      .row = 0,
                      .rows = plan_.rows,
                      .column = column,
                      .columns = thin_->begin[static_cast<std::size_t>(piece_end)] - column};
    finish(job, block, args.results, args.results_stride, workspace);
  }

  // The epilogue of one block of raw results.
  void finish(const Job& job, const Block& block, const void* results, std::int64_t stride,
              Workspace& workspace) const {
    std::int64_t m_begin = block.row;
    std::int64_t m_count = block.rows;
    std::int64_t n_begin = block.column;
    std::int64_t n_count = block.columns;
    const std::byte* data = static_cast<const std::byte*>(results);
    if (plan_.swapped) {
      std::swap(m_begin, n_begin);
      std::swap(m_count, n_count);
      if (n_count == 1) {
        stride = 1;
      } else {
        data = transposed(results, stride, m_count, n_count, workspace.transposed);
        stride = n_count;
      }
    }
    Scratch& scratch = Scratch::of_this_thread();
    const std::int64_t batch = plan_.batch_map(block.batch);
    const bool rows_in_order = plan_.m_batch_map.identity();
    for (std::int64_t j = 0; j < n_count;) {
      const std::int64_t n = (n_begin + j) % plan_.n;
      const std::int64_t columns = std::min(plan_.n - n, n_count - j);
      const std::int64_t n_batch = plan_.n_batch_map((n_begin + j) / plan_.n);
      for (std::int64_t i = 0; i < m_count;) {
        const std::int64_t m = (m_begin + i) % plan_.m;
        const std::int64_t rows = rows_in_order ? m_count : std::min(plan_.m - m, m_count - i);
        const std::int64_t m_batch = plan_.m_batch_map((m_begin + i) / plan_.m);
        const std::int64_t row = (batch + n_batch + m_batch) * plan_.m + m;
        const std::byte* accumulators = data + (i * stride + j) * element_size();
        if (!flat_) {
          epilogue_.run_block(*job.binding, row, rows, n, columns, accumulators, stride, scratch);
        } else if (columns == plan_.n) {
          if (stride != columns) accumulators = compacted(accumulators, stride, rows, columns, workspace.compacted);
          epilogue_.run_segment(*job.binding, 0, row * plan_.n, rows * columns, accumulators, scratch);
        } else {
          for (std::int64_t r = 0; r < rows; ++r) {
            epilogue_.run_segment(*job.binding, 0, (row + r) * plan_.n + n, columns,
                                  accumulators + r * stride * element_size(), scratch);
          }
        }
        i += rows;
      }
      j += columns;
    }
  }

  const std::byte* compacted(const std::byte* from, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                             GrowingBuffer& buffer) const {
    const std::int64_t row_bytes = columns * element_size();
    std::byte* to = buffer.reserve(rows * row_bytes);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * row_bytes, from + r * stride * element_size(), static_cast<std::size_t>(row_bytes));
    }
    return to;
  }

  template <typename Word>
  static void transpose_words(const std::byte* from, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                              std::byte* to) {
    const Word* source = reinterpret_cast<const Word*>(from);
    Word* target = reinterpret_cast<Word*>(to);
    constexpr std::int64_t kTile = 16;
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const std::int64_t c1 = std::min(c0 + kTile, columns);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = c0; c < c1; ++c) target[r * columns + c] = source[c * stride + r];
      }
    }
  }

  // m x n from n x m.
  const std::byte* transposed(const void* results, std::int64_t stride, std::int64_t m_count, std::int64_t n_count,
                              GrowingBuffer& buffer) const {
    std::byte* to = buffer.reserve(m_count * n_count * element_size());
    const std::byte* from = static_cast<const std::byte*>(results);
    if (element_size() == 8) {
      transpose_words<std::uint64_t>(from, stride, m_count, n_count, to);
    } else {
      transpose_words<std::uint32_t>(from, stride, m_count, n_count, to);
    }
    return to;
  }

  const KernelSet& kernels_;
  Plan plan_;
  bool flat_;  ///< the epilogue is one row: its n is too short to be one
  RowProgram epilogue_;
  std::optional<ThinTable> thin_;
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
