// `lockstep replay`: runs recorded cases and compares with their expected results.
#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "backends/backend.h"
#include "cli/case_file.h"
#include "cli/check/check.h"
#include "cli/command_line.h"
#include "cli/compare.h"
#include "cli/devices.h"
#include "cli/json.h"
#include "cli/kernel_case_file.h"
#include "cli/recorded_ops/find.h"
#include "cli/terminal.h"
#include "cli/user_message.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct ReplayArguments {
  std::vector<std::string> cases;
  std::string device = "best";
  bool strict = false;
  bool as_json = false;
};

enum class Status { pass, fail, unsupported };

const char* text_of(Status status) {
  switch (status) {
    case Status::pass: return "pass";
    case Status::fail: return "fail";
    case Status::unsupported: return "unsupported";
  }
  return "?";
}

struct ReplayOutcome {
  std::string path;
  std::string op;
  Status status = Status::pass;
  std::string gradients = "none";  ///< or "pass", "fail", "unsupported"
  bool readable = true;
  bool compared = false;
  double max_error = 0;
  std::string detail;
};

void check_outputs(const Case& recorded, const RecordedOp& op, const std::vector<Tensor>& results,
                   ReplayOutcome& outcome) {
  const double tolerance = op.moves ? 0 : recorded.tolerance;
  for (std::size_t i = 0; i < std::min(results.size(), recorded.outputs.size()); ++i) {
    outcome.compared = true;
    const Comparison comparison = compare(results[i], recorded.outputs[i].tensor, tolerance);
    outcome.max_error = std::max(outcome.max_error, comparison.max_error);
    if (comparison.pass || outcome.status == Status::fail) continue;
    outcome.status = Status::fail;
    outcome.detail = recorded.outputs[i].name + comparison.difference;
  }
  if (outcome.status == Status::pass && results.size() < recorded.outputs.size()) {
    outcome.status = Status::unsupported;
    outcome.detail = "output " + recorded.outputs[results.size()].name;
  }
}

// sum of outputs * cotangents, differentiated.
void check_gradients(const Case& recorded, const Arguments& arguments, const std::vector<Tensor>& results,
                     ReplayOutcome& outcome) {
  if (recorded.gradients.empty() || outcome.status != Status::pass) return;
  Tensor value;
  for (const NamedTensor& cotangent : recorded.cotangents) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (recorded.outputs[i].name != cotangent.name) continue;
      const Tensor part = sum(results[i] * cotangent.tensor.to(results[i].device()));
      value = value.defined() ? value + part : part;
    }
  }
  outcome.gradients = "pass";
  if (!value.defined()) throw FormatError(fmt::format("{}: gradients without a cotangent", recorded.path));
  const std::vector<Tensor> found = gradients(value, arguments.tracked(), {.allow_unused = true});
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Comparison comparison = compare(found[i], recorded.gradients[i].tensor, recorded.gradient_tolerance);
    if (comparison.pass || outcome.status == Status::fail) continue;
    outcome.gradients = "fail";
    outcome.status = Status::fail;
    outcome.detail = "gradient of " + recorded.gradients[i].name + comparison.difference;
  }
}

// What a shadow or save_case kept: all bits are those of the reference here, where that can run it, or else of the
// file.
void run_kernel_case(const std::string& path, Device device, ReplayOutcome& outcome) {
  const graph::KernelCase work = load_kernel_case(path);
  outcome.op = work.story.contains("ops") ? work.story.at("ops") : "saved case";
  std::vector<graph::Bytes> expected;
  for (const graph::KernelCase::Result& result : work.results) expected.push_back(result.expected);
  const auto is_whole = [&](std::size_t i) {
    const graph::KernelCase::Value& value = work.values[work.results[i].value];
    return expected[i].size() == static_cast<std::size_t>(value.shape.numel()) * size_of(value.dtype);
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!is_whole(i)) throw FormatError(fmt::format("{}: there is no tensor expected.{} of its shape", path, i));
  }
  const std::vector<graph::Bytes> results = graph::compute_case(work, device);
  outcome.compared = true;
  const std::optional<graph::CaseDifference> found = graph::compare_results(work, expected, results);
  if (!found) return;
  outcome.status = Status::fail;
  const auto by = work.story.find(work.story.contains("reference") ? "reference" : "device");
  outcome.detail = difference_text(work, *found, by == work.story.end() ? "the file" : by->second, device.to_string());
}

void run_check_case(const std::string& path, Device device, ReplayOutcome& outcome) {
  const CheckCase recorded = read_check_case(path);
  outcome.op = recorded.op.name;
  outcome.compared = true;
  outcome.detail = compare_call(recorded.op, recorded.dtype, recorded.point, {DeviceKind::ref, 0}, device).difference;
  if (!outcome.detail.empty()) outcome.status = Status::fail;
}

ReplayOutcome run_case(const std::string& path, Device device) {
  ReplayOutcome outcome{.path = path};
  Case recorded;
  try {
    const std::string format = case_format(path);
    if (format == graph::kCaseFormat || format == "lockstep-check-1") {
      format == graph::kCaseFormat ? run_kernel_case(path, device, outcome) : run_check_case(path, device, outcome);
      return outcome;
    }
  } catch (const Error& error) {
    outcome.status = Status::fail;
    outcome.readable =
        dynamic_cast<const FormatError*>(&error) == nullptr && dynamic_cast<const IoError*>(&error) == nullptr;
    outcome.detail = without_sources(error.what());
    return outcome;
  }
  try {
    recorded = read_case(path);
  } catch (const Error& error) {
    outcome.status = Status::fail;
    outcome.readable = false;
    outcome.detail = without_sources(error.what());
    return outcome;
  }
  outcome.op = recorded.op;
  if (!recorded.gradients.empty()) outcome.gradients = "unsupported";
  try {
    const RecordedOp& op = find_recorded_op(recorded.op);
    Arguments arguments(recorded, device);
    const std::vector<Tensor> results = op.call(arguments);
    arguments.check_all_used();
    check_outputs(recorded, op, results, outcome);
    check_gradients(recorded, arguments, results, outcome);
  } catch (const Unsupported& reason) {
    outcome.status = Status::unsupported;
    outcome.detail = reason.what();
  } catch (const DTypeError& error) {
    outcome.status = backend_of(device).holds(DType::f64) ? Status::fail : Status::unsupported;
    outcome.detail = without_sources(error.what());
  } catch (const Error& error) {
    outcome.status = Status::fail;
    outcome.detail = without_sources(error.what());
  }
  return outcome;
}

void print_replay_json(const ReplayOutcome& outcome) {
  JsonObject line;
  line.add("case", json(outcome.path))
      .add("op", outcome.readable ? json(outcome.op) : "null")
      .add("status", json(text_of(outcome.status)))
      .add("gradients", json(outcome.gradients))
      .add("max_error", outcome.compared ? json(outcome.max_error) : "null");
  if (!outcome.detail.empty()) line.add("detail", json(outcome.detail));
  print_line(line.text());
}

void print_replay_text(const ReplayOutcome& outcome, const Style& style) {
  const std::string name = printable(outcome.path);
  switch (outcome.status) {
    case Status::pass:
      print_line(fmt::format("{}  {}  {}", style.good("pass"), name,
                             style.dim(fmt::format("{}, largest error {:.3g}", outcome.op, outcome.max_error))));
      break;
    case Status::fail:
      print_line(fmt::format("{}  {}  {}", style.bad("fail"), name, printable_lines(outcome.detail)));
      break;
    case Status::unsupported:
      print_line(style.dim(fmt::format("----  {}  not supported: {}", name, printable(outcome.detail))));
      break;
  }
}

// A folder stands for the cases in it.
std::vector<std::string> expand(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(argument, ignored)) {
      paths.push_back(argument);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(argument)) {
      if (entry.path().extension() == ".safetensors") inside.push_back(entry.path().string());
    }
    std::sort(inside.begin(), inside.end());
    paths.insert(paths.end(), inside.begin(), inside.end());
  }
  return paths;
}

ExitCode replay(const ReplayArguments& options) {
  const Device device = chosen_device(options.device);
  const Style style;
  const std::vector<std::string> paths = expand(options.cases);
  Progress progress(paths.size());
  std::size_t counts[3] = {};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const ReplayOutcome outcome = run_case(paths[i], device);
    ++counts[static_cast<int>(outcome.status)];
    progress.clear();
    options.as_json ? print_replay_json(outcome) : print_replay_text(outcome, style);
    progress.show(i + 1);
  }
  progress.clear();
  const std::size_t failed = counts[static_cast<int>(Status::fail)];
  const std::size_t unsupported = counts[static_cast<int>(Status::unsupported)];
  if (!options.as_json) {
    print_line(fmt::format("{} passed, {}, {} not supported, on {}", counts[static_cast<int>(Status::pass)],
                           failed > 0 ? style.bad(fmt::format("{} failed", failed)) : "0 failed", unsupported,
                           device.to_string()));
  }
  if (failed > 0) return kFailure;
  return options.strict && unsupported > 0 ? kUnsupported : kOk;
}

}  // namespace

void add_replay(CommandLine& line) {
  Subcommand command = line.subcommand("replay", "Run recorded cases and compare with their results");
  const auto options = std::make_shared<ReplayArguments>();
  command.option("--device", options->device, "Where to compute: cpu, ref, ... or best").show_default();
  command.flag("--strict", options->strict, "Exit code 3 if a case, or its gradient, is not supported");
  command.flag("--json", options->as_json, "One JSON object a case instead of text");
  command.option("CASE", options->cases, "Case files, or folders of them").required();
  command.footer(
      "Examples:\n"
      "  lockstep replay tests/data/cases\n"
      "  lockstep replay --device ref --json conv2d_00.safetensors\n"
      "  lockstep replay lockstep-cases/shadow-gelu.safetensors --device cuda:0\n"
      "Exit code 1 if a case fails or a file cannot be read.");
  command.runs([options] { return replay(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
