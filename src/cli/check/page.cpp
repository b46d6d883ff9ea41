// The report of a check as one HTML file: styles, scripts and plots are in it, and nothing is fetched.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include <lockstep/version.h>

#include "backends/backend.h"
#include "cli/check/accuracy.h"
#include "cli/check/report.h"
#include "cli/html.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

constexpr const char* kPageHead = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>lockstep check</title><style>
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --equal: #2e9e5b; --different: #d63b3b; --none: #8883 }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto 4rem; max-width: 76rem; padding: 0 1rem }
h1 { font-size: 1.6rem; margin: 0 } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem } p { margin: .2rem 0 .8rem }
a { color: inherit } code, pre { font: 13px/1.45 ui-monospace, monospace } pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 }
.verdict { font-size: 1.05rem; padding: .6rem .9rem; border-radius: .5rem; background: var(--soft); border-left: .35rem solid var(--equal); margin: .8rem 0 }
.verdict.bad { border-color: var(--different) }
nav { display: flex; gap: 1rem; flex-wrap: wrap; margin: .4rem 0 }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: .7rem }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; min-width: 0 } .card b { display: block }
.filters { display: flex; gap: 1rem; align-items: center; flex-wrap: wrap; padding: .4rem 0 }
input[type=search] { font: inherit; padding: .25rem .5rem; border: 1px solid var(--line); border-radius: .4rem; min-width: 10rem }
.legend span { padding: .05rem .5rem; border-radius: .25rem; margin-right: .3rem; white-space: nowrap }
.table { overflow: auto; max-height: 34rem; border: 1px solid var(--line); border-radius: .5rem }
table { border-collapse: collapse; font-size: .8rem; width: 100% } th { font-weight: 500; padding: .1rem .5rem; text-align: left; white-space: nowrap }
thead th { position: sticky; top: 0; background: Canvas; text-align: center; z-index: 2 } tbody th { position: sticky; left: 0; background: Canvas }
td { padding: 1px; text-align: center } td a { display: block; min-width: 2.4rem; height: 1.3rem; line-height: 1.3rem; border-radius: .25rem; text-decoration: none }
.equal a, .equal.key { background: var(--equal); color: #fff } .different a, .different.key { background: var(--different); color: #fff; font-weight: 700 }
.unsupported a, .unsupported.key { background: var(--none); color: #8889 }
details { border-bottom: 1px solid var(--line); padding: .25rem 0 } summary { cursor: pointer } details:target, details.shown { background: var(--soft) }
.bar { display: grid; grid-template-columns: 9rem 1fr 5rem; gap: .5rem; align-items: center; font-size: .8rem }
.bar i { display: block; height: .7rem; border-radius: .2rem; background: var(--equal) } .bar span:last-child { text-align: right }
.bar span { overflow: hidden; text-overflow: ellipsis }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .7rem }
.plot svg { width: 100%; height: 4.5rem; display: block; background: var(--soft); border-radius: .3rem } .plot { font-size: .8rem }
.plot polyline { fill: none; stroke: var(--equal); stroke-width: 1.5; vector-effect: non-scaling-stroke } .plot line { stroke: #8888; stroke-dasharray: 3 3; vector-effect: non-scaling-stroke }
@media (max-width: 36rem) { body { margin-top: 1rem; padding: 0 .7rem } .bar { grid-template-columns: 7rem 1fr 4rem } .table { max-height: 26rem } }
</style></head><body><h1>lockstep check</h1>
)page";

constexpr const char* kPageTail = R"page(<script>
const name = document.getElementById('name'), bad = document.getElementById('bad');
function filter() {
  const text = name.value.trim().toLowerCase();
  for (const row of document.querySelectorAll('tbody tr'))
    row.hidden = !row.dataset.op.includes(text) || (bad.checked && !row.querySelector('.different'));
}
name.oninput = bad.onchange = filter;
function open() { const part = document.getElementById(decodeURIComponent(location.hash.slice(1))); if (part && part.tagName === 'DETAILS') part.open = true; }
addEventListener('hashchange', open); open();
</script></body></html>
)page";

std::string anchor_of(const Cell& cell) {
  return "op-" + cell.op;
}

std::string status_text(const Cell& cell) {
  std::string text = name_of(cell.status);
  if (cell.probes > 0) text += fmt::format(", {} calls compared", cell.probes);
  if (cell.refused > 0) text += fmt::format(", {} refused alike", cell.refused);
  if (cell.different > 0) text += fmt::format(", {} different", cell.different);
  return text;
}

std::string html_cell(const Cell& cell) {
  const std::string text = cell.status == CellStatus::unsupported ? "&ndash;"
                           : cell.status == CellStatus::different ? fmt::format("{} &ne;", cell.different)
                                                                  : fmt::format("{}", cell.probes);
  return fmt::format("<td class=\"{}\"><a href=\"#{}\" title=\"{}\">{}</a></td>", name_of(cell.status),
                     escaped(anchor_of(cell)),
                     escaped(fmt::format("{} {}: {}{}{}", cell.op, name_of(cell.dtype), status_text(cell),
                                         cell.detail.empty() ? "" : "\n", cell.detail)),
                     text);
}

std::string devices_section() {
  std::string html = "<h2 id=\"devices\">Devices</h2><div class=\"cards\">\n";
  for (const Device& device : Device::all()) {
    std::string text;
    try {
      text = backend_of(device).description();
    } catch (const DeviceError& error) {
      text = error.what();
    }
    html += fmt::format("<div class=\"card\"><b>{}</b><pre>{}</pre></div>\n", escaped(device.to_string()),
                        escaped_lines(text));
  }
  return html + "</div>\n";
}

std::string matrix_section(const CheckReport& report) {
  std::string html = fmt::format("<h2>Coverage on {}</h2><p>{}</p>\n<div class=\"table\"><table><thead><tr><th></th>",
                                 escaped(report.device.to_string()), escaped(summary(report)));
  for (const DType dtype : report.dtypes) html += fmt::format("<th>{}</th>", short_name(dtype));
  html += "</tr></thead><tbody>\n";
  for (std::size_t row = 0; row < report.cells.size(); row += report.dtypes.size()) {
    html += fmt::format("<tr data-op=\"{0}\"><th>{0}</th>", escaped(report.cells[row].op));
    for (std::size_t d = 0; d < report.dtypes.size(); ++d) html += html_cell(report.cells[row + d]);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string differences_section(const std::vector<CheckReport>& reports) {
  std::string html;
  for (const CheckReport& report : reports) {
    for (const Cell& cell : report.cells) {
      if (cell.status != CellStatus::different) continue;
      html += fmt::format("<div class=\"card\"><b>{} {} on {}</b><pre>{}</pre>{}</div>\n", escaped(cell.op),
                          name_of(cell.dtype), escaped(report.device.to_string()), escaped(cell.detail),
                          cell.file.empty() ? "" : fmt::format("<code>lockstep replay {}</code>", escaped(cell.file)));
    }
  }
  return "<h2 id=\"differences\">Differences</h2>\n" +
         (html.empty() ? "<p>None: every bit that was compared is equal.</p>\n" : html);
}

// The calls of an op, a line for each shape.
std::string calls_text(const CheckOp& op, Extent extent) {
  std::vector<std::pair<Shape, std::string>> lines;
  for (const Point& point : points_of(op, extent)) {
    const auto found =
        std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == point.shape; });
    std::string& text = found == lines.end() ? lines.emplace_back(point.shape, "").second : found->second;
    text += fmt::format("{}{} {} #{}", text.empty() ? "" : ", ", name_of(point.layout), name_of(point.values),
                        point.variant);
  }
  std::string text;
  for (const auto& [shape, calls] : lines) text += fmt::format("{}: {}\n", shape.to_string(), calls);
  return text;
}

std::string runs_section(const std::vector<CheckReport>& reports) {
  std::string html =
      "<h2 id=\"runs\">What was run</h2><p>Of each op: the shapes, how operands lie in memory, their values, and the "
      "number of the attributes' variant; the same for every dtype.</p>\n";
  std::map<std::string, CheckOp> ops;
  for (const CheckOp& op : all_check_ops()) ops.emplace(op.name, op);
  const CheckReport& first = reports.front();
  for (std::size_t row = 0; row < first.cells.size(); row += first.dtypes.size()) {
    const Cell& head = first.cells[row];
    std::string found;
    for (const CheckReport& report : reports) {
      for (const Cell& cell : report.cells) {
        if (cell.op != head.op) continue;
        found += fmt::format("{} {}: {}{}{}\n", report.device.to_string(), name_of(cell.dtype), status_text(cell),
                             cell.detail.empty() ? "" : "; ", cell.detail);
      }
    }
    html += fmt::format(
        "<details id=\"{}\"><summary>{}</summary><code>lockstep check --op "
        "{}{}</code><pre>{}</pre><pre>{}</pre></details>\n",
        escaped(anchor_of(head)), escaped(head.op), escaped(head.op),
        first.extent == Extent::quick ? "" : fmt::format(" --{}", name_of(first.extent)),
        escaped_lines(calls_text(ops.at(head.op), first.extent)), escaped_lines(found));
  }
  return html;
}

std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string times_section(const CheckReport& report) {
  struct Time {
    std::string op;
    double seconds = 0, reference = 0;
  };
  std::vector<Time> times;
  for (const Cell& cell : report.cells) {
    if (times.empty() || times.back().op != cell.op) times.push_back({cell.op});
    times.back().seconds += cell.seconds;
    times.back().reference += cell.reference_seconds;
  }
  std::sort(times.begin(), times.end(), [](const Time& a, const Time& b) { return a.seconds > b.seconds; });
  const double most = times.empty() ? 1 : std::max(times.front().seconds, 1e-9);
  std::string html = fmt::format(
      "<h2>Time of each op on {}</h2><p>All its calls, their compilation among it. Point at a time for that on "
      "{}.</p>\n",
      escaped(report.device.to_string()), escaped(report.reference.to_string()));
  const auto bar = [&](const Time& time) {
    return fmt::format(
        "<div class=\"bar\"><span>{}</span><span><i style=\"width:{:.1f}%\"></i></span><span title=\"{} on "
        "{}\">{}</span></div>\n",
        escaped(time.op), 100 * time.seconds / most, time_text(time.reference), escaped(report.reference.to_string()),
        time_text(time.seconds));
  };
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < std::min(kShown, times.size()); ++i) html += bar(times[i]);
  if (times.size() <= kShown) return html;
  html += fmt::format("<details><summary>{} more</summary>\n", times.size() - kShown);
  for (std::size_t i = kShown; i < times.size(); ++i) html += bar(times[i]);
  return html + "</details>\n";
}

std::string accuracy_section(Device device) {
  std::string html = fmt::format(
      "<h2 id=\"accuracy\">Accuracy of elementary functions</h2><p>f32 on {}: the largest error in each 64th of the "
      "interval, {} arguments each, against the C library's double. The dashed line is half a unit in the "
      "last place, a correctly rounded result; the top is 2. Other devices have the same bits.</p><div "
      "class=\"plots\">\n",
      escaped(device.to_string()), kAccuracySamples);
  for (const AccuracyCurve& curve : accuracy_curves(device)) {
    constexpr double kTop = 2;
    std::string points;
    for (std::size_t i = 0; i < curve.errors.size(); ++i) {
      points += fmt::format("{}{},{:.1f}", i == 0 ? "" : " ", i, 100 - 100 * std::min(curve.errors[i], kTop) / kTop);
    }
    html += fmt::format(
        "<div class=\"plot\"><b>{}</b> on [{:.3g}, {:.3g}]<svg viewBox=\"0 0 63 100\" preserveAspectRatio=\"none\" "
        "role=\"img\" "
        "aria-label=\"error of {}\"><line x1=\"0\" x2=\"63\" y1=\"75\" y2=\"75\"/><polyline "
        "points=\"{}\"/></svg>largest {:.2f} ulp</div>\n",
        curve.function, curve.least, curve.most, curve.function, points, curve.largest);
  }
  return html + "</div>\n";
}

}  // namespace

std::string html_page(const std::vector<CheckReport>& reports) {
  std::size_t different = 0;
  long calls = 0;
  for (const CheckReport& report : reports) {
    different += report.count(CellStatus::different);
    calls += report.probes();
  }
  std::string page = kPageHead;
  page += fmt::format(
      "<p>Lockstep {}. Every op and element type on a device against the reference, by equality of bits: dense, "
      "transposed, "
      "sliced, expanded and flipped operands, sizes from 0 to large and ragged, ranks 0 to 8, NaN, infinities, signed "
      "zeros, "
      "subnormals and ties.</p>\n<div class=\"verdict{}\">{}</div>\n",
      kVersion, different > 0 ? " bad" : "",
      different > 0 ? fmt::format("{} cells differ from the reference.", different)
                    : fmt::format("{} calls on {} {}: the same bits as the reference.", calls, reports.size(),
                                  reports.size() == 1 ? "device" : "devices"));
  page +=
      "<nav><a href=\"#devices\">Devices</a><a href=\"#coverage\">Coverage</a><a href=\"#differences\">Differences</a>"
      "<a href=\"#accuracy\">Accuracy</a><a href=\"#times\">Times</a><a href=\"#runs\">What was run</a></nav>\n";
  page += devices_section();
  page +=
      "<div id=\"coverage\" class=\"filters\"><input type=\"search\" id=\"name\" placeholder=\"Filter ops\" "
      "aria-label=\"Filter ops\">"
      "<label><input type=\"checkbox\" id=\"bad\"> only differences</label><span class=\"legend\"><span class=\"equal "
      "key\">calls that are equal</span>"
      "<span class=\"different key\">different</span><span class=\"unsupported key\">unsupported</span></span></div>\n";
  for (const CheckReport& report : reports) page += matrix_section(report);
  page += differences_section(reports);
  if (!reports.empty()) {
    page += accuracy_section(reports.front().device);
    page += "<div id=\"times\"></div>";
    for (const CheckReport& report : reports) page += times_section(report);
    page += runs_section(reports);
  }
  return page + kPageTail;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
