#include "backends/cpu/irregular/scatter.h"

#include "backends/cpu/irregular/irregular.h"
#include "core/fp_state.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

class ScatterExecutable final : public Executable {
 public:
  ScatterExecutable(const ScatterKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory)
      : plan_(kernel, isa),
        memory_(std::move(memory)),
        self_(kernel.self, View::contiguous(kernel.self.view.shape).strides, 0, isa) {
    if (kernel.space.numel() == 0 || plan_.places == 0) return;
    scatter_ = scatter_of_rows(plan_);
    if (!scatter_) scatter_ = scatter_of_places(plan_, *memory_);
  }

  void run(const Binding& binding) const override {
    const FloatingPointScope scope;
    std::byte* out = slot_of(binding, plan_.kernel.out);
    if (slot_of(binding, plan_.kernel.self.slot) != out) self_.run(binding, out);
    if (scatter_) scatter_->run(binding);
    // Indices into an axis of size 0.
    if (plan_.places == 0 && plan_.kernel.space.numel() != 0) report_fault(binding, 0);
  }

 private:
  ScatterPlan plan_;
  std::shared_ptr<MemoryPool> memory_;
  Copy self_;
  std::unique_ptr<Scatter> scatter_;
};

}  // namespace

ScatterPlan::ScatterPlan(const ScatterKernel& k, Isa isa_)
    : kernel(k),
      isa(isa_),
      form(k.op == ScatterOp::set ? Form::word : Form::value),
      type(type_of(k.dtype, form)),
      reduce(&reduce_table(isa_)),
      convert(&convert_table(isa_)),
      places(k.self.view.shape.numel()) {}

}  // namespace irregular

std::unique_ptr<Executable> compile_scatter(const ScatterKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory) {
  return std::make_unique<irregular::ScatterExecutable>(kernel, isa, std::move(memory));
}

}  // namespace v0
}  // namespace lockstep
