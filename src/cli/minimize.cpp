// `lockstep minimize`: a case made smaller as long as two devices differ in it.
#include <memory>

#include <fmt/format.h>

#include "cli/check/check.h"
#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/kernel_case_file.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct MinimizeOptions {
  std::string file;
  std::string out;
  std::string device;
  std::string reference = "ref";
  int tries = 2000;
};

std::string default_out(const std::string& file) {
  const std::string end = ".safetensors";
  return (file.ends_with(end) ? file.substr(0, file.size() - end.size()) : file) + ".min" + end;
}

ExitCode agree(const std::string& file, Device reference, Device device) {
  print_line(fmt::format("{}: {} and {} agree: there is nothing to keep while it is made smaller", printable(file),
                         reference.to_string(), device.to_string()));
  return kFailure;
}

ExitCode minimize_kernel(const MinimizeOptions& options, Device reference) {
  graph::KernelCase work = load_kernel_case(options.file);
  const auto told = work.story.find("device");
  const Device device = chosen_device(!options.device.empty()    ? options.device
                                      : told == work.story.end() ? "cpu"
                                                                 : told->second);
  if (!compare_devices(work, reference, device)) return agree(options.file, reference, device);
  const auto differs = [&](const graph::KernelCase& tried) {
    return compare_devices(tried, reference, device).has_value();
  };
  print_line(fmt::format("from  {}", printable(summary_of(work))));
  const std::map<std::string, std::string> story = work.story;
  work = graph::minimized(work, differs, options.tries);
  const std::optional<graph::CaseDifference> found = compare_devices(work, reference, device);
  if (found && found->refusal.empty()) {
    const std::vector<graph::Bytes> expected = graph::compute_case(work, reference);
    const std::vector<graph::Bytes> actual = graph::compute_case(work, device);
    for (std::size_t i = 0; i < work.results.size(); ++i) {
      work.results[i].expected = expected[i];
      work.results[i].actual = actual[i];
    }
  }
  work.story = {{"device", device.to_string()}, {"reference", reference.to_string()}};
  if (story.contains("called_at")) work.story["called_at"] = story.at("called_at");
  graph::write_case(options.out, work);
  print_line(fmt::format("to    {}", printable(summary_of(work))));
  if (found) print_line("      " + printable(difference_text(work, *found, reference.to_string(), device.to_string())));
  return kOk;
}

// Shapes that are smaller in one dimension: half of it, one less.
std::vector<Point> smaller_points(const Point& point) {
  std::vector<Point> points;
  if (point.layout != Layout::dense) points.push_back({point.shape, Layout::dense, point.values, point.variant});
  if (point.values != Values::ordinary) points.push_back({point.shape, point.layout, Values::ordinary, point.variant});
  for (int d = 0; d < point.shape.rank(); ++d) {
    for (const std::int64_t size : {std::int64_t{1}, point.shape[d] / 2, point.shape[d] - 1}) {
      if (size < 1 || size >= point.shape[d]) continue;
      Point smaller = point;
      smaller.shape[d] = size;
      points.push_back(std::move(smaller));
    }
  }
  return points;
}

ExitCode minimize_check(const MinimizeOptions& options, Device reference) {
  const CheckCase recorded = read_check_case(options.file);
  const Device device = chosen_device(options.device.empty() ? "cpu" : options.device);
  int tries = options.tries;
  const auto differs = [&](const Point& point) {
    return tries-- > 0 && !compare_call(recorded.op, recorded.dtype, point, reference, device).difference.empty();
  };
  Point best = recorded.point;
  if (!differs(best)) return agree(options.file, reference, device);
  print_line(fmt::format("from  {} {} {}", recorded.op.name, name_of(recorded.dtype), to_string(best)));
  for (bool changed = true; changed;) {
    changed = false;
    for (const Point& smaller : smaller_points(best)) {
      if (!differs(smaller)) continue;
      best = smaller;
      changed = true;
      break;
    }
  }
  save_check_case_as(options.out, recorded.op, recorded.dtype, best, reference, device);
  print_line(fmt::format("to    {} {} {}: {}", recorded.op.name, name_of(recorded.dtype), to_string(best),
                         printable(compare_call(recorded.op, recorded.dtype, best, reference, device).difference)));
  return kOk;
}

ExitCode minimize(MinimizeOptions options) {
  if (options.out.empty()) options.out = default_out(options.file);
  const Device reference = chosen_device(options.reference);
  const std::string format = case_format(options.file);
  ExitCode code = kOk;
  if (format == graph::kCaseFormat) {
    code = minimize_kernel(options, reference);
  } else if (format == "lockstep-check-1") {
    code = minimize_check(options, reference);
  } else {
    throw UsageError(
        fmt::format("{} is no case of a kernel or of `check`: what others expect cannot be computed again for a "
                    "smaller one",
                    printable(options.file)));
  }
  if (code == kOk) print_line(fmt::format("{}: lockstep replay {}", printable(options.out), printable(options.out)));
  return code;
}

}  // namespace

void add_minimize(CommandLine& line) {
  Subcommand command = line.subcommand("minimize", "Make a case smaller as long as two devices differ in it");
  const auto options = std::make_shared<MinimizeOptions>();
  command.option("CASE", options->file, "A case of a shadow, of save_case, or of lockstep check").required();
  command.option("--out", options->out, "Where the smaller one goes: CASE.min.safetensors without it");
  command.option("--device", options->device, "The device that is wrong: the case's own, or cpu, without it");
  command.option("--reference", options->reference, "The device that is right").show_default();
  command.option("--tries", options->tries, "How often it may be run").range(1, 1000000).show_default();
  command.footer(
      "Example:\n"
      "  lockstep minimize lockstep-cases/shadow-gelu.safetensors --device cuda:0\n"
      "Exit code 1 if the devices agree.");
  command.runs([options] { return minimize(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
