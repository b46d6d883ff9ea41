#include "backends/cpu/row/frame.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/row/indexed.h"

namespace lockstep {
inline namespace v0 {
namespace {

std::int64_t contiguous(const Access& access, const Tile& tile) {
  return contiguous_block(access, tile.outer, tile.depth, tile.begin, tile.count);
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
      values_(reinterpret_cast<const std::byte**>(memory + plan.pointers_at)) {
  for (std::size_t v = 0; v < plan.places.size(); ++v) {
    const Place& place = plan.places[v];
    values_[v] = nullptr;
    if (place.kind == Place::Kind::parameter) {
      values_[v] = reinterpret_cast<const std::byte*>(&binding.parameters[place.at].bits);
    } else if (place.kind == Place::Kind::fixed) {
      values_[v] = memory + place.at;
    }
  }
  const Tile once{0, 1, 0, 1};
  for (const Step& step : plan.uniform_steps) execute_row_step(step, once);
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

void Frame::enter_batch(std::int64_t row, std::int64_t rows) {
  unit_ = row;
  width_ = rows;
  run_row_steps(0);
  find_forms(plan_.passes[0], rows);
}

void Frame::next_row_of_batch() {
  for (const int v : plan_.row_values) values_[v] += size_of(plan_.types[idx(v)]);
  ++unit_;
}

void Frame::finish_batch() {
  unit_ -= width_;
  for (const int v : plan_.row_values) values_[v] -= idx(width_) * size_of(plan_.types[idx(v)]);
  finish_unit();
}

void Frame::run_row_steps(std::size_t pass) {
  const Tile tile = row_tile();
  for (const Step& step : plan_.passes[pass].row_steps) execute_row_step(step, tile);
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
  if (!plan_.is_epilogue) find_forms(pass, plan_.has_blocks() ? width_ : 1);
  if (plan_.has_blocks()) {
    const Tile tile{unit_ * plan_.width, width_, 0, plan_.sequence};
    for (int v : pass.kept_inputs) values_[v] = memory_ + plan_.places[idx(v)].at;
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
      const Tile tile = rows ? Tile{unit_, 1, i, n} : Tile{i, n, unit_ * plan_.width, width_};
      if (pass_index + 1 == plan_.passes.size()) fetch_ahead(tile);
      for (int v : pass.kept_inputs) values_[v] = at(plan_.places[idx(v)], tile, plan_.types[idx(v)]);
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
  return accumulators_.data + idx(tile.begin - accumulators_.begin) * size_of(type);
}

void Frame::execute(const Step& step, const Tile& tile) {
  switch (step.kind) {
    case Step::Kind::compute:
    case Step::Kind::spread: {
      std::byte* out = step.direct >= 0 ? direct(step.direct, tile) : nullptr;
      if (out == nullptr) out = at(step.place, tile, step.type);
      compute(step, tile, out);
      values_[step.out] = out;
      return;
    }
    case Step::Kind::load: {
      std::byte* out = step.direct >= 0 ? direct(step.direct, tile) : nullptr;
      if (out == nullptr) out = at(step.place, tile, step.type);
      const Tile row{tile.outer, 1, tile.begin, tile.count};
      values_[step.out] = load(step, step.one_row ? row : tile, out);
      return;
    }
    case Step::Kind::gather: return gather(step, tile);
    case Step::Kind::chain: return execute_chain(step, tile);
    case Step::Kind::store: return store(step, tile);
    case Step::Kind::reduce: return reduce(step, tile);
    case Step::Kind::iota: {
      std::byte* out = at(step.place, tile, step.type);
      for (std::int64_t d = 0; d < tile.depth; ++d) {
        count_along(plan_.positions[idx(step.index)], *plan_.convert, tile.outer + d, tile.begin, tile.count,
                    reinterpret_cast<std::int64_t*>(out) + d * tile.count);
      }
      values_[step.out] = out;
      return;
    }
    case Step::Kind::accumulator: {
      std::byte* out = step.direct >= 0 ? direct(step.direct, tile) : nullptr;
      if (out == nullptr) out = at(step.place, tile, step.type);
      step.fn(out, raw(tile, step.type), nullptr, nullptr, tile.elements());
      values_[step.out] = out;
      return;
    }
  }
}

void Frame::compute(const Step& step, const Tile& tile, std::byte* out) {
  const auto value = [&](int v) { return v < 0 ? nullptr : values_[v]; };
  const std::byte *a = value(step.a), *b = value(step.b), *c = value(step.c);
  if (!step.by_row) return step.fn(out, a, b, c, tile.elements());
  for (std::int64_t row = 0; row < tile.depth; ++row) {
    step.fn(out, a, b, c, idx(tile.count));
    out += step.out_stride;
    a += step.strides[0];
    b += step.strides[1];
    c += step.strides[2];
  }
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
    const std::byte* operand = values_[link.value < 0 ? step.a : link.value];
    links[i] = {link.op, link.scalar, reinterpret_cast<const float*>(operand), link.stride / sizeof(float),
                link.z < 0 ? nullptr : reinterpret_cast<const float*>(values_[link.z])};
  }
}

void Frame::next_row(const Step& step, ChainLink* links) {
  for (std::size_t i = 0; i < step.links.size(); ++i) links[i].operand += links[i].stride;
}

void Frame::execute_chain(const Step& step, const Tile& tile) {
  std::byte* out = step.direct >= 0 ? direct(step.direct, tile) : nullptr;
  const bool streams =
      plan_.streams && out != nullptr && is_aligned(out, 64) && (!step.by_row || step.out_stride % 64 == 0);
  if (out == nullptr || (plan_.streams && !streams)) out = at(step.place, tile, step.type);
  std::array<ChainLink, kMostLinks> links;
  // A contraction's results go from where they were accumulated into the chain.
  if (step.raw) values_[step.a] = raw(tile, step.type);
  find_links(step, links.data());
  values_[step.out] = out;
  const ChainForm chain_form = form(step);
  const auto run = streams ? plan_.chain->stream : plan_.chain->store;
  const std::byte* first = values_[step.a];
  const std::int64_t calls = step.by_row ? tile.depth : 1;
  const std::size_t n = step.by_row ? idx(tile.count) : tile.elements();
  for (std::int64_t row = 0; row < calls; ++row) {
    run(reinterpret_cast<float*>(out), reinterpret_cast<const float*>(first), links.data(), step.links.size(), chain_form, n);
    out += step.out_stride;
    first += step.strides[0];
    next_row(step, links.data());
  }
}

const std::byte* Frame::load(const Step& step, const Tile& tile, std::byte* out) {
  const Access& access = plan_.inputs[idx(step.index)];
  const std::byte* data = slot_data(access.slot);
  const std::size_t size = size_of(step.type);
  const std::int64_t element = contiguous(access, tile);
  if (element >= 0) {
    const std::byte* memory = data + idx(element) * size_of(access.dtype);
    if (step.alias && step.place.kind != Place::Kind::kept && is_aligned(memory, size)) return memory;
    step.load(out, memory, 1, tile.elements());
    return out;
  }
  const Loader loader{step.load, size, step.alias};
  if (tile.depth > 1 && is_better_across(access)) {
    fetch_across(access, loader, data, tile.outer, tile.depth, tile.begin, tile.count, out);
    return out;
  }
  for (std::int64_t d = 0; d < tile.depth; ++d) {
    fetch(access, loader, data, tile.outer + d, tile.begin, tile.count, out + idx(d * tile.count) * size);
  }
  return out;
}

/// Where a tile of an output is, if the values can be computed right there.
std::byte* Frame::direct(int output, const Tile& tile) const {
  const Access& access = plan_.outputs[idx(output)];
  const std::int64_t element = contiguous(access, tile);
  if (element < 0) return nullptr;
  const std::size_t size = size_of(access.dtype);
  std::byte* memory = binding_.slots[idx(access.slot)] + idx(element) * size;
  return is_aligned(memory, size) ? memory : nullptr;
}

void Frame::gather(const Step& step, const Tile& tile) {
  const Table& table = plan_.tables[idx(step.index)];
  std::byte* out = step.direct >= 0 ? direct(step.direct, tile) : nullptr;
  if (out == nullptr) out = at(step.place, tile, step.type);
  IndexedPlaces places{.index = reinterpret_cast<const std::int64_t*>(values_[step.a]),
                       .first = reinterpret_cast<const std::int64_t*>(values_[step.b]),
                       .one_index = (step.scalars & 1) != 0,
                       .one_first = (step.scalars & 2) != 0};
  values_[step.out] = out;
  const std::int64_t calls = step.by_row ? tile.depth : 1;
  const std::size_t n = step.by_row ? idx(tile.count) : tile.elements();
  bool inside = true;
  for (std::int64_t row = 0; row < calls; ++row) {
    if (!fetch_indexed(table, places, slot_data(table.slot), step.load, size_of(step.type), n, out)) inside = false;
    out += step.out_stride;
    places.index += step.strides[0] / sizeof(std::int64_t);
    places.first += step.strides[1] / sizeof(std::int64_t);
  }
  if (!inside) report_fault(binding_, idx(step.index));
}

void Frame::store(const Step& step, const Tile& tile) {
  const Access& access = plan_.outputs[idx(step.index)];
  std::byte* data = binding_.slots[idx(access.slot)];
  const std::byte* values = values_[step.a];
  const std::size_t size = size_of(step.type);
  const std::int64_t element = step.by_row ? -1 : contiguous(access, tile);
  if (element >= 0) {
    std::byte* memory = data + idx(element) * size_of(access.dtype);
    if (step.alias && memory == values) return;
    if (step.alias && plan_.streams) return plan_.convert->stream(memory, values, tile.elements() * size);
    return step.put(memory, 1, values, tile.elements());
  }
  for (std::int64_t d = 0; d < tile.depth; ++d) {
    put(access, {step.put, size}, data, tile.outer + d, tile.begin, tile.count, values);
    values += step.by_row ? step.strides[0] : idx(tile.count) * size;
  }
}

}  // namespace v0
}  // namespace lockstep
