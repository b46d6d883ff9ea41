#include "kernels/traffic.h"

#include <algorithm>
#include <cstdlib>

namespace lockstep {
inline namespace v0 {
namespace {

/// Bytes by slot.
class Traffic {
 public:
  explicit Traffic(std::span<const std::size_t> slot_bytes) : slot_bytes_(slot_bytes), moved_(slot_bytes.size()) {}

  void add(const Input& input) {
    moved_[static_cast<std::size_t>(input.slot)] += encoded_bytes(input.encoding, input.dtype, elements_of(input.view));
  }
  void add(int slot, DType dtype, const Shape& shape, const Shape& strides) {
    View view;
    view.shape = shape;
    view.strides = strides;
    add(slot, size_of(dtype), elements_of(view));
  }
  void add(int slot, std::size_t element_bytes, std::int64_t elements) {
    moved_[static_cast<std::size_t>(slot)] += element_bytes * static_cast<std::size_t>(elements);
  }
  void add(const Program& program) {
    Shape space = program.rows;
    for (int d = 0; d < program.inner.rank(); ++d) space.push_back(program.inner[d]);
    for (const Input& input : program.inputs) add(input);
    for (const Table& table : program.tables) {
      moved_[static_cast<std::size_t>(table.slot)] += encoded_bytes(table.encoding, table.dtype, space.numel());
    }
    for (const Output& output : program.outputs) add(output.slot, output.dtype, space, output.strides);
  }

  /// No buffer more than once.
  std::size_t sum() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < moved_.size(); ++i) sum += std::min(moved_[i], slot_bytes_[i]);
    return sum;
  }

 private:
  // How many elements a view reaches, at most: no more than it has, without those that are repeated, and no more than
  // lie between its first and its last.
  static std::int64_t elements_of(const View& view) {
    if (view.shape.numel() == 0) return 0;
    std::int64_t count = 1;
    std::int64_t span = 1;
    bool stepped = false;
    for (int d = 0; d < view.rank(); ++d) {
      bool moves = view.strides[d] != 0;
      for (const Bound& bound : view.bounds) {
        stepped = stepped || bound.step > 1;
        moves = moves || (bound.step > 1 && bound.m[d] != 0);
      }
      if (moves) count *= view.shape[d];
      span += std::abs(view.strides[d]) * (view.shape[d] - 1);
    }
    return stepped ? count : std::min(count, span);
  }

  std::span<const std::size_t> slot_bytes_;
  std::vector<std::size_t> moved_;
};

void count(Traffic& traffic, const RowKernel& kernel, bool) {
  traffic.add(kernel.program);
}

void count(Traffic& traffic, const ContractionKernel& kernel, bool) {
  traffic.add(kernel.a);
  traffic.add(kernel.b_operand);
  if (kernel.paired) traffic.add(kernel.second);
  traffic.add(kernel.epilogue);
}

void count(Traffic& traffic, const ScatterKernel& kernel, bool in_place) {
  if (!in_place) traffic.add(kernel.self);
  traffic.add(kernel.index);
  traffic.add(kernel.values);
  const std::int64_t places = kernel.self.view.shape.numel();
  traffic.add(kernel.out, size_of(kernel.dtype), in_place ? std::min(kernel.space.numel(), places) : places);
}

void count(Traffic& traffic, const ScanKernel& kernel, bool) {
  const bool positions = kernel.op == ScanOp::argmax || kernel.op == ScanOp::argmin;
  traffic.add(kernel.input);
  traffic.add(kernel.out, size_of(positions ? DType::i64 : kernel.input.dtype), kernel.rows.numel() * kernel.n);
}

void count(Traffic& traffic, const SortKernel& kernel, bool) {
  traffic.add(kernel.input);
  traffic.add(kernel.out, size_of(DType::i64), kernel.rows.numel() * kernel.n);
}

void count(Traffic& traffic, const UpdateKernel& kernel, bool in_place) {
  traffic.add(kernel.values);
  if (!in_place) traffic.add(kernel.self, size_of(kernel.dtype), kernel.elements);
  traffic.add(kernel.out, size_of(kernel.dtype), in_place ? kernel.region.shape.numel() : kernel.elements);
}

void count(Traffic& traffic, const FourierKernel& kernel, bool) {
  const FourierPlan plan(kernel.kind, kernel.n);
  const std::size_t bytes = size_of(kernel.input.dtype);
  traffic.add(kernel.input);
  traffic.add(kernel.table, bytes, plan.table);
  traffic.add(kernel.out, bytes, kernel.lines.numel() * plan.outputs() * (plan.writes_pairs() ? 2 : 1));
}

void count(Traffic& traffic, const AttentionKernel& kernel, bool) {
  const std::size_t bytes = size_of(kernel.query.dtype);
  traffic.add(kernel.query);
  traffic.add(kernel.key);
  traffic.add(kernel.value);
  if (kernel.masked) traffic.add(kernel.mask);
  if (kernel.gradients) {
    traffic.add(kernel.made, bytes, kernel.sizes.made());
    traffic.add(kernel.upstream);
  }
  traffic.add(kernel.out, bytes, kernel.gradients ? kernel.sizes.gradients() : kernel.sizes.made());
}

void count(Traffic& traffic, const RecurrenceKernel& kernel, bool) {
  std::int64_t outputs = 0;
  for (const RecurrenceDirection& d : kernel.directions) {
    for (const Input* input : {&d.shares, &d.weight, &d.bias, &d.hidden}) traffic.add(*input);
    outputs += d.shares.view.shape.numel() / gates_of(kernel.cell);
    if (!has_memory(kernel.cell)) continue;
    traffic.add(d.memory);
    outputs += d.memory.view.shape.numel();
    if (kernel.cell != RecurrentCell::int8_lstm) continue;
    traffic.add(d.scale);
    traffic.add(d.zero);
  }
  traffic.add(kernel.out, sizeof(float), outputs);
}

}  // namespace

std::size_t bytes_moved(const Kernel& kernel, std::span<const std::size_t> slot_bytes, bool in_place) {
  Traffic traffic(slot_bytes);
  std::visit([&](const auto& k) { count(traffic, k, in_place); }, kernel);
  return traffic.sum();
}

}  // namespace v0
}  // namespace lockstep
