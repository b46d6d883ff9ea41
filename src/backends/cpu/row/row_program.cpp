#include "backends/cpu/row/row_program.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "backends/cpu/row/frame.h"
#include "backends/cpu/row/planner.h"
#include "backends/cpu/threads.h"
#include "core/assert.h"
#include "core/fp_state.h"
#include "core/per_thread.h"

namespace lockstep {
inline namespace v0 {
namespace {

// Less work than this is done before another thread has woken up.
constexpr std::int64_t kWorthAThread = 32 << 10;

/// Blocks of rows, each with a frame of its own.
void run_units(const RowPlan& plan, const Binding& binding) {
  const std::int64_t work = std::max<std::int64_t>(1, plan.elements / plan.units * plan.cost);
  const std::int64_t grain = std::max<std::int64_t>(1, kWorthAThread / work);
  parallel_for(plan.units, grain, [&](std::int64_t begin, std::int64_t end) {
    Frame frame(plan, binding, Scratch::of_this_thread().reserve(plan.total_bytes));
    for (std::int64_t unit = begin; unit < end; ++unit) frame.run_unit(unit);
  });
}

/// Few long rows: the chunks of one row over the threads, pass by pass.
void run_long_units(const RowPlan& plan, const Binding& binding) {
  const std::int64_t rows = plan.layout == Layout::columns ? plan.width : 1;
  const std::int64_t chunk_work = kChunk * rows * plan.cost;
  const std::int64_t grain = kChunk * std::max<std::int64_t>(1, kWorthAThread / chunk_work);
  // Not the thread's scratch: a part of the work may run on this thread, too.
  Scratch scratch;
  Frame whole(plan, binding, scratch.reserve(plan.total_bytes));
  for (std::int64_t unit = 0; unit < plan.units; ++unit) {
    whole.enter_unit(unit);
    for (std::size_t pass = 0; pass < plan.passes.size(); ++pass) {
      whole.run_row_steps(pass);
      parallel_for(plan.sequence, grain, [&](std::int64_t begin, std::int64_t end) {
        Frame part(plan, binding, Scratch::of_this_thread().reserve(plan.total_bytes));
        part.share(whole);
        part.run_range(pass, begin, end);
      });
      whole.finish_reductions(pass);
    }
    whole.finish_unit();
  }
}

bool keeps_rows(const RowPlan& plan) {
  return std::any_of(plan.places.begin(), plan.places.end(),
                     [](const Place& place) { return place.kind == Place::Kind::kept; });
}

}  // namespace

Scratch::~Scratch() {
  std::free(data_);
}

void Scratch::grow(std::size_t bytes) {
  std::free(data_);
  data_ = nullptr;
  capacity_ = 0;
  data_ = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  if (data_ == nullptr) throw std::bad_alloc();
  capacity_ = bytes;
}

Scratch& Scratch::of_this_thread() {
  return v0::of_this_thread<Scratch>();
}

RowProgram::RowProgram(const Program& program, Isa isa)
    : plan_(std::make_unique<const RowPlan>(make_plan(program, {.isa = isa}))) {}
RowProgram::RowProgram(std::unique_ptr<const RowPlan> plan) : plan_(std::move(plan)) {}
RowProgram::~RowProgram() = default;
RowProgram::RowProgram(RowProgram&&) noexcept = default;
RowProgram& RowProgram::operator=(RowProgram&&) noexcept = default;

RowProgram RowProgram::epilogue(const Program& program, Isa isa) {
  return RowProgram(std::make_unique<const RowPlan>(make_plan(program, {.isa = isa, .epilogue = true})));
}

bool RowProgram::streams() const {
  return plan_->streams;
}

void RowProgram::run(const Binding& binding) const {
  const RowPlan& plan = *plan_;
  if (plan.units == 0) return;
  const FloatingPointScope scope;
  const std::int64_t threads = num_threads();
  const bool few = plan.units < 2 * threads && threads > 1;
  if (few && plan.sequence >= 2 * kChunk && plan.elements * plan.cost > kWorthAThread && !in_parallel_region() &&
      !keeps_rows(plan)) {
    return run_long_units(plan, binding);
  }
  if (plan.units == 1) {  // e.g. small elementwise work: no frame on another thread's stack
    Frame frame(plan, binding, Scratch::of_this_thread().reserve(plan.total_bytes));
    return frame.run_unit(0);
  }
  run_units(plan, binding);
}

void RowProgram::run_block(const Binding& binding, std::int64_t row, std::int64_t rows, std::int64_t begin,
                           std::int64_t count, const void* accumulator, std::int64_t accumulator_row_stride,
                           Scratch& scratch) const {
  const RowPlan& plan = *plan_;
  LOCKSTEP_ASSERT(plan.is_epilogue);
  Frame frame(plan, binding, scratch.reserve(plan.total_bytes));
  const std::ptrdiff_t stride = accumulator_row_stride * static_cast<std::ptrdiff_t>(size_of(plan.accumulator_type));
  frame.set_accumulators({static_cast<const std::byte*>(accumulator), row, begin, stride});
  for (std::int64_t i = 0; i < rows; i += plan.row_batch) {
    frame.run_batch(row + i, std::min(plan.row_batch, rows - i), begin, begin + count);
  }
}

}  // namespace v0
}  // namespace lockstep
