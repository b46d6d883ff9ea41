// `lockstep run`: an ONNX model on arrays, pictures and numbers from files.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io/numpy.h>
#include <lockstep/io/onnx.h>

#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/model_inputs.h"
#include "cli/numerics.h"
#include "cli/terminal.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct RunArguments {
  std::string model;
  std::vector<std::string> inputs;
  std::string output;
  std::string device = "best";
  std::string numerics = "exact";
  bool as_json = false;
  int bench = 0;
};

std::string file_name_of(std::string name) {
  for (char& c : name) {
    if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 32) c = '_';
  }
  while (name.starts_with('.')) name.erase(0, 1);
  return (name.empty() ? "output" : name) + ".npy";
}

// Milliseconds of each of `count` runs, the outputs computed.
std::vector<double> measure(const io::OnnxModel& model, const io::TensorMap& inputs, int count) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (const auto& [name, tensor] : model.run(inputs)) tensor.contiguous().eval();
    synchronize(model.device());
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times;
}

ExitCode run_model(const RunArguments& options) {
  const Device device = chosen_device(options.device);
  FetchedOnnx file = fetched_onnx(options.model);
  file.options.device = device;
  const auto model = io::load_onnx(file.path, file.options);
  const NoGrad no_grad;
  const ChosenNumerics scope(chosen_numerics(options.numerics, device));
  const io::TensorMap inputs = given_inputs(*model, options.inputs);
  require_all(*model, inputs);
  const io::TensorMap outputs = model->run(inputs);
  JsonArray listed;
  for (const auto& [name, tensor] : outputs) {
    const std::string hash = hex(tensor.hash());
    if (!options.output.empty()) {
      os::make_directories(options.output);
      io::save_npy(options.output + "/" + file_name_of(name), tensor);
    }
    if (options.as_json) {
      JsonArray shape;
      for (const std::int64_t size : tensor.shape()) shape.add(json(size));
      listed.add(JsonObject()
                     .add("name", json(name))
                     .add("dtype", json(name_of(tensor.dtype())))
                     .add("shape", shape.text())
                     .add("hash", json(hash))
                     .text());
    } else {
      print_line(
          fmt::format("{}  {} {}  {}", printable(name), name_of(tensor.dtype()), tensor.shape().to_string(), hash));
    }
  }
  const std::vector<double> times = measure(*model, inputs, options.bench);
  if (options.as_json) {
    JsonObject object;
    object.add("device", json(device.to_string()))
        .add("numerics", json(options.numerics))
        .add("outputs", listed.text());
    if (!times.empty())
      object.add("runs", json(options.bench))
          .add("median_ms", json(times[times.size() / 2]))
          .add("least_ms", json(times.front()));
    print_line(object.text());
  } else if (!times.empty()) {
    print_line(fmt::format("{} runs on {}{}: median {:.3f} ms, least {:.3f} ms", options.bench, device.to_string(),
                           options.numerics == "exact" ? "" : " in " + options.numerics + " numerics",
                           times[times.size() / 2], times.front()));
  }
  return kOk;
}

}  // namespace

void add_run(CommandLine& line) {
  Subcommand command = line.subcommand("run", "Run an ONNX model on arrays, pictures or numbers");
  const auto options = std::make_shared<RunArguments>();
  command.option("MODEL", options->model, "An ONNX model: a file, or hf:OWNER/NAME/FILE").required();
  command
      .option("--input", options->inputs,
              "NAME=FILE: a .npy file, a picture, or a text of numbers; once for each input")
      .one_value_each();
  command.option("--output", options->output, "A folder for the outputs, one NAME.npy each");
  command.option("--device", options->device, "Device, e.g. cpu, cuda:0, vulkan:0, or best").show_default();
  add_numerics(command, options->numerics);
  command.option("--bench", options->bench, "Run it this often again, and say how long a run takes").not_negative();
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer(
      "Examples:\n"
      "  lockstep run model.onnx --input x=photo.png --output results\n"
      "  lockstep run model.onnx --input ids=ids.npy --input mask=mask.npy --json\n"
      "Each output is printed with its shape and the hash of its bits, which are the same on every device.");
  command.runs([options] { return run_model(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
