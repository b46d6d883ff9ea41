#include "graph/kernel_rows.h"

#include "core/overloaded.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

struct RowRange {
  int dim;
  std::int64_t start;
  std::int64_t count;
};

void narrow(Shape& strides, std::int64_t& offset, const RowRange& range) {
  offset += strides[range.dim] * range.start;
}

void narrow(Program& program, const RowRange& range) {
  program.rows[range.dim] = range.count;
  for (Input& input : program.inputs) input.view = input.view.sliced(range.dim, range.start, 1, range.count);
  for (Output& output : program.outputs) narrow(output.strides, output.offset, range);
  for (Position& position : program.positions) narrow(position.strides, position.offset, range);
}

std::int64_t start_of(std::int64_t size, std::int64_t count, std::uint64_t draw) {
  const std::uint64_t mixed = (draw + 1) * 0x9e3779b97f4a7c15u;  // neighbours far apart
  return static_cast<std::int64_t>((mixed >> 16) % static_cast<std::uint64_t>(size - count + 1));
}

// The first dimension that has more places.
std::optional<int> larger_dim(const Shape& shape, std::int64_t count) {
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] > count) return d;
  }
  return std::nullopt;
}

std::optional<Kernel> rows_of(RowKernel kernel, std::int64_t count, std::uint64_t draw) {
  const std::optional<int> dim = larger_dim(kernel.program.rows, count);
  if (!dim) return std::nullopt;
  narrow(kernel.program, {*dim, start_of(kernel.program.rows[*dim], count, draw), count});
  return kernel;
}

std::optional<Kernel> rows_of(ContractionKernel kernel, std::int64_t count, std::uint64_t draw) {
  std::optional<int> dim = larger_dim(kernel.m, count);
  const bool is_batch = !dim;
  if (is_batch) dim = larger_dim(kernel.b, count);
  if (!dim) return std::nullopt;
  Shape& group = is_batch ? kernel.b : kernel.m;
  const int place = is_batch ? *dim : kernel.b.rank() + *dim;
  const RowRange range{place, start_of(group[*dim], count, draw), count};
  group[*dim] = count;
  kernel.a.view = kernel.a.view.sliced(place, range.start, 1, count);
  if (is_batch) kernel.b_operand.view = kernel.b_operand.view.sliced(place, range.start, 1, count);
  narrow(kernel.epilogue, range);
  return kernel;
}

}  // namespace

std::optional<Kernel> some_rows(const Kernel& kernel, std::int64_t count, std::uint64_t draw) {
  return std::visit(overloaded{
                        [&](const RowKernel& k) { return rows_of(k, count, draw); },
                        [&](const ContractionKernel& k) { return rows_of(k, count, draw); },
                        [](const ScatterKernel&) { return std::optional<Kernel>(); },
                        [](const ScanKernel&) { return std::optional<Kernel>(); },
                        [](const SortKernel&) { return std::optional<Kernel>(); },
                        [](const UpdateKernel&) { return std::optional<Kernel>(); },
                        [](const FourierKernel&) { return std::optional<Kernel>(); },
                        [](const AttentionKernel&) { return std::optional<Kernel>(); },
                        [](const RecurrenceKernel&) { return std::optional<Kernel>(); },
                    },
                    kernel);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
