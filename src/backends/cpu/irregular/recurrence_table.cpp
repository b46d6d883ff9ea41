// The steps of recurrences: the product with the weights in the order of docs/numerics.md section 6, the gates op by op
// as graph/ops/recurrent.cpp composes them.
#define HWY_TARGET_INCLUDE "backends/cpu/irregular/recurrence_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/irregular/recurrence_table.h"
#include "kernels/order.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

RecurrenceTable make_table() {
  return {};
}

#else

#include "backends/cpu/irregular/recurrence_cells-inl.h"

/// Columns [column, column + kVectors vectors) of the product of kRows hidden states and the weights, plus the biases.
template <int kRows, int kVectors> HWY_INLINE void multiply_columns(const RecurrenceStep& step, std::int64_t column) {
  const D d;
  V sum[kRows][kVectors];
  for (std::int64_t begin = 0; begin < step.size; begin += order::kBlock) {
    V part[kRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) part[r][v] = hn::Zero(d);
    }
    const std::int64_t end = std::min<std::int64_t>(step.size, begin + order::kBlock);
    const float* weight = reinterpret_cast<const float*>(step.weight) + begin * step.stride + column;
    for (std::int64_t k = begin; k < end; ++k, weight += step.stride) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const V state = hn::Set(d, step.hidden[r * step.state_stride + k]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          part[r][v] = hn::MulAdd(state, hn::LoadU(d, weight + v * lanes()), part[r][v]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = begin == 0 ? part[r][v] : hn::Add(sum[r][v], part[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = column + v * lanes();
      const V biased = hn::Add(canonical_vector(sum[r][v]), hn::LoadU(d, step.bias + at));
      hn::StoreU(canonical_vector(biased), d, step.gates + r * step.stride + at);
    }
  }
}

/// From `column` on; what is left of the widest tiles by narrower ones.
template <int kRows, int kVectors> HWY_INLINE void multiply(const RecurrenceStep& step, std::int64_t column = 0) {
  for (; column + kVectors * lanes() <= step.stride; column += kVectors * lanes()) {
    multiply_columns<kRows, kVectors>(step, column);
  }
  if constexpr (kVectors > 1) multiply<kRows, kVectors / 2>(step, column);
}

// The states behind `hidden`'s and `memory`'s elements stay as they are. fresh + keep * (hidden - fresh)
void step_gru(const RecurrenceStep& step, const float* shares, const float* gates, float* hidden) {
  const std::int64_t size = step.size;
  float* const both = step.work;  // reset, keep
  float* const fresh = both + 2 * size + kRecurrenceSlack;
  fill(both, 2 * size, [&](std::int64_t i) HWY_ATTR { return plus(at(shares, i), at(gates, i)); });
  sigmoids(both, 2 * size);
  fill(fresh, size, [&](std::int64_t i) HWY_ATTR {
    return plus(at(shares + 2 * size, i), times(at(both, i), at(gates + 2 * size, i)));
  });
  tanhs(fresh, size);
  fill(fresh, size, [&](std::int64_t i) HWY_ATTR {
    const V difference = canonical_vector(hn::Sub(at(hidden, i), at(fresh, i)));
    return plus(at(fresh, i), times(at(both + size, i), difference));
  });
  std::copy_n(fresh, size, hidden);
}

// Gates: in, forget, fresh, out.
void step_lstm(const RecurrenceStep& step, const float* shares, const float* gates, float* hidden, float* memory) {
  const std::int64_t size = step.size;
  float* const in_forget = step.work;
  float* const fresh = in_forget + 2 * size + kRecurrenceSlack;
  float* const out = fresh + size + kRecurrenceSlack;
  fill(in_forget, 2 * size, [&](std::int64_t i) HWY_ATTR { return plus(at(shares, i), at(gates, i)); });
  fill(fresh, size, [&](std::int64_t i) HWY_ATTR { return plus(at(shares + 2 * size, i), at(gates + 2 * size, i)); });
  fill(out, size, [&](std::int64_t i) HWY_ATTR { return plus(at(shares + 3 * size, i), at(gates + 3 * size, i)); });
  sigmoids(in_forget, 2 * size);
  tanhs(fresh, size);
  sigmoids(out, size);
  finish_lstm(size, in_forget, in_forget + size, fresh, out, hidden, memory);
}

void step_rnn(const RecurrenceStep& step, const float* shares, const float* gates, float* hidden) {
  float* const next = step.work;
  fill(next, step.size, [&](std::int64_t i) HWY_ATTR { return plus(at(shares, i), at(gates, i)); });
  if (step.cell == RecurrentCell::rnn_tanh) {
    tanhs(next, step.size);
  } else {
    fill(next, step.size, [&](std::int64_t i) HWY_ATTR {
      // max(a, 0), and the NaN: as ops.def has it.
      const V a = at(next, i);
      return hn::IfThenElse(hn::Or(hn::Gt(a, hn::Zero(D())), hn::IsNaN(a)), a, hn::Zero(D()));
    });
  }
  std::copy_n(next, step.size, hidden);
}

void run_step(const RecurrenceStep& step) {
  constexpr int kAlone = 8;  // vectors, whose sums fill half of the least registers
  switch (step.rows) {
    case 1: multiply<1, kAlone>(step); break;
    case 2: multiply<2, kAlone / 2>(step); break;
    case 3: multiply<3, kAlone / 4>(step); break;
    default: multiply<4, kAlone / 4>(step); break;
  }
  for (std::int64_t row = 0; row < step.rows; ++row) {
    const float* const shares = step.shares + row * step.stride;
    const float* const gates = step.gates + row * step.stride;
    float* const hidden = step.hidden + row * step.state_stride;
    switch (step.cell) {
      case RecurrentCell::gru: step_gru(step, shares, gates, hidden); break;
      case RecurrentCell::lstm: step_lstm(step, shares, gates, hidden, step.memory + row * step.state_stride); break;
      case RecurrentCell::rnn_tanh:
      case RecurrentCell::rnn_relu: step_rnn(step, shares, gates, hidden); break;
      case RecurrentCell::int8_lstm: break;  // int8_recurrence_table.cpp
    }
  }
}

RecurrenceTable make_table() {
  return {.lanes = lanes(), .step = run_step};
}

#endif

}  // namespace

LOCKSTEP_TARGET_END(RecurrenceTable, recurrence_table, make_table())
