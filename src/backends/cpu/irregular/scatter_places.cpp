// Scatters place by place. Where the leading dims of the space are not the axis, they cut the result into blocks that
// share no place. Elsewhere contributions are distributed to buckets, ranges of places of equal size: each thread
// counts and moves a part of them, so that a bucket holds its contributions in order.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "backends/cpu/irregular/scatter.h"
#include "backends/cpu/irregular/scratch.h"
#include "backends/cpu/irregular/settle.h"
#include "backends/cpu/row/space.h"
#include "backends/cpu/threads.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

constexpr std::int64_t kTile = 512;
constexpr std::int64_t kBlock = 1 << 13;  // contributions of a block or a bucket, about
constexpr std::int64_t kMostBuckets = 2048;
constexpr std::int64_t kMostPlaces = std::int64_t{1} << 32;  // of a block or a bucket: they are counted in 32 bits

/// Where contributions go.
class Places {
 public:
  explicit Places(const ScatterPlan& plan)
      : kernel_(plan.kernel), index_(plan.kernel.index, 0, Form::value, plan.isa), convert_(*plan.convert) {
    Program program;
    program.inner = kernel_.space;
    program.positions.push_back({0, kernel_.strides});
    Mapping mapping = map_space(program, Layout::rows, false);
    position_ = std::move(mapping.positions[0]);
  }

  /// places[i] of contribution begin + i, -1 where the index is bad (and a fault reported). count <= kTile.
  void find(const Binding& binding, std::int64_t begin, std::int64_t count, std::int64_t* places) const {
    count_along(position_, convert_, 0, begin, count, places);
    std::array<std::int64_t, kTile> buffer;
    const void* index = index_.read(binding, 0, begin, count, buffer.data());
    const bool good = kernel_.index.dtype == DType::i64
                          ? add_index(static_cast<const std::int64_t*>(index), count, places)
                          : add_index(static_cast<const std::int32_t*>(index), count, places);
    if (!good) report_fault(binding, 0);
  }

 private:
  template <typename I> bool add_index(const I* index, std::int64_t count, std::int64_t* places) const {
    bool good = true;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = index[i];
      const bool inside = at >= 0 && at < kernel_.size;
      places[i] = inside ? places[i] + kernel_.stride * at : -1;
      good = good && inside;
    }
    return good;
  }

  const ScatterKernel& kernel_;
  Reader index_;
  const ConvertTable& convert_;
  Access position_;
};

/// fn(tile's begin, its count) for the tiles of [begin, end).
template <typename Fn> void for_each_tile(std::int64_t begin, std::int64_t end, Fn fn) {
  for (std::int64_t i = begin; i < end; i += kTile) fn(i, std::min(kTile, end - i));
}

class PlaceScatter final : public Scatter {
 public:
  PlaceScatter(const ScatterPlan& plan, MemoryPool& memory)
      : plan_(plan), memory_(memory), places_(plan), values_(plan.kernel.values, 0, plan.form, plan.isa) {
    find_blocks();
  }

  void run(const Binding& binding) const override {
    with_type(plan_.type, [&]<typename T>(T) { block_ != 0 ? run_blocks<T>(binding) : run_buckets<T>(binding); });
  }

 private:
  std::byte* out_at(const Binding& binding, std::int64_t place) const {
    return slot_of(binding, plan_.kernel.out) + place * static_cast<std::int64_t>(size_of(plan_.kernel.dtype));
  }

  void find_blocks() {
    const ScatterKernel& kernel = plan_.kernel;
    const std::int64_t all = kernel.space.numel();
    std::int64_t blocks = 1;  // of the leading dims so far
    int dims = 0;
    while (dims < kernel.space.rank() && (kernel.strides[dims] != 0 || kernel.space[dims] == 1) &&
           all / blocks > kBlock) {
      blocks *= kernel.space[dims++];
    }
    if (all <= kBlock) {
      block_ = all;  // a single one
    } else if (blocks >= 16) {
      block_ = all / blocks * std::max<std::int64_t>(1, kBlock / (all / blocks));
    }
    if (block_ == 0) return;
    // A block's places lie between those of its first and its last leading index; it may be anything without leading
    // dims.
    for (int d = dims; d < kernel.space.rank(); ++d) inner_reach_ += kernel.strides[d] * (kernel.space[d] - 1);
    inner_reach_ += kernel.stride * (kernel.size - 1);
    leading_dims_ = dims;
    inner_ = all / blocks;
    const auto [low, high] = reach_of(0, std::min(block_, all));
    if (high - low >= kMostPlaces) block_ = 0;
  }

  /// The places that contributions [begin, end) of whole leading indices may go to: first and last.
  std::pair<std::int64_t, std::int64_t> reach_of(std::int64_t begin, std::int64_t end) const {
    std::int64_t low = 0, high = inner_reach_;
    if (leading_dims_ > 0) {
      low = std::numeric_limits<std::int64_t>::max();
      high = 0;
      for (std::int64_t leading = begin / inner_; leading <= (end - 1) / inner_; ++leading) {
        std::int64_t rest = leading;
        std::int64_t place = 0;
        for (int d = leading_dims_ - 1; d >= 0; --d) {
          place += plan_.kernel.strides[d] * (rest % plan_.kernel.space[d]);
          rest /= plan_.kernel.space[d];
        }
        low = std::min(low, place);
        high = std::max(high, place + inner_reach_);
      }
    }
    return {low, high};
  }

  template <typename T> void run_blocks(const Binding& binding) const {
    const std::int64_t all = plan_.kernel.space.numel();
    const std::int64_t blocks = (all + block_ - 1) / block_;
    parallel_for(blocks, 1, [&](std::int64_t first, std::int64_t last) {
      Settler<T> settler(plan_);
      std::vector<std::uint32_t> places(static_cast<std::size_t>(block_));
      std::vector<T> values(static_cast<std::size_t>(block_));
      for (std::int64_t block = first; block < last; ++block) {
        const std::int64_t begin = block * block_;
        const std::int64_t end = std::min(all, begin + block_);
        const auto [low, high] = reach_of(begin, end);
        const std::int64_t count = collect(binding, begin, end, low, places.data(), values.data());
        settler.settle(out_at(binding, low), high - low + 1, {places.data(), values.data(), count});
      }
    });
  }

  /// The contributions [begin, end) without the bad ones.
  template <typename T>
  std::int64_t collect(const Binding& binding, std::int64_t begin, std::int64_t end, std::int64_t low,
                       std::uint32_t* places, T* values) const {
    std::int64_t good = 0;
    std::array<std::int64_t, kTile> at;
    std::array<T, kTile> buffer;
    for_each_tile(begin, end, [&](std::int64_t first, std::int64_t count) {
      places_.find(binding, first, count, at.data());
      const auto* x = static_cast<const T*>(values_.read(binding, 0, first, count, buffer.data()));
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t place = at[static_cast<std::size_t>(i)];
        places[good] = static_cast<std::uint32_t>(place - low);
        values[good] = x[i];
        good += place >= 0;
      }
    });
    return good;
  }

  template <typename T> void run_buckets(const Binding& binding) const {
    const std::int64_t all = plan_.kernel.space.numel();
    const std::int64_t wanted = std::clamp<std::int64_t>(all / kBlock, 1, kMostBuckets);
    const int shift = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(plan_.places - 1))) -
                                      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(wanted)) - 1));
    LOCKSTEP_ASSERT(shift <= 32);
    const std::int64_t buckets = ((plan_.places - 1) >> shift) + 1;
    const std::int64_t parts = in_parallel_region() ? 1 : num_threads();
    const auto part_begin = [&](std::int64_t part) { return all / parts * part + std::min(part, all % parts); };

    const Scratch<std::int64_t> at(memory_, all);
    std::vector<std::int64_t> next(static_cast<std::size_t>(parts * buckets), 0);
    parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        std::int64_t* count = next.data() + part * buckets;
        for_each_tile(part_begin(part), part_begin(part + 1), [&](std::int64_t begin, std::int64_t n) {
          places_.find(binding, begin, n, at.get() + begin);
          for (std::int64_t i = begin; i < begin + n; ++i) {
            if (at[i] >= 0) ++count[at[i] >> shift];
          }
        });
      }
    });
    std::vector<std::int64_t> begins;
    std::int64_t begin = 0;
    for (std::int64_t bucket = 0; bucket < buckets; ++bucket) {
      begins.push_back(begin);
      for (std::int64_t part = 0; part < parts; ++part) {
        begin += std::exchange(next[static_cast<std::size_t>(part * buckets + bucket)], begin);
      }
    }
    begins.push_back(begin);

    const Scratch<std::uint32_t> places(memory_, begin);
    const Scratch<T> values(memory_, begin);
    parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
      std::array<T, kTile> buffer;
      for (std::int64_t part = first; part < last; ++part) {
        std::int64_t* to = next.data() + part * buckets;
        for_each_tile(part_begin(part), part_begin(part + 1), [&](std::int64_t tile, std::int64_t n) {
          const auto* x = static_cast<const T*>(values_.read(binding, 0, tile, n, buffer.data()));
          for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t place = at[tile + i];
            if (place < 0) continue;
            const std::int64_t p = to[place >> shift]++;
            places[p] = static_cast<std::uint32_t>(place & ((std::int64_t{1} << shift) - 1));
            values[p] = x[i];
          }
        });
      }
    });
    parallel_for(buckets, 1, [&](std::int64_t first, std::int64_t last) {
      Settler<T> settler(plan_);
      for (std::int64_t bucket = first; bucket < last; ++bucket) {
        const std::int64_t from = begins[static_cast<std::size_t>(bucket)];
        const std::int64_t low = bucket << shift;
        settler.settle(out_at(binding, low), std::min(std::int64_t{1} << shift, plan_.places - low),
                       {places.get() + from, values.get() + from, begins[static_cast<std::size_t>(bucket) + 1] - from});
      }
    });
  }

  const ScatterPlan& plan_;
  MemoryPool& memory_;
  Places places_;
  Reader values_;
  std::int64_t block_ = 0;  ///< contributions of one block, whole leading indices; 0: buckets
  int leading_dims_ = 0;
  std::int64_t inner_ = 1;  ///< contributions of one leading index
  std::int64_t inner_reach_ = 0;
};

}  // namespace

std::unique_ptr<Scatter> scatter_of_places(const ScatterPlan& plan, MemoryPool& memory) {
  return std::make_unique<PlaceScatter>(plan, memory);
}

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
