// The way of convolutions whose pixels are broadcast from where they are: weights are packed, and blocks of (image,
// pixels, channels) are the unit of work. What padding adds is written into a copy of a few images at a time.
#include <algorithm>
#include <utility>

#include <lockstep/threads.h>

#include "backends/cpu/contraction/decode.h"
#include "backends/cpu/contraction/tiling.h"
#include "backends/cpu/contraction/way.h"
#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// Bytes of the padded copies that exist at once, if one image does not take more.
constexpr std::int64_t kCopyBytes = 2 << 20;

class DirectWay final : public Way {
 public:
  DirectWay(Task task, DirectTable table) : Way(std::move(task)), table_(std::move(table)) {}

 private:
  // Some images of one batch.
  struct Job {
    const Binding& binding;
    const std::byte* columns = nullptr;  ///< packed
    std::int64_t batch = 0;
    std::int64_t image_begin = 0;
    std::int64_t images = 0;
    const float* data = nullptr;  ///< the copies, or the batch's elements
    std::int64_t threads = 1;
  };

  void compute(const Binding& binding) const override {
    const double work = static_cast<double>(plan_.batches) * static_cast<double>(plan_.rows) *
                        static_cast<double>(plan_.columns) * static_cast<double>(plan_.k);
    const bool serial = work < kSerialWork;
    const KeptPanels::Panels kept_columns = kept(binding, Operand::columns, serial);
    const std::byte* const columns =
        kept_columns != nullptr ? kept_columns.get()
                                : pack_all(binding, Operand::columns, serial, SharedPanels::of_this_thread().columns);
    const auto count = static_cast<std::int64_t>(table_.images.size());
    const std::int64_t together =
        table_.copy ? std::clamp<std::int64_t>(kCopyBytes / (table_.image_size() * element_size()), 1, count) : count;
    for (std::int64_t batch = 0; batch < plan_.batches; ++batch) {
      const Position position = plan_.row_side.geometry.batch_position(batch);
      const float* const from = reinterpret_cast<const float*>(data(binding, Operand::rows)) + position.address;
      for (std::int64_t image = 0; image < count; image += together) {
        Job job{.binding = binding,
                .columns = columns,
                .batch = batch,
                .image_begin = image,
                .images = std::min(together, count - image),
                .data = from,
                .threads = serial ? 1 : num_threads()};
        if (table_.copy) job.data = copied(position, from, job);
        multiply(job);
      }
    }
  }

  const float* copied(const Position& batch, const float* from, const Job& job) const {
    auto* const to = reinterpret_cast<float*>(
        SharedPanels::of_this_thread().rows.reserve(job.images * table_.image_size() * element_size()));
    const std::vector<PaddedCopy::Line> lines = table_.copy->lines(batch);
    const auto planes = static_cast<std::int64_t>(table_.planes.size());
    const std::int64_t size = table_.copy->plane;
    const std::int64_t all = job.images * planes;
    parallel_for(all, job.threads == 1 ? all : std::max<std::int64_t>(1, 4096 / size),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const auto image = static_cast<std::size_t>(job.image_begin + i / planes);
                     float* const plane = to + i * size;
                     write_padded(lines, from + table_.images[image] + table_.planes[static_cast<std::size_t>(i % planes)],
                                  plane);
                     if (!plan_.row_side.flush) continue;
                     for (std::int64_t at = 0; at < size; ++at) plane[at] = decode<float>(plane[at], true);
                   }
                 });
    return to;
  }

  void multiply(const Job& job) const {
    const DirectTiling tiling =
        choose_direct_tiling(plan_, job.images, kernels_.tile_rows, kernels_.tile_columns, job.threads);
    const std::int64_t per_image = tiling.row_blocks * tiling.column_blocks;
    const std::int64_t units = job.images * per_image;
    parallel_for(units, job.threads == 1 ? units : 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t block = unit % per_image;
        compute_block(job, tiling, unit / per_image, block % tiling.row_blocks * tiling.rows,
                      block / tiling.row_blocks * tiling.columns);
      }
    });
  }

  void compute_block(const Job& job, const DirectTiling& tiling, std::int64_t image, std::int64_t row,
                     std::int64_t column) const {
    Workspace& workspace = Workspace::of_this_thread();
    const auto number = static_cast<std::size_t>(job.image_begin + image);
    DirectArgs args;
    args.data = job.data + (table_.copy ? image * table_.image_size() : table_.images[number]);
    args.row_address = table_.row_address.data() + row;
    args.rows = std::min(tiling.rows, plan_.n - row);
    args.column_panel_stride = panel_stride(Operand::columns);
    args.columns = std::min(tiling.columns, plan_.columns - column);
    // A distance that is no multiple of 4096 bytes keeps the rows of a tile in different cache sets.
    args.results_stride = round_up(args.columns, kernels_.tile_columns) + 64 / element_size();
    args.results = reinterpret_cast<float*>(workspace.results.reserve(args.rows * args.results_stride * element_size()));
    const Position position = plan_.column_side.geometry.batch_position(job.batch);
    for (std::int64_t k = 0; k < k_blocks(); ++k) {
      args.column_panels = static_cast<const float*>(panels(job.binding, Operand::columns, job.columns, position, job.batch,
                                                            column, args.columns, k, workspace));
      args.k_address = table_.k_address.data() + k * kBlock;
      args.k_count = k_count(k);
      args.first = k == 0;
      kernels_.direct(args);
    }
    const Block block{.batch = job.batch,
                      .row = static_cast<std::int64_t>(number) * plan_.n + row,
                      .rows = args.rows,
                      .column = column,
                      .columns = args.columns};
    epilogue_.run(job.binding, block, args.results, args.results_stride, workspace);
  }

  DirectTable table_;
};

}  // namespace

std::unique_ptr<Executable> make_direct_way(Task task, DirectTable table) {
  return std::make_unique<DirectWay>(std::move(task), std::move(table));
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
