// The way of contractions in q8 numerics: activations are rounded once per run; blocks of rows and panels are the unit
// of work, each for all of k. A row or two meet the blocks of weights where they lie; for more rows a unit packs its
// panels out of them, which costs about as much as one row's products. Nothing is kept, so that a mapped file's pages
// are the only copy of its weights.
#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <lockstep/threads.h>

#include "backends/cpu/contraction/planner.h"
#include "backends/cpu/contraction/q8.h"
#include "backends/cpu/contraction/tiling.h"
#include "backends/cpu/contraction/way.h"
#include "backends/cpu/threads.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// Columns and rows of a unit of work: panels stay in the second cache. Without panels a unit costs what its epilogue
// needs to begin.
constexpr std::int64_t kMostColumns = 64;
constexpr std::int64_t kMostColumnsInPlace = 256;
constexpr std::int64_t kMostRows = 128;
// Rows that pay no packing of weights.
constexpr std::int64_t kRowsInPlace = 2;
// A unit of few rows reads at least so many bytes of weights.
constexpr std::int64_t kLeastWeights = 16 << 10;
// And in place at most so many: the thread that is ready first waits for as long as a unit takes.
constexpr std::int64_t kMostWeights = 320 << 10;
// Products of one left operand that run together.
constexpr std::size_t kMostTogether = 8;

class Q8Way final : public Way {
 public:
  explicit Q8Way(Task task)
      : Way(std::move(task)),
        loops_(q8_loops(plan_.column_side.encoding, isa_)),
        f32_(kernel_set(ComputeType::f32, isa_)),
        blocks_(plan_.k / order::kQ8Block),
        row_stride_(blocks_ | 1),
        panels_(divide_up(plan_.columns, loops_.lanes)),
        panel_bytes_(loops_.panel_bytes(blocks_)) {
    LOCKSTEP_ASSERT(!plan_.swapped && plan_.k % order::kQ8Block == 0);
  }

  /// Products of one left operand. `chained`: a unit of work is the same part of the columns of each, one after the
  /// other, so that what one reads of another's results is there.
  static void run_together(const std::vector<std::unique_ptr<Q8Way>>& ways, bool chained, const Binding& binding) {
    const Q8Way& first = *ways.front();
    double work = 0;
    std::int64_t bytes = 0;
    for (const auto& way : ways) {
      work += way->work();
      bytes += way->panels_ * way->panel_bytes_;
    }
    const bool serial = work < kSerialWork || num_threads() == 1;
    Job job{.binding = binding};
    job.activations = first.quantize(binding, serial, job.careful);
    job.unit_rows = first.plan_.rows;
    std::int64_t unit_bytes = kMostWeights;
    if (!serial) unit_bytes = std::clamp(bytes / (8 * num_threads()), kLeastWeights, kMostWeights);
    if (chained) unit_bytes /= static_cast<std::int64_t>(ways.size());
    std::int64_t ends[kMostTogether], units = 0;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::int64_t own = ways[i]->parts_of(unit_bytes);
      ends[i] = units = chained ? std::max(units, own) : units + own;
    }
    parallel_for(units, serial ? units : 1, [&](std::int64_t begin, std::int64_t end) {
      std::size_t i = 0;
      for (std::int64_t unit = begin; unit < end; ++unit) {
        while (!chained && unit >= ends[i]) ++i;
        const std::int64_t start = chained || i == 0 ? 0 : ends[i - 1];
        const std::int64_t parts = chained ? units : ends[i] - start;
        const std::size_t last = chained ? ways.size() - 1 : i;
        for (std::size_t w = i; w <= last; ++w) {
          const Q8Way& next = *ways[w == last ? i : w + 1];
          const std::int64_t after = unit - start + (w == last ? 1 : 0);
          ways[w]->compute_part(job, unit - start, parts, {&next, next.panels_ * after / parts});
        }
      }
    });
  }

 private:
  struct Job {
    const Binding& binding;
    const Q8Activations* activations = nullptr;
    bool careful = false;
    std::int64_t unit_rows = 0;
    std::int64_t unit_panels = 0;
  };
  /// Where columns begin that a thread multiplies next, of the first batch.
  struct Part {
    const Q8Way* way;
    std::int64_t panel;
  };

  void compute(const Binding& binding) const override {
    const bool serial = work() < kSerialWork || num_threads() == 1;
    Job job{.binding = binding};
    job.activations = quantize(binding, serial, job.careful);
    choose_units(job, serial);
    const std::int64_t row_units = divide_up(plan_.rows, job.unit_rows);
    const std::int64_t column_units = divide_up(panels_, job.unit_panels);
    const std::int64_t units = plan_.batches * row_units * column_units;
    parallel_for(units, serial ? units : 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t rest = unit / column_units;
        const std::int64_t panel = unit % column_units * job.unit_panels;
        const std::int64_t panels = std::min(job.unit_panels, panels_ - panel);
        compute_unit(job, rest / row_units, rest % row_units * job.unit_rows, panel, panels, {this, panel + panels});
      }
    });
  }

  double work() const {
    return static_cast<double>(plan_.batches * plan_.rows) * static_cast<double>(plan_.columns * plan_.k);
  }

  bool is_in_place(std::int64_t rows) const { return loops_.multiply_in_place != nullptr && rows <= kRowsInPlace; }

  void choose_units(Job& job, bool serial) const {
    job.unit_rows = std::min(plan_.rows, kMostRows);
    const bool in_place = is_in_place(job.unit_rows);
    job.unit_panels = std::max<std::int64_t>((in_place ? kMostColumnsInPlace : kMostColumns) / loops_.lanes, 1);
    if (in_place && kMostWeights < job.unit_panels * panel_bytes_) {
      job.unit_panels = std::max<std::int64_t>(kMostWeights / panel_bytes_, 1);
    }
    if (serial) return;
    // A few units for each thread, as long as they are worth it.
    const std::int64_t wanted = divide_up(4 * num_threads(), plan_.batches * divide_up(plan_.rows, job.unit_rows));
    const std::int64_t least = std::max<std::int64_t>(kLeastWeights / panel_bytes_, 1);
    job.unit_panels = std::clamp(divide_up(panels_, wanted), std::min(least, job.unit_panels), job.unit_panels);
  }

  // All rows of all batches, one after the other.
  const Q8Activations* quantize(const Binding& binding, bool serial, bool& careful) const {
    const std::int64_t count = plan_.batches * plan_.rows;
    const std::int64_t bytes =
        (count + kQ8RowsTogether - 1) * row_stride_ * static_cast<std::int64_t>(sizeof(Q8Activations));
    auto* const to = reinterpret_cast<Q8Activations*>(SharedPanels::of_this_thread().rows.reserve(bytes));
    const std::int64_t group = f32_.tile_rows;
    const std::int64_t groups = divide_up(plan_.rows, group);
    std::atomic<bool> any = false;
    parallel_for(plan_.batches * groups, serial ? plan_.batches * groups : 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   bool found = false;
                   for (std::int64_t task = begin; task < end; ++task) {
                     const std::int64_t batch = task / groups;
                     const std::int64_t row = task % groups * group;
                     Q8Activations* const rows = to + (batch * plan_.rows + row) * row_stride_;
                     found |= quantize_rows(binding, batch, row, std::min(group, plan_.rows - row), rows);
                   }
                   if (found) any = true;
                 });
    careful = any;
    return to;
  }

  bool quantize_rows(const Binding& binding, std::int64_t batch, std::int64_t row, std::int64_t count,
                     Q8Activations* to) const {
    const Side& side = plan_.row_side;
    const Geometry& geometry = side.geometry;
    const Position position = geometry.batch_position(batch);
    bool careful = false;
    if (side.is_plain_f32() && geometry.limits.empty() && geometry.k.sizes.rank() <= 1 &&
        geometry.k.inner_stride() == 1) {
      const auto* const from = reinterpret_cast<const float*>(data(binding, Operand::rows)) + position.address;
      Walk walk(geometry.outer, 0);
      for (std::int64_t r = 0; r < count; ++r) {
        walk.seek(row + r);
        careful |= loops_.quantize(from + walk.position().address, blocks_, to + r * row_stride_);
      }
      return careful;
    }
    Workspace& workspace = Workspace::of_this_thread();
    float line[kBlock];
    PackArgs args;
    args.side = &side;
    args.data = data(binding, Operand::rows);
    args.batch = position;
    args.outer_begin = row;
    args.outer_count = count;
    args.panels = workspace.pack.f32_panel;
    args.panel_stride = f32_.tile_rows * kBlock;
    args.workspace = &workspace.pack;
    for (std::int64_t k = 0; k < plan_.k; k += kBlock) {
      args.k_begin = k;
      args.k_count = std::min(kBlock, plan_.k - k);
      f32_.pack_rows(args);
      for (std::int64_t r = 0; r < count; ++r) {
        for (std::int64_t i = 0; i < args.k_count; ++i) line[i] = workspace.pack.f32_panel[i * f32_.tile_rows + r];
        careful |= loops_.quantize(line, args.k_count / order::kQ8Block, to + r * row_stride_ + k / order::kQ8Block);
      }
    }
    return careful;
  }

  // The elements of the weights that columns begin at: as many as there are lanes, `step` from one to the next.
  void find_columns(std::int64_t batch, std::int64_t column, std::int64_t step, std::int64_t* columns) const {
    const Geometry& geometry = plan_.column_side.geometry;
    const std::int64_t first = geometry.batch_address(batch);
    if (geometry.outer.sizes.rank() <= 1 && column + (loops_.lanes - 1) * step < plan_.columns) {
      // A row or two have no time to walk.
      const std::int64_t stride = geometry.outer.inner_stride();
      std::int64_t at = first + column * stride;
      for (std::int64_t lane = 0; lane < loops_.lanes; ++lane, at += step * stride) columns[lane] = at;
      return;
    }
    Walk walk(geometry.outer, 0);
    for (std::int64_t lane = 0; lane < loops_.lanes; ++lane, column += step) {
      // Lanes without a column have the last one again.
      if (column < plan_.columns) walk.seek(column);
      columns[lane] = first + walk.position().address;
    }
  }

  void pack_panel(const Binding& binding, std::int64_t batch, std::int64_t panel, std::byte* to) const {
    std::int64_t columns[kMaxWidth];
    find_columns(batch, panel * loops_.lanes, 1, columns);
    loops_.pack(data(binding, Operand::columns), columns, blocks_, to);
  }

  std::int64_t byte_of(std::int64_t element) const {
    const EncodingInfo& info = info_of(plan_.column_side.encoding);
    return element / info.elements * info.bytes;
  }

  // Bytes from where the first lane's columns of a unit end to where the next unit's begin; those of other lanes lie
  // alike where that has as many columns.
  std::int64_t gap(const Binding& binding, const Block& block, std::int64_t panels, Part next) const {
    const Geometry& own = plan_.column_side.geometry;
    const Geometry& other = next.way->plan_.column_side.geometry;
    if (own.outer.sizes.rank() > 1 || other.outer.sizes.rank() > 1) return 0;
    const std::int64_t end = own.batch_address(block.batch) + (block.column + panels) * own.outer.inner_stride();
    const std::int64_t begin =
        other.batch_address(0) + next.panel * next.way->loops_.lanes * other.outer.inner_stride();
    const auto address = [&](const Q8Way& way, std::int64_t element) {
      return reinterpret_cast<std::intptr_t>(way.data(binding, Operand::columns)) + way.byte_of(element);
    };
    return address(*next.way, begin) - address(*this, end);
  }

  void multiply_in_place(const Job& job, const Block& block, std::int64_t panels, Part next, float* results,
                         std::int64_t stride) const {
    std::int64_t columns[kMaxWidth];
    float of_panel[kMaxWidth];
    Q8InPlaceArgs args;
    args.weights = data(job.binding, Operand::columns);
    args.columns = columns;
    args.blocks = blocks_;
    args.careful = job.careful;
    args.results = of_panel;
    // Lanes are the unit's columns that are `panels` apart, each a stream of its own to the memory.
    for (std::int64_t p = 0; p < panels; ++p) {
      find_columns(block.batch, block.column + p, panels, columns);
      if (p == panels - 1) args.next = gap(job.binding, block, panels, next);
      for (std::int64_t r = 0; r < block.rows; ++r) {
        args.row = job.activations + (block.batch * plan_.rows + block.row + r) * row_stride_;
        loops_.multiply_in_place(args);
        float* const to = results + r * stride + p;
        for (std::int64_t lane = 0; lane < loops_.lanes; ++lane) to[lane * panels] = of_panel[lane];
      }
    }
  }

  void compute_unit(const Job& job, std::int64_t batch, std::int64_t row, std::int64_t panel, std::int64_t panels,
                    Part next) const {
    Workspace& workspace = Workspace::of_this_thread();
    Block block;
    block.batch = batch;
    block.row = row;
    block.rows = std::min(job.unit_rows, plan_.rows - row);
    block.column = panel * loops_.lanes;
    block.columns = std::min(panels * loops_.lanes, plan_.columns - block.column);
    Q8TileArgs args;
    args.row_stride = row_stride_;
    args.blocks = blocks_;
    args.careful = job.careful;
    args.results_stride = panels * loops_.lanes + 16;
    auto* const results = reinterpret_cast<float*>(
        workspace.results.reserve(block.rows * args.results_stride * static_cast<std::int64_t>(sizeof(float))));
    if (is_in_place(block.rows)) {
      multiply_in_place(job, block, panels, next, results, args.results_stride);
      return epilogue_.run(job.binding, block, results, args.results_stride, workspace);
    }
    // Panels that few rows meet are multiplied while they are in the first cache.
    const std::int64_t together = block.rows <= loops_.rows ? 1 : panels;
    std::byte* const weights = workspace.columns.reserve(together * panel_bytes_);
    for (std::int64_t begin = 0; begin < panels; begin += together) {
      for (std::int64_t p = 0; p < together; ++p) {
        pack_panel(job.binding, batch, panel + begin + p, weights + p * panel_bytes_);
      }
      if (loops_.multiply_unit != nullptr && block.rows > loops_.rows && !job.careful) {
        args.rows = job.activations + (batch * plan_.rows + row) * row_stride_;
        args.row_count = block.rows;
        args.panel = weights;
        args.results = results;
        loops_.multiply_unit({.form = &loops_.form, .tile = args, .panels = panels, .panel_bytes = panel_bytes_});
        continue;
      }
      for (std::int64_t r = 0; r < block.rows; r += loops_.rows) {
        args.rows = job.activations + (batch * plan_.rows + row + r) * row_stride_;
        args.row_count = std::min<std::int64_t>(loops_.rows, block.rows - r);
        for (std::int64_t p = 0; p < together; ++p) {
          args.panel = weights + p * panel_bytes_;
          args.results = results + r * args.results_stride + (begin + p) * loops_.lanes;
          loops_.multiply(args);
        }
      }
    }
    epilogue_.run(job.binding, block, results, args.results_stride, workspace);
  }

  // How many parts of at most so many bytes. Equal ones, where that is nearly as many: the next one is asked for as if
  // it were as large.
  std::int64_t parts_of(std::int64_t bytes) const {
    const std::int64_t most = std::clamp<std::int64_t>(bytes / panel_bytes_, 1, panels_);
    for (std::int64_t panels = most; 2 * panels > most; --panels) {
      if (panels_ % panels == 0) return panels_ / panels;
    }
    return divide_up(panels_, most);
  }

  void compute_part(const Job& job, std::int64_t unit, std::int64_t units, Part next) const {
    const std::int64_t begin = panels_ * unit / units;
    const std::int64_t end = panels_ * (unit + 1) / units;
    for (std::int64_t batch = 0; batch < plan_.batches && begin < end; ++batch) {
      compute_unit(job, batch, 0, begin, end - begin, next);
    }
  }

  const Q8Loops& loops_;
  const KernelSet& f32_;
  const std::int64_t blocks_;  ///< of 32 k
  /// Blocks from one row of activations to the next: odd, so that rows do not fall on the same lines of the cache.
  const std::int64_t row_stride_;
  const std::int64_t panels_;  ///< of a batch
  const std::int64_t panel_bytes_;
};

class Q8Siblings final : public Executable {
 public:
  Q8Siblings(std::vector<std::unique_ptr<Q8Way>> ways, bool chained) : ways_(std::move(ways)), chained_(chained) {}
  void run(const Binding& binding) const override { Q8Way::run_together(ways_, chained_, binding); }

 private:
  std::vector<std::unique_ptr<Q8Way>> ways_;
  bool chained_;
};

/// What it reads of the other's results: for each result of its own the one in the same place, or more.
enum class Reads : std::uint8_t { nothing, own_place, more };
Reads reads_of(const ContractionKernel& kernel, const ContractionKernel& other) {
  const Program& own = kernel.epilogue;
  const bool same_space = kernel.b.numel() == 1 && own.rows == other.epilogue.rows && own.inner == other.epilogue.inner;
  Reads reads = Reads::nothing;
  for (const Output& output : other.epilogue.outputs) {
    if (kernel.b_operand.slot == output.slot) return Reads::more;
    for (const Input& input : own.inputs) {
      if (input.slot != output.slot) continue;
      const bool same = same_space && input.view.bounds.empty() && input.view.offset == output.offset &&
                        input.view.strides == output.strides;
      if (!same) return Reads::more;
      reads = Reads::own_place;
    }
  }
  return reads;
}

}  // namespace

std::unique_ptr<Executable> make_q8_way(Task task) {
  return std::make_unique<Q8Way>(std::move(task));
}

std::unique_ptr<Executable> make_q8_siblings(const KernelList& products, Isa isa) {
  std::vector<std::unique_ptr<Q8Way>> ways;
  bool chained = false;
  for (const Kernel* const product : products) {
    const auto& kernel = std::get<ContractionKernel>(*product);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      chained |= reads_of(kernel, std::get<ContractionKernel>(*products[i])) != Reads::nothing;
    }
    const KernelSet& kernels = kernel_set(kernel.type, isa);
    ways.push_back(std::make_unique<Q8Way>(Task{.kernels = kernels,
                                                .plan = make_plan(kernel, kernels),
                                                .epilogue = kernel.epilogue,
                                                .isa = isa,
                                                .kept = nullptr}));
  }
  return std::make_unique<Q8Siblings>(std::move(ways), chained);
}

bool q8_runs_together(const KernelList& products, Isa isa) {
  if (products.size() > kMostTogether) return false;
  const Q8Loops* first = nullptr;
  for (std::size_t i = 0; i < products.size(); ++i) {
    if (!std::holds_alternative<ContractionKernel>(*products[i])) return false;
    const auto& kernel = std::get<ContractionKernel>(*products[i]);
    if (kernel.a.slot != std::get<ContractionKernel>(*products[0]).a.slot) return false;
    const std::int64_t rows = kernel.b.numel() * kernel.m.numel();
    const bool is_empty = rows == 0 || kernel.n.numel() == 0 || kernel.k.numel() == 0;
    if (kernel.numerics != Numerics::q8 || is_empty || rows > kRowsInPlace) return false;
    const Q8Loops& loops = q8_loops(kernel.b_operand.encoding, isa);
    if (first == nullptr) first = &loops;
    // Rows are rounded to what an encoding's products take; parts of as many columns have as many panels.
    const bool alike = loops.quantize == first->quantize && loops.lanes == first->lanes;
    if (loops.multiply_in_place == nullptr || !alike) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (reads_of(kernel, std::get<ContractionKernel>(*products[j])) == Reads::more) return false;
    }
  }
  return true;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
