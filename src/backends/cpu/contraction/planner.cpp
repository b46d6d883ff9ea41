#include "backends/cpu/contraction/planner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/contraction/in_place.h"
#include "backends/cpu/contraction/kernels.h"
#include "core/assert.h"
#include "core/elements.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

struct BatchRoles {
  std::vector<int> both, with_m, with_n;
};

std::vector<int> range(int first, int count) {
  std::vector<int> dims;
  for (int d = 0; d < count; ++d) dims.push_back(first + d);
  return dims;
}

std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Shape pick(const Shape& shape, const std::vector<int>& dims) {
  Shape picked;
  for (const int d : dims) picked.push_back(shape[d]);
  return picked;
}

// Stride of a group of output dimensions seen as one, or nothing. Size-1 groups have stride 0.
std::optional<std::int64_t> single_stride(const Shape& sizes, const Shape& strides) {
  return Group{.sizes = sizes, .strides = strides, .coefficients = {}}.single_stride();
}

// Whether the epilogue's only output is the accumulator itself in the accumulators' own type, so that the tile may make
// it canonical and store it. Lemma: a cast from a compute type to itself keeps every canonical value.
bool stores_accumulator(const ContractionKernel& kernel) {
  const Program& program = kernel.epilogue;
  if (program.outputs.size() != 1 || program.outputs[0].bits) return false;
  const DType dtype = program.outputs[0].dtype;
  if (compute_type(dtype) != kernel.type) return false;
  if (dtype != DType::f32 && dtype != DType::f64 && dtype != DType::i32 && dtype != DType::i64) return false;
  const Instruction* value = &program.code[static_cast<std::size_t>(program.outputs[0].value)];
  if (value->kind == Instruction::Kind::cast && value->from == dtype && value->dtype == dtype) {
    value = &program.code[static_cast<std::size_t>(value->a)];
  }
  return value->kind == Instruction::Kind::accumulator;
}

std::optional<DirectOutput> find_direct(const ContractionKernel& kernel, const BatchRoles& roles, bool swapped) {
  if (!stores_accumulator(kernel)) return std::nullopt;
  const Program& program = kernel.epilogue;
  Shape rows = kernel.b;
  for (const std::int64_t size : kernel.m) rows.push_back(size);
  if (program.rows != rows || program.inner != kernel.n) return std::nullopt;
  const Output& output = program.outputs[0];
  const int b = kernel.b.rank();
  const int m = kernel.m.rank();
  Shape sizes = rows;
  for (const std::int64_t size : kernel.n) sizes.push_back(size);
  const std::vector<int> m_dims = joined(roles.with_m, range(b, m));
  const std::vector<int> n_dims = joined(roles.with_n, range(b + m, kernel.n.rank()));
  const auto m_stride = single_stride(pick(sizes, m_dims), pick(output.strides, m_dims));
  const auto n_stride = single_stride(pick(sizes, n_dims), pick(output.strides, n_dims));
  if (!m_stride || !n_stride) return std::nullopt;
  const std::int64_t across = swapped ? *m_stride : *n_stride;
  const std::int64_t columns = pick(sizes, swapped ? m_dims : n_dims).numel();
  if (across != 1 && columns != 1) return std::nullopt;
  return DirectOutput{.slot = output.slot,
                      .offset = output.offset,
                      .batch_strides = pick(output.strides, roles.both),
                      .row_stride = swapped ? *n_stride : *m_stride};
}

// Lanes that compute nothing when `columns` results are spread over whole vectors.
double waste(std::int64_t columns, std::int64_t lanes) {
  const std::int64_t whole = (columns + lanes - 1) / lanes * lanes;
  return static_cast<double>(whole) / static_cast<double>(std::max<std::int64_t>(columns, 1));
}

bool should_swap(std::int64_t m, std::int64_t n, std::int64_t lanes, std::int64_t tile_columns) {
  if (n >= 4 * tile_columns) return false;
  return waste(n, lanes) > 1.1 * waste(m, lanes) && m > lanes / 2;
}

BatchMap batch_map(const Shape& b, const std::vector<int>& dims) {
  BatchMap map;
  for (const int d : dims) {
    map.sizes.push_back(b[d]);
    std::int64_t weight = 1;
    for (int i = d + 1; i < b.rank(); ++i) weight *= b[i];
    map.weights.push_back(weight);
  }
  return map;
}

}  // namespace

Plan make_plan(const ContractionKernel& kernel, const KernelSet& kernels) {
  const int b = kernel.b.rank();
  const int m = kernel.m.rank();
  const int n = kernel.n.rank();
  const int k = kernel.k.rank();
  LOCKSTEP_ASSERT(kernel.a.view.rank() == b + m + k && kernel.b_operand.view.rank() == b + k + n);

  Plan plan;
  plan.type = kernel.type;
  plan.numerics = kernel.numerics;
  plan.m = kernel.m.numel();
  plan.n = kernel.n.numel();
  plan.k = kernel.k.numel();
  const Group a_batch = group_of(kernel.a.view, kernel.a.view.bounds, range(0, b));
  const Group b_batch = group_of(kernel.b_operand.view, kernel.b_operand.view.bounds, range(0, b));
  BatchRoles roles;
  for (int d = 0; d < b; ++d) {
    const bool a_fixed = a_batch.invariant_in(d);
    const bool b_fixed = b_batch.invariant_in(d);
    (b_fixed ? roles.with_m : a_fixed ? roles.with_n : roles.both).push_back(d);
  }
  Side a = make_side(kernel.a, roles.both, joined(roles.with_m, range(b, m)), range(b + m, k));
  Side c = make_side(kernel.b_operand, roles.both, joined(roles.with_n, range(b + k, n)), range(b, k));
  plan.batch = pick(kernel.b, roles.both);
  plan.batches = plan.batch.numel();
  plan.batch_map = batch_map(kernel.b, roles.both);
  plan.m_batch_map = batch_map(kernel.b, roles.with_m);
  plan.n_batch_map = batch_map(kernel.b, roles.with_n);
  plan.rows = plan.m * plan.m_batch_map.sizes.numel();
  plan.columns = plan.n * plan.n_batch_map.sizes.numel();

  plan.swapped =
      plan.numerics != Numerics::q8 && should_swap(plan.rows, plan.columns, kernels.lanes, kernels.tile_columns);
  if (plan.type == ComputeType::f32 && plan.numerics == Numerics::exact) {
    if (kernels.lines != nullptr &&
        suits_lines(c, plan.rows, plan.n, plan.k, kernels.lanes, kernels.tile_columns)) {
      plan.swapped = false;
    } else if (suits_in_place(c, a, plan.columns, plan.rows, plan.k)) {
      plan.swapped = true;
    } else if (suits_in_place(a, c, plan.rows, plan.columns, plan.k)) {
      plan.swapped = false;
    } else if (kernels.direct != nullptr && suits_direct(c, plan.rows, plan.n, plan.k, kernels.lanes)) {
      plan.swapped = true;
    }
  }
  plan.direct = find_direct(kernel, roles, plan.swapped);
  if (plan.swapped) {
    std::swap(plan.rows, plan.columns);
    std::swap(a, c);
  }
  plan.row_side = std::move(a);
  plan.column_side = std::move(c);
  return plan;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
