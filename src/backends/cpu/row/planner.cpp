#include "backends/cpu/row/planner.h"

#include <algorithm>
#include <bit>

#include <lockstep/threads.h>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace {

using Kind = Instruction::Kind;

constexpr std::int64_t kTile = 512;
// Blocks of short rows: what a value of a block may take of the nearest cache, in elements.
constexpr std::int64_t kBlockElements = 2048;
// A kept row costs at most this much of the second-level cache.
constexpr std::size_t kKeptBytes = 64 << 10;
// What the second-level cache holds of rows that were read in pieces.
constexpr std::size_t kGatheredBytes = 512 << 10;
// What the lanes and kept values of one block of columns may take.
constexpr std::size_t kBlockBytes = 256 << 10;
constexpr std::int64_t kNarrowest = 64;
// Columns of long sums: as wide as pieces of memory have to be for the processor to fetch them ahead.
constexpr std::int64_t kWidest = 1024;
// Transposed elements: two cache lines of f32 deep, eight wide.
constexpr std::int64_t kTransposedDepth = 32;
constexpr std::int64_t kTransposedWidth = 128;
// From here on the results are written past the caches.
constexpr std::int64_t kStreamBytes = 32 << 20;

}  // namespace

Planner::Planner(const Program& program, const PlanOptions& options)
    : program_(program), options_(options), analysis_(analyse(program, options.epilogue)) {}

RowPlan Planner::plan() {
  plan_.layout = analysis_.layout;
  plan_.is_epilogue = options_.epilogue;
  plan_.elementwise = &elementwise_table(options_.isa);
  plan_.chain = &chain_table(options_.isa);
  plan_.convert = &convert_table(options_.isa);
  plan_.reduce = &reduce_table(options_.isa);
  plan_.space = analysis_.mapping.space;
  plan_.inputs = analysis_.mapping.inputs;
  plan_.outputs = analysis_.mapping.outputs;
  plan_.positions = analysis_.mapping.positions;
  plan_.tables = program_.tables;
  for (std::size_t i = 0; i < analysis_.code.size(); ++i) {
    plan_.types.push_back(analysis_.code[i].type);
    plan_.places.emplace_back();
    if (analysis_.used[i]) plan_.cost += analysis_.classes[i] == Class::vector ? std::max(1, analysis_.cost[i]) : 0;
  }
  const Space& space = plan_.space;
  plan_.sequence = plan_.layout == Layout::rows ? space.along_count : space.outer_count;
  find_values_of_passes();
  choose_tiles();
  plan_.passes.resize(pass_values_.size());
  emit_row_steps(-1, plan_.uniform_steps);
  for (std::size_t p = 0; p < pass_values_.size(); ++p) emit_pass(static_cast<int>(p));
  emit_row_steps(static_cast<int>(pass_values_.size()), plan_.last_steps);
  for (std::size_t o = 0; o < analysis_.outputs.size(); ++o) {
    if (is_vector_output(o)) continue;
    Step store;
    store.kind = Step::Kind::store;
    store.a = analysis_.outputs[o];
    if (plan_.layout == Layout::columns && is_scalar(store.a)) {
      store.a = dense(store.a, static_cast<int>(pass_values_.size()) - 1);
    }
    store.index = static_cast<int>(o);
    store.type = plan_.types[idx(store.a)];
    store.put = (program_.outputs[o].bits ? plan_.convert->store_bits
                                          : plan_.convert->store)[index_of(program_.outputs[o].dtype)];
    store.by_row = plan_.has_blocks() && analysis_.classes[idx(store.a)] == Class::uniform;
    plan_.last_steps.push_back(store);
  }
  bool writes_rows = false;
  for (std::size_t o = 0; o < analysis_.outputs.size(); ++o) writes_rows = writes_rows || !is_vector_output(o);
  if (program_.rows.numel() == 0 || (plan_.elements == 0 && !writes_rows)) plan_.units = 0;  // nothing to write
  find_inputs_to_fetch_ahead();
  lay_out_memory();
  return std::move(plan_);
}

bool Planner::is_vector_output(std::size_t output) const {
  if (analysis_.classes[idx(analysis_.outputs[output])] == Class::vector) return true;
  const Access& access = analysis_.mapping.outputs[output];
  return plan_.layout == Layout::rows ? !access.is_constant_along() : !access.is_constant_outer();
}

std::size_t Planner::bytes_of_kept_element() const {
  std::size_t bytes = 0;
  for (std::size_t v = 0; v < kept_.size(); ++v) bytes += kept_[v] ? size_of(plan_.types[v]) : 0;
  return bytes;
}

/// Rows in pieces all over memory share the sets of the caches, and so leave them before the next pass reads them
/// again. Where tiles are longer than the pieces, they are copied anyway, and the copy may stay.
bool Planner::is_worth_gathering(int value) const {
  const Instruction& load = analysis_.code[idx(value)];
  if (load.kind != Kind::load && load.kind != Kind::load_bits) return false;
  const Access& access = plan_.inputs[idx(load.index)];
  if (plan_.layout != Layout::rows || access.along.rank() == 1 || access.along_dims.back() >= kTile) return false;
  const std::size_t bytes = idx(plan_.sequence) * size_of(plan_.types[idx(value)]);
  const bool enough_rows = plan_.space.outer_count >= 2 * num_threads();
  return pass_values_[0].computed[idx(value)] && enough_rows && gathered_bytes_ + bytes <= kGatheredBytes;
}

void Planner::demand(int pass, int value) {
  if (analysis_.classes[idx(value)] != Class::vector) return;
  PassValues& values = pass_values_[idx(pass)];
  if (values.computed[idx(value)] || values.read[idx(value)]) return;
  const std::size_t row_bytes = idx(plan_.sequence) * size_of(plan_.types[idx(value)]);
  const bool fits = (plan_.layout == Layout::rows ? row_bytes : row_bytes * kNarrowest / 4) <= kKeptBytes;
  const bool costly = analysis_.cost[idx(value)] >= 2 && fits;
  if (analysis_.when[idx(value)] < pass && (costly || kept_[idx(value)] || is_worth_gathering(value))) {
    if (!costly && !kept_[idx(value)]) gathered_bytes_ += row_bytes;
    kept_[idx(value)] = true;
    values.read[idx(value)] = true;
    return demand(analysis_.when[idx(value)], value);
  }
  values.computed[idx(value)] = true;
  for_each_operand(analysis_.code[idx(value)], [&](int operand) { demand(pass, operand); });
}

void Planner::find_values_of_passes() {
  int passes = analysis_.passes;
  for (std::size_t o = 0; o < analysis_.outputs.size(); ++o) {
    if (is_vector_output(o)) passes = std::max(passes, analysis_.when[idx(analysis_.outputs[o])] + 1);
  }
  const std::size_t values = analysis_.code.size();
  kept_.assign(values, false);
  pass_values_.assign(idx(passes), {std::vector<bool>(values), std::vector<bool>(values)});
  for (std::size_t v = 0; v < values; ++v) {
    const Instruction& instruction = analysis_.code[v];
    if (!analysis_.used[v] || instruction.kind != Kind::reduce) continue;
    for_each_operand(instruction, [&](int operand) { demand(analysis_.when[v] - 1, operand); });
  }
  for (int value : analysis_.outputs) demand(analysis_.when[idx(value)], value);
}

void Planner::choose_tiles() {
  const Space& space = plan_.space;
  plan_.elements = space.outer_count * space.along_count;
  if (plan_.layout == Layout::rows) {
    plan_.units = space.outer_count;
    plan_.tile = kTile;
    if (!analysis_.merged && !options_.epilogue && plan_.sequence > 1 && plan_.sequence <= kTile) {
      const std::int64_t enough_units = plan_.elements > (1 << 16) ? 2 * num_threads() : 1;
      plan_.width = std::max<std::int64_t>(1, std::min(kBlockElements / plan_.sequence, plan_.units / enough_units));
      plan_.units = (plan_.units + plan_.width - 1) / plan_.width;
    }
  } else {
    std::size_t bytes = bytes_of_kept_element() * idx(plan_.sequence);
    for (std::size_t i = 0; i < analysis_.code.size(); ++i) {
      if (!analysis_.used[i] || analysis_.code[i].kind != Kind::reduce) continue;
      bytes += size_of(plan_.types[idx(analysis_.code[i].a)]) * std::min<std::size_t>(kLanes, idx(plan_.sequence));
    }
    std::int64_t width = analysis_.transposes ? kTransposedWidth : plan_.sequence >= 64 ? kWidest : kTile;
    const auto too_wide = [&] {
      const bool too_large = bytes * idx(width) > kBlockBytes;
      const bool too_few = plan_.elements > (1 << 16) && space.along_count < width * num_threads() * 2;
      return too_large || too_few;
    };
    while (width > kNarrowest && too_wide()) width /= 2;
    plan_.width = std::clamp<std::int64_t>(width, 1, std::max<std::int64_t>(space.along_count, 1));
    plan_.depth = static_cast<std::int64_t>(
        std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(kTile / plan_.width, 1, 64))));
    if (analysis_.transposes) plan_.depth = kTransposedDepth;
    plan_.units = (space.along_count + plan_.width - 1) / plan_.width;
  }
  std::int64_t written = 0;
  for (const Output& output : program_.outputs) written += static_cast<std::int64_t>(size_of(output.dtype));
  plan_.streams = written * plan_.elements >= kStreamBytes;
}

std::size_t Planner::reserve(std::size_t bytes) {
  const std::size_t at = plan_.total_bytes;
  plan_.total_bytes += (bytes + 63) / 64 * 64;
  return at;
}

int Planner::new_value(ComputeType type, Place place) {
  plan_.types.push_back(type);
  plan_.places.push_back(place);
  return static_cast<int>(plan_.types.size()) - 1;
}

int Planner::parameter_value(int parameter, ComputeType type) {
  const auto [found, fresh] = parameter_values_.try_emplace(parameter, -1);
  if (fresh) found->second = new_value(type, {Place::Kind::parameter, idx(parameter)});
  return found->second;
}

bool Planner::is_scalar(int value) const {
  if (idx(value) >= analysis_.classes.size()) return false;  // made by dense()
  const Class c = analysis_.classes[idx(value)];
  return c == Class::uniform || (c == Class::row && plan_.layout == Layout::rows);
}

bool Planner::has_row_arrays() const {
  return plan_.layout == Layout::columns || plan_.has_blocks();
}

int Planner::dense(int value, int pass) {
  const Class c = analysis_.classes[idx(value)];
  if (c == Class::vector) return value;
  if (c == Class::row && plan_.layout == Layout::columns && plan_.depth == 1) return value;
  if (const auto found = dense_.find(value); found != dense_.end()) return found->second;
  Step spread;
  spread.kind = Step::Kind::spread;
  spread.type = plan_.types[idx(value)];
  spread.a = value;
  spread.fn = is_scalar(value) ? plan_.convert->splat[index_of(spread.type)] : nullptr;
  if (plan_.layout == Layout::rows) {
    spread.out = new_value(spread.type, {});
    plan_.passes[idx(pass)].steps.push_back(spread);
  } else {
    spread.place = {Place::Kind::fixed, reserve(idx(plan_.width * plan_.depth) * size_of(spread.type))};
    spread.out = new_value(spread.type, spread.place);
    // Where there are no elements there is nothing that every element would share.
    const bool exists = plan_.elements > 0 || analysis_.code[idx(value)].extent == Extent::row;
    if (exists) plan_.passes[idx(pass)].row_steps.push_back(spread);
  }
  dense_[value] = spread.out;
  return spread.out;
}

/// `pass` < 0: not in a tile, operands are row values or uniforms.
Step Planner::step_of(int value, int pass) {
  const Instruction& instruction = analysis_.code[idx(value)];
  Step step;
  step.out = value;
  step.type = instruction.type;
  step.index = instruction.index;
  const auto operand = [&](int v) { return v < 0 || pass < 0 || is_scalar(v) ? v : dense(v, pass); };
  const auto scalar_operands = [&] {
    const Class c = analysis_.classes[idx(value)];
    const bool array = c == Class::vector || (c == Class::row && has_row_arrays());
    const auto bit = [&](int v, int mask) {
      if (v < 0 || !array) return 0;
      return (c == Class::vector ? is_scalar(v) : analysis_.classes[idx(v)] == Class::uniform) ? mask : 0;
    };
    return bit(instruction.a, 1) | bit(instruction.b, 2) | bit(instruction.c, 4);
  };
  switch (instruction.kind) {
    case Kind::load:
    case Kind::load_bits: {
      const Input& input = program_.inputs[idx(instruction.index)];
      step.kind = Step::Kind::load;
      step.load = (instruction.kind == Kind::load_bits ? plan_.convert->load_bits
                   : input.canonical                   ? plan_.convert->load_canonical
                                                       : plan_.convert->load)[index_of(input.dtype)];
      step.alias = loads_as_stored(instruction, input);
      return step;
    }
    case Kind::iota: step.kind = Step::Kind::iota; return step;
    case Kind::accumulator:
      step.kind = Step::Kind::accumulator;
      plan_.accumulator_type = instruction.type;
      step.fn = plan_.convert->canonical[index_of(instruction.type)];
      return step;
    case Kind::random:
      step.fn = plan_.convert->random;
      step.a = operand(instruction.a);
      step.b = parameter_value(instruction.index, ComputeType::i64);
      step.c = parameter_value(instruction.index + 1, ComputeType::i64);
      return step;
    case Kind::gather:
    case Kind::gather_bits: {
      const Table& table = program_.tables[idx(instruction.index)];
      step.kind = Step::Kind::gather;
      step.load = (instruction.kind == Kind::gather_bits ? plan_.convert->load_bits
                   : table.canonical                     ? plan_.convert->load_canonical
                                                         : plan_.convert->load)[index_of(table.dtype)];
      step.a = operand(instruction.a);
      step.b = operand(instruction.b);
      step.scalars = scalar_operands();
      return step;
    }
    case Kind::cast: step.fn = plan_.convert->cast[index_of(instruction.from)][index_of(instruction.dtype)]; break;
    case Kind::to_bits: step.fn = plan_.convert->to_bits[index_of(instruction.dtype)]; break;
    case Kind::from_bits: step.fn = plan_.convert->from_bits[index_of(instruction.dtype)]; break;
    case Kind::elementwise: {
      const bool comparison = info_of(instruction.op).kind == OpKind::comparison;
      const ComputeType type = comparison ? plan_.types[idx(instruction.a)] : instruction.type;
      const int scalars = scalar_operands();
      step.fn = plan_.elementwise->op[index_of(instruction.op)][index_of(type)][idx(scalars)];
      step.scalars = scalars;
      if (type == ComputeType::f32) {
        step.op = instruction.op;
        step.chain_op = chain_op_of(instruction.op);
      }
      break;
    }
    case Kind::constant:
    case Kind::reduce: LOCKSTEP_ASSERT(false);
  }
  LOCKSTEP_ASSERT(step.fn != nullptr);
  step.a = operand(instruction.a);
  step.b = operand(instruction.b);
  step.c = operand(instruction.c);
  return step;
}

/// Row values that are known before `pass`; for pass -1 the uniforms.
void Planner::emit_row_steps(int pass, std::vector<Step>& steps) {
  for (std::size_t v = 0; v < analysis_.code.size(); ++v) {
    const Instruction& instruction = analysis_.code[v];
    if (!analysis_.used[v] || instruction.kind == Kind::reduce) continue;
    const Class wanted = pass < 0 ? Class::uniform : Class::row;
    if (analysis_.classes[v] != wanted || (pass >= 0 && analysis_.when[v] != pass)) continue;
    if (instruction.kind == Kind::constant) {
      plan_.places[v] = {Place::Kind::parameter, idx(instruction.index)};
      continue;
    }
    // What every element would share has no address where there are no elements.
    if (plan_.elements == 0 && instruction.extent == Extent::vector) continue;
    Step step = step_of(static_cast<int>(v), -1);
    const bool array = wanted == Class::row && has_row_arrays();
    step.place = {Place::Kind::fixed, reserve(array ? idx(plan_.width) * size_of(step.type) : 8)};
    plan_.places[v] = step.place;
    steps.push_back(step);
  }
}

void Planner::emit_reduce(int value, int pass) {
  const Instruction& instruction = analysis_.code[idx(value)];
  const bool columns = plan_.layout == Layout::columns;
  const std::size_t width = idx(plan_.width);
  const std::size_t chunks = idx(std::max<std::int64_t>(plan_.chunks(), 1));
  RowReduction reduction;
  reduction.op = instruction.reduce;
  reduction.type = plan_.types[idx(instruction.a)];
  reduction.value = value;
  const std::size_t lanes = columns ? std::min<std::size_t>(kLanes, idx(plan_.sequence)) : kLanes;
  reduction.lanes_at = reserve(8 * width * (reduction.is_best() ? 1 : lanes));
  reduction.partials_at = reserve(8 * width * chunks);
  if (reduction.is_best()) {
    reduction.lane_indices_at = reserve(8 * width);
    reduction.indices_at = reserve(8 * width * chunks);
  }
  plan_.places[idx(value)] = {Place::Kind::fixed, reserve(8 * width)};
  plan_.passes[idx(pass)].reductions.push_back(static_cast<int>(plan_.reductions.size()));
  Step step;
  step.kind = Step::Kind::reduce;
  step.type = reduction.type;
  step.a = dense(instruction.a, pass);
  step.b = instruction.b < 0 ? -1 : dense(instruction.b, pass);
  step.index = static_cast<int>(plan_.reductions.size());
  plan_.passes[idx(pass)].steps.push_back(step);
  plan_.reductions.push_back(reduction);
}

void Planner::emit_pass(int pass_index) {
  const PassValues& values = pass_values_[idx(pass_index)];
  Pass& pass = plan_.passes[idx(pass_index)];
  if (plan_.layout == Layout::rows) dense_.clear();
  emit_row_steps(pass_index, pass.row_steps);
  const auto store_outputs_of = [&](int value, int stored) {
    for (std::size_t o = 0; o < analysis_.outputs.size(); ++o) {
      if (analysis_.outputs[o] != value || analysis_.when[idx(value)] != pass_index || !is_vector_output(o)) continue;
      const Output& output = program_.outputs[o];
      Step store;
      store.kind = Step::Kind::store;
      store.type = plan_.types[idx(value)];
      store.a = stored;
      store.index = static_cast<int>(o);
      store.alias = stores_as_stored(output, store.type);
      store.put = (output.bits ? plan_.convert->store_bits : plan_.convert->store)[index_of(output.dtype)];
      // Computing straight into the output saves a copy, but past the caches only whole lines are worth writing.
      for (Step& step : pass.steps) {
        const bool is_copy = step.kind == Step::Kind::load && step.alias;
        const bool is_kept = step.place.kind == Place::Kind::kept;  // later passes read it there
        if (step.out == stored && store.alias && !plan_.streams && !is_copy && !is_kept) step.direct = store.index;
      }
      pass.steps.push_back(store);
    }
  };
  for (int v = 0; v < static_cast<int>(analysis_.code.size()); ++v) {
    if (!analysis_.used[idx(v)]) continue;
    if (values.read[idx(v)]) pass.kept_inputs.push_back(v);
    if (analysis_.code[idx(v)].kind == Kind::reduce && analysis_.when[idx(v)] - 1 == pass_index) {
      emit_reduce(v, pass_index);
    } else if (values.computed[idx(v)]) {
      Step step = step_of(v, pass_index);
      if (kept_[idx(v)] && analysis_.when[idx(v)] == pass_index) {
        step.place = {Place::Kind::kept, reserve(idx(plan_.sequence * plan_.width) * size_of(step.type))};
        plan_.places[idx(v)] = step.place;
      }
      pass.steps.push_back(step);
      store_outputs_of(v, v);
    } else if (analysis_.classes[idx(v)] != Class::vector && analysis_.when[idx(v)] == pass_index) {
      for (std::size_t o = 0; o < analysis_.outputs.size(); ++o) {
        if (analysis_.outputs[o] == v && is_vector_output(o)) {
          store_outputs_of(v, dense(v, pass_index));
          break;
        }
      }
    }
  }
  fuse_chains(pass);
  if (plan_.has_blocks()) find_row_strides(pass);
  assign_slots(pass);
}

/// Blocks of rows: which steps take the rows one by one, because rows share an operand or have a scalar each.
void Planner::find_row_strides(Pass& pass) const {
  std::vector<bool> one_row(plan_.types.size(), false);
  const auto is_row_value = [&](int v) {
    return idx(v) < analysis_.classes.size() && analysis_.classes[idx(v)] == Class::row;
  };
  const auto stride = [&](int v) -> std::size_t {
    if (v < 0 || one_row[idx(v)] || plan_.places[idx(v)].kind == Place::Kind::parameter) return 0;
    const std::size_t size = size_of(plan_.types[idx(v)]);
    if (is_row_value(v)) return size;
    const bool uniform = idx(v) < analysis_.classes.size() && analysis_.classes[idx(v)] == Class::uniform;
    return uniform ? 0 : idx(plan_.sequence) * size;
  };
  for (Step& step : pass.steps) {
    if (step.kind == Step::Kind::load) {
      const bool in_slot = step.place.kind == Place::Kind::none && step.direct < 0;
      step.one_row = in_slot && plan_.inputs[idx(step.index)].is_constant_outer();
      one_row[idx(step.out)] = step.one_row;
    }
    for_each_value_read(step, [&](int v) { step.by_row = step.by_row || is_row_value(v) || one_row[idx(v)]; });
    step.strides = {stride(step.a), stride(step.b), stride(step.c)};
    for (Link& link : step.links) link.stride = stride(link.value);
    step.out_stride = stride(step.out);
  }
}

/// Rows that stay in the nearest caches between the first pass and the last.
void Planner::find_inputs_to_fetch_ahead() {
  if (plan_.layout != Layout::rows || plan_.passes.size() < 2 || plan_.units < 2) return;
  for (const Step& step : plan_.passes[0].steps) {
    if (step.kind != Step::Kind::load) continue;
    const Access& access = plan_.inputs[idx(step.index)];
    if (!access.is_constant_outer() && idx(plan_.sequence) * size_of(access.dtype) <= kKeptBytes) {
      plan_.fetched_ahead.push_back(step.index);
    }
  }
}

}  // namespace v0
}  // namespace lockstep
