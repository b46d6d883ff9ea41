// Scans of rows that are next to each other in memory: vectors across the rows.
#include <algorithm>
#include <vector>

#include "backends/cpu/irregular/scan.h"
#include "backends/cpu/irregular/scan_prefix.h"
#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

constexpr std::int64_t kNarrow = 64;  // a block of columns; narrower ones waste vectors and cache lines
constexpr std::int64_t kWide = 1024;
constexpr std::int64_t kTaskElements = 1 << 14;

struct Columns {
  std::int64_t before, begin, width;
};

class ColumnScan {
 public:
  ColumnScan(const ScanPlan& plan, const Binding& binding, std::int64_t width)
      : plan_(plan), binding_(binding), out_(slot_of(binding, plan.kernel.out)), width_(width) {}

  template <typename T> void values(const Columns& columns) const {
    const auto width = static_cast<std::size_t>(columns.width);
    const auto step = plan_.table->step[plan_.op][index_of(plan_.type)];
    const auto combine = plan_.table->combine[plan_.op][index_of(plan_.type)];
    std::vector<T> memory(5 * static_cast<std::size_t>(width_));
    T* local = memory.data();
    T* lanes = local + width_;
    T* prefix = lanes + width_;
    T* x_buffer = prefix + width_;
    T* out_buffer = x_buffer + width_;
    PrefixScan<T> chunks(combine, columns.width);
    const T* before = nullptr;
    for (std::int64_t i = 0; i < plan_.kernel.n; ++i) {
      const std::int64_t outer = columns.before * plan_.kernel.n + i;
      const void* x = plan_.column_reader.read(binding_, outer, columns.begin, columns.width, x_buffer);
      void* place = plan_.column_writer.place(out_, outer, columns.begin, columns.width);
      step(place != nullptr ? place : out_buffer, local, x, before, i % kScanLane == 0, width);
      if (place == nullptr) plan_.column_writer.write(out_, outer, columns.begin, columns.width, out_buffer);
      if ((i + 1) % kScanLane != 0) continue;
      if ((i + 1) % kScanChunk == kScanLane) {
        std::copy_n(local, width, lanes);
      } else {
        combine(lanes, lanes, local, width);
      }
      if ((i + 1) % kScanChunk == 0) {
        chunks.push(lanes);
        before = chunks.prefix();
      } else if (chunks.prefix() != nullptr) {
        combine(prefix, chunks.prefix(), lanes, width);
        before = prefix;
      } else {
        before = lanes;
      }
    }
  }

  template <typename T> void positions(const Columns& columns) const {
    const auto width = static_cast<std::size_t>(columns.width);
    const auto order = plan_.op == ScanTable::max ? ReduceTable::max : ReduceTable::min;
    const auto better = plan_.reduce->best_columns[order][index_of(plan_.type)];
    std::vector<T> best(width), buffer(width);
    std::vector<std::int64_t> at(width, 0);
    for (std::int64_t i = 0; i < plan_.kernel.n; ++i) {
      const std::int64_t outer = columns.before * plan_.kernel.n + i;
      const void* x = plan_.column_reader.read(binding_, outer, columns.begin, columns.width, buffer.data());
      if (i == 0) {
        std::copy_n(static_cast<const T*>(x), width, best.data());
      } else {
        better(best.data(), at.data(), x, i, width);
      }
      plan_.column_writer.write(out_, outer, columns.begin, columns.width, at.data());
    }
  }

 private:
  const ScanPlan& plan_;
  const Binding& binding_;
  std::byte* out_;
  std::int64_t width_;
};

}  // namespace

bool suits_columns(const ScanPlan& plan) {
  if (plan.kernel.n == 1 || plan.order.inner < kNarrow / 2) return false;
  return plan.kernel.n < 4 * kScanChunk || plan.order.before * (plan.order.inner / kNarrow) >= num_threads();
}

void scan_columns(const ScanPlan& plan, const Binding& binding) {
  const std::int64_t inner = plan.order.inner;
  const std::int64_t share = plan.rows() / (4 * num_threads());
  const std::int64_t width = std::min(inner, std::clamp(share / kNarrow * kNarrow, kNarrow, kWide));
  const std::int64_t blocks = (inner + width - 1) / width;
  const ColumnScan scan(plan, binding, width);
  parallel_for(plan.order.before * blocks, std::max<std::int64_t>(1, kTaskElements / (width * plan.kernel.n)),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t task = first; task < last; ++task) {
                   const std::int64_t begin = task % blocks * width;
                   const Columns columns{task / blocks, begin, std::min(width, inner - begin)};
                   with_type(plan.type, [&]<typename T>(T) {
                     plan.positions ? scan.positions<T>(columns) : scan.values<T>(columns);
                   });
                 }
               });
}

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
