// The coverage matrix of a check: for terminals, as JSON lines, and as one HTML file.
#pragma once

#include <string>
#include <vector>

#include "cli/check/check.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

struct CheckReport {
  Device device;
  Device reference;
  Extent extent = Extent::quick;
  std::vector<DType> dtypes = all_dtypes();
  double seconds = 0;
  std::vector<Cell> cells;

  std::size_t count(CellStatus status) const;
  long probes() const;
};

/// A row per op, a column per dtype; then the differences and the sum.
void print_matrix(const CheckReport& report);
/// An object per cell, then one with the sums.
void print_json(const CheckReport& report);
/// A page that needs nothing else: the matrices with filters, and what each cell found.
std::string html_page(const std::vector<CheckReport>& reports);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
