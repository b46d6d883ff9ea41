// The way of convolutions whose pixels are broadcast from where they are: weights are packed, and blocks of (image,
// pixels, channels) are the unit of work. What padding adds is written into a copy of a few images at a time.
#include <algorithm>
#include <atomic>
#include <utility>

#include <lockstep/threads.h>

#include "backends/cpu/contraction/tiling.h"
#include "backends/cpu/contraction/way.h"
#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

class DirectWay final : public Way {
 public:
  DirectWay(Task task, DirectTable table) : Way(std::move(task)), table_(std::move(table)) {}

 private:
  struct Job {
    const Binding& binding;
    std::uint64_t number = 0;            ///< of this run
    const std::byte* columns = nullptr;  ///< packed
    std::int64_t batch = 0;
    Position position;                ///< of the batch
    const std::byte* data = nullptr;  ///< of the pixels
    DirectTiling tiling;
  };

  // Some rows of an image, all of whose columns read the same pixels.
  struct Rows {
    std::int64_t image, first, count;
  };

  Keeps keeps(Operand operand) const override { return operand == Operand::columns ? Keeps::panels : Keeps::nothing; }

  void compute(const Binding& binding) const override {
    const double work = static_cast<double>(plan_.batches) * static_cast<double>(plan_.rows) *
                        static_cast<double>(plan_.columns) * static_cast<double>(plan_.k);
    const bool serial = work < kSerialWork;
    const KeptPanels::Panels kept_columns = kept(binding, Operand::columns, serial).panels;
    const std::byte* const columns =
        kept_columns != nullptr ? kept_columns.get()
                                : pack_all(binding, Operand::columns, serial, SharedPanels::of_this_thread().columns);
    const std::int64_t images = table_.images.count();
    const DirectTiling& tiling = tiling_.get(serial ? 1 : num_threads(), [&](int threads) {
      return choose_direct_tiling(plan_, images, kernels_.tile_rows, kernels_.tile_columns, threads);
    });
    const std::int64_t units = images * tiling.row_blocks * tiling.column_blocks;
    for (std::int64_t batch = 0; batch < plan_.batches; ++batch) {
      const Position position = plan_.row_side.geometry.batch_position(batch);
      const Job job{.binding = binding,
                    .number = next_run_number(),
                    .columns = columns,
                    .batch = batch,
                    .position = position,
                    .data = data(binding, Operand::rows),
                    .tiling = tiling};
      // Neighbouring units, which a thread computes, share rows: what one core has read is far from the others.
      parallel_for(units, serial ? units : 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t block = unit / tiling.column_blocks;
          const std::int64_t first = block % tiling.row_blocks * tiling.rows;
          const Rows rows{
              .image = block / tiling.row_blocks, .first = first, .count = std::min(tiling.rows, plan_.n - first)};
          compute_block(job, rows, unit % tiling.column_blocks * tiling.columns);
        }
      });
    }
  }

  static std::uint64_t next_run_number() {
    static std::atomic<std::uint64_t> number{0};
    return ++number;
  }

  // The elements of an image, at least those that `rows` read. A padded copy is the thread's own: it stays in that
  // core's cache, and nobody waits for the others' parts of it.
  const float* pixels(const Job& job, const Rows& rows, Workspace& workspace) const {
    const Images& images = table_.images;
    if (!images.copy) {
      return reinterpret_cast<const float*>(job.data) + job.position.address +
             images.sources[static_cast<std::size_t>(rows.image)];
    }
    auto* const to = reinterpret_cast<float*>(workspace.image.reserve(images.size() * element_size()));
    const ImageRows wanted{.run = job.number, .image = rows.image, .first_row = rows.first};
    if (std::exchange(workspace.image_rows, wanted) == wanted) return workspace.image_origin;
    const auto addresses = table_.row_address.begin() + rows.first;
    const auto [least, most] = std::minmax_element(addresses, addresses + rows.count);
    workspace.image_origin =
        images.write_copy(plan_.row_side, job.position, rows.image, *least, *most, job.data, kernels_.copy, to);
    return workspace.image_origin;
  }

  void compute_block(const Job& job, const Rows& rows, std::int64_t column) const {
    Workspace& workspace = Workspace::of_this_thread();
    DirectArgs args;
    args.data = pixels(job, rows, workspace);
    args.row_address = table_.row_address.data() + rows.first;
    args.rows = rows.count;
    args.column_panel_stride = panel_stride(Operand::columns);
    args.columns = std::min(job.tiling.columns, plan_.columns - column);
    // A distance that is no multiple of 4096 bytes keeps the rows of a tile in different cache sets.
    args.results_stride = round_up(args.columns, kernels_.tile_columns) + 64 / element_size();
    args.results =
        reinterpret_cast<float*>(workspace.results.reserve(args.rows * args.results_stride * element_size()));
    const Position position = plan_.column_side.geometry.batch_position(job.batch);
    for (std::int64_t k = 0; k < k_blocks(); ++k) {
      args.column_panels = static_cast<const float*>(
          panels(job.binding, Operand::columns, job.columns, position, job.batch, column, args.columns, k, workspace));
      args.k_address = table_.images.k_address.data() + k * kBlock;
      args.k_count = k_count(k);
      args.first = k == 0;
      kernels_.direct(args);
    }
    const Block block{.batch = job.batch,
                      .row = rows.image * plan_.n + rows.first,
                      .rows = args.rows,
                      .column = column,
                      .columns = args.columns};
    epilogue_.run(job.binding, block, args.results, args.results_stride, workspace);
  }

  DirectTable table_;
  mutable OfThreads<DirectTiling> tiling_;
};

}  // namespace

std::unique_ptr<Executable> make_direct_way(Task task, DirectTable table) {
  return std::make_unique<DirectWay>(std::move(task), std::move(table));
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
