#include "backends/cpu/row/planner.h"

#include <algorithm>
#include <bit>

#include <lockstep/threads.h>

namespace lockstep {
inline namespace v0 {
namespace {

using Kind = Instruction::Kind;

constexpr std::int64_t kTile = 512;
// Blocks of short rows: what a value of a block may take of the nearest cache, in elements.
constexpr std::int64_t kBlockElements = 2048;
// Rows of an epilogue whose values are computed together.
constexpr std::int64_t kRowBatch = 64;
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
  plan_.exponentials = &exponentials_table(options_.isa);
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
    store.by_row = (plan_.has_blocks() || plan_.row_batch > 1) && analysis_.classes[idx(store.a)] == Class::uniform;
    plan_.last_steps.push_back(store);
  }
  bool writes_rows = false;
  for (std::size_t o = 0; o < analysis_.outputs.size(); ++o) writes_rows = writes_rows || !is_vector_output(o);
  if (program_.rows.numel() == 0 || (plan_.elements == 0 && !writes_rows)) plan_.units = 0;  // nothing to write
  for (std::size_t v = 0; v < analysis_.code.size() && has_row_arrays(); ++v) {
    if (analysis_.used[v] && analysis_.classes[v] == Class::row) plan_.row_values.push_back(static_cast<int>(v));
  }
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

/// Whether elements are read where they lie and reduced, and nothing else: tiles then need no memory.
bool Planner::only_reduces() const {
  if (analysis_.merged || options_.epilogue || pass_values_.size() != 1) return false;
  for (std::size_t v = 0; v < analysis_.code.size(); ++v) {
    const Instruction& instruction = analysis_.code[v];
    if (!analysis_.used[v] || analysis_.classes[v] != Class::vector) continue;
    if (instruction.kind != Kind::load) return false;
    const Input& input = program_.inputs[idx(instruction.index)];
    if (!is_stored_as(input.dtype, instruction.type, false, input.canonical)) return false;
    if (plan_.inputs[idx(instruction.index)].along.rank() > 1) return false;
  }
  return true;
}

void Planner::choose_tiles() {
  const Space& space = plan_.space;
  plan_.elements = space.outer_count * space.along_count;
  if (plan_.layout == Layout::rows) {
    plan_.units = space.outer_count;
    if (options_.epilogue) plan_.row_batch = kRowBatch;
    plan_.tile = options_.epilogue ? kTile : only_reduces() ? kChunk : 0;  // 0: lay_out_memory chooses
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

/// Rows that stay in the nearest caches between the first pass and the last.
void Planner::find_inputs_to_fetch_ahead() {
  if (plan_.layout != Layout::rows || plan_.passes.size() < 2 || plan_.units < 2) return;
  for (const Step& step : plan_.passes[0].steps) {
    if (step.kind != Step::Kind::load) continue;
    const Access& access = plan_.inputs[idx(step.index)];
    if (!access.is_constant_outer() && idx(plan_.sequence) * size_of(access.dtype) <= kKeptBytes) {
      if (!is_fetched_by_exponentials(step)) plan_.fetched_ahead.push_back(step.index);
    }
  }
}

/// Exponentials leave memory more time than the last pass does, which writes.
bool Planner::is_fetched_by_exponentials(const Step& load) {
  for (Pass& pass : plan_.passes) {
    for (Step& step : pass.steps) {
      if (step.kind != Step::Kind::exponentials || step.a != load.out) continue;
      step.ahead = load.index;
      return true;
    }
  }
  return false;
}

RowPlan make_plan(const Program& program, const PlanOptions& options) {
  return Planner(program, options).plan();
}

}  // namespace v0
}  // namespace lockstep
