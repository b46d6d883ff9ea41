// One step of an LSTM whose hidden states are made bytes and multiplied by weights that are bytes, for an instruction
// set. The weights lie as signed bytes [size / group][stride][group], those beyond `size` 0, and behind them, as i32
// [stride], the sums of each column.
#pragma once

#include <cstdint>

#include "backends/cpu/irregular/recurrence_table.h"

namespace lockstep {
inline namespace v0 {

struct Int8RecurrenceTable {
  std::int64_t group = 1;  ///< how many neighbours along the states one multiplication takes in
  void (*step)(const RecurrenceStep& step) = nullptr;  ///< null where RecurrenceTable's is
};
const Int8RecurrenceTable& int8_recurrence_table(Isa isa);

/// Bytes of the weights themselves.
constexpr std::int64_t int8_weight_bytes(std::int64_t size, std::int64_t stride, std::int64_t group) {
  return (size + group - 1) / group * group * stride;
}

}  // namespace v0
}  // namespace lockstep
