// The way of few rows: stretches of columns are the unit of work, each for all of k, read straight from the view.
#include <algorithm>
#include <utility>

#include <lockstep/threads.h>

#include "backends/cpu/contraction/decode.h"
#include "backends/cpu/contraction/way.h"
#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// Pieces (vectors) of results that one thin call computes, and multiply-adds worth a task of its own.
constexpr std::int64_t kThinPieces = 512;
constexpr std::int64_t kMostBatches = 64;
constexpr std::int64_t kThinWork = 12000;
// Columns along k: each multiply-add reads elements of its own, from further away than the nearest cache.
constexpr std::int64_t kThinWorkAlongK = 3000;
// What copying, the epilogue and storing cost a vector of results beside its multiply-adds.
constexpr std::int64_t kThinOverhead = 24;
// Pieces of neighbouring columns that a thread takes at least: what follows in memory comes by itself.
constexpr std::int64_t kThinStretch = 16;

class ThinWay final : public Way {
 public:
  ThinWay(Task task, ThinTable table) : Way(std::move(task)), table_(std::move(table)) {}

 private:
  // Transposing columns along k takes as long as a few rows' products, and panels are read from memory in their order.
  Keeps keeps(Operand operand) const override {
    return operand == Operand::columns && table_.along_k ? Keeps::panels : Keeps::nothing;
  }

  void compute(const Binding& binding) const override {
    const KeptPanels::Panels panels = kept(binding, Operand::columns, false).panels;
    const std::int64_t pieces = table_.pieces();
    const bool whole = table_.copy.has_value();  // parts of a batch would copy it again
    const std::int64_t per_batch = whole ? 1 : parts_of_a_batch(pieces);
    const std::int64_t step = divide_up(pieces, per_batch);
    const std::int64_t units = plan_.batches * divide_up(pieces, step);
    const std::int64_t work =
        step * (table_.along_k ? std::max<std::int64_t>(plan_.k, 1) : plan_.k + kThinOverhead) * plan_.rows;
    const std::int64_t together = step == pieces ? batches_of_a_call() : 1;
    parallel_for(units, std::max<std::int64_t>(1, task_work() / work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; unit += together) {
        const std::int64_t piece = unit % divide_up(pieces, step) * step;
        const std::int64_t batches = std::min(together, end - unit);
        compute_pieces(binding, panels.get(), unit / divide_up(pieces, step), batches, piece,
                       std::min(piece + step, pieces));
      }
    });
  }

  std::int64_t task_work() const { return table_.along_k ? kThinWorkAlongK : kThinWork; }

  // As many as keep the results of each in the first cache, and, of few batches, all threads busy with enough to do.
  std::int64_t parts_of_a_batch(std::int64_t pieces) const {
    const std::int64_t blocks = divide_up(pieces, kThinPieces);
    const std::int64_t threads = num_threads();
    if (threads == 1 || plan_.batches >= 4 * threads) return blocks;
    // Columns along k share nothing. Others are neighbours: the longer a stretch of them, the better is memory read.
    const std::int64_t wanted = divide_up((table_.along_k ? 4 : 1) * threads, plan_.batches);
    const std::int64_t least = std::max(divide_up(task_work(), std::max<std::int64_t>(plan_.k, 1) * plan_.rows),
                                        table_.along_k ? 1 : kThinStretch);
    const std::int64_t parts = std::min(wanted, pieces / least);
    return std::max(blocks, parts > threads ? parts / threads * threads : parts);
  }

  // How many batches fit in one call: their results stay in the first cache. Padding is written once for all of them.
  std::int64_t batches_of_a_call() const {
    const bool rows_follow = plan_.rows == 1 && !plan_.swapped && plan_.batch_map.identity();
    const std::int64_t most = finishes() ? kMostBatches : kThinPieces / table_.pieces();
    return rows_follow ? std::clamp<std::int64_t>(most, 1, kMostBatches) : 1;
  }

  // Shorter lines, whose vectors go over the next one, too, would be written behind the plane by more than the last.
  bool finishes() const { return table_.window && plan_.direct && table_.line >= ThinWindow::kLeastLine; }

  // Several batches only if each is one row of the kernel (batches_of_a_call).
  void compute_pieces(const Binding& binding, const std::byte* panels, std::int64_t batch, std::int64_t batches,
                      std::int64_t piece_begin, std::int64_t piece_end) const {
    Workspace& workspace = Workspace::of_this_thread();
    const std::int64_t lanes = kernels_.lanes;
    const auto panel_bytes = (plan_.k + 1) * kernels_.tile_rows * element_size() + kPanelSlack;
    float* rows = reinterpret_cast<float*>(workspace.rows.reserve(panel_bytes));
    const Side& side = plan_.column_side;
    ThinArgs args;
    args.table = &table_;
    args.flush = side.flush;
    args.piece_begin = piece_begin;
    args.piece_end = piece_end;
    args.row_count = plan_.rows;
    args.k = plan_.k;
    args.results_stride = (piece_end - piece_begin + 1) * lanes;
    args.panel_stride = panel_stride(Operand::columns);
    args.block_stride = block_stride(Operand::columns);
    args.panel_width = width(Operand::columns);
    const std::int64_t count = plan_.rows * batches;
    float* const results =
        reinterpret_cast<float*>(workspace.results.reserve(count * args.results_stride * element_size()));
    for (std::int64_t b = 0; b < batches; ++b) {
      load_rows(binding, batch + b, rows, workspace, args);
      if (side.encoding != Encoding::dense) {
        args.encoding = side.encoding;
        args.blocks = data(binding, Operand::columns);
        args.first = side.geometry.batch_address(batch + b);
        if (!is_floats(side.encoding)) {  // those have no panels
          const Q8Loops& made = block_panels(side.encoding, isa_);
          args.pack_blocks = made.pack;
          args.packed_bytes = made.panel_bytes(kBlock / order::kQ8Block);
          args.packed = workspace.columns.reserve(thin_block_bytes(plan_.k, lanes, args.packed_bytes, plan_.rows));
        }
      } else if (panels != nullptr) {
        args.panels = reinterpret_cast<const float*>(panels) + (batch + b) * k_blocks() * args.block_stride;
      } else if (side.is_half()) {
        args.halves = reinterpret_cast<const std::uint16_t*>(data(binding, Operand::columns)) +
                      side.geometry.batch_address(batch + b);
        args.is_f16 = side.dtype == DType::f16;
      } else {
        const auto* const base = reinterpret_cast<const float*>(data(binding, Operand::columns));
        args.data = base + side.geometry.batch_address(batch + b);
        if (table_.copy) {
          if (batch + b + 1 < plan_.batches) {
            args.next = base + side.geometry.batch_address(batch + b + 1) + table_.source_begin;
            args.next_count = table_.source_count;
          }
          args.data = padded(args.data, b == 0, workspace);
        }
      }
      args.finish = finishes();
      args.results = args.finish ? static_cast<float*>(direct_results(binding, {batch + b, 0, 1, 0, plan_.columns}))
                                 : results + b * plan_.rows * args.results_stride;
      kernels_.thin(args);
    }
    if (args.finish) return;
    const std::int64_t column = table_.begin[static_cast<std::size_t>(piece_begin)];
    const Block block{.batch = batch,
                      .row = 0,
                      .rows = count,
                      .column = column,
                      .columns = table_.begin[static_cast<std::size_t>(piece_end)] - column};
    epilogue_.run(binding, block, results, args.results_stride, workspace);
  }

  // The padded planes of the batch at `from`, without subnormals. `zeros`: the padding is not there yet.
  const float* padded(const float* from, bool zeros, Workspace& workspace) const {
    const PaddedCopy& copy = *table_.copy;
    const std::int64_t size = static_cast<std::int64_t>(table_.k_planes.size()) * copy.plane;
    // The last vectors may read past what they need.
    const std::int64_t slack = table_.line_stride + kernels_.lanes;
    auto* const to = reinterpret_cast<float*>(workspace.columns.reserve((size + slack) * element_size()));
    CopyArgs args{.lines = table_.copied_lines.data(),
                  .count = table_.copied_lines.size(),
                  .to = to,
                  .flush = plan_.column_side.flush,
                  .zeros = zeros};
    for (const std::int64_t address : table_.k_planes) {
      args.from = from + address;
      kernels_.copy(args);
      args.to += copy.plane;
    }
    return to;
  }

  // The rows of one batch for all of k, as [k][row]: where they are, or in `rows`.
  void load_rows(const Binding& binding, std::int64_t batch, float* rows, Workspace& workspace, ThinArgs& args) const {
    const Side& side = plan_.row_side;
    const Geometry& geometry = side.geometry;
    args.rows = rows;
    if (plan_.rows == 1 && side.is_plain_f32() && geometry.limits.empty() && geometry.k.sizes.rank() <= 1) {
      const float* from = reinterpret_cast<const float*>(data(binding, Operand::rows)) + geometry.batch_address(batch);
      const std::int64_t stride = geometry.k.inner_stride();
      args.rows_stride = 1;
      if (stride == 1 && !side.flush) {
        args.rows = from;
        return;
      }
      for (std::int64_t k = 0; k < plan_.k; ++k) rows[k] = decode<float>(from[k * stride], side.flush);
      return;
    }
    args.rows_stride = kernels_.tile_rows;
    const Position position = geometry.batch_position(batch);
    for (std::int64_t k = 0; k * kBlock < plan_.k; ++k) {
      pack(binding, Operand::rows, position, 0, plan_.rows, k, rows + k * kBlock * kernels_.tile_rows, workspace);
    }
  }

  ThinTable table_;
};

}  // namespace

std::unique_ptr<Executable> make_thin_way(Task task, ThinTable table) {
  return std::make_unique<ThinWay>(std::move(task), std::move(table));
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
