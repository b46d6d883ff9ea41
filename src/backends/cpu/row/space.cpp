#include "backends/cpu/row/space.h"

#include <algorithm>

namespace lockstep {
inline namespace v0 {
namespace {

/// A dim of an access: neighbouring dims of the program that all its forms walk as one.
struct Group {
  int last = 0;  ///< the old dim whose coefficients hold
  std::int64_t size = 1;
};

/// A bound whose coordinate moves by one in a dim that is walked as one with those behind it, counted in their elements: what
/// is joined along channels is then one run with a beginning and an end.
void count_in_elements(Bound& bound, const Shape& dims, const Shape& strides, int first, int end) {
  int at = end - 1, last = end - 1;
  while (at >= first && (dims[at] == 1 || bound.m[at] == 0)) --at;
  while (last > at && dims[last] == 1) --last;
  if (at < first || last == at || bound.m[at] != 1 || bound.step != 1) return;
  std::int64_t elements = 1;
  for (int d = last; d >= at; --d) {
    if (dims[d] == 0 || (dims[d] > 1 && strides[d] != elements * strides[last])) return;
    if (d > at) elements *= dims[d];
  }
  std::int64_t lo = 0, hi = 0;
  if (__builtin_mul_overflow(bound.lo, elements, &lo) || __builtin_mul_overflow(bound.hi, elements, &hi)) return;
  Bound counted = bound;
  counted.lo = lo;
  counted.hi = hi;
  if (__builtin_mul_overflow(bound.offset, elements, &counted.offset)) return;
  for (std::int64_t& m : counted.m) {
    if (__builtin_mul_overflow(m, elements, &m)) return;
  }
  for (int d = at + 1; d < end; ++d) {
    elements /= dims[d];
    counted.m[d] = elements;
  }
  bound = std::move(counted);
}

/// Dims [first, end) of the program for an access with the given strides and checks.
std::vector<Group> merge(const Shape& dims, const Shape& strides, const std::vector<Bound>& bounds, int first,
                         int end) {
  std::vector<Group> groups;
  for (int d = first; d < end; ++d) {
    if (dims[d] == 0) return {{d, 0}};
    if (dims[d] == 1) continue;
    const auto runs_on = [&](const Shape& form) { return form[groups.back().last] == form[d] * dims[d]; };
    const bool joins = !groups.empty() && runs_on(strides) &&
                       std::all_of(bounds.begin(), bounds.end(), [&](const Bound& bound) { return runs_on(bound.m); });
    if (joins) {
      groups.back() = {d, groups.back().size * dims[d]};
    } else {
      groups.push_back({d, dims[d]});
    }
  }
  return groups;
}

Shape sizes(const std::vector<Group>& groups) {
  Shape shape;
  for (const Group& group : groups) shape.push_back(group.size);
  if (groups.empty()) shape.push_back(1);
  return shape;
}

Shape pick(const std::vector<Group>& groups, const Shape& form) {
  Shape picked;
  for (const Group& group : groups) picked.push_back(form[group.last]);
  if (groups.empty()) picked.push_back(0);
  return picked;
}

Shape all_dims(const Program& program) {
  Shape dims = program.rows;
  for (std::int64_t size : program.inner) dims.push_back(size);
  return dims;
}

/// A measure of how badly a buffer is read when a tile runs along dim `d`: elements next to each other are fast.
int badness(const Shape& form, int d) {
  if (d < 0) return 0;
  const std::int64_t stride = std::abs(form[d]);
  return stride <= 1 ? 0 : stride < 8 ? 1 : 4;
}

}  // namespace

Layout choose_layout(const Program& program, bool has_row_values) {
  const Shape dims = all_dims(program);
  const int boundary = program.rows.rank();
  const std::int64_t rows = program.rows.numel();
  const std::int64_t inner = program.inner.numel();
  if (!has_row_values || rows < 16) return Layout::rows;
  const auto last_dim = [&](int first, int end) {
    for (int d = end - 1; d >= first; --d) {
      if (dims[d] > 1) return d;
    }
    return -1;
  };
  const int last_row = last_dim(0, boundary);
  const int last_inner = last_dim(boundary, dims.rank());
  int in_rows = 0, in_columns = 0;
  for (const Input& input : program.inputs) {
    in_rows += badness(input.view.strides, last_inner);
    in_columns += badness(input.view.strides, last_row);
  }
  for (const Output& output : program.outputs) {
    in_rows += badness(output.strides, last_inner);
    in_columns += badness(output.strides, last_row);
  }
  if (inner < 64) return Layout::columns;
  // A short last dim (7 x 7 planes) means short runs.
  if (last_inner >= 0 && dims[last_inner] < 16) ++in_rows;
  if (last_row >= 0 && dims[last_row] < 16) ++in_columns;
  return in_columns < in_rows ? Layout::columns : Layout::rows;
}

int transposed_dim(const Program& program) {
  const Shape dims = all_dims(program);
  int last = dims.rank() - 1;
  while (last >= 0 && dims[last] == 1) --last;
  if (last < 0 || dims[last] < 8) return -1;
  for (const Input& input : program.inputs) {
    if (std::abs(input.view.strides[last]) < 8) continue;
    for (int d = 0; d < last; ++d) {
      if (dims[d] >= 8 && std::abs(input.view.strides[d]) == 1) return d;
    }
  }
  return -1;
}

Program with_inner_dim(const Program& program, int dim) {
  const auto moved = [&](const Shape& form) {
    Shape result;
    for (int d = 0; d < program.rank(); ++d) {
      if (d != dim) result.push_back(form[d]);
    }
    result.push_back(form[dim]);
    return result;
  };
  Program result = program;
  const Shape dims = moved(all_dims(program));
  result.rows = dims.slice(0, dims.rank() - 1);
  result.inner = dims.slice(dims.rank() - 1, dims.rank());
  for (Input& input : result.inputs) {
    input.view.strides = moved(input.view.strides);
    for (Bound& bound : input.view.bounds) bound.m = moved(bound.m);
  }
  for (Output& output : result.outputs) output.strides = moved(output.strides);
  for (Position& position : result.positions) position.strides = moved(position.strides);
  return result;
}

Mapping map_space(const Program& program, Layout layout, bool merge_rows) {
  const Shape dims = all_dims(program);
  const int boundary = merge_rows ? 0 : program.rows.rank();
  const auto access = [&](int slot, DType dtype, std::int64_t offset, const Shape& strides,
                          std::vector<Bound> bounds, std::uint64_t fill) {
    const int first = layout == Layout::rows ? boundary : 0;
    const int end = layout == Layout::rows ? dims.rank() : boundary;
    for (Bound& bound : bounds) count_in_elements(bound, dims, strides, first, end);
    std::vector<Group> outer = merge(dims, strides, bounds, 0, boundary);
    std::vector<Group> along = merge(dims, strides, bounds, boundary, dims.rank());
    if (layout == Layout::columns) std::swap(outer, along);
    Access result;
    result.slot = slot;
    result.dtype = dtype;
    result.offset = offset;
    result.outer_dims = sizes(outer);
    result.along_dims = sizes(along);
    result.outer = pick(outer, strides);
    result.along = pick(along, strides);
    result.fill = fill;
    for (const Bound& bound : bounds) {
      result.checks.push_back({bound.offset, pick(outer, bound.m), pick(along, bound.m), bound.lo, bound.hi, bound.step,
                               bound.step > 1 ? bound.stride : 0});
    }
    result.find_pattern();
    return result;
  };
  Mapping mapping;
  const std::int64_t rows = dims.slice(0, boundary).numel(), inner = dims.slice(boundary, dims.rank()).numel();
  mapping.space = layout == Layout::columns ? Space{inner, rows} : Space{rows, inner};
  for (const Input& input : program.inputs) {
    const View& view = input.view;
    mapping.inputs.push_back(access(input.slot, input.dtype, view.offset, view.strides, view.bounds, view.fill));
  }
  for (const Output& output : program.outputs) {
    mapping.outputs.push_back(access(output.slot, output.dtype, output.offset, output.strides, {}, 0));
  }
  for (const Position& position : program.positions) {
    mapping.positions.push_back(access(-1, DType::i64, position.offset, position.strides, {}, 0));
  }
  return mapping;
}

}  // namespace v0
}  // namespace lockstep
