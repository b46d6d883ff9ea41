// The way of convolutions whose columns are read from the view: results that the tiles of a whole row group fill, in
// units of (batch, plane, segment of the plane, row group).
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

class WindowWay final : public Way {
 public:
  WindowWay(Task task, WindowTable table) : Way(std::move(task)), table_(std::move(table)) {}

 private:
  void compute(const Binding& binding) const override {
    const double work = static_cast<double>(plan_.batches) * static_cast<double>(plan_.rows) *
                        static_cast<double>(plan_.columns) * static_cast<double>(plan_.k);
    const bool serial = work < kSerialWork;
    const WindowTiling& tiling = tiling_.get(serial ? 1 : num_threads(), [&](int threads) {
      return choose_window_tiling(plan_, table_, kernels_.tile_rows, threads);
    });
    const KeptPanels::Panels kept_rows = kept(binding, Operand::rows, serial);
    const std::byte* const rows = kept_rows != nullptr
                                      ? kept_rows.get()
                                      : pack_all(binding, Operand::rows, serial, SharedPanels::of_this_thread().rows);
    const std::int64_t per_plane = tiling.segments * tiling.row_groups;
    const std::int64_t units = plan_.batches * table_.planes * per_plane;
    parallel_for(units, serial ? units : 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        compute_unit(binding, rows, tiling, unit / per_plane, unit % per_plane);
      }
    });
  }

  void compute_unit(const Binding& binding, const std::byte* packed_rows, const WindowTiling& tiling,
                    std::int64_t plane, std::int64_t unit) const {
    const Side& side = plan_.column_side;
    Workspace& workspace = Workspace::of_this_thread();
    const std::int64_t batch = plane / table_.planes;
    plane %= table_.planes;
    const std::int64_t vector = unit % tiling.segments * tiling.vectors;
    const std::int64_t row = unit / tiling.segments * tiling.rows;
    WindowArgs args;
    args.table = &table_;
    args.data = reinterpret_cast<const float*>(data(binding, Operand::columns)) +
                side.geometry.batch_position(batch).address + table_.plane_address[static_cast<std::size_t>(plane)];
    args.flush = side.flush;
    args.vector_begin = vector;
    args.vector_end = std::min(vector + tiling.vectors, table_.vectors);
    args.row_panel_stride = panel_stride(Operand::rows);
    args.rows = std::min(tiling.rows, plan_.rows - row);
    // A distance that is no multiple of 4096 bytes keeps the rows of a tile in different cache sets.
    args.results_stride = (args.vector_end - vector + 1) * kernels_.lanes;
    args.results = reinterpret_cast<float*>(
        workspace.results.reserve(round_up(args.rows, kernels_.tile_rows) * args.results_stride * element_size()));
    const Position row_batch = plan_.row_side.geometry.batch_position(batch);
    for (std::int64_t k = 0; k < k_blocks(); ++k) {
      args.row_panels = static_cast<const float*>(
          panels(binding, Operand::rows, packed_rows, row_batch, batch, row, args.rows, k, workspace));
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
    epilogue_.run(binding, block, args.results, args.results_stride, workspace);
  }

  WindowTable table_;
  mutable OfThreads<WindowTiling> tiling_;
};

}  // namespace

std::unique_ptr<Executable> make_window_way(Task task, WindowTable table) {
  return std::make_unique<WindowWay>(std::move(task), std::move(table));
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
