// The steps of a pass: which loop computes a value, from which operands, and where its result goes.
#include <algorithm>

#include "backends/cpu/row/planner.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace {

using Kind = Instruction::Kind;

}  // namespace

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
  return plan_.layout == Layout::columns || plan_.has_blocks() || plan_.row_batch > 1;
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
      const bool bits = instruction.kind == Kind::load_bits;
      step.load = (bits              ? plan_.convert->load_bits
                   : input.canonical ? plan_.convert->load_canonical
                                     : plan_.convert->load)[index_of(input.dtype)];
      step.alias = is_stored_as(input.dtype, instruction.type, bits, input.canonical);
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
    step.place = {Place::Kind::fixed,
                  reserve(array ? idx(std::max(plan_.width, plan_.row_batch)) * size_of(step.type) : 8)};
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
      store.alias = is_stored_as(output.dtype, store.type, output.bits, true);
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
  for (Step& step : pass.steps) {
    if (!step.links.empty()) step.form = forms_++;
  }
  if (plan_.has_blocks()) find_steps_by_row(pass);
  assign_slots(pass);
}

/// Blocks of rows: which steps take the rows one by one, because rows share an operand or have a scalar each.
void Planner::find_steps_by_row(Pass& pass) const {
  std::vector<bool> one_row(plan_.types.size(), false);
  const auto is_row_value = [&](int v) {
    return idx(v) < analysis_.classes.size() && analysis_.classes[idx(v)] == Class::row;
  };
  for (Step& step : pass.steps) {
    if (step.kind == Step::Kind::load) {
      const bool in_slot = step.place.kind == Place::Kind::none && step.direct < 0;
      step.one_row = in_slot && plan_.inputs[idx(step.index)].is_constant_outer();
      one_row[idx(step.out)] = step.one_row;
    }
    for_each_value_read(step, [&](int v) { step.by_row = step.by_row || is_row_value(v) || one_row[idx(v)]; });
  }
}

}  // namespace v0
}  // namespace lockstep
