// Recurrences: weights as [hidden][gates], which stay so from run to run as long as they are the same value, and all
// steps of some rows of the batch in one direction on one thread, without a kernel between.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/irregular/elements.h"
#include "backends/cpu/irregular/int8_recurrence_table.h"
#include "backends/cpu/irregular/irregular.h"
#include "backends/cpu/irregular/recurrence_table.h"
#include "backends/cpu/kept_panels.h"
#include "backends/cpu/threads.h"
#include "core/fp_state.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

std::size_t count(std::int64_t elements) {
  return static_cast<std::size_t>(elements);
}

// The sizes that all directions share.
struct Sizes {
  Sizes(const RecurrenceKernel& kernel, Isa isa)
      : cell(kernel.cell),
        lanes(recurrence_table(isa).lanes),
        group(int8_recurrence_table(isa).group),
        steps(kernel.directions[0].shares.view.shape[0]),
        batch(kernel.directions[0].shares.view.shape[1]),
        gates(kernel.directions[0].shares.view.shape[2]),
        size(gates / gates_of(cell)),
        stride((gates + lanes - 1) / lanes * lanes) {}

  bool is_int8() const { return cell == RecurrentCell::int8_lstm; }
  std::size_t packed_bytes() const {
    return count(is_int8() ? int8_weight_bytes(size, stride, group) + 4 * stride : 4 * size * stride);
  }

  RecurrentCell cell;
  std::int64_t lanes, group, steps, batch, gates, size, stride;
};

// The weights of a direction in the form of the steps.
class Weights {
 public:
  Weights(const Sizes& sizes, const RecurrenceDirection& direction, Isa isa)
      : sizes_(sizes),
        slot_(count(direction.weight.slot)),
        keeps_(direction.weight.view.bounds.empty()),
        is_unsigned_(direction.weight.dtype == DType::u8),
        reader_(direction.weight, 0, Form::value, isa),
        form_(form_of(direction.weight.view)) {}

  /// Kept where they were there before this run.
  KeptPanels::Panels packed(const Binding& binding, KeptPanels& kept) const {
    Buffer* const given = binding.given.empty() || !keeps_ ? nullptr : binding.given[slot_];
    KeptPanels::Panels panels = given == nullptr ? nullptr : kept.find(given->contents(), form_);
    if (panels != nullptr) return panels;
    const std::size_t bytes = sizes_.packed_bytes();
    if (given != nullptr) panels = kept.allocate(bytes);
    const bool keep = panels != nullptr;
    if (!keep) panels = KeptPanels::Panels(new std::byte[bytes], std::default_delete<std::byte[]>());
    if (sizes_.is_int8()) {
      pack_bytes(binding, panels.get());
    } else {
      pack_floats(binding, reinterpret_cast<float*>(panels.get()));
    }
    if (keep) kept.keep(*given, form_, panels, bytes);
    return panels;
  }

 private:
  // Of one view of a value among others.
  std::string form_of(const View& view) const {
    std::string form = "recurrence";
    for (const std::int64_t number : {sizes_.stride, sizes_.is_int8() ? sizes_.group : 0, view.offset}) {
      form += " " + std::to_string(number);
    }
    for (int d = 0; d < view.rank(); ++d) form += " " + std::to_string(view.strides[d]);
    return form;
  }

  void pack_floats(const Binding& binding, float* to) const {
    std::vector<float> rows(count(sizes_.gates * sizes_.size));
    reader_.fetch(binding, 0, 0, sizes_.gates * sizes_.size, rows.data());
    std::fill_n(to, sizes_.size * sizes_.stride, 0.0f);
    for (std::int64_t g = 0; g < sizes_.gates; ++g) {
      for (std::int64_t k = 0; k < sizes_.size; ++k) to[k * sizes_.stride + g] = rows[count(g * sizes_.size + k)];
    }
  }

  void pack_bytes(const Binding& binding, std::byte* to) const {
    const std::int64_t group = sizes_.group;
    std::vector<std::int32_t> row(count(sizes_.gates));
    auto* const sums = reinterpret_cast<std::int32_t*>(to + int8_weight_bytes(sizes_.size, sizes_.stride, group));
    std::fill_n(to, sizes_.packed_bytes(), std::byte{0});
    for (std::int64_t k = 0; k < sizes_.size; ++k) {
      reader_.fetch(binding, 0, k * sizes_.gates, sizes_.gates, row.data());
      std::byte* const group_of_k = to + k / group * group * sizes_.stride + k % group;
      for (std::int64_t g = 0; g < sizes_.gates; ++g) {
        const std::int32_t weight = row[count(g)] - (is_unsigned_ ? 128 : 0);
        group_of_k[g * group] = static_cast<std::byte>(weight);
        sums[g] += weight;
      }
    }
  }

  const Sizes& sizes_;
  const std::size_t slot_;
  const bool keeps_, is_unsigned_;
  const Reader reader_;
  const std::string form_;
};

// One direction.
class Direction {
 public:
  Direction(const Sizes& sizes, const RecurrenceDirection& direction, Isa isa)
      : sizes_(sizes),
        reverse_(direction.reverse),
        is_unsigned_(direction.weight.dtype == DType::u8),
        weights_(sizes, direction, isa),
        shares_(direction.shares, 2, Form::value, isa),
        bias_(direction.bias, 0, Form::value, isa),
        hidden_(direction.hidden, 1, Form::value, isa) {
    if (has_memory(sizes.cell)) memory_.emplace(direction.memory, 1, Form::value, isa);
    if (!sizes.is_int8()) return;
    scale_.emplace(direction.scale, 0, Form::value, isa);
    zero_.emplace(direction.zero, 0, Form::value, isa);
  }

  /// What all rows of the batch share in a run.
  struct Shared {
    KeptPanels::Panels weight;
    std::vector<float> bias, scale;
    std::vector<std::int32_t> zero;
  };
  Shared shared(const Binding& binding, KeptPanels& kept) const {
    const std::size_t room = count(sizes_.stride + kRecurrenceSlack);
    Shared made{.weight = weights_.packed(binding, kept), .bias = std::vector<float>(room), .scale = {}, .zero = {}};
    bias_.fetch(binding, 0, 0, sizes_.gates, made.bias.data());
    if (!sizes_.is_int8()) return made;
    made.scale.resize(room);
    scale_->fetch(binding, 0, 0, sizes_.gates, made.scale.data());
    made.zero.resize(room);
    zero_->fetch(binding, 0, 0, sizes_.gates, made.zero.data());
    for (std::int32_t& zero : made.zero) zero -= is_unsigned_ ? 128 : 0;
    return made;
  }

  /// All steps of some rows. Their states go to `out` [steps, batch, out_stride], and the memory to a step more.
  void run(const Binding& binding, const Shared& shared, std::int64_t row, std::int64_t rows,
           void (*take)(const RecurrenceStep&), float* out, std::int64_t out_stride) const {
    const std::int64_t state = sizes_.size + kRecurrenceSlack;
    std::vector<float> room(
        count(2 * rows * (state + sizes_.stride) + kRecurrenceSlack + recurrence_work(sizes_.size, rows)));
    float* const hidden = room.data();
    float* const memory = hidden + rows * state;
    float* const shares = memory + rows * state;
    float* const gates = shares + rows * sizes_.stride + kRecurrenceSlack;
    for (std::int64_t i = 0; i < rows; ++i) {
      hidden_.fetch(binding, row + i, 0, sizes_.size, hidden + i * state);
      if (memory_) memory_->fetch(binding, row + i, 0, sizes_.size, memory + i * state);
    }
    const RecurrenceStep step{.cell = sizes_.cell,
                              .size = sizes_.size,
                              .stride = sizes_.stride,
                              .weight = shared.weight.get(),
                              .bias = shared.bias.data(),
                              .scale = shared.scale.data(),
                              .zero = shared.zero.data(),
                              .shares = shares,
                              .rows = rows,
                              .hidden = hidden,
                              .memory = memory,
                              .state_stride = state,
                              .gates = gates,
                              .work = gates + rows * sizes_.stride};
    const auto write = [&](const float* states, std::int64_t at) {
      for (std::int64_t i = 0; i < rows; ++i) {
        std::copy_n(states + i * state, sizes_.size, out + (at * sizes_.batch + row + i) * out_stride);
      }
    };
    for (std::int64_t i = 0; i < sizes_.steps; ++i) {
      const std::int64_t at = reverse_ ? sizes_.steps - 1 - i : i;
      for (std::int64_t r = 0; r < rows; ++r) {
        shares_.fetch(binding, at * sizes_.batch + row + r, 0, sizes_.gates, shares + r * sizes_.stride);
      }
      take(step);
      write(hidden, at);
    }
    if (memory_) write(memory, sizes_.steps);
  }

 private:
  const Sizes& sizes_;
  const bool reverse_, is_unsigned_;
  const Weights weights_;
  const Reader shares_, bias_, hidden_;
  std::optional<Reader> memory_, scale_, zero_;
};

class RecurrenceExecutable final : public Executable {
 public:
  RecurrenceExecutable(const RecurrenceKernel& kernel, Isa isa, std::shared_ptr<KeptPanels> kept)
      : sizes_(kernel, isa),
        step_(sizes_.is_int8() ? int8_recurrence_table(isa).step : recurrence_table(isa).step),
        out_(kernel.out),
        kept_(std::move(kept)) {
    for (const RecurrenceDirection& direction : kernel.directions) {
      directions_.push_back(std::make_unique<Direction>(sizes_, direction, isa));
    }
  }

  void run(const Binding& binding) const override {
    if (sizes_.steps * sizes_.batch * sizes_.size == 0) return;
    const FloatingPointScope scope;
    std::vector<Direction::Shared> shared;
    for (const auto& direction : directions_) shared.push_back(direction->shared(binding, *kept_));
    // The bytes of all states of a batch have one range.
    const std::int64_t together = sizes_.is_int8() ? sizes_.batch : kRecurrenceRows;
    const std::int64_t groups = (sizes_.batch + together - 1) / together;
    const auto directions = static_cast<std::int64_t>(directions_.size());
    auto* const out = reinterpret_cast<float*>(slot_of(binding, out_));
    parallel_for(groups * directions, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t d = i % directions;
        const std::int64_t row = i / directions * together;
        directions_[count(d)]->run(binding, shared[count(d)], row, std::min(together, sizes_.batch - row), step_,
                                   out + d * sizes_.size, directions * sizes_.size);
      }
    });
  }

 private:
  const Sizes sizes_;
  void (*const step_)(const RecurrenceStep&);
  const int out_;
  const std::shared_ptr<KeptPanels> kept_;
  std::vector<std::unique_ptr<Direction>> directions_;
};

}  // namespace
}  // namespace irregular

bool has_recurrence(Isa isa) {
  return recurrence_table(isa).step != nullptr;
}

std::unique_ptr<Executable> compile_recurrence(const RecurrenceKernel& kernel, Isa isa,
                                               std::shared_ptr<KeptPanels> kept) {
  return std::make_unique<irregular::RecurrenceExecutable>(kernel, isa, std::move(kept));
}

}  // namespace v0
}  // namespace lockstep
