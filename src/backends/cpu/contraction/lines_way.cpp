// The way of convolutions of few channels: weights are packed, vectors of pixels come from the image or its padded
// copy, and segments of an image's pixels, with all channels, are the unit of work.
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

class LinesWay final : public Way {
 public:
  LinesWay(Task task, LineTable table) : Way(std::move(task)), table_(std::move(table)) {}

 private:
  struct Job {
    const Binding& binding;
    const std::byte* rows = nullptr;  ///< packed
    std::int64_t batch = 0;
    Position position;                ///< of the batch
    const std::byte* data = nullptr;  ///< of the pixels
  };

  Keeps keeps(Operand operand) const override { return operand == Operand::rows ? Keeps::panels : Keeps::nothing; }

  void compute(const Binding& binding) const override {
    const double work = static_cast<double>(plan_.batches) * static_cast<double>(plan_.rows) *
                        static_cast<double>(plan_.columns) * static_cast<double>(plan_.k);
    const bool serial = work < kSerialWork;
    const KeptPanels::Panels kept_rows = kept(binding, Operand::rows, serial).panels;
    const std::byte* const rows = kept_rows != nullptr
                                      ? kept_rows.get()
                                      : pack_all(binding, Operand::rows, serial, SharedPanels::of_this_thread().rows);
    const std::int64_t images = table_.images.count();
    const std::int64_t segment =
        choose_line_segment(table_, plan_.rows, kernels_.lanes, images, serial ? 1 : num_threads());
    const std::int64_t segments = divide_up(static_cast<std::int64_t>(table_.vectors.size()), segment);
    const std::int64_t units = images * segments;
    for (std::int64_t batch = 0; batch < plan_.batches; ++batch) {
      const Position position = plan_.column_side.geometry.batch_position(batch);
      const Job job{.binding = binding,
                    .rows = rows,
                    .batch = batch,
                    .position = position,
                    .data = data(binding, Operand::columns)};
      parallel_for(units, serial ? units : 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          compute_segment(job, unit / segments, unit % segments * segment, segment);
        }
      });
    }
  }

  // An image, or of its padded copy, which is the thread's own, what a segment reads.
  const float* pixels(const Job& job, std::int64_t image, const LineVector& first, const LineVector& last,
                      Workspace& workspace) const {
    const Images& images = table_.images;
    if (!images.copy) {
      return reinterpret_cast<const float*>(job.data) + job.position.address +
             images.sources[static_cast<std::size_t>(image)];
    }
    auto* const to =
        reinterpret_cast<float*>(workspace.columns.reserve((images.size() + kernels_.lanes) * element_size()));
    return images.write_copy(plan_.column_side, job.position, image, first.address, last.address + last.count - 1,
                             job.data, kernels_.copy, to);
  }

  void compute_segment(const Job& job, std::int64_t image, std::int64_t vector, std::int64_t most) const {
    Workspace& workspace = Workspace::of_this_thread();
    LineArgs args;
    args.row_panel_stride = panel_stride(Operand::rows);
    args.rows = plan_.rows;
    args.vectors = table_.vectors.data() + vector;
    args.vector_count = std::min(most, static_cast<std::int64_t>(table_.vectors.size()) - vector);
    const LineVector& last = args.vectors[args.vector_count - 1];
    args.data = pixels(job, image, args.vectors[0], last, workspace);
    args.may_read_on = table_.images.copy.has_value();
    const std::int64_t columns = last.column + last.count - args.vectors[0].column;
    // A distance that is no multiple of 4096 bytes keeps the rows of a tile in different cache sets.
    args.results_stride = round_up(columns, kernels_.lanes) + kernels_.lanes;
    args.results =
        reinterpret_cast<float*>(workspace.results.reserve(args.rows * args.results_stride * element_size()));
    const Position position = plan_.row_side.geometry.batch_position(job.batch);
    for (std::int64_t k = 0; k < k_blocks(); ++k) {
      args.row_panels = static_cast<const float*>(
          panels(job.binding, Operand::rows, job.rows, position, job.batch, 0, args.rows, k, workspace));
      args.k_address = table_.images.k_address.data() + k * kBlock;
      args.k_count = k_count(k);
      args.first = k == 0;
      kernels_.lines(args);
    }
    const Block block{.batch = job.batch,
                      .row = 0,
                      .rows = args.rows,
                      .column = image * plan_.n + args.vectors[0].column,
                      .columns = columns};
    epilogue_.run(job.binding, block, args.results, args.results_stride, workspace);
  }

  LineTable table_;
};

}  // namespace

std::unique_ptr<Executable> make_lines_way(Task task, LineTable table) {
  return std::make_unique<LinesWay>(std::move(task), std::move(table));
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
