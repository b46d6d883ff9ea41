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
/// A page that needs nothing else (page.cpp): devices, the matrices with filters, what each cell ran and found, the
/// time of each op, and the accuracy of elementary functions.
std::string html_page(const std::vector<CheckReport>& reports);

/// Of a dtype for columns, few enough letters for 80 characters.
std::string short_name(DType dtype);
/// "3 of 4 cells equal, ...".
std::string summary(const CheckReport& report);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
