// How a scan is computed, by the shape of its rows:
//   short rows      a tile of many rows is read and written at once (scan_rows.cpp)
//   long rows       chunk by chunk, or, where there are fewer rows than threads, chunks in parallel: first their
//   totals,
//                   then what comes before each, then their elements (scan_rows.cpp)
//   columns         rows next to each other in memory, one element of each at a time (scan_columns.cpp)
#pragma once

#include <memory>

#include "backends/cpu/irregular/elements.h"
#include "backends/cpu/irregular/rows.h"
#include "backends/cpu/irregular/scan_table.h"
#include "backends/cpu/memory_pool.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {

struct ScanPlan {
  ScanPlan(const ScanKernel& kernel, Isa isa);

  ScanKernel kernel;
  DType out_dtype;
  bool positions;    ///< argmax, argmin
  ComputeType type;  ///< of the input
  ScanTable::Op op;
  RowOrder order;
  const ScanTable* table;
  const ReduceTable* reduce;
  // Over (rows..., n): all dims along, rows outer. Over (before..., n, inner...): (before..., n) outer.
  Reader flat_reader, row_reader, column_reader;
  Writer flat_writer, row_writer, column_writer;

  std::int64_t rows() const { return order.before * order.inner; }
};

void scan_rows(const ScanPlan& plan, const Binding& binding);
void scan_columns(const ScanPlan& plan, const Binding& binding);
/// Whether there are enough columns to keep the threads busy.
bool suits_columns(const ScanPlan& plan);

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
