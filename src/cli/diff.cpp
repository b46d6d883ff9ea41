// `lockstep diff`: where two recordings part.
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include <lockstep/recorder.h>

#include "cli/command_line.h"
#include "cli/json.h"
#include "cli/kernel_case_file.h"
#include "cli/module_errors.h"
#include "cli/terminal.h"
#include "graph/kernel_record.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct DiffOptions {
  std::string a;
  std::string b;
  bool as_json = false;
  std::optional<double> tolerance;
  std::string html;
};

std::string described_kernel(const std::optional<RecordedKernel>& kernel) {
  if (!kernel) return "has ended";
  return fmt::format("{:016x}  {} {} {} on {}, at {}:{}", kernel->hash, kernel->ops, name_of(kernel->dtype),
                     kernel->shape.to_string(), kernel->device, kernel->file, kernel->line);
}

std::string json_of_kernel(const std::optional<RecordedKernel>& kernel) {
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

// What both passes kept of the kernel where they part; nothing where one did not.
struct TwoCases {
  graph::KernelCase a;
  graph::KernelCase b;
};
std::optional<TwoCases> cases_of(const DiffOptions& options, std::size_t position) {
  const auto number = static_cast<std::int64_t>(position + 1);
  const std::string a = graph::case_file_of(options.a, number);
  const std::string b = graph::case_file_of(options.b, number);
  if (!std::filesystem::exists(a) || !std::filesystem::exists(b)) return std::nullopt;
  return TwoCases{load_kernel_case(a), load_kernel_case(b)};
}

// Whether they read the same, and the first element that they made otherwise.
std::string comparison_of(const TwoCases& cases) {
  const auto& [a, b] = cases;
  if (a.values.size() != b.values.size() || a.results.size() != b.results.size())
    return "the kernels read other values";
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const auto& one = a.values[i];
    const auto& other = b.values[i];
    if (one.shape != other.shape || one.dtype != other.dtype) return "the kernels read other values";
    if (!a.is_given(i) || !b.is_given(i)) continue;
    const auto found = graph::first_difference(one.dtype, one.data, other.data);
    if (one.encoding == Encoding::dense && found) {
      return fmt::format("what they read differs: {} {}, {} of its elements, the first at {}: {} and {}",
                         name_of(one.dtype), one.shape.to_string(), found->count,
                         graph::index_of(found->position, one.shape).to_string(), found->a, found->b);
    }
    if (one.encoding != Encoding::dense && one.data != other.data) return "what they read differs, in packed weights";
  }
  std::vector<graph::Bytes> expected;
  std::vector<graph::Bytes> actual;
  for (const auto& result : a.results) expected.push_back(result.expected);
  for (const auto& result : b.results) actual.push_back(result.expected);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].size() != actual[i].size()) return "the kernels made other values";
  }
  const auto found = graph::compare_results(a, expected, actual);
  if (!found) return "what both kept is equal: the second pass did not part there";
  const bool same_numbers = graph::case_text(a) == graph::case_text(b);
  return fmt::format("they read the same{}; {}",
                     same_numbers ? "" : ", but a number of the ops is another one: a learning rate, a seed, a bound",
                     difference_text(a, *found, "a", "b"));
}

void print_difference(const DiffOptions& options, const RecordDifference& found) {
  const Style style;
  print_line(fmt::format("They part at kernel {}{}{}", found.position + 1,
                         found.module.empty() ? "" : ", in or after " + printable(found.module),
                         found.same_work ? style.bad(": the same work, other bits") : style.bad(": other work")));
  print_line(fmt::format("  {}  {}", printable(options.a), printable(described_kernel(found.a))));
  print_line(fmt::format("  {}  {}", printable(options.b), printable(described_kernel(found.b))));
  if (!found.same_work) {
    print_line(fmt::format(
        "{} kernels before it are equal. Where the work is another, so are the program, its inputs or its version.",
        found.position));
  } else if (const std::optional<TwoCases> cases = cases_of(options, found.position)) {
    print_line("  " + printable(comparison_of(*cases)));
  } else {
    print_line(fmt::format(
        "{} kernels before it are equal. `--record-case {}` in both runs keeps what it read, and this shows the "
        "element then; `--shadow` on one of the machines does, too.",
        found.position, found.position + 1));
  }
}

ExitCode diff(const DiffOptions& options) {
  if (!options.html.empty() && !options.tolerance) throw UsageError("--html needs --tolerance");
  const std::vector<RecordedKernel> a = read_record(options.a);
  const std::vector<RecordedKernel> b = read_record(options.b);
  if (options.tolerance)
    return show_module_errors(compare_modules(a, b),
                              {options.a, options.b, *options.tolerance, options.html, options.as_json});
  const std::optional<RecordDifference> found = compare_records(a, b);
  if (options.as_json) {
    JsonObject line;
    line.add("equal", json(!found)).add("kernels", json(found ? found->position : a.size()));
    if (found) {
      line.add("module", json(found->module))
          .add("same_work", json(found->same_work))
          .add("a", json_of_kernel(found->a))
          .add("b", json_of_kernel(found->b));
      if (const std::optional<TwoCases> cases = cases_of(options, found->position))
        line.add("element", json(comparison_of(*cases)));
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
  command
      .option("--tolerance", options->tolerance,
              "Of recordings of modules: the first one whose outputs part by more than this, relative to their size")
      .not_negative();
  command.option("--html", options->html, "With --tolerance: write the error of every module as a page, too");
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer(
      "Example:\n"
      "  lockstep classify --arch resnet18 photo.png --device cpu --record a.rec\n"
      "  lockstep classify --arch resnet18 photo.png --device cuda:0 --record b.rec\n"
      "  lockstep diff a.rec b.rec\n"
      "  lockstep diff torch.rec ours.rec --tolerance 1e-4 --html errors.html\n"
      "Exit code 1 if they part.");
  command.runs([options] { return diff(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
