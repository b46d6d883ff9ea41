// The steps of an LSTM with weights of bytes, op by op as io/onnx/ops/recurrent.cpp composes them. Sums of integers
// have no order: the states are taken as they are (bytes, where the processor has VNNI) or less their zero point (pairs
// of 16 bits), and what the zero points and signs of the others add is added for a column at once.
#define HWY_TARGET_INCLUDE "backends/cpu/irregular/int8_recurrence_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/irregular/int8_recurrence_table.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

Int8RecurrenceTable make_table() {
  return {};
}

#else

#include "backends/cpu/irregular/recurrence_cells-inl.h"
#include "backends/cpu/irregular/recurrence_dots-inl.h"

using Integers = hn::Vec<IntegerTag>;

float canonical_number(float x) {
  return hn::GetLane(canonical_vector(hn::Set(D(), x)));
}
// To the nearest byte, halves to even; NaN is 0.
int byte_of(float x) {
  return std::isnan(x) ? 0 : static_cast<int>(std::clamp(std::nearbyint(x), 0.0f, 255.0f));
}

HWY_INLINE hn::Mask<D> first(std::int64_t count) {
  return hn::FirstN(D(), static_cast<std::size_t>(std::min(count, lanes())));
}
// Elements [k, size) of a state as far as a vector takes them, and zeros.
HWY_INLINE V load_first(const float* state, std::int64_t k, std::int64_t size) {
  return hn::IfThenElseZero(first(size - k), at(state, k));
}

// How hidden states become bytes: round(state / scale) + zero.
struct Quantisation {
  float scale = 1;
  int zero = 0;
};
Quantisation quantisation_of(const RecurrenceStep& step) {
  const D d;
  V most = hn::Zero(d);
  V least = hn::Zero(d);
  V nan = hn::Zero(d);  // 0 / 0 where one is
  for (std::int64_t row = 0; row < step.rows; ++row) {
    const float* const hidden = step.hidden + row * step.state_stride;
    for (std::int64_t k = 0; k < step.size; k += lanes()) {
      const V state = load_first(hidden, k, step.size);
      nan = hn::IfThenElse(hn::IsNaN(state), state, nan);
      most = hn::Max(most, state);
      least = hn::Min(least, state);
    }
  }
  const bool is_nan = !hn::AllFalse(d, hn::IsNaN(nan));
  const float high = is_nan ? std::numeric_limits<float>::quiet_NaN() : hn::GetLane(hn::MaxOfLanes(d, most));
  const float low = is_nan ? high : hn::GetLane(hn::MinOfLanes(d, least));
  const float range = canonical_number(high - low);
  const float scale = range == 0 ? 1.0f : canonical_number(range / 255.0f);
  return {scale, byte_of(-low / scale)};
}

// The states of a row as multipliers, from which `begin` is taken; the sum of what they are above the zero point.
template <typename Multiplier>
std::int32_t quantise(const float* hidden, std::int64_t size, const Quantisation& q, int begin, Multiplier* to) {
  const D d;
  const IntegerTag integers;
  const hn::Rebind<Multiplier, IntegerTag> narrow;
  const V scale = hn::Set(d, q.scale);
  const V zero = hn::Set(d, static_cast<float>(q.zero));
  Integers sum = hn::Zero(integers);
  for (std::int64_t k = 0; k < size; k += lanes()) {
    const V moved = hn::Add(hn::Round(hn::Div(load_first(hidden, k, size), scale)), zero);
    const V held = hn::Min(hn::Max(moved, hn::Zero(d)), hn::Set(d, 255.0f));
    const Integers bytes = hn::ConvertTo(integers, hn::IfThenZeroElse(hn::IsNaN(moved), held));
    const Integers above = hn::Sub(bytes, hn::Set(integers, q.zero));
    sum = hn::Add(sum, hn::IfThenElseZero(hn::RebindMask(integers, first(size - k)), above));
    hn::StoreU(hn::DemoteTo(narrow, hn::Sub(bytes, hn::Set(integers, begin))), narrow, to + k);
  }
  return hn::GetLane(hn::SumOfLanes(integers, sum));
}

/// What is to be taken from the dot products: the zero point of the states for each weight, where the states were
/// multiplied with it, and the zero points of the weights for each state, whose sum above their zero point this is.
struct Rest {
  std::int32_t sum = 0;
  std::int32_t zero = 0;
};

// shares + product * (scale of the states * scales of the weights) + bias, where the gates are dot products.
void scale_products(const RecurrenceStep& step, float scale, const Rest& rest, const std::int32_t* sums,
                    std::int64_t row) {
  const D d;
  const IntegerTag integers;
  const V of_states = hn::Set(d, scale);
  const Integers rest_sum = hn::Set(integers, rest.sum);
  const Integers rest_zero = hn::Set(integers, rest.zero);
  float* const gates = step.gates + row * step.stride;
  const float* const shares = step.shares + row * step.stride;
  for (std::int64_t i = 0; i < step.stride; i += lanes()) {
    const Integers dot = hn::BitCast(integers, at(gates, i));
    const Integers raised = hn::Mul(hn::LoadU(integers, sums + i), rest_zero);
    const Integers moved = hn::Mul(hn::LoadU(integers, step.zero + i), rest_sum);
    const V product = hn::ConvertTo(d, hn::Sub(hn::Sub(dot, raised), moved));
    const V value = times(product, times(of_states, at(step.scale, i)));
    hn::StoreU(plus(plus(at(shares, i), value), at(step.bias, i)), d, gates + i);
  }
}

// Gates: in, out, forget, fresh.
void step_lstm(const RecurrenceStep& step, std::int64_t row) {
  const std::int64_t size = step.size;
  const float* const gates = step.gates + row * step.stride;
  float* const three = step.work;
  float* const fresh = three + 3 * size + kRecurrenceSlack;
  float* const out = fresh + size + kRecurrenceSlack;
  std::copy_n(gates, 3 * size, three);
  std::copy_n(gates + 3 * size, size, fresh);
  sigmoids(three, 3 * size);
  tanhs(fresh, size);
  std::copy_n(three + size, size, out);
  finish_lstm(size, three, three + 2 * size, fresh, out, step.hidden + row * step.state_stride,
              step.memory + row * step.state_stride);
}

/// Multipliers are bytes, which keep their zero point, or 16 bits less it, kGroup in a word.
template <typename Multiplier> void run_step(const RecurrenceStep& step, void (*dots)(const DotArgs&, std::int64_t)) {
  constexpr bool kBytes = sizeof(Multiplier) == 1;
  constexpr std::int64_t kGroup = 4 / sizeof(Multiplier);
  const Quantisation q = quantisation_of(step);
  const std::int64_t state_stride = step.size + kRecurrenceSlack;
  auto* const states = reinterpret_cast<std::int32_t*>(step.work + recurrence_work(step.size, 0));
  const auto* const sums =
      reinterpret_cast<const std::int32_t*>(step.weight + int8_weight_bytes(step.size, step.stride, kGroup));
  for (std::int64_t row = 0; row < step.rows; row += kRecurrenceRows) {
    const std::int64_t rows = std::min(kRecurrenceRows, step.rows - row);
    Rest rests[kRecurrenceRows];
    for (std::int64_t r = 0; r < rows; ++r) {
      auto* const to = reinterpret_cast<Multiplier*>(states + r * state_stride);
      const float* const hidden = step.hidden + (row + r) * step.state_stride;
      rests[r] = {quantise(hidden, step.size, q, kBytes ? 0 : q.zero, to), kBytes ? q.zero : 0};
    }
    dots({.words = (step.size + kGroup - 1) / kGroup,
          .states = states,
          .state_stride = state_stride,
          .weight = step.weight,
          .stride = step.stride,
          .results = reinterpret_cast<std::int32_t*>(step.gates + row * step.stride)},
         rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      scale_products(step, q.scale, rests[r], sums, row + r);
      step_lstm(step, row + r);
    }
  }
}

void step_by_pairs(const RecurrenceStep& step) {
  run_step<std::int16_t>(step, pairs_of_rows);
}
#if HWY_TARGET == HWY_AVX3
void step_by_quads(const RecurrenceStep& step) {
  run_step<std::uint8_t>(step, quads_of_rows);
}
#endif

Int8RecurrenceTable make_table() {
#if HWY_TARGET == HWY_AVX3
  if (contraction::has_vnni()) return {.group = 4, .step = step_by_quads};
#endif
  return {.group = 2, .step = step_by_pairs};
}

#endif

}  // namespace

LOCKSTEP_TARGET_END(Int8RecurrenceTable, int8_recurrence_table, make_table())
