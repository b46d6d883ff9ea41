// `lockstep diff`: where two recordings part.
#include <memory>

#include <fmt/format.h>

#include <lockstep/recorder.h>

#include "cli/command_line.h"
#include "cli/json.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct DiffOptions {
  std::string a;
  std::string b;
  bool as_json = false;
};

std::string described(const std::optional<RecordedKernel>& kernel) {
  if (!kernel) return "has ended";
  return fmt::format("{:016x}  {} {} {} on {}, at {}:{}", kernel->hash, kernel->ops, name_of(kernel->dtype),
                     kernel->shape.to_string(), kernel->device, kernel->file, kernel->line);
}

std::string json_of(const std::optional<RecordedKernel>& kernel) {
  if (!kernel) return "null";
  return JsonObject()
      .add("ops", json(kernel->ops))
      .add("module", json(kernel->module))
      .add("device", json(kernel->device))
      .add("hash", json(fmt::format("{:016x}", kernel->hash)))
      .add("file", json(kernel->file))
      .add("line", json(kernel->line))
      .text();
}

void print_difference(const DiffOptions& options, const RecordDifference& found) {
  const Style style;
  print_line(fmt::format("They part at kernel {}{}{}", found.position + 1,
                         found.module.empty() ? "" : ", in or after " + printable(found.module),
                         found.same_work ? style.bad(": the same work, other bits") : style.bad(": other work")));
  print_line(fmt::format("  {}  {}", printable(options.a), printable(described(found.a))));
  print_line(fmt::format("  {}  {}", printable(options.b), printable(described(found.b))));
  print_line(found.same_work
                 ? fmt::format("{} kernels before it are equal. `--shadow` on one of the machines shows the element.", found.position)
                 : fmt::format("{} kernels before it are equal. Where the work is another, so are the program, its inputs or its "
                               "version.",
                               found.position));
}

ExitCode diff(const DiffOptions& options) {
  const std::vector<RecordedKernel> a = read_record(options.a);
  const std::vector<RecordedKernel> b = read_record(options.b);
  const std::optional<RecordDifference> found = compare_records(a, b);
  if (options.as_json) {
    JsonObject line;
    line.add("equal", json(!found)).add("kernels", json(found ? found->position : a.size()));
    if (found) {
      line.add("module", json(found->module))
          .add("same_work", json(found->same_work))
          .add("a", json_of(found->a))
          .add("b", json_of(found->b));
    }
    print_line(line.text());
  } else if (found) {
    print_difference(options, *found);
  } else {
    print_line(fmt::format("{} kernels, the same bits", a.size()));
  }
  return found ? kFailure : kOk;
}

}  // namespace

void add_diff(CommandLine& line) {
  Subcommand command = line.subcommand("diff", "Show where two recordings of --record part");
  const auto options = std::make_shared<DiffOptions>();
  command.option("A", options->a, "A recording").required();
  command.option("B", options->b, "Another one, of another device, machine or version").required();
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer(
      "Example:\n"
      "  lockstep classify --arch resnet18 photo.png --device cpu --record a.rec\n"
      "  lockstep classify --arch resnet18 photo.png --device cuda:0 --record b.rec\n"
      "  lockstep diff a.rec b.rec\n"
      "Exit code 1 if they part.");
  command.runs([options] { return diff(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
