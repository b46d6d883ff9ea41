// `lockstep check`: every op x dtype x layout x size of a device against the reference, by equality of bits; or every
// op's gradient against differences; or every node of an ONNX model.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "backends/backend.h"
#include "cli/check/check.h"
#include "cli/check/gradients.h"
#include "cli/check/model.h"
#include "cli/check/report.h"
#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/terminal.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct CheckArguments {
  std::vector<std::string> devices;
  std::vector<std::string> ops;
  std::vector<std::string> dtypes;
  std::vector<std::string> cases;
  std::string folder = "lockstep-check";
  std::string html;
  bool brief = false;
  std::string part = "1/1";
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  bool quick = false;
  bool full = false;
  bool as_json = false;
  bool gradients = false;
  ModelCheckOptions model;
};

std::vector<Device> chosen_devices(const CheckArguments& options) {
  std::vector<Device> devices;
  for (const std::string& text : options.devices) devices.push_back(chosen_device(text));
  if (!devices.empty()) return devices;
  for (const Device& device : Device::all()) {
    if (device.kind != DeviceKind::ref && !is_software(device)) devices.push_back(device);
  }
  return devices;
}

void check_names(const std::vector<std::string>& names) {
  const std::vector<CheckOp> ops = all_check_ops();
  for (const std::string& name : names) {
    if (std::any_of(ops.begin(), ops.end(), [&](const CheckOp& op) { return name == op.name; })) continue;
    throw UsageError(fmt::format("--op: there is no op {}", name));
  }
}

/// "2/5": the second of five parts.
std::pair<std::size_t, std::size_t> part_of(const std::string& text) {
  std::size_t part = 0;
  std::size_t parts = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%5zu/%5zu%c", &part, &parts, &rest) != 2 || part < 1 || part > parts) {
    throw UsageError(fmt::format("--part: \"{}\" is no part like 2/5", text));
  }
  return {part, parts};
}

std::vector<DType> chosen_dtypes(const CheckArguments& options) {
  if (options.dtypes.empty()) return all_dtypes();
  std::vector<DType> dtypes;
  for (const std::string& name : options.dtypes) {
    try {
      dtypes.push_back(parse_dtype(name));
    } catch (const DTypeError& error) {
      throw UsageError(fmt::format("--dtype: {}", error.what()));
    }
  }
  return dtypes;
}

ExitCode rerun(const CheckArguments& options) {
  ExitCode code = kOk;
  for (const std::string& path : options.cases) {
    const CheckCase recorded = read_check_case(path);
    for (const Device& device : chosen_devices(options)) {
      const CallComparison call =
          compare_call(recorded.op, recorded.dtype, recorded.point, {DeviceKind::ref, 0}, device);
      const bool equal = call.difference.empty();
      print_line(fmt::format("{}  {}  {} {} {} on {}{}", equal ? Style().good("equal") : Style().bad("different"),
                             printable(path), recorded.op.name, name_of(recorded.dtype), to_string(recorded.point),
                             device.to_string(), equal ? "" : ": " + printable(call.difference)));
      if (!equal) code = kFailure;
    }
  }
  return code;
}

ExitCode check_all_gradients(const CheckArguments& options) {
  if (options.brief || options.quick || options.full || !options.dtypes.empty() || !options.html.empty() ||
      !options.cases.empty() || options.devices.size() > 1) {
    throw UsageError("--gradients takes --op, --json and one --device only");
  }
  const Device device = options.devices.empty() ? Device{} : chosen_device(options.devices[0]);
  std::vector<GradientRow> rows;
  bool right = true;
  for (const CheckOp& op : all_check_ops()) {
    if (!options.ops.empty() && std::find(options.ops.begin(), options.ops.end(), op.name) == options.ops.end())
      continue;
    rows.push_back(check_gradients(op, device));
    right = right && rows.back().wrong.empty();
  }
  options.as_json ? print_gradients_json(rows) : print_gradients(rows);
  return right ? kOk : kFailure;
}

ExitCode check_given_model(const CheckArguments& options) {
  if (options.brief || options.quick || options.full || options.gradients || !options.ops.empty() ||
      !options.dtypes.empty() || !options.html.empty() || !options.cases.empty()) {
    throw UsageError("--model takes --input, --size, --seed, --device and --json only");
  }
  std::vector<Device> devices = chosen_devices(options);
  // Without --device also the reference; cpu itself is what the others are compared with.
  if (options.devices.empty()) {
    std::erase(devices, Device{});
    devices.insert(devices.begin(), Device{DeviceKind::ref, 0});
  }
  ModelCheckOptions model = options.model;
  model.as_json = options.as_json;
  return check_model(model, devices);
}

ExitCode check(const CheckArguments& options) {
  if (!options.model.model.empty()) return check_given_model(options);
  if (!options.model.inputs.empty() || !options.model.sizes.empty())
    throw UsageError("--input and --size need --model");
  if (options.brief + options.quick + options.full > 1) {
    throw UsageError("--brief, --quick and --full exclude each other");
  }
  const Extent extent = options.full ? Extent::full : options.brief ? Extent::brief : Extent::quick;
  check_names(options.ops);
  const auto [part, parts] = part_of(options.part);
  if (options.gradients) return check_all_gradients(options);
  if (!options.cases.empty()) return rerun(options);
  std::vector<CheckReport> reports;
  ExitCode code = kOk;
  for (const Device& device : chosen_devices(options)) {
    CheckReport report{.device = device,
                       .reference = {DeviceKind::ref, 0},
                       .extent = extent,
                       .dtypes = chosen_dtypes(options),
                       .cells = {}};
    const auto start = std::chrono::steady_clock::now();
    std::unique_ptr<Progress> bar;
    report.cells = check_device({.reference = report.reference,
                                 .device = device,
                                 .extent = extent,
                                 .only = options.ops,
                                 .dtypes = report.dtypes,
                                 .most_elements = options.most,
                                 .part = part,
                                 .parts = parts,
                                 .folder = options.folder,
                                 .progress =
                                     [&](std::size_t done, std::size_t total) {
                                       if (bar == nullptr) bar = std::make_unique<Progress>(total);
                                       bar->show(done);
                                     }},
                                all_check_ops());
    bar.reset();
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    options.as_json ? print_json(report) : print_matrix(report);
    if (report.count(CellStatus::different) > 0) code = kFailure;
    reports.push_back(std::move(report));
  }
  if (!options.html.empty()) {
    os::AtomicFile file(options.html);
    file.write(html_page(reports));
    file.commit();
  }
  return code;
}

}  // namespace

void add_check(CommandLine& line) {
  Subcommand command = line.subcommand("check", "Compare every op of a device with the reference, bit for bit");
  const auto options = std::make_shared<CheckArguments>();
  command.option("--device", options->devices, "Which devices; without it, all but ref").one_value_each();
  command.option("--op", options->ops, "Only this op; may be repeated").one_value_each();
  command.option("--dtype", options->dtypes, "Only this dtype; may be repeated").one_value_each();
  command.flag("--brief", options->brief, "Three calls of each op and dtype");
  command.flag("--quick", options->quick, "A choice of sizes and layouts (the default)");
  command.flag("--full", options->full, "Every combination; takes long");
  command.option("--most", options->most, "Only sizes of at most so many elements");
  command.option("--part", options->part, "Only a part of the ops, e.g. 2/5: the second of five");
  command.flag("--json", options->as_json, "One JSON object a cell instead of text");
  command.flag("--gradients", options->gradients, "Compare every op's gradient with differences instead");
  command.option("--model", options->model.model,
                 "Compare the nodes of this ONNX model on the devices with cpu instead");
  command.option("--input", options->model.inputs, "NAME=FILE: an input of the model; random ones otherwise")
      .one_value_each();
  command
      .option("--size", options->model.sizes,
              "NAME=N: of inputs that are not given, a size that has a name, ? for those without; 1 otherwise")
      .one_value_each();
  command.option("--seed", options->model.seed, "Of random inputs").show_default();
  command.option("--html", options->html, "Write the matrix to this file, too");
  command.option("--cases", options->folder, "Folder for the cases of differences").show_default();
  command.option("--case", options->cases, "Run the call of such a case again").one_value_each();
  command.footer(
      "Examples:\n"
      "  lockstep check\n"
      "  lockstep check --device cpu --full --html check.html\n"
      "  lockstep check --op softmax --op conv2d --json\n"
      "  lockstep check --gradients\n"
      "  lockstep check --model model.onnx --input x=photo.png --device ref --device cuda:0\n"
      "Exit code 1 if one bit differs, one gradient is wrong, or a device refuses a node of the model.");
  command.runs([options] { return check(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
