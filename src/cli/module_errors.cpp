#include "cli/module_errors.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/html.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

bool is_above(const ModuleError& error, double tolerance) {
  return error.a != error.b || error.error > tolerance;
}

// 0 to 1 on a logarithmic scale from 1e-8, where f32 rounds, to 1.
double length_of(const ModuleError& error) {
  constexpr double kDecades = 8;
  if (error.a != error.b || error.error >= 1) return 1;
  return error.error <= 0 ? 0 : std::clamp(1 + std::log10(error.error) / kDecades, 0.0, 1.0);
}

std::string error_text(const ModuleError& error) {
  if (error.a != error.b) return fmt::format("{} and {}", error.a.to_string(), error.b.to_string());
  return error.is_equal ? "equal bits" : fmt::format("{:.2e}", error.error);
}

constexpr const char* kErrorsHead = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>lockstep diff</title><style>
:root { color-scheme: light dark; --good: #2e9e5b; --bad: #d63b3b; --line: #8884 }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
h1 { font-size: 1.4rem; margin: 0 0 .3rem }
.row { display: grid; grid-template-columns: minmax(8rem, 18rem) 1fr 7rem; gap: .6rem; align-items: center; padding: .1rem 0; border-bottom: 1px solid var(--line) }
.row span { overflow-wrap: anywhere; font-size: .85rem } .row b { font-weight: 400; text-align: right; font-size: .85rem }
svg { width: 100%; height: .9rem; display: block } .good { fill: var(--good) } .bad { fill: var(--bad) }
@media (max-width: 36rem) { .row { grid-template-columns: 1fr 4.5rem } .row svg { grid-column: 1 / 3; grid-row: 2 } }
</style></head><body><h1>Error of each module</h1>
)page";

std::string error_page(const std::vector<ModuleError>& errors, const ModuleErrorOptions& options,
                       const std::string& verdict) {
  std::string page = kErrorsHead;
  page += fmt::format(
      "<p>{} against {}, in the order of the first. Root of the mean square of the difference, relative to the first's "
      "values; bars from 1e-8 to 1 on a logarithmic scale.</p><p><strong>{}</strong></p>\n",
      escaped(options.b), escaped(options.a), escaped(verdict));
  for (const ModuleError& error : errors) {
    page += fmt::format(
        "<div class=\"row\"><span>{} <small>{}</small></span><svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\">"
        "<rect class=\"{}\" width=\"{:.1f}\" height=\"10\"/></svg><b>{}</b></div>\n",
        escaped(error.module), escaped(error.ops), is_above(error, options.tolerance) ? "bad" : "good",
        100 * length_of(error), escaped(error_text(error)));
  }
  return page + "</body></html>\n";
}

}  // namespace

ExitCode show_module_errors(const std::vector<ModuleError>& errors, const ModuleErrorOptions& options) {
  const Style style;
  const auto first =
      std::find_if(errors.begin(), errors.end(), [&](const ModuleError& e) { return is_above(e, options.tolerance); });
  const bool parts = first != errors.end();
  const std::string verdict = parts ? fmt::format("They part in {} ({}): {}, and {} is allowed", first->module,
                                                  first->ops, error_text(*first), options.tolerance)
                                    : fmt::format("{} modules, all within {}", errors.size(), options.tolerance);
  if (options.as_json) {
    for (const ModuleError& error : errors) {
      print_line(JsonObject()
                     .add("module", json(error.module))
                     .add("kind", json(error.ops))
                     .add("error", std::isfinite(error.error) ? json(error.error) : "null")
                     .add("equal", json(error.is_equal))
                     .add("same_shape", json(error.a == error.b))
                     .text());
    }
    print_line(
        JsonObject().add("modules", json(errors.size())).add("parts_in", parts ? json(first->module) : "null").text());
  } else {
    Table table;
    for (const ModuleError& error : errors) {
      constexpr double kBar = 24;
      std::string bar;
      for (int i = 0; i < static_cast<int>(std::lround(kBar * length_of(error))); ++i) bar += "#";
      const bool above = is_above(error, options.tolerance);
      table.add({{printable(error.module)},
                 {printable(error.ops), &Style::dim},
                 {error_text(error)},
                 {bar, above ? &Style::bad : &Style::good}});
    }
    table.print(style, "");
    print_line(parts ? style.bad(printable(verdict)) : style.good(verdict));
  }
  if (!options.html.empty()) {
    os::AtomicFile file(options.html);
    file.write(error_page(errors, options, verdict));
    file.commit();
  }
  return parts ? kFailure : kOk;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
