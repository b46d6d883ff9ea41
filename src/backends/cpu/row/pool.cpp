#include "backends/cpu/row/pool.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/row/pool_table.h"
#include "backends/cpu/row/walk.h"
#include "backends/cpu/threads.h"
#include "core/fp_state.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::uint64_t kMinusInfinity = 0xff800000u;
constexpr std::int64_t kMostTaps = 256;
constexpr std::int64_t kShortLine = 16;
constexpr std::int64_t kPoolWork = 32 << 10;  // elements read, worth a task

/// A coordinate that is the same for a whole line: what a tap adds to it is in the tap.
struct LineBound {
  std::int64_t offset = 0, lo = 0, hi = 0;
  Shape m;  ///< over the lines
};

struct Tap {
  std::int64_t address = 0;
  std::int64_t begin = 0, end = 0;        ///< results that see it
  std::vector<std::int64_t> coordinates;  ///< of the line bounds
};

struct PoolPlan {
  int in = 0, out = 0;
  bool flush = false;
  Shape lines;  ///< sizes
  Shape in_strides, out_strides;
  std::int64_t in_offset = 0, out_offset = 0;
  std::int64_t n = 0;       ///< results of a line
  std::int64_t stride = 1;  ///< elements from one result's tap to the next one's
  std::vector<LineBound> bounds;
  std::vector<Tap> taps;
};

std::int64_t all_but(int d, const Shape& rows, const Shape& form, Shape& rest) {
  for (int i = 0; i < rows.rank(); ++i) {
    if (i != d) rest.push_back(form[i]);
  }
  return form[d];
}

/// Those of the line's results whose coordinate c + m * i is in [lo, hi); m > 0.
std::pair<std::int64_t, std::int64_t> range_of(std::int64_t c, std::int64_t m, std::int64_t lo, std::int64_t hi) {
  return {walk::ceil_div(lo - c, m), walk::ceil_div(hi - c, m)};
}

std::optional<PoolPlan> plan_of(const Program& program) {
  if (program.code.size() != 2 || program.outputs.size() != 1 || program.inputs.size() != 1) return std::nullopt;
  const Instruction &load = program.code[0], &reduce = program.code[1];
  const Input& input = program.inputs[0];
  const Output& output = program.outputs[0];
  const View& view = input.view;
  if (load.kind != Instruction::Kind::load || load.extent != Extent::vector || input.dtype != DType::f32 ||
      reduce.kind != Instruction::Kind::reduce || reduce.reduce != ReduceOp::max || reduce.a != 0 ||
      output.value != 1 || output.dtype != DType::f32 || output.bits) {
    return std::nullopt;
  }
  if (!view.bounds.empty() && static_cast<std::uint32_t>(view.fill) != kMinusInfinity) return std::nullopt;
  const Shape &rows = program.rows, &inner = program.inner;
  const std::int64_t taps = inner.numel();
  if (rows.numel() == 0 || taps == 0 || taps > kMostTaps) return std::nullopt;
  int last = rows.rank() - 1;
  while (last >= 0 && rows[last] == 1) --last;
  if (last < 0 || output.strides[last] != 1) return std::nullopt;
  if (const std::int64_t stride = view.strides[last]; stride != 1 && stride != 2 && stride != 4) return std::nullopt;

  PoolPlan plan{.in = input.slot, .out = output.slot, .flush = !input.canonical};
  plan.n = all_but(last, rows, rows, plan.lines);
  plan.stride = all_but(last, rows, view.strides, plan.in_strides);
  all_but(last, rows, output.strides, plan.out_strides);
  // Every fourth element of a short line is as quickly read one by one.
  if (plan.stride == 4 && plan.n < kShortLine) return std::nullopt;
  plan.in_offset = view.offset;
  plan.out_offset = output.offset;
  std::vector<const Bound*> of_results;
  std::vector<const Bound*> of_lines;
  for (const Bound& bound : view.bounds) {
    if (bound.step != 1 || bound.m[last] < 0) return std::nullopt;
    LineBound line{.offset = bound.offset, .lo = bound.lo, .hi = bound.hi, .m = {}};
    if (all_but(last, rows, bound.m, line.m) == 0) {
      of_lines.push_back(&bound);
      plan.bounds.push_back(std::move(line));
    } else if (std::all_of(line.m.begin(), line.m.end(), [](std::int64_t m) { return m == 0; })) {
      of_results.push_back(&bound);
    } else {
      return std::nullopt;
    }
  }
  for (std::int64_t t = 0; t < taps; ++t) {
    walk::Index index;
    walk::unravel(inner, inner.rank(), t, index);
    const auto of_tap = [&](const Shape& form) {
      return walk::dot(form.slice(rows.rank(), form.rank()), index, inner.rank());
    };
    Tap tap{.address = of_tap(view.strides), .begin = 0, .end = plan.n, .coordinates = {}};
    for (const Bound* bound : of_results) {
      const auto [begin, end] = range_of(bound->offset + of_tap(bound->m), bound->m[last], bound->lo, bound->hi);
      tap.begin = std::max(tap.begin, begin);
      tap.end = std::min(tap.end, end);
    }
    for (const Bound* bound : of_lines) tap.coordinates.push_back(of_tap(bound->m));
    if (tap.begin < tap.end) plan.taps.push_back(std::move(tap));
  }
  return plan;
}

class PoolExecutable final : public Executable {
 public:
  PoolExecutable(PoolPlan plan, PoolTable::Fn largest) : plan_(std::move(plan)), largest_(largest) {}

  void run(const Binding& binding) const override {
    const FloatingPointScope scope;
    const auto* const in =
        reinterpret_cast<const float*>(binding.slots[static_cast<std::size_t>(plan_.in)]) + plan_.in_offset;
    auto* const out = reinterpret_cast<float*>(binding.slots[static_cast<std::size_t>(plan_.out)]) + plan_.out_offset;
    const std::int64_t work = std::max<std::int64_t>(1, plan_.n * static_cast<std::int64_t>(plan_.taps.size()));
    parallel_for(plan_.lines.numel(), std::max<std::int64_t>(1, kPoolWork / work),
                 [&](std::int64_t begin, std::int64_t end) {
                   std::vector<PoolTap> taps(plan_.taps.size());
                   for (std::int64_t line = begin; line < end; ++line) run_line(in, out, line, taps);
                 });
  }

 private:
  void run_line(const float* in, float* out, std::int64_t line, std::vector<PoolTap>& taps) const {
    const int rank = plan_.lines.rank();
    walk::Index index;
    walk::unravel(plan_.lines, rank, line, index);
    const std::int64_t at = walk::dot(plan_.in_strides, index, rank);
    std::array<std::int64_t, 8> coordinates{};
    for (std::size_t b = 0; b < plan_.bounds.size(); ++b) {
      coordinates[b] = plan_.bounds[b].offset + walk::dot(plan_.bounds[b].m, index, rank);
    }
    std::int64_t count = 0;
    for (const Tap& tap : plan_.taps) {
      bool inside = true;
      for (std::size_t b = 0; b < plan_.bounds.size(); ++b) {
        const std::int64_t c = coordinates[b] + tap.coordinates[b];
        inside = inside && plan_.bounds[b].lo <= c && c < plan_.bounds[b].hi;
      }
      if (inside) taps[static_cast<std::size_t>(count++)] = {in + at + tap.address, tap.begin, tap.end};
    }
    largest_(out + walk::dot(plan_.out_strides, index, rank), plan_.n, taps.data(), count, plan_.stride, plan_.flush);
  }

  PoolPlan plan_;
  PoolTable::Fn largest_;
};

}  // namespace

std::unique_ptr<Executable> compile_pool(const Program& program, Isa isa) {
  const PoolTable& table = pool_table(isa);
  if (table.largest == nullptr) return nullptr;
  std::optional<PoolPlan> plan = plan_of(program);
  if (!plan || plan->bounds.size() > 8) return nullptr;
  return std::make_unique<PoolExecutable>(std::move(*plan), table.largest);
}

}  // namespace v0
}  // namespace lockstep
