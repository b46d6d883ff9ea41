// The reductions of a frame: docs/numerics.md section 4, for one row at a time or for many rows side by side.
#include <algorithm>
#include <cstring>

#include "backends/cpu/row/frame.h"
#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace {

/// What leaves every value as it is: -0 + x = x for every x (+0 would turn -0 into +0), and 1 * x = x.
template <typename T> void fill_neutral(std::byte* to, ReduceTable::Kind kind, std::size_t n) {
  std::fill_n(reinterpret_cast<T*>(to), n, kind == ReduceTable::prod ? T(1) : -T(0));
}

void fill_neutral(std::byte* to, ReduceTable::Kind kind, ComputeType type, std::size_t n) {
  switch (type) {
    case ComputeType::f32: return fill_neutral<float>(to, kind, n);
    case ComputeType::f64: return fill_neutral<double>(to, kind, n);
    case ComputeType::i32: return fill_neutral<std::int32_t>(to, kind, n);
    case ComputeType::i64: return fill_neutral<std::int64_t>(to, kind, n);
  }
}

/// Lanes (or partial results) of several columns side by side: combines the first `lanes` of them into the first.
void combine_columns(const ReduceTable& table, ReduceTable::Kind kind, ComputeType type, std::byte* data,
                     std::int64_t lanes, std::int64_t columns) {
  const ReduceTable::Kind by = kind == ReduceTable::prod ? ReduceTable::prod : ReduceTable::sum;
  const auto line = static_cast<std::int64_t>(size_of(type)) * columns;
  for (std::int64_t half = kLanes / 2; half >= 1; half /= 2) {
    const std::int64_t pairs = std::min(half, lanes - half);
    if (pairs > 0) table.columns[by][index_of(type)](data, data + half * line, nullptr, idx(pairs * columns));
  }
}

}  // namespace

void Frame::start_chunk(const RowReduction& reduction, std::int64_t chunk) {
  std::byte* lanes = memory_ + reduction.lanes_at;
  if (reduction.is_best()) {
    std::fill_n(reinterpret_cast<std::int64_t*>(memory_ + reduction.lane_indices_at), columns(), std::int64_t{-1});
    return;
  }
  const std::int64_t all = static_cast<std::int64_t>(kLanes);
  const std::int64_t count =
      plan_.layout == Layout::rows ? all : std::min(all, plan_.sequence - chunk * kChunk) * width_;
  fill_neutral(lanes, reduction.kind(), reduction.type, idx(count));
}

/// Blocks of whole rows: each row is one chunk.
void Frame::reduce_rows(const Step& step, const Tile& tile) {
  const RowReduction& reduction = plan_.reductions[idx(step.index)];
  const std::size_t type = index_of(reduction.type);
  const std::size_t size = size_of(reduction.type);
  const std::byte* a = values_[step.a];
  const std::byte* b = step.b < 0 ? nullptr : values_[step.b];
  const std::ptrdiff_t a_stride = strides_[step.a];
  std::byte* out = partials(reduction);
  if (reduction.is_best()) {
    std::int64_t* indices = partial_indices(reduction);
    for (std::int64_t row = 0; row < tile.depth; ++row, out += size, a += a_stride) {
      plan_.reduce->best[reduction.order()][type](out, a, idx(tile.count));
      if (!reduction.gives_index()) continue;
      indices[row] = static_cast<std::int64_t>(plan_.reduce->find[reduction.order()][type](out, a, idx(tile.count)));
    }
    return;
  }
  std::byte* lanes = memory_ + reduction.lanes_at;
  std::array<ChainLink, kMostLinks> links;
  find_links(step, links.data());
  for (std::int64_t row = 0; row < tile.depth; ++row, out += size) {
    fill_neutral(lanes, reduction.kind(), reduction.type, kLanes);
    if (step.links.empty()) {
      plan_.reduce->lanes[reduction.kind()][type](lanes, a, b, idx(tile.count));
    } else {
      (reduction.op == ReduceOp::dot ? plan_.chain->sum_of_squares : plan_.chain->sum)(
          reinterpret_cast<float*>(lanes), reinterpret_cast<const float*>(a), links.data(), step.links.size(), form(step),
          idx(tile.count));
      for (std::size_t l = 0; l < step.links.size(); ++l) links[l].operand += links[l].stride;
    }
    plan_.reduce->combine[reduction.kind()][type](lanes);
    std::memcpy(out, lanes, size);
    a += a_stride;
    if (b != nullptr) b += strides_[step.b];
  }
}

/// Of a tile of one row. Pieces are whole numbers of lanes.
void Frame::reduce_pieces(const Step& step, const Tile& tile, std::byte* lanes) {
  const RowReduction& reduction = plan_.reductions[idx(step.index)];
  const bool whole = tile.piece == 0 || reads_whole(step, tile);
  const std::int64_t runs = whole ? 1 : tile.runs();
  const std::size_t n = whole ? tile.elements() : idx(tile.piece);
  const std::byte* a = values_[step.a];
  const std::byte* b = step.b < 0 ? nullptr : values_[step.b];
  if (runs == 1 && step.links.empty()) {
    return plan_.reduce->lanes[reduction.kind()][index_of(reduction.type)](lanes, a, b, n);
  }
  std::array<ChainLink, kMostLinks> links;
  find_links(step, links.data());
  for (std::int64_t run = 0; run < runs; ++run, a += strides_[step.a]) {
    if (step.links.empty()) {
      plan_.reduce->lanes[reduction.kind()][index_of(reduction.type)](lanes, a, b, n);
    } else {
      (reduction.op == ReduceOp::dot ? plan_.chain->sum_of_squares : plan_.chain->sum)(
          reinterpret_cast<float*>(lanes), reinterpret_cast<const float*>(a), links.data(), step.links.size(),
          form(step), n);
      for (std::size_t l = 0; l < step.links.size(); ++l) links[l].operand += links[l].stride;
    }
    if (b != nullptr) b += strides_[step.b];
  }
}

void Frame::reduce(const Step& step, const Tile& tile) {
  if (plan_.has_blocks()) return reduce_rows(step, tile);
  const RowReduction& reduction = plan_.reductions[idx(step.index)];
  const std::size_t type = index_of(reduction.type);
  const std::size_t size = size_of(reduction.type);
  const std::byte* a = values_[step.a];
  std::byte* lanes = memory_ + reduction.lanes_at;
  if (!reduction.is_best()) {
    const std::byte* b = step.b < 0 ? nullptr : values_[step.b];
    if (plan_.layout == Layout::rows) return reduce_pieces(step, tile, lanes);
    // Depth is a power of two that divides 64, so the tile's elements meet neighbouring lanes.
    const std::int64_t lane = tile.outer % static_cast<std::int64_t>(kLanes);
    return plan_.reduce->columns[reduction.kind()][type](lanes + idx(lane * tile.count) * size, a, b, tile.elements());
  }
  auto* indices = reinterpret_cast<std::int64_t*>(memory_ + reduction.lane_indices_at);
  const ReduceTable::Order order = reduction.order();
  if (plan_.layout == Layout::rows) {
    alignas(8) std::byte winner[8];
    plan_.reduce->best[order][type](winner, a, idx(tile.count));
    if (*indices >= 0 && !plan_.reduce->beats[order][type](winner, lanes)) return;
    std::memcpy(lanes, winner, size);
    *indices = tile.begin;
    if (reduction.gives_index()) {
      *indices += static_cast<std::int64_t>(plan_.reduce->find[order][type](winner, a, idx(tile.count)));
    }
    return;
  }
  for (std::int64_t d = 0; d < tile.depth; ++d) {
    const std::byte* line = a + idx(d * tile.count) * size;
    if (indices[0] < 0) {
      std::memcpy(lanes, line, idx(tile.count) * size);
      std::fill_n(indices, tile.count, tile.outer + d);
    } else if (reduction.gives_index()) {
      plan_.reduce->best_columns[order][type](lanes, indices, line, tile.outer + d, idx(tile.count));
    } else {
      plan_.reduce->best_values[order][type](lanes, line, idx(tile.count));
    }
  }
}

void Frame::finish_chunk(const RowReduction& reduction, std::int64_t chunk) {
  std::byte* lanes = memory_ + reduction.lanes_at;
  const std::size_t bytes = idx(columns()) * size_of(reduction.type);
  if (reduction.is_best()) {
    std::memcpy(partial_indices(reduction) + chunk * columns(), memory_ + reduction.lane_indices_at,
                idx(columns()) * sizeof(std::int64_t));
  } else if (plan_.layout == Layout::rows) {
    plan_.reduce->combine[reduction.kind()][index_of(reduction.type)](lanes);
  } else {
    const std::int64_t count = std::min(static_cast<std::int64_t>(kLanes), plan_.sequence - chunk * kChunk);
    combine_columns(*plan_.reduce, reduction.kind(), reduction.type, lanes, count, width_);
  }
  std::memcpy(partials(reduction) + idx(chunk) * bytes, lanes, bytes);
}

void Frame::finish_reductions(std::size_t pass) {
  for (int r : plan_.passes[pass].reductions) {
    const RowReduction& reduction = plan_.reductions[idx(r)];
    if (reduction.is_best()) {
      finish_best(reduction);
    } else {
      finish_sum(reduction);
    }
  }
}

void Frame::finish_sum(const RowReduction& reduction) {
  const ReduceTable::Kind kind = reduction.kind() == ReduceTable::prod ? ReduceTable::prod : ReduceTable::sum;
  const std::size_t type = index_of(reduction.type);
  const std::size_t size = size_of(reduction.type);
  const std::size_t line = size * idx(columns());
  std::byte* out = memory_ + plan_.places[idx(reduction.value)].at;
  if (plan_.sequence == 0) {
    // Of nothing: 1 or +0, not the neutral -0.
    std::memset(out, 0, line);
    if (kind == ReduceTable::prod) fill_neutral(out, kind, reduction.type, idx(columns()));
    return;
  }
  // R again over the results of the chunks, in place: a column at a time there are at most a few thousand of them.
  std::byte* data = partials(reduction);
  for (std::int64_t count = plan_.chunks(); count > 1; count = (count + kChunk - 1) / kChunk) {
    for (std::int64_t begin = 0; begin < count; begin += kChunk) {
      const std::int64_t n = std::min(kChunk, count - begin);
      std::byte* chunk = data + idx(begin) * line;
      for (std::int64_t i = static_cast<std::int64_t>(kLanes); i < n; ++i) {
        plan_.reduce->columns[kind][type](chunk + idx(i % static_cast<std::int64_t>(kLanes)) * line,
                                          chunk + idx(i) * line, nullptr, idx(columns()));
      }
      combine_columns(*plan_.reduce, kind, reduction.type, chunk, std::min(n, static_cast<std::int64_t>(kLanes)),
                      columns());
      if (begin != 0) std::memcpy(data + idx(begin / kChunk) * line, chunk, line);
    }
  }
  plan_.convert->canonical[type](out, data, nullptr, nullptr, idx(columns()));
}

void Frame::finish_best(const RowReduction& reduction) {
  const std::size_t type = index_of(reduction.type);
  const std::size_t size = reduction.gives_index() ? sizeof(std::int64_t) : size_of(reduction.type);
  const std::size_t line = idx(columns()) * size;
  std::byte* out = memory_ + plan_.places[idx(reduction.value)].at;
  if (plan_.sequence == 0) {
    std::memset(out, 0, line);
    return;
  }
  // The winners of later chunks take the place of those of the first.
  std::byte* best = partials(reduction);
  std::int64_t* indices = partial_indices(reduction);
  for (std::int64_t chunk = 1; chunk < plan_.chunks(); ++chunk) {
    const std::size_t value = size_of(reduction.type);
    for (std::int64_t t = 0; t < columns(); ++t) {
      const std::byte* other = partials(reduction) + idx(chunk * columns() + t) * value;
      if (!plan_.reduce->beats[reduction.order()][type](other, best + idx(t) * value)) continue;
      std::memcpy(best + idx(t) * value, other, value);
      indices[t] = indices[chunk * columns() + t];
    }
  }
  if (reduction.gives_index()) {
    std::memcpy(out, indices, line);
  } else {
    plan_.convert->canonical[type](out, best, nullptr, nullptr, idx(columns()));
  }
}

}  // namespace v0
}  // namespace lockstep
