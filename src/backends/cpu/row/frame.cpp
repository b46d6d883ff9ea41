#include "backends/cpu/row/frame.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/row/indexed.h"

namespace lockstep {
inline namespace v0 {
namespace {

// Strides are bytes and may be negative: outputs are written through reversed views, too.
constexpr std::ptrdiff_t kFloat = sizeof(float), kIndex = sizeof(std::int64_t);

/// Where the rows of a tile are, if each is contiguous; of a tile without gaps, if all of it is.
Runs runs_of(const Access& access, const Tile& tile) {
  if (tile.has_gaps) return contiguous_rows(access, tile.outer, tile.depth, tile.begin, tile.count);
  if (tile.piece != 0) return contiguous_pieces(access, tile.outer, tile.piece, tile.begin);
  return {contiguous_block(access, tile.outer, tile.depth, tile.begin, tile.count), tile.count};
}

/// Bytes from row to row of a tile whose rows follow each other.
std::ptrdiff_t dense_stride(const Tile& tile, ComputeType type) {
  return tile.run() * static_cast<std::ptrdiff_t>(size_of(type));
}

/// `size`: a power of two.
bool is_aligned(const void* data, std::size_t size) {
  return (reinterpret_cast<std::uintptr_t>(data) & (size - 1)) == 0;
}

}  // namespace

Frame::Frame(const RowPlan& plan, const Binding& binding, std::byte* memory)
    : plan_(plan),
      binding_(binding),
      memory_(memory),
      shared_(memory),
      values_(reinterpret_cast<const std::byte**>(memory + plan.pointers_at)),
      strides_(reinterpret_cast<std::ptrdiff_t*>(memory + plan.strides_at)) {
  for (std::size_t v = 0; v < plan.places.size(); ++v) {
    const Place& place = plan.places[v];
    values_[v] = nullptr;
    strides_[v] = 0;
    if (place.kind == Place::Kind::parameter) {
      values_[v] = reinterpret_cast<const std::byte*>(&binding.parameters[place.at].bits);
    } else if (place.kind == Place::Kind::fixed) {
      values_[v] = memory + place.at;
    }
  }
  const Tile once{0, 1, 0, 1};
  for (const Step& step : plan.uniform_steps) {
    execute_row_step(step, once);
    if (step.out >= 0) strides_[step.out] = 0;
  }
  for (const int v : plan.row_values) strides_[v] = static_cast<std::ptrdiff_t>(size_of(plan.types[idx(v)]));
}

void Frame::share(const Frame& other) {
  for (std::size_t v = 0; v < plan_.places.size(); ++v) {
    if (plan_.places[v].kind == Place::Kind::fixed) values_[v] = other.values_[v];
  }
  shared_ = other.shared_;
  unit_ = other.unit_;
  width_ = other.width_;
}

void Frame::run_unit(std::int64_t unit) {
  enter_unit(unit);
  for (std::size_t pass = 0; pass < plan_.passes.size(); ++pass) {
    run_row_steps(pass);
    run_range(pass, 0, plan_.sequence);
    finish_reductions(pass);
  }
  finish_unit();
}

void Frame::enter_unit(std::int64_t unit) {
  unit_ = unit;
  const std::int64_t rows = plan_.layout == Layout::columns ? plan_.space.along_count : plan_.space.outer_count;
  width_ = std::min(plan_.width, rows - unit * plan_.width);
}

/// The row values of the unit.
Tile Frame::row_tile() const {
  if (plan_.layout == Layout::rows) return {unit_ * plan_.width, width_, 0, 1};
  return {0, 1, unit_ * plan_.width, width_};
}

void Frame::run_batch(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end) {
  unit_ = row;
  width_ = rows;
  run_row_steps(0);
  const Pass& pass = plan_.passes[0];
  find_forms(pass, rows);
  const std::int64_t count = std::min(plan_.tile, end - begin);
  const std::int64_t depth = std::clamp<std::int64_t>(plan_.block / std::max<std::int64_t>(count, 1), 1, rows);
  for (std::int64_t done = 0; done < rows && !pass.steps.empty(); done += depth) {
    const std::int64_t some = std::min(depth, rows - done);
    for (std::int64_t i = begin; i < end; i += count) {
      const Tile tile{row + done, some, i, std::min(count, end - i), true};
      for (const Step& step : pass.steps) execute(step, tile);
    }
    move_row_values(some);
  }
  if (end < plan_.sequence) return;
  if (!pass.steps.empty()) move_row_values(-rows);
  finish_unit();
}

void Frame::move_row_values(std::int64_t rows) {
  for (const int v : plan_.row_values) values_[v] += rows * static_cast<std::int64_t>(size_of(plan_.types[idx(v)]));
}

void Frame::run_row_steps(std::size_t pass) {
  const Tile tile = row_tile();
  for (const Step& step : plan_.passes[pass].row_steps) {
    execute_row_step(step, tile);
    if (plan_.piece != 0 && step.out >= 0) strides_[step.out] = 0;
  }
}

void Frame::finish_unit() {
  const Tile tile = row_tile();
  for (const Step& step : plan_.last_steps) execute_row_step(step, tile);
}

void Frame::execute_row_step(const Step& step, const Tile& tile) {
  if (step.kind == Step::Kind::spread) {
    std::byte* out = memory_ + step.place.at;
    values_[step.out] = out;
    if (step.fn != nullptr) return step.fn(out, values_[step.a], nullptr, nullptr, idx(plan_.width * plan_.depth));
    const std::size_t bytes = idx(tile.count) * size_of(step.type);
    for (std::int64_t d = 0; d < plan_.depth; ++d) std::memcpy(out + idx(d) * bytes, values_[step.a], bytes);
    return;
  }
  execute(step, tile);
}

void Frame::run_range(std::size_t pass_index, std::int64_t begin, std::int64_t end) {
  const Pass& pass = plan_.passes[pass_index];
  if (pass.steps.empty()) return;
  find_forms(pass, plan_.has_blocks() ? width_ : 1);
  if (plan_.has_blocks()) {
    const Tile tile{unit_ * plan_.width, width_, 0, plan_.sequence};
    for (int v : pass.kept_inputs) {
      define(v, memory_ + plan_.places[idx(v)].at, dense_stride(tile, plan_.types[idx(v)]));
    }
    for (const Step& step : pass.steps) execute(step, tile);
    return;
  }
  const bool rows = plan_.layout == Layout::rows;
  const std::int64_t step_size = rows ? plan_.tile : plan_.depth;
  for (std::int64_t chunk_begin = begin; chunk_begin < end;) {
    const std::int64_t chunk = chunk_begin / kChunk;
    const std::int64_t chunk_end = pass.reductions.empty() ? end : std::min(end, (chunk + 1) * kChunk);
    for (int r : pass.reductions) start_chunk(plan_.reductions[idx(r)], chunk);
    for (std::int64_t i = chunk_begin; i < chunk_end; i += step_size) {
      const std::int64_t n = std::min(step_size, chunk_end - i);
      const Tile tile = rows ? Tile{.outer = unit_, .begin = i, .count = n, .piece = plan_.piece}
                             : Tile{i, n, unit_ * plan_.width, width_};
      if (pass_index + 1 == plan_.passes.size()) fetch_ahead(tile);
      for (int v : pass.kept_inputs) {
        const ComputeType type = plan_.types[idx(v)];
        define(v, at(plan_.places[idx(v)], tile, type), dense_stride(tile, type));
      }
      for (const Step& step : pass.steps) execute(step, tile);
    }
    for (int r : pass.reductions) finish_chunk(plan_.reductions[idx(r)], chunk);
    chunk_begin = chunk_end;
  }
}

/// Asks for the next row where the current one is: memory works while the later passes compute out of the caches.
void Frame::fetch_ahead(const Tile& tile) const {
  if (unit_ + 1 >= plan_.units) return;
  for (int input : plan_.fetched_ahead) {
    const Access& access = plan_.inputs[idx(input)];
    const std::int64_t element = contiguous_run(access, unit_ + 1, tile.begin, tile.count);
    if (element < 0) continue;
    const auto size = static_cast<std::int64_t>(size_of(access.dtype));
    const std::byte* memory = slot_data(access.slot) + element * size;
    for (std::int64_t byte = 0; byte < tile.count * size; byte += 64) __builtin_prefetch(memory + byte, 0, 2);
  }
}

std::byte* Frame::at(const Place& place, const Tile& tile, ComputeType type) {
  switch (place.kind) {
    case Place::Kind::slot: return memory_ + plan_.slots_at + place.at * plan_.slot_bytes;
    case Place::Kind::fixed: return memory_ + place.at;
    case Place::Kind::kept: {
      const std::int64_t element = plan_.layout == Layout::rows ? tile.begin : tile.outer * width_;
      return memory_ + place.at + idx(element) * size_of(type);
    }
    default: return nullptr;
  }
}

const std::byte* Frame::raw(const Tile& tile, ComputeType type) const {
  return accumulators_.data + (tile.outer - accumulators_.row) * accumulators_.stride +
         idx(tile.begin - accumulators_.begin) * size_of(type);
}

template <typename Fn> void Frame::execute_into(const Step& step, const Tile& tile, Fn run) {
  std::ptrdiff_t stride = dense_stride(tile, step.type);
  std::byte* out = step.direct >= 0 ? direct(step.direct, tile, stride) : nullptr;
  if (out == nullptr) out = at(step.place, tile, step.type);
  run(out, stride);
  define(step.out, out, stride);
}

void Frame::execute(const Step& step, const Tile& tile) {
  switch (step.kind) {
    case Step::Kind::compute:
    case Step::Kind::spread:
      return execute_into(step, tile, [&](std::byte* out, std::ptrdiff_t stride) { compute(step, tile, out, stride); });
    case Step::Kind::load: {
      load(step, step.one_row ? Tile{tile.outer, 1, tile.begin, tile.count} : tile);
      if (step.one_row) strides_[step.out] = 0;
      return;
    }
    case Step::Kind::gather: return gather(step, tile);
    case Step::Kind::exponentials:
      return execute_into(step, tile, [&](std::byte* out, std::ptrdiff_t) { exponentials(step, tile, out); });
    case Step::Kind::chain: return execute_chain(step, tile);
    case Step::Kind::store: return store(step, tile);
    case Step::Kind::reduce: return reduce(step, tile);
    case Step::Kind::iota: {
      std::byte* out = at(step.place, tile, step.type);
      for (std::int64_t d = 0; d < tile.depth; ++d) {
        count_along(plan_.positions[idx(step.index)], *plan_.convert, tile.outer + d, tile.begin, tile.count,
                    reinterpret_cast<std::int64_t*>(out) + d * tile.count);
      }
      return define(step.out, out, dense_stride(tile, step.type));
    }
    case Step::Kind::accumulator:
      return execute_into(step, tile, [&](std::byte* out, std::ptrdiff_t stride) {
        const std::byte* from = raw(tile, step.type);
        for (std::int64_t row = 0; row < tile.depth; ++row, out += stride, from += accumulators_.stride) {
          step.fn(out, from, nullptr, nullptr, idx(tile.count));
        }
      });
  }
}

void Frame::compute(const Step& step, const Tile& tile, std::byte* out, std::ptrdiff_t stride) const {
  const auto value = [&](int v) { return v < 0 ? nullptr : values_[v]; };
  const auto stride_of = [&](int v) { return v < 0 ? 0 : strides_[v]; };
  const std::byte *a = value(step.a), *b = value(step.b), *c = value(step.c);
  const bool whole = tile.piece != 0 && stride == dense_stride(tile, step.type) && reads_whole(step, tile);
  if (whole || !goes_by_row(step, tile)) return step.fn(out, a, b, c, tile.elements());
  for (std::int64_t row = 0; row < tile.runs(); ++row) {
    step.fn(out, a, b, c, idx(tile.run()));
    out += stride;
    a += stride_of(step.a);
    b += stride_of(step.b);
    c += stride_of(step.c);
  }
}

bool Frame::reads_whole(const Step& step, const Tile& tile) const {
  const auto is_whole = [&](int v, bool scalar) {
    return v < 0 || scalar || strides_[v] == dense_stride(tile, plan_.types[idx(v)]);
  };
  return is_whole(step.a, (step.scalars & 1) != 0) && is_whole(step.b, (step.scalars & 2) != 0) &&
         is_whole(step.c, (step.scalars & 4) != 0) &&
         std::all_of(step.links.begin(), step.links.end(),
                     [&](const Link& link) { return is_whole(link.value, link.scalar); });
}

void Frame::exponentials(const Step& step, const Tile& tile, std::byte* out) const {
  const auto floats = [](const std::byte* data) { return reinterpret_cast<const float*>(data); };
  const float* ahead = nullptr;
  if (step.ahead >= 0 && unit_ + 1 < plan_.units) {
    const Access& access = plan_.inputs[idx(step.ahead)];
    const std::int64_t element = contiguous_run(access, unit_ + 1, tile.begin, tile.count);
    if (element >= 0) ahead = floats(slot_data(access.slot)) + element;
  }
  auto* const lanes = reinterpret_cast<float*>(memory_ + plan_.reductions[idx(step.index)].lanes_at);
  const float shift = *floats(values_[step.b]);
  // A NaN is the largest element, and would not be equal to itself.
  const bool none_above = step.c >= 0 && std::isfinite(shift) && *floats(values_[step.c]) == shift;
  (none_above ? plan_.exponentials->none_above : plan_.exponentials->any)(
      reinterpret_cast<float*>(out), lanes, floats(values_[step.a]), shift, ahead, idx(tile.count));
}

void Frame::find_forms(const Pass& pass, std::int64_t rows) {
  std::array<ChainLink, kMostLinks> links;
  for (const Step& step : pass.steps) {
    if (step.links.empty()) continue;
    find_links(step, links.data());
    form(step) = plan_.chain->form(links.data(), step.links.size(), idx(rows));
  }
}

void Frame::find_links(const Step& step, ChainLink* links) const {
  for (std::size_t i = 0; i < step.links.size(); ++i) {
    const Link& link = step.links[i];
    // The one operand of a unary op takes the place of the other, which is not looked at.
    const int value = link.value < 0 ? step.a : link.value;
    const auto uniform = [&](int v) { return v < 0 ? nullptr : reinterpret_cast<const float*>(values_[v]); };
    links[i] = {link.op, link.scalar, reinterpret_cast<const float*>(values_[value]), strides_[value] / kFloat,
                uniform(link.z), uniform(link.otherwise)};
  }
}

void Frame::execute_chain(const Step& step, const Tile& tile) {
  const bool by_row = goes_by_row(step, tile);
  const std::ptrdiff_t dense = dense_stride(tile, step.type);
  std::ptrdiff_t stride = dense;
  std::byte* out = step.direct >= 0 ? direct(step.direct, tile, stride) : nullptr;
  const bool streams = plan_.streams && out != nullptr && is_aligned(out, 64) && (!by_row || stride % 64 == 0);
  if (out == nullptr || (plan_.streams && !streams)) {
    out = at(step.place, tile, step.type);
    stride = dense;
  }
  // A contraction's results go from where they were accumulated into the chain.
  if (step.raw) define(step.a, raw(tile, step.type), accumulators_.stride);
  std::array<ChainLink, kMostLinks> links;
  find_links(step, links.data());
  ChainRows rows{.n = tile.elements()};
  if (by_row) {
    rows = {.n = idx(tile.run()),
            .count = idx(tile.runs()),
            .out_stride = stride / kFloat,
            .first_stride = strides_[step.a] / kFloat};
  }
  const auto run = streams ? plan_.chain->stream : plan_.chain->store;
  run(reinterpret_cast<float*>(out), reinterpret_cast<const float*>(values_[step.a]), links.data(), step.links.size(),
      form(step), rows);
  define(step.out, out, stride);
}

void Frame::load(const Step& step, const Tile& tile) {
  const Access& access = plan_.inputs[idx(step.index)];
  const std::byte* data = slot_data(access.slot);
  const std::size_t size = size_of(step.type);
  const Runs runs = runs_of(access, tile);
  const std::byte* memory = data + runs.element * static_cast<std::int64_t>(size_of(access.dtype));
  const std::int64_t memory_stride = runs.stride * static_cast<std::int64_t>(size_of(access.dtype));
  if (runs.element >= 0 && step.alias && step.place.kind != Place::Kind::kept && is_aligned(memory, size)) {
    return define(step.out, memory, memory_stride);
  }
  execute_into(step, tile, [&](std::byte* out, std::ptrdiff_t stride) {
    const Loader loader{step.load, size, step.alias};
    if (runs.element >= 0 && !tile.has_gaps && tile.piece == 0) {
      step.load(out, memory, 1, tile.elements());
    } else if (runs.element >= 0) {
      for (std::int64_t d = 0; d < tile.runs(); ++d) {
        step.load(out + d * stride, memory + d * memory_stride, 1, idx(tile.run()));
      }
    } else if (tile.depth > 1 && stride == dense_stride(tile, step.type) && is_better_across(access)) {
      fetch_across(access, loader, data, tile.outer, tile.depth, tile.begin, tile.count, out);
    } else if (tile.piece != 0 && stride != dense_stride(tile, step.type)) {
      for (std::int64_t d = 0; d < tile.runs(); ++d) {
        fetch(access, loader, data, tile.outer, tile.begin + d * tile.piece, tile.piece, out + d * stride);
      }
    } else {
      for (std::int64_t d = 0; d < tile.depth; ++d) {
        fetch(access, loader, data, tile.outer + d, tile.begin, tile.count, out + d * stride);
      }
    }
  });
}

/// Where a tile of an output is, if the values can be computed right there; then sets the bytes from row to row.
std::byte* Frame::direct(int output, const Tile& tile, std::ptrdiff_t& stride) const {
  const Access& access = plan_.outputs[idx(output)];
  const Runs runs = runs_of(access, tile);
  if (runs.element < 0) return nullptr;
  const std::size_t size = size_of(access.dtype);
  std::byte* memory = binding_.slots[idx(access.slot)] + idx(runs.element) * size;
  if (!is_aligned(memory, size)) return nullptr;
  stride = runs.stride * static_cast<std::ptrdiff_t>(size);
  return memory;
}

void Frame::gather(const Step& step, const Tile& tile) {
  const Table& table = plan_.tables[idx(step.index)];
  bool inside = true;
  execute_into(step, tile, [&](std::byte* out, std::ptrdiff_t stride) {
    IndexedPlaces places{.index = reinterpret_cast<const std::int64_t*>(values_[step.a]),
                         .first = reinterpret_cast<const std::int64_t*>(values_[step.b]),
                         .one_index = (step.scalars & 1) != 0,
                         .one_first = (step.scalars & 2) != 0};
    const bool by_row = goes_by_row(step, tile);
    const std::int64_t calls = by_row ? tile.runs() : 1;
    const std::size_t n = by_row ? idx(tile.run()) : tile.elements();
    for (std::int64_t row = 0; row < calls; ++row) {
      if (!fetch_indexed(table, places, slot_data(table.slot), step.load, size_of(step.type), n, out)) inside = false;
      out += stride;
      places.index += strides_[step.a] / kIndex;
      places.first += strides_[step.b] / kIndex;
    }
  });
  if (!inside) report_fault(binding_, idx(step.index));
}

void Frame::store(const Step& step, const Tile& tile) {
  const Access& access = plan_.outputs[idx(step.index)];
  std::byte* data = binding_.slots[idx(access.slot)];
  const std::byte* values = values_[step.a];
  const std::size_t size = size_of(step.type);
  const std::ptrdiff_t stride = goes_by_row(step, tile) ? strides_[step.a] : dense_stride(tile, step.type);
  const Runs runs = step.by_row ? Runs{} : runs_of(access, tile);
  if (runs.element >= 0) {
    std::byte* memory = data + idx(runs.element) * size_of(access.dtype);
    if (step.alias && memory == values) return;
    const auto write = [&](std::byte* to, const std::byte* from, std::size_t n) {
      if (step.alias && plan_.streams) return plan_.convert->stream(to, from, n * size);
      step.put(to, 1, from, n);
    };
    if (!tile.has_gaps && tile.piece == 0) return write(memory, values, tile.elements());
    for (std::int64_t d = 0; d < tile.runs(); ++d) {
      write(memory + d * runs.stride * static_cast<std::int64_t>(size_of(access.dtype)), values + d * stride,
            idx(tile.run()));
    }
    return;
  }
  if (tile.piece != 0) {
    for (std::int64_t d = 0; d < tile.runs(); ++d) {
      put(access, {step.put, size}, data, tile.outer, tile.begin + d * tile.piece, tile.piece, values + d * stride);
    }
    return;
  }
  for (std::int64_t d = 0; d < tile.depth; ++d) {
    put(access, {step.put, size}, data, tile.outer + d, tile.begin, tile.count, values + d * stride);
  }
}

}  // namespace v0
}  // namespace lockstep
