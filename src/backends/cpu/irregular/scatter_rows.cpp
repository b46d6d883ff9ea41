// Scatters whose index is the same along runs of places. The dims of the space are either keys, along which the index
// varies and places do not (but for the axis), or columns, the other way round. The keys are grouped by their index;
// each group is one row of the result.
#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/irregular/scatter.h"
#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

constexpr std::int64_t kTile = 256;    // columns
constexpr std::int64_t kShortRun = 8;  // of columns, in elements
constexpr std::int64_t kTaskElements = 1 << 13;
constexpr std::int64_t kLaneCount = static_cast<std::int64_t>(kLanes);

struct Dims {
  Shape keys, columns;
};

/// The dims of size > 1, if all of them are keys or columns.
bool split_dims(const ScatterKernel& kernel, Dims& dims) {
  const View& index = kernel.index.view;
  for (int d = 0; d < kernel.space.rank(); ++d) {
    if (kernel.space[d] == 1) continue;
    const bool varies = index.strides[d] != 0 || std::any_of(index.bounds.begin(), index.bounds.end(),
                                                             [&](const Bound& bound) { return bound.m[d] != 0; });
    if (!varies && kernel.strides[d] != 0) {
      dims.columns.push_back(d);
    } else if (kernel.strides[d] == 0) {
      dims.keys.push_back(d);
    } else {
      return false;
    }
  }
  return true;
}

Shape pick(const Shape& dims, const Shape& form) {
  Shape picked;
  for (const std::int64_t d : dims) picked.push_back(form[static_cast<int>(d)]);
  return picked;
}

Input over(const Input& input, const Shape& dims) {
  Input result = input;
  result.view = with_dims(input.view, dims);
  return result;
}

Shape concatenated(Shape a, const Shape& b) {
  for (const std::int64_t x : b) a.push_back(x);
  return a;
}

/// The row that a group becomes, as something to read.
Input row_of_result(const ScatterKernel& kernel, const Dims& dims) {
  View view;
  view.shape = pick(dims.columns, kernel.space);
  view.strides = pick(dims.columns, kernel.strides);
  return {.slot = kernel.out, .dtype = kernel.dtype, .view = view, .canonical = false};
}

class RowScatter final : public Scatter {
 public:
  RowScatter(const ScatterPlan& plan, const Dims& dims)
      : plan_(plan),
        keys_(pick(dims.keys, plan.kernel.space).numel()),
        columns_(pick(dims.columns, plan.kernel.space).numel()),
        index_(over(plan.kernel.index, dims.keys), 0, Form::value, plan.isa),
        values_(over(plan.kernel.values, concatenated(dims.keys, dims.columns)), dims.keys.rank(), plan.form, plan.isa),
        self_(row_of_result(plan.kernel, dims), 0, plan.form, plan.isa),
        out_(plan.kernel.dtype, pick(dims.columns, plan.kernel.space), pick(dims.columns, plan.kernel.strides), 0, 0,
             plan.form, plan.isa) {}

  /// Whether places come in runs that are worth vectors.
  bool is_worth_it() const {
    return out_.access().along.back() == 1 && out_.access().along_dims.back() >= kShortRun;
  }

  void run(const Binding& binding) const override {
    const Groups groups = group(binding);
    const auto count = static_cast<std::int64_t>(groups.rows.size());
    const std::int64_t tiles = (columns_ + kTile - 1) / kTile;
    const std::int64_t cost =
        std::max<std::int64_t>(1, keys_ / std::max<std::int64_t>(1, count)) * std::min(kTile, columns_);
    // Tiles of one group are far apart, so that threads share a group that is much larger than the others.
    parallel_for(tiles * count, std::max<std::int64_t>(1, kTaskElements / cost),
                 [&](std::int64_t first, std::int64_t last) {
                   with_type(plan_.type, [&]<typename T>(T) {
                     Room<T> room;
                     for (std::int64_t task = first; task < last; ++task) {
                       const std::int64_t begin = task / count * kTile;
                       const Tile tile{begin, std::min(kTile, columns_ - begin)};
                       combine(binding, groups, groups.rows[static_cast<std::size_t>(task % count)], tile, room);
                     }
                   });
                 });
  }

 private:
  struct Row {
    std::int64_t at;          ///< on the axis
    std::int64_t begin, end;  ///< of the group's keys
  };
  struct Groups {
    std::vector<std::int64_t> keys;  ///< by index, then ascending
    std::vector<Row> rows;
  };
  struct Tile {
    std::int64_t begin, count;
  };
  template <typename T> struct Room {
    std::vector<T> lanes, chunks, self = std::vector<T>(static_cast<std::size_t>(kTile));
  };

  Groups group(const Binding& binding) const {
    const std::vector<std::int64_t> index = read_index(binding);
    const std::int64_t size = plan_.kernel.size;
    Groups groups;
    groups.keys.resize(index.size());
    if (size > 16 * keys_ + 1024) {
      std::vector<std::int64_t>& keys = groups.keys;
      keys.clear();
      for (std::int64_t k = 0; k < keys_; ++k) {
        if (index[static_cast<std::size_t>(k)] >= 0) keys.push_back(k);
      }
      const auto at = [&](std::int64_t k) { return index[static_cast<std::size_t>(k)]; };
      std::stable_sort(keys.begin(), keys.end(), [&](std::int64_t a, std::int64_t b) { return at(a) < at(b); });
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto position = static_cast<std::int64_t>(i);
        if (i == 0 || at(keys[i]) != groups.rows.back().at) groups.rows.push_back({at(keys[i]), position, position});
        groups.rows.back().end = position + 1;
      }
      return groups;
    }
    std::vector<std::int64_t> next(static_cast<std::size_t>(size), 0);
    for (const std::int64_t at : index) {
      if (at >= 0) ++next[static_cast<std::size_t>(at)];
    }
    std::int64_t begin = 0;
    for (std::int64_t at = 0; at < size; ++at) {
      std::int64_t& count = next[static_cast<std::size_t>(at)];
      if (count > 0) groups.rows.push_back({at, begin, begin + count});
      begin += std::exchange(count, begin);
    }
    for (std::int64_t k = 0; k < keys_; ++k) {
      const std::int64_t at = index[static_cast<std::size_t>(k)];
      if (at >= 0) groups.keys[static_cast<std::size_t>(next[static_cast<std::size_t>(at)]++)] = k;
    }
    return groups;
  }

  /// -1 where it is bad, and a fault reported.
  std::vector<std::int64_t> read_index(const Binding& binding) const {
    std::vector<std::int64_t> index(static_cast<std::size_t>(keys_));
    if (plan_.kernel.index.dtype == DType::i64) {
      index_.fetch(binding, 0, 0, keys_, index.data());
    } else {
      std::vector<std::int32_t> narrow(index.size());
      index_.fetch(binding, 0, 0, keys_, narrow.data());
      std::copy(narrow.begin(), narrow.end(), index.begin());
    }
    bool bad = false;
    for (std::int64_t& at : index) {
      if (at >= 0 && at < plan_.kernel.size) continue;
      at = -1;
      bad = true;
    }
    if (bad) report_fault(binding, 0);
    return index;
  }

  template <typename T>
  void combine(const Binding& binding, const Groups& groups, const Row& row, const Tile& tile, Room<T>& room) const {
    std::byte* out = slot_of(binding, plan_.kernel.out) +
                     row.at * plan_.kernel.stride * static_cast<std::int64_t>(size_of(plan_.kernel.dtype));
    const auto n = static_cast<std::size_t>(tile.count);
    const auto key = [&](std::int64_t i) { return groups.keys[static_cast<std::size_t>(row.begin + i)]; };
    const std::int64_t count = row.end - row.begin;
    room.lanes.resize(static_cast<std::size_t>(std::min(count, kLaneCount) * tile.count));
    if (plan_.kernel.op == ScatterOp::set) {
      const void* last = values_.read(binding, key(count - 1), tile.begin, tile.count, room.lanes.data());
      return out_.write(out, 0, tile.begin, tile.count, last);
    }
    T* result = room.lanes.data();
    if (plan_.is_extremum()) {
      const auto better = plan_.reduce->best_values[plan_.order()][index_of(plan_.type)];
      values_.fetch(binding, key(0), tile.begin, tile.count, result);
      for (std::int64_t i = 1; i < count; ++i) {
        better(result, values_.read(binding, key(i), tile.begin, tile.count, room.self.data()), n);
      }
    } else {
      result = combine_in_order(binding, key, count, tile, room);
    }
    if (plan_.kernel.include_self) {
      self_.fetch(out, 0, tile.begin, tile.count, room.self.data());
      if (plan_.is_extremum()) {
        plan_.reduce->best_values[plan_.order()][index_of(plan_.type)](room.self.data(), result, n);
      } else {
        plan_.reduce->columns[plan_.kind()][index_of(plan_.type)](room.self.data(), result, nullptr, n);
      }
      result = room.self.data();
    }
    plan_.convert->canonical[index_of(plan_.type)](result, result, nullptr, nullptr, n);
    out_.write(out, 0, tile.begin, tile.count, result);
  }

  /// R (docs/numerics.md section 4) of the group's rows.
  template <typename T, typename Key>
  T* combine_in_order(const Binding& binding, Key key, std::int64_t count, const Tile& tile, Room<T>& room) const {
    const auto n = static_cast<std::size_t>(tile.count);
    const auto add = plan_.reduce->columns[plan_.kind()][index_of(plan_.type)];
    T* lanes = room.lanes.data();
    room.chunks.clear();
    for (std::int64_t chunk = 0; chunk < count; chunk += kChunk) {
      const std::int64_t members = std::min(kChunk, count - chunk);
      for (std::int64_t i = 0; i < members; ++i) {
        T* lane = lanes + i % kLaneCount * tile.count;
        if (i < kLaneCount) {
          values_.fetch(binding, key(chunk + i), tile.begin, tile.count, lane);
        } else {
          add(lane, values_.read(binding, key(chunk + i), tile.begin, tile.count, room.self.data()), nullptr, n);
        }
      }
      halve(lanes, std::min(members, kLaneCount), tile.count);
      if (count > kChunk) room.chunks.insert(room.chunks.end(), lanes, lanes + n);
    }
    // "Chunk results are reduced by R again."
    std::int64_t left = count > kChunk ? (count + kChunk - 1) / kChunk : 1;
    while (left > 1) {
      T* chunks = room.chunks.data();
      for (std::int64_t chunk = 0; chunk < left; chunk += kChunk) {
        T* first = chunks + chunk * tile.count;
        const std::int64_t members = std::min(kChunk, left - chunk);
        for (std::int64_t i = kLaneCount; i < members; ++i) {
          add(first + i % kLaneCount * tile.count, first + i * tile.count, nullptr, n);
        }
        halve(first, std::min(members, kLaneCount), tile.count);
        std::copy_n(first, n, chunks + chunk / kChunk * tile.count);
      }
      left = (left + kChunk - 1) / kChunk;
      lanes = chunks;
    }
    return lanes;
  }

  template <typename T> void halve(T* lanes, std::int64_t count, std::int64_t width) const {
    const auto add = plan_.reduce->columns[plan_.kind()][index_of(plan_.type)];
    for (std::int64_t half = kLaneCount / 2; half > 0; half /= 2) {
      if (half >= count) continue;
      const std::int64_t pairs = std::min(half, count - half);
      add(lanes, lanes + half * width, nullptr, static_cast<std::size_t>(pairs * width));
      count = half;
    }
  }

  const ScatterPlan& plan_;
  std::int64_t keys_, columns_;
  Reader index_, values_, self_;
  Writer out_;
};

}  // namespace

std::unique_ptr<Scatter> scatter_of_rows(const ScatterPlan& plan) {
  Dims dims;
  if (!split_dims(plan.kernel, dims) || dims.columns.empty()) return nullptr;
  auto scatter = std::make_unique<RowScatter>(plan, dims);
  return scatter->is_worth_it() ? std::move(scatter) : nullptr;
}

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
