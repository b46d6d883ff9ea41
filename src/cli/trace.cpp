// `lockstep trace`: another command, and where its time went.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/trace.h>

#include "cli/command_line.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct TraceOptions {
  std::string out = "trace.json";
  std::vector<std::string> command;
};

// On standard error: standard output is the command's.
void print_totals(const std::vector<TraceTotal>& totals, const std::string& file) {
  constexpr std::size_t kMostRows = 20;
  double all = 0;
  for (const TraceTotal& total : totals) all += total.seconds;
  Table table;
  table.add({{"ms", nullptr, true}, {"%", nullptr, true}, {"times", nullptr, true}, {"device"}, {"what"}});
  for (std::size_t i = 0; i < std::min(totals.size(), kMostRows); ++i) {
    const TraceTotal& total = totals[i];
    table.add({{fmt::format("{:.3f}", total.seconds * 1e3), nullptr, true},
               {fmt::format("{:.1f}", 100 * total.seconds / all), nullptr, true},
               {fmt::format("{}", total.count), nullptr, true},
               {total.device},
               {total.what}});
  }
  for (const std::string& line : table.lines(Style(), "", 0)) fmt::print(stderr, "{}\n", line);
  if (totals.size() > kMostRows) fmt::print(stderr, "and {} more\n", totals.size() - kMostRows);
  fmt::print(stderr, "{}: open it at ui.perfetto.dev or chrome://tracing\n", printable(file));
}

}  // namespace

void add_trace(CommandLine& line, std::function<ExitCode(const std::vector<std::string>&)> run) {
  auto options = std::make_shared<TraceOptions>();
  Subcommand command = line.subcommand("trace", "Run a command and show where its time goes");
  command.option("--out", options->out, "The timeline, for ui.perfetto.dev").show_default();
  command.rest(options->command);
  command.footer(
      "Example: lockstep trace --out trace.json classify --arch resnet18 photo.png\n"
      "Every kernel is waited for, so the whole takes longer than without.");
  command.runs([options, run = std::move(run)] {
    if (options->command.empty()) throw UsageError("trace: COMMAND is missing\n  help: lockstep trace --help");
    Trace trace(options->out);
    const ExitCode code = run(options->command);
    trace.finish();
    print_totals(trace.totals(), options->out);
    return code;
  });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
