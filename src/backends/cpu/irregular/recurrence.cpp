// Recurrences: weights as [hidden][gates], which stay so from run to run as long as they are the same value, and all
// steps of some rows of the batch on one thread, without a kernel between.
#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/irregular/elements.h"
#include "backends/cpu/irregular/irregular.h"
#include "backends/cpu/irregular/recurrence_table.h"
#include "backends/cpu/threads.h"
#include "core/fp_state.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

class RecurrenceExecutable final : public Executable {
 public:
  RecurrenceExecutable(const RecurrenceKernel& kernel, Isa isa)
      : kernel_(kernel),
        table_(recurrence_table(isa)),
        steps_(kernel.shares.view.shape[0]),
        batch_(kernel.shares.view.shape[1]),
        size_(kernel.weight.view.shape[1]),
        gates_(kernel.weight.view.shape[0]),
        stride_((gates_ + table_.lanes - 1) / table_.lanes * table_.lanes),
        shares_(kernel.shares, 2, Form::value, isa),
        weight_(kernel.weight, 0, Form::value, isa),
        bias_(kernel.bias, 0, Form::value, isa),
        hidden_(kernel.hidden, 1, Form::value, isa),
        memory_(is_lstm() ? kernel.memory : kernel.hidden, 1, Form::value, isa) {}

  void run(const Binding& binding) const override {
    if (steps_ * batch_ * size_ == 0) return;
    const FloatingPointScope scope;
    pack(binding);
    std::vector<float> bias(count(stride_ + kRecurrenceSlack));
    bias_.fetch(binding, 0, 0, gates_, bias.data());
    const std::int64_t groups = (batch_ + kRecurrenceRows - 1) / kRecurrenceRows;
    parallel_for(groups, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t row = group * kRecurrenceRows;
        run_rows(binding, bias.data(), row, std::min(kRecurrenceRows, batch_ - row));
      }
    });
  }

 private:
  static std::size_t count(std::int64_t elements) { return static_cast<std::size_t>(elements); }
  bool is_lstm() const { return kernel_.cell == RecurrentCell::lstm; }

  void pack(const Binding& binding) const {
    Buffer* const given = binding.given.empty() ? nullptr : binding.given[count(kernel_.weight.slot)];
    const std::uint64_t contents = given == nullptr ? 0 : given->contents();
    if (std::exchange(contents_, contents) == contents && contents != 0) return;
    std::vector<float> rows(count(gates_ * size_));
    weight_.fetch(binding, 0, 0, gates_ * size_, rows.data());
    packed_.assign(count(size_ * stride_), 0.0f);
    for (std::int64_t k = 0; k < size_; ++k) {
      for (std::int64_t g = 0; g < gates_; ++g) packed_[count(k * stride_ + g)] = rows[count(g * size_ + k)];
    }
  }

  void run_rows(const Binding& binding, const float* bias, std::int64_t row, std::int64_t rows) const {
    const std::int64_t state = size_ + kRecurrenceSlack;
    std::vector<float> room(count(2 * rows * (state + stride_) + kRecurrenceSlack + recurrence_work(size_)));
    float* const hidden = room.data();
    float* const memory = hidden + rows * state;
    float* const shares = memory + rows * state;
    float* const gates = shares + rows * stride_ + kRecurrenceSlack;
    for (std::int64_t i = 0; i < rows; ++i) {
      hidden_.fetch(binding, row + i, 0, size_, hidden + i * state);
      if (is_lstm()) memory_.fetch(binding, row + i, 0, size_, memory + i * state);
    }
    const RecurrenceStep step{.cell = kernel_.cell,
                              .size = size_,
                              .stride = stride_,
                              .weight = packed_.data(),
                              .bias = bias,
                              .shares = shares,
                              .rows = rows,
                              .hidden = hidden,
                              .memory = memory,
                              .state_stride = state,
                              .gates = gates,
                              .work = gates + rows * stride_};
    auto* const out = reinterpret_cast<float*>(slot_of(binding, kernel_.out));
    const auto write = [&](const float* states, std::int64_t at) {
      for (std::int64_t i = 0; i < rows; ++i) {
        std::copy_n(states + i * state, size_, out + (at * batch_ + row + i) * size_);
      }
    };
    for (std::int64_t i = 0; i < steps_; ++i) {
      const std::int64_t at = kernel_.reverse ? steps_ - 1 - i : i;
      for (std::int64_t r = 0; r < rows; ++r) {
        shares_.fetch(binding, at * batch_ + row + r, 0, gates_, shares + r * stride_);
      }
      table_.step(step);
      write(hidden, at);
    }
    if (is_lstm()) write(memory, steps_);
  }

  const RecurrenceKernel kernel_;
  const RecurrenceTable& table_;
  const std::int64_t steps_, batch_, size_, gates_, stride_;
  const Reader shares_, weight_, bias_, hidden_, memory_;
  // A weight that comes again.
  mutable std::uint64_t contents_ = 0;
  mutable std::vector<float> packed_;
};

}  // namespace
}  // namespace irregular

bool has_recurrence(Isa isa) {
  return recurrence_table(isa).step != nullptr;
}

std::unique_ptr<Executable> compile_recurrence(const RecurrenceKernel& kernel, Isa isa) {
  return std::make_unique<irregular::RecurrenceExecutable>(kernel, isa);
}

}  // namespace v0
}  // namespace lockstep
