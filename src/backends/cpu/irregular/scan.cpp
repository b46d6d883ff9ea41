#include "backends/cpu/irregular/scan.h"

#include "backends/cpu/irregular/irregular.h"
#include "core/fp_state.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

ScanTable::Op loops_of(ScanOp op) {
  switch (op) {
    case ScanOp::sum: return ScanTable::sum;
    case ScanOp::prod: return ScanTable::prod;
    case ScanOp::max:
    case ScanOp::argmax: return ScanTable::max;
    case ScanOp::min:
    case ScanOp::argmin: break;
  }
  return ScanTable::min;
}

bool gives_positions(ScanOp op) {
  return op == ScanOp::argmax || op == ScanOp::argmin;
}

Input in_order(const RowOrder& order, const Input& input) {
  Input result = input;
  result.view = with_dims(input.view, order.across);
  return result;
}

class ScanExecutable final : public Executable {
 public:
  ScanExecutable(const ScanKernel& kernel, Isa isa) : plan_(kernel, isa) {}
  void run(const Binding& binding) const override {
    const FloatingPointScope scope;
    if (plan_.rows() == 0 || plan_.kernel.n == 0) return;
    suits_columns(plan_) ? scan_columns(plan_, binding) : scan_rows(plan_, binding);
  }

 private:
  ScanPlan plan_;
};

}  // namespace

ScanPlan::ScanPlan(const ScanKernel& k, Isa isa)
    : kernel(k),
      out_dtype(gives_positions(k.op) ? DType::i64 : k.input.dtype),
      positions(gives_positions(k.op)),
      type(compute_type(k.input.dtype)),
      op(loops_of(k.op)),
      order(order_of(k.rows, k.n, k.out_strides)),
      table(&scan_table(isa)),
      reduce(&reduce_table(isa)),
      flat_reader(k.input, 0, Form::value, isa),
      row_reader(k.input, k.rows.rank(), Form::value, isa),
      column_reader(in_order(order, k.input), order.dims_before + 1, Form::value, isa),
      flat_writer(out_dtype, k.input.view.shape, k.out_strides, 0, 0, Form::value, isa),
      row_writer(out_dtype, k.input.view.shape, k.out_strides, 0, k.rows.rank(), Form::value, isa),
      column_writer(out_dtype, irregular::in_order(order.across, k.input.view.shape),
                    irregular::in_order(order.across, k.out_strides), 0, order.dims_before + 1, Form::value, isa) {}

}  // namespace irregular

std::unique_ptr<Executable> compile_scan(const ScanKernel& kernel, Isa isa) {
  return std::make_unique<irregular::ScanExecutable>(kernel, isa);
}

}  // namespace v0
}  // namespace lockstep
