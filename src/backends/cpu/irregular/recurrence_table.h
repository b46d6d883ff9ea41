// One step of a recurrence for rows of its batch, in loops for an instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/isa.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
/// Floats that the loops may read behind the elements of an array, and write behind those of `work`.
inline constexpr std::int64_t kRecurrenceSlack = 64;
inline constexpr std::int64_t kRecurrenceRows = 4;

struct RecurrenceStep {
  RecurrentCell cell = RecurrentCell::gru;
  std::int64_t size = 0;               ///< of a hidden state
  std::int64_t stride = 0;             ///< elements of all gates, rounded up to whole vectors
  const std::byte* weight = nullptr;   ///< floats [size][stride], or what int8_recurrence_table.h says
  const float* bias = nullptr;         ///< [stride]
  const float* scale = nullptr;        ///< int8_lstm: [stride]
  const std::int32_t* zero = nullptr;  ///< int8_lstm: [stride], of the weights less 128 where these are unsigned
  const float* shares = nullptr;       ///< [rows][stride]
  std::int64_t rows = 0;               ///< at most kRecurrenceRows; int8_lstm: all of the batch
  float* hidden = nullptr;             ///< [rows][state_stride], before and after the step
  float* memory = nullptr;             ///< of an LSTM: the same of the cell state
  std::int64_t state_stride = 0;
  float* gates = nullptr;  ///< [rows][stride]: room for what the weights give
  float* work = nullptr;   ///< recurrence_work(size, rows) elements
};

constexpr std::int64_t recurrence_work(std::int64_t size, std::int64_t rows) {
  return 4 * size + 3 * kRecurrenceSlack + rows * (size + kRecurrenceSlack);
}

struct RecurrenceTable {
  std::int64_t lanes = 1;
  void (*step)(const RecurrenceStep& step) = nullptr;  ///< null where multiply-adds are not fused
};
const RecurrenceTable& recurrence_table(Isa isa);

}  // namespace v0
}  // namespace lockstep
