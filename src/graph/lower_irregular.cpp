#include "graph/lower_irregular.h"

#include "core/assert.h"
#include "core/overloaded.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// With `dim` as the last one.
Shape last(int rank, int dim) {
  Shape order;
  for (int d = 0; d < rank; ++d) {
    if (d != dim) order.push_back(d);
  }
  order.push_back(dim);
  return order;
}

class IrregularLowering {
 public:
  IrregularLowering(const std::vector<Entry>& entries, int entry)
      : entries_(entries), entry_(entry), self_(entries[static_cast<std::size_t>(entry)]) {}

  Step run() {
    step_.kernel = visit_primitive(
        overloaded{
            [&](const Scatter& scatter) -> Kernel { return scatter_kernel(scatter); },
            [&](const Scan& scan) -> Kernel {
              auto kernel = along<ScanKernel>(scan.dim);
              kernel.op = scan.op;
              return kernel;
            },
            [&](const Sort& sort) -> Kernel {
              auto kernel = along<SortKernel>(sort.dim);
              kernel.descending = sort.descending;
              return kernel;
            },
            [&](const Update& update) -> Kernel { return update_kernel(update); },
            [&](const Fourier& fourier) -> Kernel { return fourier_kernel(fourier); },
            [&](const Attend& attend) -> Kernel { return attention_kernel(attend); },
            [&](const Recur& recur) -> Kernel { return recurrence_kernel(recur); },
            [](const OneOf<Data, Full, Iota, Random, ViewOf, Elementwise, Cast, Reduce, Contract, Gather> auto&)
                -> Kernel { fail_invariant("an irregular entry has a kernel of its own", __FILE__, __LINE__); },
        },
        *self_.op);
    if (traits_of(*self_.op).checks_index) step_.checks.push_back(entry_);
    step_.writes.push_back(entry_);
    return std::move(step_);
  }

 private:
  Input input(std::size_t position) { return input_of(step_, entries_, entry_, position); }

  ScatterKernel scatter_kernel(const Scatter& scatter) {
    ScatterKernel kernel;
    kernel.op = scatter.op;
    kernel.include_self = scatter.include_self;
    kernel.dtype = self_.dtype;
    kernel.self = input(0);
    kernel.index = input(1);
    kernel.values = input(2);
    kernel.space = kernel.index.view.shape;
    kernel.strides = View::contiguous(self_.shape).strides;
    kernel.stride = kernel.strides[scatter.dim];
    kernel.size = self_.shape[scatter.dim];
    kernel.strides[scatter.dim] = 0;
    kernel.out = slot_of(step_, entry_);
    const bool is_whole = kernel.self.view == View::contiguous(self_.shape);
    const bool is_apart = kernel.values.slot != kernel.self.slot && kernel.index.slot != kernel.self.slot;
    if (is_whole && is_apart) step_.replaces = self_.operands[0].entry;
    return kernel;
  }

  template <typename K> K along(int dim) {
    const Shape& shape = self_.shape;
    const Shape order = last(shape.rank(), dim);
    K kernel;
    kernel.input = input(0);
    kernel.input.view = kernel.input.view.permuted(order);
    kernel.rows = kernel.input.view.shape.slice(0, shape.rank() - 1);
    kernel.n = shape[dim];
    kernel.out = slot_of(step_, entry_);
    kernel.out_strides = View::contiguous(shape).permuted(order).strides;
    return kernel;
  }

  UpdateKernel update_kernel(const Update& update) {
    UpdateKernel kernel;
    kernel.dtype = self_.dtype;
    kernel.elements = self_.shape.numel();
    kernel.region = update.region;
    kernel.start = static_cast<int>(step_.parameters.size());
    step_.parameters.push_back({entry_, 0});
    kernel.self = slot_of(step_, self_.operands[0].entry);
    kernel.values = input(1);
    kernel.out = slot_of(step_, entry_);
    // Not where the values are elements of the same tensor: they would be read while others are written over them.
    if (kernel.values.slot != kernel.self) step_.replaces = self_.operands[0].entry;
    return kernel;
  }

  FourierKernel fourier_kernel(const Fourier& fourier) {
    FourierKernel kernel;
    kernel.kind = fourier.kind;
    kernel.n = fourier.n;
    kernel.scale = static_cast<int>(step_.parameters.size());
    step_.parameters.push_back({entry_, 0});
    kernel.input = input(0);
    // Lines are [before, after].
    const auto lines_first = [](int rank) { return rank == 3 ? Shape{0, 2, 1} : Shape{0, 2, 1, 3}; };
    kernel.input.view = kernel.input.view.permuted(lines_first(kernel.input.view.rank()));
    kernel.lines = kernel.input.view.shape.slice(0, 2);
    const Input table = input(1);
    LOCKSTEP_ASSERT(table.view.offset == 0 && table.view.is_contiguous());
    kernel.table = table.slot;
    kernel.out = slot_of(step_, entry_);
    kernel.out_strides = View::contiguous(self_.shape).permuted(lines_first(self_.shape.rank())).strides;
    return kernel;
  }

  AttentionKernel attention_kernel(const Attend& attend) {
    AttentionKernel kernel;
    kernel.numerics = attend.numerics;
    kernel.gradients = attend.gradients;
    kernel.causal = attend.causal;
    kernel.behind = attend.behind;
    kernel.scale = static_cast<int>(step_.parameters.size());
    step_.parameters.push_back({entry_, 0});
    kernel.query = input(0);
    kernel.key = input(1);
    kernel.value = input(2);
    kernel.sizes = attention_sizes(kernel.query.view.shape, kernel.key.view.shape, attend.numerics);
    kernel.masked = attend.masked;
    kernel.finite_padding = attend.finite_padding;
    if (attend.masked) kernel.mask = input(3);
    if (attend.gradients) {
      const Input made = input(3);
      LOCKSTEP_ASSERT(made.view.offset == 0 && made.view.is_contiguous());
      kernel.made = made.slot;
      kernel.upstream = input(4);
    }
    kernel.out = slot_of(step_, entry_);
    return kernel;
  }

  RecurrenceKernel recurrence_kernel(const Recur& recur) {
    RecurrenceKernel kernel;
    kernel.cell = recur.cell;
    for (std::size_t d = 0; d < recur.directions(); ++d) {
      const std::size_t first = d * recur.operands();
      RecurrenceDirection& direction = kernel.directions.emplace_back();
      direction.reverse = d == 1 || recur.direction == Recur::Direction::reverse;
      direction.shares = input(first);
      direction.weight = input(first + 1);
      direction.bias = input(first + 2);
      direction.hidden = input(first + 3);
      if (has_memory(recur.cell)) direction.memory = input(first + 4);
      if (recur.cell != RecurrentCell::int8_lstm) continue;
      direction.scale = input(first + 5);
      direction.zero = input(first + 6);
    }
    kernel.out = slot_of(step_, entry_);
    return kernel;
  }

  const std::vector<Entry>& entries_;
  const int entry_;
  const Entry& self_;
  Step step_;
};

}  // namespace

Step lower_irregular(const std::vector<Entry>& entries, int entry) {
  return IrregularLowering(entries, entry).run();
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
