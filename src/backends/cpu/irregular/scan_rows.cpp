// Scans along rows: tiles of short ones, chunks of long ones.
#include <algorithm>
#include <vector>

#include "backends/cpu/irregular/scan.h"
#include "backends/cpu/irregular/scan_prefix.h"
#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

constexpr std::int64_t kTile = 4096;  // elements of short rows
constexpr std::int64_t kShort = 1024;
constexpr std::int64_t kTaskElements = 1 << 14;
constexpr std::int64_t kGroup = 16;              // rows next to each other that go together: a cache line
constexpr std::int64_t kSplit = 8 * kScanChunk;  // rows worth more than one thread
constexpr std::int64_t kSpanElements = 1 << 20;  // per thread: read twice, the second time from the caches

/// Running values.
template <typename T> class Values {
 public:
  using Out = T;
  using Total = T;
  explicit Values(const ScanPlan& plan)
      : chunk_(plan.table->chunk[plan.op][index_of(plan.type)]),
        chunks_(plan.table->combine[plan.op][index_of(plan.type)], 1) {}

  /// `out` may be null.
  Total scan(Out* out, const T* x, std::int64_t n, std::int64_t, const Total* prefix) const {
    Total total;
    chunk_(out, x, static_cast<std::size_t>(n), prefix, &total);
    return total;
  }
  void push(const Total& total) { chunks_.push(&total); }
  const Total* prefix() const { return chunks_.prefix(); }

 private:
  ScanTable::ChunkFn chunk_;
  PrefixScan<T> chunks_;
};

/// Positions of the winners so far.
template <typename T> class Positions {
 public:
  using Out = std::int64_t;
  struct Total {
    T best;
    std::int64_t position;
  };
  explicit Positions(const ScanPlan& plan) : scan_(plan.table->positions[plan.op][index_of(plan.type)]) {}

  Total scan(Out* out, const T* x, std::int64_t n, std::int64_t first, const Total* prefix) const {
    Total total = prefix != nullptr ? *prefix : Total{x[0], first};
    scan_(out, x, static_cast<std::size_t>(n), first, &total.best, &total.position);
    return total;
  }
  void push(const Total& total) {
    if (any_) {
      scan_(nullptr, &total.best, 1, total.position, &best_.best, &best_.position);
    } else {
      best_ = total;
    }
    any_ = true;
  }
  const Total* prefix() const { return any_ ? &best_ : nullptr; }

 private:
  ScanTable::PositionsFn scan_;
  Total best_{};
  bool any_ = false;
};

template <typename T, typename Scan> class RowScan {
 public:
  using Out = typename Scan::Out;
  using Total = typename Scan::Total;

  RowScan(const ScanPlan& plan, const Binding& binding)
      : plan_(plan), binding_(binding), out_(slot_of(binding, plan.kernel.out)), n_(plan.kernel.n) {}

  void run() const {
    const std::int64_t group = std::min(plan_.order.inner, kGroup);
    const std::int64_t per_before = (plan_.order.inner + group - 1) / group;
    const std::int64_t groups = plan_.order.before * per_before;
    const auto rows_of = [&](std::int64_t number) {
      const std::int64_t begin = number % per_before * group;
      const std::int64_t first = number / per_before * plan_.order.inner + begin;
      return Rows{first, std::min(group, plan_.order.inner - begin)};
    };
    if (n_ <= kShort && plan_.order.inner == 1) return run_tiles();
    if (n_ >= kSplit && groups < 2 * num_threads() && num_threads() > 1 && !in_parallel_region()) {
      for (std::int64_t number = 0; number < groups; ++number) run_split(rows_of(number));
      return;
    }
    parallel_for(groups, std::max<std::int64_t>(1, kTaskElements / (n_ * group)),
                 [&](std::int64_t first, std::int64_t last) {
                   Buffers buffers;
                   for (std::int64_t number = first; number < last; ++number) run_whole(rows_of(number), buffers);
                 });
  }

 private:
  struct Rows {
    std::int64_t first, count;
  };
  struct Buffers {
    std::vector<T> x = std::vector<T>(static_cast<std::size_t>(kScanChunk));
    std::vector<Out> out = std::vector<Out>(static_cast<std::size_t>(kScanChunk));
  };

  /// Several rows at once.
  void run_tiles() const {
    const std::int64_t tile = std::max<std::int64_t>(1, kTile / n_);
    const Scan scan(plan_);
    parallel_for(plan_.rows(), std::max(tile, kTaskElements / n_), [&](std::int64_t first, std::int64_t last) {
      Buffers buffers;
      for (std::int64_t row = first; row < last; row += tile) {
        const std::int64_t rows = std::min(tile, last - row);
        const auto* x =
            static_cast<const T*>(plan_.flat_reader.read(binding_, 0, row * n_, rows * n_, buffers.x.data()));
        Out* place = place_of(plan_.flat_writer, 0, row * n_, rows * n_);
        Out* out = place != nullptr ? place : buffers.out.data();
        for (std::int64_t r = 0; r < rows; ++r) scan.scan(out + r * n_, x + r * n_, n_, 0, nullptr);
        if (place == nullptr) plan_.flat_writer.write(out_, 0, row * n_, rows * n_, out);
      }
    });
  }

  Out* place_of(const Writer& writer, std::int64_t outer, std::int64_t begin, std::int64_t count) const {
    return static_cast<Out*>(writer.place(out_, outer, begin, count));
  }
  Total scan_chunk(const Scan& scan, std::int64_t row, std::int64_t begin, const Total* prefix, bool writes,
                   Buffers& buffers) const {
    const std::int64_t count = std::min(kScanChunk, n_ - begin);
    const auto* x = static_cast<const T*>(plan_.row_reader.read(binding_, row, begin, count, buffers.x.data()));
    if (!writes) return scan.scan(nullptr, x, count, begin, prefix);
    Out* place = place_of(plan_.row_writer, row, begin, count);
    const Total total = scan.scan(place != nullptr ? place : buffers.out.data(), x, count, begin, prefix);
    if (place == nullptr) plan_.row_writer.write(out_, row, begin, count, buffers.out.data());
    return total;
  }

  void run_whole(Rows rows, Buffers& buffers) const {
    std::vector<Scan> scans(static_cast<std::size_t>(rows.count), Scan(plan_));
    for (std::int64_t begin = 0; begin < n_; begin += kScanChunk) {
      for (std::int64_t r = 0; r < rows.count; ++r) {
        Scan& scan = scans[static_cast<std::size_t>(r)];
        scan.push(scan_chunk(scan, rows.first + r, begin, scan.prefix(), true, buffers));
      }
    }
  }

  /// Spans of chunks, each by all threads.
  void run_split(Rows rows) const {
    std::vector<Scan> scans(static_cast<std::size_t>(rows.count), Scan(plan_));
    const std::int64_t span = std::max<std::int64_t>(1, kSpanElements / kScanChunk / rows.count) * num_threads();
    const std::int64_t all_chunks = (n_ + kScanChunk - 1) / kScanChunk;
    std::vector<Total> totals(static_cast<std::size_t>(span * rows.count));
    std::vector<Total> prefixes(totals.size());
    const auto entry = [&](std::int64_t chunk, std::int64_t r) {
      return static_cast<std::size_t>(chunk * rows.count + r);
    };
    for (std::int64_t first = 0; first < all_chunks; first += span) {
      const std::int64_t chunks = std::min(span, all_chunks - first);
      const auto for_all_chunks = [&](auto fn) {
        parallel_for(chunks, 2, [&](std::int64_t begin, std::int64_t end) {
          Buffers buffers;
          for (std::int64_t chunk = begin; chunk < end; ++chunk) {
            for (std::int64_t r = 0; r < rows.count; ++r) fn(chunk, r, buffers);
          }
        });
      };
      for_all_chunks([&](std::int64_t chunk, std::int64_t r, Buffers& buffers) {
        totals[entry(chunk, r)] = scan_chunk(scans[static_cast<std::size_t>(r)], rows.first + r,
                                             (first + chunk) * kScanChunk, nullptr, false, buffers);
      });
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        for (std::int64_t r = 0; r < rows.count; ++r) {
          Scan& scan = scans[static_cast<std::size_t>(r)];
          if (scan.prefix() != nullptr) prefixes[entry(chunk, r)] = *scan.prefix();
          scan.push(totals[entry(chunk, r)]);
        }
      }
      for_all_chunks([&](std::int64_t chunk, std::int64_t r, Buffers& buffers) {
        const Total* prefix = first + chunk == 0 ? nullptr : &prefixes[entry(chunk, r)];
        scan_chunk(scans[static_cast<std::size_t>(r)], rows.first + r, (first + chunk) * kScanChunk, prefix, true,
                   buffers);
      });
    }
  }

  const ScanPlan& plan_;
  const Binding& binding_;
  std::byte* out_;
  std::int64_t n_;
};

}  // namespace

void scan_rows(const ScanPlan& plan, const Binding& binding) {
  with_type(plan.type, [&]<typename T>(T) {
    if (plan.positions) {
      RowScan<T, Positions<T>>(plan, binding).run();
    } else {
      RowScan<T, Values<T>>(plan, binding).run();
    }
  });
}

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
