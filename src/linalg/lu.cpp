// LU with partial pivoting. Within a panel no row moves: a row that was a pivot is only no candidate any more. At the
// end of the panel all rows are put in order at once.
#include "linalg/factors.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace {

struct PivotedPanel {
  Tensor values;  ///< [B, m, w]
  Tensor order;   ///< i64 [B, m]: the step at which the row was the pivot, m for others
};

PivotedPanel pivot_panel(const Tensor& given) {
  const std::int64_t batch = given.size(0);
  const std::int64_t rows = given.size(1);
  const std::int64_t width = given.size(2);
  const Tensor row_numbers = numbers(rows, given);
  Tensor rest = given;  // the columns from t on
  Tensor order = full({batch, rows}, static_cast<double>(rows), {.dtype = DType::i64, .device = given.device()});
  std::vector<Tensor> columns;
  for (std::int64_t t = 0; t < width; ++t) {
    const Tensor column = rest.narrow(2, 0, 1);
    const Tensor candidates = where(eq(order, rows), abs(column.squeeze(2)), -1);
    const Tensor pivot = argmax(candidates, 1, true);
    order = where(eq(row_numbers, pivot), t, order);
    const Tensor open = eq(order, rows).unsqueeze(2);
    const Tensor pivot_row = take_rows(rest, pivot);
    const Tensor value = pivot_row.narrow(2, 0, 1);
    // A pivot of 0 stands above nothing but zeros.
    const Tensor factor = column / where(eq(value, 0), 1, value);
    columns.push_back(where(open, factor, column));
    const Tensor others = rest.narrow(2, 1, width - t - 1);
    rest = where(open, others - factor * pivot_row.narrow(2, 1, width - t - 1), others);
  }
  return {cat(columns, 2), order};
}

}  // namespace

Lu lu_of(const Tensor& a) {
  const std::int64_t batch = a.size(0);
  const std::int64_t n = a.size(2);
  Tensor rest = a;
  Tensor rows = numbers(n, a).expand({batch, n});
  std::vector<Tensor> finished;       // blocks of rows of the factors
  std::vector<Tensor> finished_rows;  // and which rows they are
  for (std::int64_t first = 0; first < n; first += kPanel) {
    const std::int64_t width = std::min(kPanel, n - first);
    const std::int64_t below = n - first - width;
    const PivotedPanel panel = pivot_panel(rest.narrow(2, first, width));
    const Tensor order = argsort(panel.order, 1);
    const Tensor left = take_rows(rest.narrow(2, 0, first), order);
    const Tensor middle = take_rows(panel.values, order);
    const Tensor right = take_rows(rest.narrow(2, first + width, below), order);
    rows = lockstep::gather(rows, 1, order);
    const Tensor triangle = middle.narrow(1, 0, width);
    const Tensor top = substitute(triangle, right.narrow(1, 0, width), {.upper = false, .unit = true});
    finished.push_back(cat({left.narrow(1, 0, width), triangle, top}, 2));
    finished_rows.push_back(rows.narrow(1, 0, width));
    if (below == 0) break;
    const Tensor multipliers = middle.narrow(1, width, below);
    const Tensor bottom = right.narrow(1, width, below) - matmul(multipliers, top);
    rest = cat({left.narrow(1, width, below), multipliers, bottom}, 2);
    rows = rows.narrow(1, width, below);
  }
  if (finished.empty()) return {a, rows};
  return {cat(finished, 1), cat(finished_rows, 1)};
}

Tensor singular_info(const Lu& lu) {
  return first_true(eq(lu.factors.diagonal(0, 1, 2), 0));
}

Tensor lu_solve(const Lu& lu, const Tensor& b) {
  const Tensor y = substitute(lu.factors, take_rows(b, lu.rows), {.upper = false, .unit = true});
  return substitute(lu.factors, y, {.upper = true, .unit = false});
}

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
