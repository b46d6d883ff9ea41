#include "cli/check/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/html.h"
#include "cli/json.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Columns, few enough for 80 characters.
std::string short_name(DType dtype) {
  return dtype == DType::complex64 ? "c64" : std::string(name_of(dtype));
}

std::string summary(const CheckReport& report) {
  return fmt::format("{} of {} cells equal, {} different, {} unsupported; {} calls on {} against {}, {} in {:.1f} s",
                     report.count(CellStatus::equal), report.cells.size(), report.count(CellStatus::different),
                     report.count(CellStatus::unsupported), report.probes(), report.device.to_string(),
                     report.reference.to_string(), name_of(report.extent), report.seconds);
}

constexpr const char* kPageHead = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>lockstep check</title><style>
:root { color-scheme: light dark; --line: #8884; --equal: #2e9e5b; --different: #d63b3b; --none: #8883; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem } p { margin: .2rem 0 1rem }
.filters { position: sticky; top: 0; background: Canvas; padding: .6rem 0; display: flex; gap: 1rem; align-items: center; flex-wrap: wrap; z-index: 2 }
input[type=search] { font: inherit; padding: .2rem .5rem; border: 1px solid var(--line); border-radius: .4rem; min-width: 14rem }
table { border-collapse: collapse; font-size: .85rem } th { font-weight: 500; padding: .15rem .5rem; text-align: left }
thead th { position: sticky; top: 3.4rem; background: Canvas; text-align: center } tbody tr:hover { background: #8881 }
td { padding: 2px; text-align: center } td span { display: block; width: 3.6rem; height: 1.35rem; line-height: 1.35rem; border-radius: .25rem; cursor: default }
.equal span { background: var(--equal); color: #fff } .different span { background: var(--different); color: #fff; font-weight: 700 }
.unsupported span { background: var(--none); color: #8888 } .legend span { padding: 0 .5rem; border-radius: .25rem; margin-right: .3rem }
#detail { position: fixed; bottom: 0; left: 0; right: 0; background: Canvas; border-top: 1px solid var(--line); padding: .5rem 1rem; font: 13px/1.4 ui-monospace, monospace; min-height: 1.4rem; white-space: pre-wrap }
@media (max-width: 60rem) { .table { overflow-x: auto } thead th { position: static } tbody th { position: sticky; left: 0; background: Canvas } input[type=search] { min-width: 8rem } }
</style></head><body><h1>lockstep check</h1>
<p>Every op and element type on a device against the reference, by equality of bits: dense, transposed, sliced, expanded and
flipped operands, sizes from 0 to large and ragged, ranks 0 to 8, NaN, infinities, signed zeros, subnormals and ties.</p>
<div class="filters"><input type="search" id="name" placeholder="Filter ops"><label><input type="checkbox" id="bad"> only differences</label>
<span class="legend"><span style="background:var(--equal);color:#fff">equal: calls compared</span><span style="background:var(--different);color:#fff">different</span><span style="background:var(--none)">unsupported</span></span></div>
)page";

constexpr const char* kPageTail = R"page(<div id="detail">Point at a cell for what was found in it.</div><script>
const name = document.getElementById('name'), bad = document.getElementById('bad'), detail = document.getElementById('detail');
function filter() {
  const text = name.value.trim().toLowerCase();
  for (const row of document.querySelectorAll('tbody tr'))
    row.hidden = !row.dataset.op.includes(text) || (bad.checked && !row.querySelector('.different'));
}
name.oninput = bad.onchange = filter;
document.addEventListener('mouseover', e => { const cell = e.target.closest('td'); if (cell) detail.textContent = cell.title; });
</script></body></html>
)page";

std::string html_cell(const Cell& cell) {
  const char* const status = name_of(cell.status);
  std::string title = fmt::format("{} {}: {}", cell.op, name_of(cell.dtype), status);
  if (cell.probes > 0) title += fmt::format(", {} calls compared", cell.probes);
  if (cell.refused > 0) title += fmt::format(", {} refused alike", cell.refused);
  if (cell.different > 0) title += fmt::format(", {} different", cell.different);
  if (!cell.detail.empty()) title += "\n" + cell.detail;
  if (!cell.file.empty()) title += "\nlockstep check --case " + cell.file;
  const std::string text = cell.status == CellStatus::unsupported ? "&ndash;"
                           : cell.status == CellStatus::different ? fmt::format("{} &ne;", cell.different)
                                                                  : fmt::format("{}", cell.probes);
  return fmt::format("<td class=\"{}\" title=\"{}\"><span>{}</span></td>", status, escaped(title), text);
}

}  // namespace

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

std::string html_page(const std::vector<CheckReport>& reports) {
  std::string page = kPageHead;
  for (const CheckReport& report : reports) {
    page += fmt::format("<h2>{}</h2><p>{}</p>\n<div class=\"table\"><table><thead><tr><th></th>", escaped(report.device.to_string()),
                        escaped(summary(report)));
    for (const DType dtype : report.dtypes) page += fmt::format("<th>{}</th>", short_name(dtype));
    page += "</tr></thead><tbody>\n";
    for (std::size_t row = 0; row < report.cells.size(); row += report.dtypes.size()) {
      page += fmt::format("<tr data-op=\"{0}\"><th>{0}</th>", escaped(report.cells[row].op));
      for (std::size_t d = 0; d < report.dtypes.size(); ++d) page += html_cell(report.cells[row + d]);
      page += "</tr>\n";
    }
    page += "</tbody></table></div>\n";
  }
  return page + kPageTail;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
