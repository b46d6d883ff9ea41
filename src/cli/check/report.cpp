#include "cli/check/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/json.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

std::string short_name(DType dtype) {
  return dtype == DType::complex64 ? "c64" : std::string(name_of(dtype));
}

std::string summary(const CheckReport& report) {
  return fmt::format("{} of {} cells equal, {} different, {} unsupported; {} calls on {} against {}, {} in {:.1f} s",
                     report.count(CellStatus::equal), report.cells.size(), report.count(CellStatus::different),
                     report.count(CellStatus::unsupported), report.probes(), report.device.to_string(),
                     report.reference.to_string(), name_of(report.extent), report.seconds);
}

std::size_t CheckReport::count(CellStatus status) const {
  return static_cast<std::size_t>(
      std::count_if(cells.begin(), cells.end(), [&](const Cell& cell) { return cell.status == status; }));
}

long CheckReport::probes() const {
  long total = 0;
  for (const Cell& cell : cells) total += cell.probes + cell.different;
  return total;
}

void print_matrix(const CheckReport& report) {
  const Style style;
  Table table;
  std::vector<Table::Cell> heads = {{""}};
  for (const DType dtype : report.dtypes) heads.push_back({short_name(dtype), &Style::dim});
  table.add(std::move(heads));
  for (std::size_t row = 0; row < report.cells.size(); row += report.dtypes.size()) {
    std::vector<Table::Cell> line = {{report.cells[row].op}};
    for (std::size_t d = 0; d < report.dtypes.size(); ++d) {
      switch (report.cells[row + d].status) {
        case CellStatus::equal: line.push_back({"=", &Style::good}); break;
        case CellStatus::different: line.push_back({"X", &Style::bad}); break;
        case CellStatus::unsupported: line.push_back({"-", &Style::dim}); break;
      }
    }
    table.add(std::move(line));
  }
  table.print(style, "");
  for (const Cell& cell : report.cells) {
    if (cell.status != CellStatus::different) continue;
    print_line(fmt::format("{} {} {}: {} calls differ; {}", style.bad("different"), cell.op, name_of(cell.dtype),
                           cell.different, printable(cell.detail)));
    if (!cell.file.empty()) print_line(fmt::format("  lockstep check --case {}", printable(cell.file)));
  }
  print_line(summary(report));
}

void print_json(const CheckReport& report) {
  for (const Cell& cell : report.cells) {
    JsonObject line;
    line.add("device", json(report.device.to_string()))
        .add("op", json(cell.op))
        .add("dtype", json(name_of(cell.dtype)))
        .add("status", json(name_of(cell.status)))
        .add("compared", json(cell.probes))
        .add("refused", json(cell.refused))
        .add("different", json(cell.different));
    if (!cell.detail.empty()) line.add("detail", json(cell.detail));
    if (!cell.file.empty()) line.add("case", json(cell.file));
    print_line(line.text());
  }
  print_line(JsonObject()
                 .add("device", json(report.device.to_string()))
                 .add("reference", json(report.reference.to_string()))
                 .add("mode", json(name_of(report.extent)))
                 .add("cells", json(report.cells.size()))
                 .add("equal", json(report.count(CellStatus::equal)))
                 .add("different", json(report.count(CellStatus::different)))
                 .add("unsupported", json(report.count(CellStatus::unsupported)))
                 .add("calls", json(report.probes()))
                 .add("seconds", json(report.seconds))
                 .text());
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
